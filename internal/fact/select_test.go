package fact

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	var f Facts
	f.Schema, f.Collectors = Schema, []Run{{Name: "memory"}, {Name: "cpu"}, {Name: "net"}, {Name: "disk"}}
	f.Memory.TotalBytes = Known[int64](42, "/proc/meminfo")
	f.CPU.SMTActive = Known(true, "/sys/a")
	f.CPU.SMT = Known("on", "/sys/b")
	f.Disk.add("sda").QueueDepth = Known[int64](32, "/sys/q")
	f.Disk.add("sdaa").QueueDepth = Known[int64](64, "/sys/r")
	f.Net = Set[Net]{note: note{unknown: "not recorded"}}
	for _, tt := range []struct{ names, want string }{
		{"memory.total_bytes", `{"memory":{"total_bytes":42}}`},
		{"memory.total", `{"memory":{"total_bytes":42}}`},
		{"disk.sda.queue", `{"disk":{"sda":{"queue_depth":32}}}`},
		{"disk.sdaa.queue_depth", `{"disk":{"sdaa":{"queue_depth":64}}}`},
		{"cpu.smt", `{"cpu":{"smt":"on"}}`},
		{"cpu.smt_a memory.total_bytes", `{"cpu":{"smt_active":true},"memory":{"total_bytes":42}}`},
		{"net", `{"net":null}`},
	} {
		s, missing := f.Select(strings.Fields(tt.names)...)
		b, err := json.Marshal(s)
		if err != nil || len(missing) > 0 {
			t.Fatalf("%s: %v, missing %q", tt.names, err, missing)
		}
		var got map[string]any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		notes := 0
		for _, k := range []string{"source", "unknown"} {
			notes += len(got[k].(map[string]any))
		}
		if got["schema"] != Schema || notes != len(s.List()) {
			t.Errorf("%s: schema %v, %d notes for %d facts", tt.names, got["schema"], notes, len(s.List()))
		}
		if n := len(got["collectors"].([]any)); n != len(strings.Fields(tt.names)) {
			t.Errorf("%s: %d collectors", tt.names, n)
		}
		for _, k := range []string{"schema", "time", "collectors", "source", "unknown"} {
			delete(got, k)
		}
		if b, _ = json.Marshal(got); string(b) != tt.want {
			t.Errorf("%s: %s, want %s", tt.names, b, tt.want)
		}
	}
	whole, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := f.Select()
	if b, err := json.Marshal(all); err != nil || string(b) != string(whole) {
		t.Errorf("no names: %v\n%s\nwant\n%s", err, b, whole)
	}
	if _, missing := f.Select("memory", "nope", "disk.sdb"); !slices.Equal(missing, []string{"nope", "disk.sdb"}) {
		t.Errorf("missing %q", missing)
	}
	if names := f.Names(); !slices.Contains(names, "memory") || !slices.Contains(names, "disk.sda") || !slices.Contains(names, "cpu.smt") {
		t.Errorf("names %q", names)
	}
}
