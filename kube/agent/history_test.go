package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/kube/tuned"
)

// line formats a switch on one line.
func line(s Switch) string { return fmt.Sprintf("%s > %s: %s", s.From, s.To, s.Why) }

// TestHistory tests that the switches of a node are those of its journal: boots and restarts of the
// agent do not count, and a new agent knows the earlier ones.
func TestHistory(t *testing.T) {
	f := newNode(t, nil)
	day := func() *tuned.Profile {
		p := f.profile("", "day", "[sysctl]\nvm.swappiness=10\n")
		p.Annotations[tuned.RuleAnnotation] = "Tuned o, recommend[0]:\n holds"
		return p
	}
	f.look(day(), Apply)
	f.look(day(), Leave)
	f.look(f.profile("", "night", "[sysctl]\nvm.swappiness=20\n"), Apply)
	f.look(f.profile("", "night", "[sysctl]\nvm.swappiness=30\n"), Apply) // another text
	f.boot("boot-2")
	f.look(f.profile("", "night", "[sysctl]\nvm.swappiness=30\n"), Again)
	f.start()
	f.look(nil, Restore)
	f.wantPristine()
	out := f.look(day(), Apply)
	want := []string{
		" > day: Profile node1: day: Tuned o, recommend[0]: holds", "day > night: Profile node1: night", "night > night: Profile node1: night",
		"night > : the cluster has no profile for node node1", " > day: Profile node1: day: Tuned o, recommend[0]: holds",
	}
	if len(out.Switches) != len(want) {
		t.Fatalf("%+v", out.Switches)
	}
	for i, s := range out.Switches {
		if line(s) != want[i] || s.By != "agent of node node1" || s.Transaction == 0 || s.Time.IsZero() {
			t.Errorf("%+v, want %s", s, want[i])
		}
	}
	text, err := HistoryText(out)
	var doc History
	if err != nil || json.Unmarshal([]byte(text), &doc) != nil || doc.Schema != HistorySchema || len(doc.Switches) != len(want) {
		t.Errorf("%s %v", text, err)
	}
	if text, err := HistoryText(Outcome{}); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// TestHistoryIsBounded tests that the annotation is limited, however often a node switches, and
// contains the newest switches.
func TestHistoryIsBounded(t *testing.T) {
	f := newNode(t, nil)
	var out Outcome
	for i := range maxSwitches + 5 {
		p := f.profile("", fmt.Sprintf("p%d", i), fmt.Sprintf("[sysctl]\nvm.swappiness=%d\n", i+1))
		out = f.look(p, Apply)
	}
	if n := len(out.Switches); n != maxSwitches || out.Switches[n-1].To != fmt.Sprintf("p%d", maxSwitches+4) {
		t.Errorf("%d: %+v", n, out.Switches)
	}
	long := Outcome{}
	for i := range maxSwitches {
		long.Switches = append(long.Switches, Switch{Time: time.Unix(1e9, 0).UTC(), To: fmt.Sprint(i), Why: strings.Repeat("é", 400), By: strings.Repeat("x", 200)})
	}
	text, err := HistoryText(long)
	var doc History
	if err != nil || len(text) > maxHistory || json.Unmarshal([]byte(text), &doc) != nil || len(doc.Switches) < 3 || doc.Switches[len(doc.Switches)-1].To != "19" {
		t.Errorf("%d bytes, %v: %+v", len(text), err, doc)
	}
}
