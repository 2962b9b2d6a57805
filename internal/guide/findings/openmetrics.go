package findings

import (
	"bufio"
	"fmt"
	"io"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// OpenMetrics writes an audit as OpenMetrics 1.0, suitable for node_exporter's textfile collector.
// Labels stay the same while a finding lasts, so a series is one finding.
func OpenMetrics(out io.Writer, a *Audit) error {
	w := bufio.NewWriter(out)
	family := func(name, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	for _, of := range []struct {
		name, help string
		counts     map[rule.State]int
	}{
		{"fettle_check_rules", "Rules of the last audit by state; each rule counts once, in its worst state.", a.RuleCounts},
		{"fettle_check_findings", "Findings of the last audit by state; a rule for disks has one finding per disk.", a.Counts},
	} {
		family(of.name, of.help)
		for _, s := range rule.States {
			fmt.Fprintf(w, "%s{state=%s} %d\n", of.name, ui.OpenMetricsLabel(string(s)), of.counts[s])
		}
	}
	family("fettle_check_finding", "1 for each bad or unknown finding.")
	seen := map[string]bool{}
	var values []rule.Finding
	for _, f := range a.Findings {
		if !Bad(f.State) || seen[f.ID+"\x00"+f.Instance] {
			continue
		}
		seen[f.ID+"\x00"+f.Instance] = true
		fmt.Fprintf(w, "fettle_check_finding{id=%s,item=%s,state=%s,title=%s} 1\n", ui.OpenMetricsLabel(f.ID), ui.OpenMetricsLabel(f.Instance), ui.OpenMetricsLabel(string(f.State)), ui.OpenMetricsLabel(f.Heading()))
		if _, ok := f.Measured.(float64); ok {
			values = append(values, f)
		}
	}
	for _, of := range []struct {
		name, help string
		value      func(rule.Finding) any
	}{
		{"fettle_check_measured", "The judged value, in the unit of its rule.", func(f rule.Finding) any { return f.Measured }},
		{"fettle_check_wanted", "The wanted value.", func(f rule.Finding) any { return f.Want }},
	} {
		family(of.name, of.help)
		for _, f := range values {
			if v, ok := of.value(f).(float64); ok {
				fmt.Fprintf(w, "%s{id=%s,item=%s} %s\n", of.name, ui.OpenMetricsLabel(f.ID), ui.OpenMetricsLabel(f.Instance), ui.OpenMetricsValue(v))
			}
		}
	}
	if b := a.Baseline; b != nil {
		family("fettle_check_changes", "Findings that are new, worse, the same, or fixed since the baseline.")
		for _, c := range []struct {
			name string
			n    int
		}{{"new", b.New}, {"worse", b.Worse}, {"same", b.Same}, {"mended", len(b.Mended)}} {
			fmt.Fprintf(w, "fettle_check_changes{change=%s} %d\n", ui.OpenMetricsLabel(c.name), c.n)
		}
	}
	family("fettle_check_time_seconds", "Time of the audit, in seconds since 1970.")
	fmt.Fprintf(w, "fettle_check_time_seconds %s\n# EOF\n", ui.OpenMetricsValue(float64(a.Time.UnixMilli())/1000))
	return w.Flush()
}
