package kuberelease

import (
	"slices"
	"testing"
)

// TestTable: fields and gates by release, and releases outside the table.
func TestTable(t *testing.T) {
	r := Known()
	if r.Oldest != 29 || r.Newest != 37 {
		t.Errorf("the table is of %s to %s", r.Oldest, r.Newest)
	}
	for _, tt := range []struct {
		name string
		of   Release
		want bool
		span string
	}{
		{"maxPods", 29, true, "1.29 and later"},
		{"maxPods", 12, true, "1.29 and later"},
		{"kind", 37, true, "1.29 and later"},
		{"failCgroupV1", 30, false, "1.31 and later"},
		{"failCgroupV1", 31, true, "1.31 and later"},
		{"defaultPodSysctls", 36, false, "1.37 and later"},
		{"defaultPodSysctls", 40, true, "1.37 and later"},
		{"defaultPodSysctls", 0, true, "1.37 and later"},
		{"maxpods", 0, false, ""},
	} {
		if got := r.HasField(tt.name, tt.of); got != tt.want || r.FieldSpan(tt.name) != tt.span || slices.Contains(r.Fields(tt.of), tt.name) != tt.want {
			t.Errorf("%s in %s: %t, %q", tt.name, tt.of, got, r.FieldSpan(tt.name))
		}
	}
	for _, tt := range []struct {
		name  string
		of    Release
		known bool
		want  Gate
		span  string
	}{
		{"MemoryQoS", 36, true, Gate{"alpha", false, false}, "1.29 and later"},
		{"MemoryQoS", 37, true, Gate{"beta", true, false}, "1.29 and later"},
		{"MemoryManager", 31, true, Gate{"beta", true, false}, "up to 1.35"},
		{"MemoryManager", 34, true, Gate{"ga", true, true}, "up to 1.35"},
		{"MemoryManager", 36, false, Gate{}, "up to 1.35"},
		{"AllAlpha", 33, true, Gate{"alpha", false, false}, "1.29 and later"},
		{"HugepageAwareEviction", 37, true, Gate{"beta", true, false}, "1.37 and later"},
		{"HugepageAwareEviction", 36, false, Gate{}, "1.37 and later"},
		// The kubelet is compatible with the previous release; this default is that
		// of other programs.
		{"DRAFractionalCapacityRange", 37, true, Gate{"beta", false, false}, "1.37 and later"},
		{"Memoryqos", 37, false, Gate{}, ""},
	} {
		if got, known := r.Gate(tt.name, tt.of); got != tt.want || known != tt.known || r.GateSpan(tt.name) != tt.span || slices.Contains(r.Gates(tt.of), tt.name) != known {
			t.Errorf("%s in %s: %+v, %t, %q", tt.name, tt.of, got, known, r.GateSpan(tt.name))
		}
	}
	for of, want := range map[Release]string{31: "false", 34: "false", 35: "true", 37: "true"} {
		if got, ok := r.Default("failCgroupV1", of); got != want || !ok {
			t.Errorf("failCgroupV1 of %s is %q", of, got)
		}
	}
	for of, want := range map[Release]string{28: "3.5.16 3.4.13", 31: "3.5.24 3.5.24", 34: "3.6.5 3.5.24", 37: "3.7.0 3.5.24", 99: "3.7.0 3.5.24"} {
		if installed, least := r.Etcd(of); installed+" "+least != want {
			t.Errorf("etcd of %s is %s, and %s at least", of, installed, least)
		}
	}
	for _, bad := range []string{"release 1.29 v1 v0\nrelease 1.31 v1 v0\n", "gate X beta\n", "gap X 1-2\n"} {
		if _, err := readReleases(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Release{
		"v1.36.3": 36, "1.36": 36, "1.35.4+k3s1": 35, "1.31.0-rc.1": 31, "1.29.4-1.1": 29, "1.32~rc1": 32,
		"": 0, "1": 0, "1.": 0, "1.x": 0, "2.36": 0, "1.36x": 0, "1.0": 0, "v": 0, "1.-3": 0, "1.99999": 0, "36": 0,
	} {
		if got, ok := Parse(text); got != want || ok != (want != 0) {
			t.Errorf("%q is %d, %t", text, got, ok)
		}
	}
}

func TestOfOpenShift(t *testing.T) {
	for text, want := range map[string]Release{
		"4.1": 13, "4.2.36": 14, "4.3": 16, "4.12.1": 25, "4.16": 29, "4.22.0-rc.1": 35, "4.22-rc.1": 35,
		"4.23": 0, "3.11": 0, "4": 0, "": 0, "4.x": 0, "5.1": 0,
	} {
		if got, ok := OfOpenShift(text); got != want || ok != (want != 0) {
			t.Errorf("%q is %d, %t", text, got, ok)
		}
	}
}

// TestTarget: a release of Kubernetes or of OpenShift, newer ones by the newest known.
func TestTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"1.37": {"1.37", 37, ""}, "v1.34.4": {"1.34", 34, ""}, "1.99": {"1.99", 37, ""},
		"4.16": {"1.29", 29, "4.16"}, "4.20.3": {"1.33", 33, "4.20.3"}, "4.22-rc.1": {"1.35", 35, "4.22-rc.1"}, "4.23": {"4.23", 35, "4.23"},
		"1.28": {}, "4.15": {}, "4": {}, "4.0": {}, "4.": {}, "3.11": {}, "5.1": {}, "": {}, "4.1e1": {},
	} {
		if got, err := Known().Target(text); got != want || (err == nil) != (want != Target{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestNewer(t *testing.T) {
	for versions, want := range map[[2]string]int{
		{"1.37.2", ""}: 0, {"v1.38.0", ""}: 1, {"1.36.1", "4.23.1"}: 1, {"1.36.1", "4.22.9"}: 0, {"1.40", "4.30"}: 1, {"", "x"}: 0, {"", ""}: 0,
	} {
		if got := Newer(versions[0], versions[1]); len(got) != want {
			t.Errorf("%q: %q", versions, got)
		}
	}
}
