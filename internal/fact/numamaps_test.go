package fact

import "testing"

// TestNumaMapsPolicies: the names of two policies have a space (Linux 6.18, mm/mempolicy.c).
func TestNumaMapsPolicies(t *testing.T) {
	for line, want := range map[string]string{
		"7f00 default file=/usr/bin/cat N0=2":        "default",
		"7f00 prefer:1 anon=2 N0=2":                  "prefer:1",
		"7f00 prefer (many):0-1 anon=2 N0=2":         "prefer (many):0-1",
		"7f00 prefer (many)=static:0 heap N0=2":      "prefer (many)=static:0",
		"7f00 weighted interleave:0-1 stack N0=2":    "weighted interleave:0-1",
		"7f00 bind=balancing:0 anon=2 dirty=2 N0=2 ": "bind=balancing:0",
	} {
		ParseNumaMaps(line+"\n", 4096, func(m *NumaMapping) {
			if m.Policy != want || len(m.Nodes) != 1 || m.Nodes[0] != (NodePages{0, 2}) {
				t.Errorf("%s: %+v", line, m)
			}
		})
	}
}

// TestNumaMapsCutOff: lines that end early have no more than they say.
func TestNumaMapsCutOff(t *testing.T) {
	for line, want := range map[string]string{"7f00": "", "7f00 prefer": "prefer", "7f00 weighted ": "weighted", "7f00 default N0": "default", "7f00 default N=2": "default", "7f00  ": ""} {
		ParseNumaMaps(line, 4096, func(m *NumaMapping) {
			if m.Policy != want || len(m.Nodes) != 0 {
				t.Errorf("%q: %+v", line, m)
			}
		})
	}
}
