package tune

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// sample is a line of the text format with a name, labels and a value, and no timestamp.
var sample = regexp.MustCompile(`^[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"(,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? [0-9.]+$`)

// TestMetrics: each family has one HELP and one TYPE, each series is there once, and no line has a
// timestamp, which would cost the whole file in node_exporter.
func TestMetrics(t *testing.T) {
	hostile := setting.Setting{Kind: "sysctl", Name: "a\"b\\c\nd"}
	now := time.Unix(1_795_000_000, 5e8)
	v := &Verification{
		Profiles: []string{"my profile", "my profile"}, Counts: map[plugin.Verdict]int{plugin.Drifted: 2, plugin.OK: 3},
		Values: []Checked{{Setting: hostile, Verdict: plugin.Drifted}, {Setting: hostile, Verdict: plugin.Drifted}, {Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Verdict: plugin.OK}},
	}
	s := &Status{Profiles: []string{"balanced"}, Since: &now, ThisBoot: true, Live: []int{1, 2}, Trials: []Trial{{}, {Overdue: true}}, Tuners: []override.Tuner{{Name: "TuneD"}}}
	var verify, status bytes.Buffer
	if err := VerificationMetrics(&verify, v, now); err != nil {
		t.Fatal(err)
	}
	if err := StatusMetrics(&status, s, now); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{verify.String(), status.String()} {
		seen := map[string]bool{}
		for line := range strings.Lines(strings.TrimSuffix(text, "# EOF\n")) {
			line = strings.TrimSuffix(line, "\n")
			series := line
			if !strings.HasPrefix(line, "#") {
				series = line[:strings.LastIndexByte(line, ' ')]
				if !sample.MatchString(line) {
					t.Errorf("not a sample: %q", line)
				}
			}
			if seen[series] {
				t.Errorf("twice: %s", series)
			}
			seen[series] = true
		}
	}
	for _, want := range []string{
		`fettle_verify_met 0`, `fettle_verify_values{verdict="drifted"} 2`, `fettle_verify_values{verdict="unknown"} 0`,
		`fettle_verify_value{setting="sysctl:a\"b\\c\nd",verdict="drifted"} 1`, `fettle_verify_time_seconds 1795000000.5`,
	} {
		if !strings.Contains(verify.String(), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, &verify)
		}
	}
	for _, want := range []string{
		`fettle_status_active 1`, `fettle_status_profile{profile="balanced",position="0"} 1`, `fettle_status_transactions 2`, `fettle_status_trials 2`,
		`fettle_status_trials_overdue 1`, `fettle_status_other_tuner{name="TuneD"} 1`, `fettle_status_since_seconds 1795000000`, `fettle_status_applied_since_boot 1`,
	} {
		if !strings.Contains(status.String(), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, &status)
		}
	}
	if strings.Contains(verify.String(), "vm.swappiness") {
		t.Error("a value in force has a series of its own")
	}
}
