package tune

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/ui"
)

// metrics writes families of metrics as OpenMetrics 1.0, without timestamps, suitable for
// node_exporter's textfile collector.
type metrics struct{ *bufio.Writer }

func (w metrics) family(name, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

// number writes a family with one number.
func (w metrics) number(name, help string, v float64) {
	w.family(name, help)
	fmt.Fprintf(w, "%s %s\n", name, ui.OpenMetricsValue(v))
}

func (w metrics) end(verb string, now time.Time) error {
	w.number("fettle_"+verb+"_time_seconds", "Time of the last fettle "+verb+", in seconds since 1970.", float64(now.UnixMilli())/1000)
	fmt.Fprint(w, "# EOF\n")
	return w.Flush()
}

// values writes a family that is 1 for each value, once.
func (w metrics) values(name, help string, values []Checked) {
	w.family(name, help)
	seen := map[string]bool{}
	for _, c := range values {
		labels := fmt.Sprintf("{setting=%s,verdict=%s}", ui.OpenMetricsLabel(c.Setting.String()), ui.OpenMetricsLabel(string(c.Verdict)))
		if !seen[labels] {
			seen[labels] = true
			fmt.Fprintf(w, "%s%s 1\n", name, labels)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// VerificationMetrics writes a verification for Prometheus.
func VerificationMetrics(out io.Writer, v *Verification, now time.Time) error {
	w := metrics{bufio.NewWriter(out)}
	w.family("fettle_verify_profile", "1 for each profile that was verified.")
	for i, p := range v.Profiles {
		fmt.Fprintf(w, "fettle_verify_profile{profile=%s,position=\"%d\"} 1\n", ui.OpenMetricsLabel(p), i)
	}
	w.number("fettle_verify_met", "1 if no value requires action.", truth(v.Met))
	w.family("fettle_verify_values", "Values of the profiles by verdict.")
	for _, verdict := range plugin.Verdicts {
		fmt.Fprintf(w, "fettle_verify_values{verdict=%s} %d\n", ui.OpenMetricsLabel(string(verdict)), v.Counts[verdict])
	}
	var bad []Checked
	for _, c := range v.Values {
		if !meets(c.Verdict) {
			bad = append(bad, c)
		}
	}
	w.values("fettle_verify_value", "1 for each value that requires action.", bad)
	return w.end("verify", now)
}

// StatusMetrics writes the status for Prometheus.
func StatusMetrics(out io.Writer, s *Status, now time.Time) error {
	w := metrics{bufio.NewWriter(out)}
	w.number("fettle_status_active", "1 if a profile of fettle is active.", truth(len(s.Profiles) > 0))
	w.family("fettle_status_profile", "1 for each active profile.")
	for i, p := range s.Profiles {
		fmt.Fprintf(w, "fettle_status_profile{profile=%s,position=\"%d\"} 1\n", ui.OpenMetricsLabel(p), i)
	}
	if s.Since != nil {
		w.number("fettle_status_since_seconds", "Time at which the profiles were applied, in seconds since 1970.", float64(s.Since.Unix()))
	}
	w.number("fettle_status_applied_since_boot", "1 if the active profiles have been applied since boot.", truth(s.ThisBoot))
	overdue := 0
	for _, t := range s.Trials {
		if t.Overdue {
			overdue++
		}
	}
	for _, f := range []struct {
		name, help string
		n          int
	}{
		{"transactions", "Transactions that fettle undo would undo.", len(s.Live)},
		{"transactions_interrupted", "Transactions that were cut off.", len(s.Interrupted)},
		{"trials", "Trials that are not confirmed yet.", len(s.Trials)},
		{"trials_overdue", "Trials that are in force after their deadline.", overdue},
		{"values_drifted", "Values in force that another program has changed.", len(s.Drifted)},
		{"values_rejected", "Values of the profiles that are invalid or that the kernel rejected.", len(s.Rejected)},
		{"journal_defects", "Defects of the journal.", len(s.Damage)},
	} {
		w.number("fettle_status_"+f.name, f.help, float64(f.n))
	}
	w.family("fettle_status_other_tuner", "1 for each other tuner that runs or is enabled.")
	for _, t := range s.Tuners {
		fmt.Fprintf(w, "fettle_status_other_tuner{name=%s} 1\n", ui.OpenMetricsLabel(t.Name))
	}
	return w.end("status", now)
}
