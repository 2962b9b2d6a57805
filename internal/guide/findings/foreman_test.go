package findings

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// TestForeman: a report has what Foreman's importer requires (app/services of Foreman 3.13:
// ReportImporter, ConfigReportStatusCalculator, PuppetReportScanner), whatever the findings say.
func TestForeman(t *testing.T) {
	hostile := "a\x00b\x1b[31mc\nPuppet"
	a := NewAudit("web1", time.Unix(1_795_000_000, 0), []string{"linux"}, []rule.Finding{
		{ID: "F01", Title: "A", Failed: hostile, Instance: "sda", State: rule.Failed, Fix: &rule.Repair{Command: "reboot"}},
		{ID: "W01", Title: "B", Failed: "not B", State: rule.Warned, Because: "F01"},
		{ID: "P01", Title: "Puppet", State: rule.Unknown, Reason: "Puppet does not answer"},
		{ID: "T01", Title: "passed", State: rule.Passed},
		{ID: "T02", Title: "reminded", State: rule.Reminded},
	})
	a.Conclude()
	r := ui.NewForemanReport("web1.example.org", time.Unix(1_795_000_000, 0))
	Foreman(r, a)
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Report struct {
			Host    string
			At      string `json:"reported_at"`
			Status  map[string]int
			Metrics map[string]any
			Logs    []struct {
				Log struct {
					Level    string
					Messages map[string]string
					Sources  map[string]string
				}
			}
		} `json:"config_report"`
	}
	strict := json.NewDecoder(&out)
	strict.DisallowUnknownFields()
	if err := strict.Decode(&body); err != nil {
		t.Fatal(err)
	}
	b := body.Report
	if _, err := time.Parse("2006-01-02 15:04:05 MST", b.At); err != nil || b.Host != "web1.example.org" || b.Metrics == nil {
		t.Errorf("%v: %+v", err, b)
	}
	for name, want := range map[string]int{"applied": 0, "restarted": 0, "failed": 1, "failed_restarts": 0, "skipped": 1, "pending": 1} {
		if n, ok := b.Status[name]; !ok || n != want {
			t.Errorf("status %s is %d, want %d", name, n, want)
		}
	}
	if len(b.Status) != 6 {
		t.Errorf("Foreman rejects another counter: %v", b.Status)
	}
	var levels []string
	for _, l := range b.Logs {
		levels = append(levels, l.Log.Level)
		if message := l.Log.Messages["message"]; message == "" || strings.ContainsAny(message, "\x00\x1b\n") || len(l.Log.Messages) != 1 || l.Log.Sources["source"] == "" {
			t.Errorf("%+v", l)
		}
	}
	if want := []string{"err", "warning", "notice"}; len(levels) < 4 || !slices.Equal(levels[:3], want) {
		t.Errorf("levels %q, want %q and the headline", levels, want)
	}
	if first := b.Logs[0].Log; first.Sources["source"] != "fettle check F01" || !strings.Contains(first.Messages["message"], "sda") || !strings.HasSuffix(first.Messages["message"], "; fix: reboot") {
		t.Errorf("%+v", first)
	}
	if last := b.Logs[len(b.Logs)-1].Log; strings.Contains(last.Sources["source"], "Puppet") {
		t.Errorf("Foreman takes this for a report of Puppet: %+v", last)
	}
}
