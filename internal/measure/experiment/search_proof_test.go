package experiment

import (
	"encoding/json"
	"testing"
	"time"
)

// A proof continues only one with the same options, whatever is left of the budget.
func TestSameProof(t *testing.T) {
	asked := Options{Set: []string{"vm.swappiness=10"}, Dir: "/", Metric: "time", Margin: "2%", Alpha: 0.05, Budget: time.Hour, Timeout: time.Hour, Blocks: 200, Seed: 3, Guards: []string{"max-memory:10%"}}
	record, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		change func(o *Options)
		same   bool
	}{
		"the same":      {func(*Options) {}, true},
		"--budget":      {func(o *Options) { o.Budget = time.Minute }, true},
		"--force":       {func(o *Options) { o.Anyway = true }, true},
		"--keep":        {func(o *Options) { o.Keep = true }, true},
		"other values":  {func(o *Options) { o.Set = []string{"vm.swappiness=30"} }, false},
		"--margin":      {func(o *Options) { o.Margin = "5%" }, false},
		"--alpha":       {func(o *Options) { o.Alpha = 0.01 }, false},
		"--guard":       {func(o *Options) { o.Guards = nil }, false},
		"--stop-above":  {func(o *Options) { o.Caps = []string{"max-memory:1"} }, false},
		"--warmup-runs": {func(o *Options) { o.Washout = 2 }, false},
		"--timeout":     {func(o *Options) { o.Timeout = time.Minute }, false},
		"--seed":        {func(o *Options) { o.Seed = 4 }, false},
	} {
		o := asked
		o.Timeout = 0 // its default is recorded
		x.change(&o)
		if got := o.sameProof(record); got != x.same {
			t.Errorf("%s: %v, want %v", name, got, x.same)
		}
	}
	if asked.sameProof(json.RawMessage("{")) {
		t.Error("a damaged record is continued")
	}
}
