package power

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"

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
	family := func(name, help string, write func(name string)) {
		name = "fettle_power_" + name
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		write(name)
	}
	for _, c := range columns {
		if !slices.ContainsFunc(all, func(l labeled) bool { return c.get(l.Values) != nil }) {
			continue
		}
		family(c.metric, c.help, func(name string) {
			for _, l := range all {
				if v := c.get(l.Values); v != nil {
					fmt.Fprintf(w, "%s{%s} %s\n", name, l.labels, ui.OpenMetricsValue(*v))
				}
			}
		})
	}
	for _, kind := range []struct {
		name, help string
		of         func(*Values) map[string]float64
	}{
		{"idle_requested_ratio", "Time in an idle state as the kernel requested it.", func(v *Values) map[string]float64 { return v.RequestedPercent }},
		{"idle_entered_ratio", "Time in an idle state as the processor entered it.", func(v *Values) map[string]float64 { return v.EnteredPercent }},
	} {
		if !slices.ContainsFunc(all, func(l labeled) bool { return len(kind.of(l.Values)) > 0 }) {
			continue
		}
		family(kind.name, kind.help, func(name string) {
			for _, l := range all {
				for _, state := range slices.Sorted(maps.Keys(kind.of(l.Values))) {
					fmt.Fprintf(w, "%s{%s,state=%s} %s\n", name, l.labels, ui.OpenMetricsLabel(state), ui.OpenMetricsValue(kind.of(l.Values)[state]/100))
				}
			}
		})
	}
	if slices.ContainsFunc(s.Packages, func(p Package) bool { return len(p.DomainsW) > 0 }) {
		family("domain_watts", "Power of a part of a package, and of its memory (dram).", func(name string) {
			for _, p := range s.Packages {
				for _, domain := range slices.Sorted(maps.Keys(p.DomainsW)) {
					fmt.Fprintf(w, "%s{package=\"%d\",domain=%s} %s\n", name, p.Package, ui.OpenMetricsLabel(domain), ui.OpenMetricsValue(p.DomainsW[domain]))
				}
			}
		})
	}
	if c := r.Command; c != nil && c.EnergyJ != nil {
		family("command_energy_joules", "Energy of packages and memory while the command ran.", func(name string) {
			fmt.Fprintf(w, "%s %s\n", name, ui.OpenMetricsValue(*c.EnergyJ))
		})
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}
