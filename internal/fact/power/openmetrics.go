package power

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// OpenMetrics writes the last sample of a report for Prometheus.
func OpenMetrics(out io.Writer, r *Report) error {
	w := bufio.NewWriter(out)
	s := r.Last()
	type labeled struct {
		labels string
		*Values
	}
	all := []labeled{{`scope="machine"`, &s.Machine}}
	for i := range s.Packages {
		all = append(all, labeled{fmt.Sprintf(`scope="package",package="%d"`, s.Packages[i].Package), &s.Packages[i].Values})
	}
	for i := range s.CPUs {
		c := &s.CPUs[i]
		all = append(all, labeled{fmt.Sprintf(`scope="cpu",package="%d",core="%d",cpu="%d"`, c.Package, c.Core, c.CPU), &c.Values})
	}
	family := func(name, help string, write func(sample func(labels string, v float64))) {
		var lines strings.Builder
		name = "fettle_power_" + name
		write(func(labels string, v float64) {
			fmt.Fprintf(&lines, "%s%s %s\n", name, labels, ui.OpenMetricsValue(v))
		})
		if lines.Len() > 0 {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n%s", name, help, name, lines.String())
		}
	}
	for _, def := range quantities {
		if def.metric == "" {
			continue
		}
		family(def.metric, def.help, func(sample func(string, float64)) {
			for _, l := range all {
				if def.states == nil {
					if v := *def.at(l.Values); v != nil {
						sample("{"+l.labels+"}", *v*def.base)
					}
					continue
				}
				states := *def.states(l.Values)
				for _, name := range slices.Sorted(maps.Keys(states)) {
					sample("{"+l.labels+",state="+ui.OpenMetricsLabel(name)+"}", states[name]*def.base)
				}
			}
		})
	}
	family("domain_watts", "Power of a part of a package, and of its memory (dram).", func(sample func(string, float64)) {
		for _, p := range s.Packages {
			for _, domain := range slices.Sorted(maps.Keys(p.DomainsW)) {
				sample(fmt.Sprintf(`{package="%d",domain=%s}`, p.Package, ui.OpenMetricsLabel(domain)), p.DomainsW[domain])
			}
		}
	})
	if c := r.Command; c != nil && c.EnergyJ != nil {
		family("command_energy_joules", "Energy of packages and memory while the command ran.", func(sample func(string, float64)) { sample("", *c.EnergyJ) })
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}
