package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/tuned"
)

func checked(name string, v plugin.Verdict, want, now string) tune.Checked {
	return tune.Checked{Setting: setting.Setting{Kind: "sysctl", Name: name}, Verdict: v, Want: setting.Text(want), Now: setting.Text(now)}
}

func values(all ...tune.Checked) *tune.Verification {
	v := &tune.Verification{Counts: map[plugin.Verdict]int{}, Values: all}
	for _, c := range all {
		v.Counts[c.Verdict]++
	}
	return v
}

func TestConditions(t *testing.T) {
	ok, drifted := checked("a.ok", plugin.OK, "1", "1"), checked("a.drifted", plugin.Drifted, "1", "2")
	overridden, rejected := checked("a.overridden", plugin.Overridden, "1", "2"), checked("a.rejected", plugin.Rejected, "x", "2")
	unsupported := checked("a.unsupported", plugin.Unsupported, "1", "")
	kubelets, agreed := checked("kernel.panic", plugin.Kept, "0", "10"), checked("kernel.panic", plugin.Kept, "10", "10")
	kept := checked("a.kept", plugin.Kept, "1", "2")
	for _, c := range []struct {
		name              string
		out               Outcome
		applied, degraded string // status/reason
	}{
		{"nothing", Outcome{}, "Unknown/NoProfile", "False/AsExpected"},
		{"all in force", Outcome{Profile: "p", Values: values(ok)}, "True/AsExpected", "False/AsExpected"},
		{"an error", Outcome{Err: errors.New("x")}, "False/Failed", "True/TunedError"},
		{"an error, and another profile is in force", Outcome{Profile: "old", Values: values(ok), Err: errors.New("x")}, "False/Failed", "True/TunedError"},
		{"an error beside what is in force", Outcome{Profile: "p", Values: values(ok), Err: errors.New("x")}, "True/AsExpected", "True/TunedError"},
		{"cannot be applied", Outcome{Profile: "p", Values: values(ok), Decision: Decision{Why: "x"}}, "False/Failed", "True/TunedError"},
		{"waits", Outcome{Profile: "old", Values: values(ok), Decision: Decision{Waits: true}}, "False/Deferred", "True/TunedDeferredUpdate"},
		{"waits, and a value is rejected", Outcome{Profile: "old", Values: values(rejected), Decision: Decision{Waits: true}}, "False/Deferred", "True/TunedError"},
		{"waits, and a value is overridden", Outcome{Profile: "old", Values: values(overridden), Decision: Decision{Waits: true}}, "False/Deferred", "True/TunedDeferredUpdate"},
		{"rejected goes before overridden", Outcome{Profile: "p", Values: values(ok, overridden, rejected)}, "True/AsExpected", "True/TunedError"},
		{"overridden goes before drifted", Outcome{Profile: "p", Values: values(ok, drifted, overridden)}, "True/AsExpected", "True/TunedSysctlOverride"},
		{"the kubelet's, another value", Outcome{Profile: "p", Values: values(kubelets)}, "True/AsExpected", "True/TunedSysctlOverride"},
		{"the kubelet's, the same value", Outcome{Profile: "p", Values: values(agreed)}, "True/AsExpected", "False/AsExpected"},
		{"drifted goes before a warning", Outcome{Profile: "p", Values: values(unsupported, drifted)}, "True/AsExpected", "True/ValuesDrifted"},
		{"unsupported", Outcome{Profile: "p", Values: values(ok, unsupported)}, "True/AsExpected", "False/TunedWarning"},
		{"kept by the node's administrator", Outcome{Profile: "p", Values: values(kept)}, "True/AsExpected", "False/TunedWarning"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, d := condition(t, c.out, "p", tuned.Applied), condition(t, c.out, "p", tuned.Degraded)
			if got := fmt.Sprintf("%s/%s", a.Status, a.Reason); got != c.applied {
				t.Errorf("Applied is %s, want %s: %s", got, c.applied, a.Message)
			}
			if got := fmt.Sprintf("%s/%s", d.Status, d.Reason); got != c.degraded {
				t.Errorf("Degraded is %s, want %s: %s", got, c.degraded, d.Message)
			}
		})
	}
}

// TestReportIsBounded tests that the report is limited, however many values there are, and begins
// with the values that are not as requested.
func TestReportIsBounded(t *testing.T) {
	var many []tune.Checked
	for i := range 3000 {
		v := plugin.OK
		if i%3 == 0 {
			v = plugin.Drifted
		}
		c := checked(fmt.Sprintf("a.place%d", i), v, strings.Repeat("w", 500), strings.Repeat("n", 500))
		c.Why = strings.Repeat("é", 500)
		many = append(many, c)
	}
	out := Outcome{Profile: "p", Values: values(many...)}
	for _, c := range Conditions(out, "p") {
		if len(c.Message) > maxMessage || !strings.HasPrefix(c.Message, "profile p") && !strings.Contains(c.Message, "995 more") && !strings.HasSuffix(c.Message, "...") {
			t.Errorf("%s: %d bytes: %s", c.Type, len(c.Message), c.Message)
		}
	}
	text, err := ValuesText(out)
	if err != nil {
		t.Fatal(err)
	}
	var doc Values
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if len(text) > maxValues || len(doc.Values) < 20 || len(doc.Values)+doc.Omitted != 3000 || doc.Values[0].Verdict != plugin.Drifted || doc.Counts[plugin.OK] != 2000 {
		t.Errorf("%d bytes, %d values, %d omitted, counts %v", len(text), len(doc.Values), doc.Omitted, doc.Counts)
	}
	if e := Events(Outcome{}, out, "p"); len(e) != maxEvents+1 {
		t.Errorf("%d events", len(e))
	}
	small, err := ValuesText(Outcome{Profile: "p", Values: values(checked("b.x", plugin.OK, "1", "1"), checked("a.y", plugin.Drifted, "1", "2"))})
	if want := `{"schema":"fettle/node-values/v1","profile":"p","counts":{"drifted":1,"ok":1},"values":[{"setting":"sysctl:a.y","verdict":"drifted","want":"1","now":"2"},{"setting":"sysctl:b.x","verdict":"ok","want":"1"}]}`; small != want || err != nil {
		t.Errorf("%s %v", small, err)
	}
}
