package kubelet

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/pod/admission"
)

func parse(t testing.TB, text string) Fields {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ text, wrong string }{
		{"maxPods: 500", ""},
		// The source's examples.
		{"podsPerCore: 10", ""},
		{"{maxPods: 250, kubeAPIBurst: 200, kubeAPIQPS: 100}", ""},
		{"{cpuManagerPolicy: static, cpuManagerReconcilePeriod: 5s, topologyManagerPolicy: single-numa-node}", ""},
		{"{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 1}", ""},
		{`{kubeReserved: {cpu: 500m, memory: 1Gi}, systemReserved: {ephemeral-storage: 1Gi, pid: "1000"}, reservedSystemCPUs: "0-1,8"}`, ""},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1100Mi, hugepages-2Mi: 2Mi}}]}", ""},
		{`cpuManagerPolicyOptions: {full-pcpus-only: "true"}`, ""},

		{"maxPods: 0", "at.maxPods: want a whole number from 1 to 2,147,483,647, found 0"},
		{"maxPods: many", `at.maxPods: want a whole number from 1 to 2,147,483,647, found "many"`},
		{"maxPods: 1.5", "found 1.5"},
		{"maxPods: 3000000000", "found 3000000000"},
		{"maxPods: null", "null would remove the node's own value; give a value, or leave the field out"},
		{"podsPerCore: -1", "want a whole number from 0"},
		{"kubeAPIQPS: 0", "want a whole number from 1"},
		{"cpuManagerPolicy: dynamic", `want none or static, found "dynamic"`},
		{"memoryManagerPolicy: static", `want None or Static, found "static"`},
		{"cpuManagerPolicyOptions: {full-pcpus-only: true}", "full-pcpus-only: want a string, found true; put it in quotes"},
		{"cpuManagerPolicyOptions: [full-pcpus-only]", "want a map of strings, found a list"},
		{"cpuManagerReconcilePeriod: 5", "want a time such as 5s, found 5"},
		{"cpuManagerReconcilePeriod: -5s", "want a time"},
		{`reservedSystemCPUs: "all"`, `want a list of CPUs such as 0-1,8, found "all"`},
		{`reservedSystemCPUs: "3-1"`, "at.reservedSystemCPUs: "},
		{"kubeReserved: {cpus: 500m}", `want cpu, memory, ephemeral-storage or pid (did you mean "cpu"?)`},
		{"systemReserved: {memory: 1GB}", `memory: want an amount such as 500m or 1Gi, found "1GB"`},
		{"systemReserved: {memory: -1Gi}", "want an amount"},
		{"systemReserved: {memory: 1e1000000}", "want an amount"}, // it would take seconds to reckon with
		{"{reservedMemory: [{numaNode: 0, limits: {memory: 9e2000000000}}]}", "want an amount"},
		{"{reservedMemory: [{numaNode: 0, limits: {memory: 1073741824}}]}", ""},
		{"reservedMemory: {numaNode: 0}", "want a list of numaNode and limits"},
		{"reservedMemory: [{limits: {memory: 1Gi}}]", "item 0: want numaNode"},
		{"reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]", "item 0: cpu: 1: only memory and hugepages-SIZE can be reserved"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}, node: 1}]", `unknown field`},
		{"maxpods: 5", `at.maxpods: not supported by fettle (did you mean "maxPods"?)`},
		{"kind: Deployment", "at.kind: want KubeletConfiguration"},
		{"apiVersion: v1", "at.apiVersion: want kubelet.config.k8s.io/v1beta1"},
		{"imageGCHighThresholdPercent: 80", "; set it in the node's own kubelet configuration"},
	} {
		err := Check("at", parse(t, c.text))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.wrong)
		}
	}
}

// TestRefusedAsOpenShift tests that settings that OpenShift refuses are refused, with a reason.
func TestRefusedAsOpenShift(t *testing.T) {
	for _, text := range []string{
		"cgroupDriver: systemd", "clusterDNS: [10.0.0.10]", "clusterDomain: x", "featureGates: {A: true}", "staticPodPath: /x",
		"failSwapOn: false", "memorySwap: {swapBehavior: LimitedSwap}", "systemReservedCgroup: /a",
	} {
		if err := Check("at", parse(t, text)); err == nil || !strings.Contains(err.Error(), "cannot be set in a KubeletConfig:") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for name, why := range refused {
		if find(name) != nil || len(why) < 20 {
			t.Errorf("%s is set and refused, or refused without a reason", name)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"maxPods: 1\nmaxPods: 2\n", "- a\n", "a: [\n", strings.Repeat("#", maxText+1)} {
		if f, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.20q is taken: %v", text, f)
		}
	}
}

// TestMerge has those examples of RFC 7386, appendix A, that are objects.
func TestMerge(t *testing.T) {
	for _, c := range []struct{ under, over, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		under, over := parse(t, c.under), parse(t, c.over)
		if d := cmp.Diff(parse(t, c.want), Merge(under, over)); d != "" {
			t.Errorf("%s over %s:\n%s", c.over, c.under, d)
		}
		if !reflect.DeepEqual(under, parse(t, c.under)) {
			t.Errorf("%s: the merge has changed what it was given", c.under)
		}
	}
}

func TestDropIn(t *testing.T) {
	f := parse(t, "{maxPods: 500, systemReserved: {memory: 1Gi}}")
	text, err := DropIn(f)
	if err != nil || !strings.HasPrefix(text, "# Written by fettle") {
		t.Fatalf("%q %v", text, err)
	}
	if d := cmp.Diff(parse(t, "{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 500, systemReserved: {memory: 1Gi}}"), parse(t, text)); d != "" {
		t.Error(d)
	}
	if text, err := DropIn(Fields{}); text != "" || err != nil {
		t.Errorf("no fields: %q %v", text, err)
	}
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct{ want, has, wrong string }{
		{"{maxPods: 500}", "{maxPods: 500, podsPerCore: 0}", ""},
		{"{maxPods: 500}", "{maxPods: 110}", "maxPods is 110, want 500"},
		{"{podsPerCore: 0}", "{}", ""}, // so says a kubelet: it leaves 0 out
		{"{podsPerCore: 20}", "{}", "podsPerCore is null, want 20"},
		{"{kubeReserved: {cpu: 0.5}}", "{kubeReserved: {cpu: 1}}", "kubeReserved"},
		{`{kubeReserved: {cpu: "0.5"}}`, "{kubeReserved: {cpu: 500m, memory: 1Gi}}", ""},
		{`{reservedSystemCPUs: "0,1"}`, `{reservedSystemCPUs: "0-1"}`, ""},
		{`{reservedSystemCPUs: "0", systemReserved: {cpu: 500m, memory: 1Gi}}`, `{reservedSystemCPUs: "0", systemReserved: {cpu: "1", memory: 1Gi}}`, ""},
		{`{reservedSystemCPUs: "0", systemReserved: {memory: 1Gi}}`, `{reservedSystemCPUs: "0", systemReserved: {cpu: "1"}}`, "systemReserved"},
		{"{cpuManagerPolicyOptions: {a: b}}", "{}", "cpuManagerPolicyOptions"},
		{"{cpuManagerReconcilePeriod: 60s}", "{cpuManagerReconcilePeriod: 1m0s}", ""},
		{"{reservedMemory: [{numaNode: 0, limits: {memory: 1024Mi}}]}", "{reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]}", ""},
		{"{reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]}", "{reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]}", "reservedMemory"},
		{"{kind: KubeletConfiguration}", "{}", ""},
	} {
		d := Differences(parse(t, c.want), parse(t, c.has))
		if c.wrong == "" && len(d) > 0 || c.wrong != "" && (len(d) != 1 || !strings.HasPrefix(d[0].String(), c.wrong)) {
			t.Errorf("%s of %s: %v, want %q", c.want, c.has, d, c.wrong)
		}
	}
}

// machine has CPUs 0 to 3 on one NUMA node of 8 GiB.
func machine() *Machine {
	m := &Machine{Name: "n", NUMA: []admission.NUMANode{{MemoryBytes: 8 << 30, Distances: []uint64{10}}}}
	for i := range 4 {
		m.CPUs = append(m.CPUs, admission.Processor{ID: i, Core: i, Uncore: -1})
	}
	return m
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		text string
		m    *Machine
		want string
	}{
		{"{maxPods: 500}", nil, ""},
		{"{cpuManagerPolicy: static}", nil, "needs reserved CPUs"},
		{"{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}", nil, ""},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0"}`, machine(), ""},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0,9"}`, machine(), "not online: CPU 9"},
		{"{cpuManagerPolicy: static, systemReserved: {cpu: 20}}", nil, "systemReserved: cpu: want a string"},
		{`{cpuManagerPolicy: static, systemReserved: {cpu: "20"}}`, machine(), "20 CPUs reserved for the system, but the machine has only 4"},
		{`{cpuManagerPolicyOptions: {full-pcpus-only: "true"}}`, nil, "need cpuManagerPolicy static"},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0", cpuManagerPolicyOptions: {full-pcpus: "true"}}`, nil, `has no option "full-pcpus"`},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0", cpuManagerPolicyOptions: {align-by-socket: "true"}}`, nil, "needs the feature gate CPUManagerPolicyAlphaOptions"},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0", topologyManagerPolicy: single-numa-node, featureGates: {CPUManagerPolicyAlphaOptions: true}, cpuManagerPolicyOptions: {align-by-socket: "true"}}`, nil, "align-by-socket and topologyManagerPolicy single-numa-node exclude each other"},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0", featureGates: {CPUManagerPolicyAlphaOptions: true}, cpuManagerPolicyOptions: {full-pcpus-only: "true", distribute-cpus-across-cores: "true"}}`, nil, "exclude each other"},
		{`{cpuManagerPolicy: static, reservedSystemCPUs: "0", cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true", prefer-align-cpus-by-uncorecache: "true"}}`, nil, "exclude each other"},
		{`{topologyManagerPolicy: restricted, topologyManagerPolicyOptions: {max-allowable-numa-nodes: "4"}}`, nil, "want a whole number of at least 8"},
		{`{reservedSystemCPUs: "0", systemReservedCgroup: /system}`, nil, "reservedSystemCPUs cannot be combined with systemReservedCgroup"},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}], kubeReserved: {memory: 1Gi}}", machine(), "reservation (kubeReserved + systemReserved, for memory + evictionHard), 1124Mi; it is 1Gi"},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}], kubeReserved: {memory: 1Gi}}", nil, "reservation (kubeReserved + systemReserved, for memory + evictionHard), 1124Mi; it is 1Gi"},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1124Mi}}], kubeReserved: {memory: 1Gi}}", machine(), ""},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}], kubeReserved: {memory: 1Gi}, evictionHard: {memory.available: 0%}}", machine(), ""},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}], evictionHard: {memory.available: 5%}}", machine(), "; want bytes, so that fettle can add up the reserved memory"},
		{"{maxPods: 50, evictionHard: {memory.available: 5%}}", machine(), ""},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1124Mi}}], kubeReserved: {memory: 1Gi}, evictionHard: {nodefs.available: 5%}, mergeDefaultEvictionSettings: true}", machine(), ""},
		{"{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 3, limits: {memory: 100Mi}}]}", machine(), "no NUMA node 3"},
	} {
		got := strings.Join(Problems(parse(t, c.text), nil, On{Machine: c.m}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTooManyPods(t *testing.T) {
	for _, c := range []struct {
		text       string
		cpus, runs int
		refused    bool
	}{
		{"{maxPods: 20}", 4, 20, false}, {"{maxPods: 20}", 4, 21, true}, {"{}", 0, 110, false}, {"{}", 0, 111, true},
		{"{maxPods: 500, podsPerCore: 10}", 2, 20, false}, {"{maxPods: 500, podsPerCore: 10}", 2, 21, true}, {"{maxPods: 500, podsPerCore: 10}", 0, 21, false},
	} {
		if err := TooManyPods(parse(t, c.text), c.cpus, c.runs); (err != nil) != c.refused {
			t.Errorf("%s, %d CPUs, %d pods: %v", c.text, c.cpus, c.runs, err)
		}
	}
}

func TestChangeOf(t *testing.T) {
	gib := machine()
	gib.NUMA[0].HugePages = []admission.HugePages{{SizeBytes: 1 << 30, Pages: 1}}
	for _, c := range []struct {
		now, then string
		m         *Machine
		want      Change
	}{
		{"{}", "{maxPods: 110, kubeAPIQPS: 50, cpuManagerPolicy: none}", nil, Change{}},
		{"{}", "{maxPods: 500, podsPerCore: 10, kubeAPIQPS: 60, kubeAPIBurst: 120}", nil, Change{Class: Restart, Settings: []string{"kubeAPIBurst", "kubeAPIQPS", "maxPods", "podsPerCore"}}},
		{"{}", "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}", nil, Change{Class: Drain, Settings: []string{"cpuManagerPolicy", "kubeReserved"}, CPUState: true}},
		{"{cpuManagerPolicy: static}", "{}", nil, Change{Class: Drain, Settings: []string{"cpuManagerPolicy"}, CPUState: true}},
		{`{reservedSystemCPUs: "0"}`, `{reservedSystemCPUs: "0-1"}`, nil, Change{Class: Drain, Settings: []string{"reservedSystemCPUs"}, CPUState: true}},
		{`{reservedSystemCPUs: "0", systemReserved: {cpu: "1"}}`, `{reservedSystemCPUs: "0", kubeReserved: {cpu: 200m}}`, nil, Change{}},
		{"{}", `{cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}}`, nil, Change{Class: Drain, Settings: []string{"cpuManagerPolicyOptions"}, CPUState: true}},
		{"{}", "{systemReserved: {memory: 1Gi}}", nil, Change{Class: Drain, Settings: []string{"systemReserved"}, MemoryState: true}},
		{"{}", "{memoryManagerPolicy: Static}", nil, Change{Class: Drain, Settings: []string{"memoryManagerPolicy"}, MemoryState: true}},
		{"{}", "{topologyManagerPolicy: restricted, topologyManagerScope: pod}", nil, Change{Class: Drain, Settings: []string{"topologyManagerPolicy", "topologyManagerScope"}}},
		{"{}", "{reservedMemory: [{numaNode: 0, limits: {hugepages-1Gi: 1Gi}}]}", gib, Change{Class: Drain, Settings: []string{"reservedMemory"}, MemoryState: true}},
		{"{}", "{reservedMemory: [{numaNode: 0, limits: {hugepages-1Gi: 1Gi}}]}", machine(), Change{
			Class: Reboot, Settings: []string{"reservedMemory"}, MemoryState: true,
			Why: "reservedMemory has hugepages-1Gi, but the machine has no such pages; reserve them with the kernel parameters hugepagesz=1G hugepages=N",
		}},
	} {
		if d := cmp.Diff(c.want, ChangeOf(parse(t, c.now), parse(t, c.then), c.m)); d != "" {
			t.Errorf("%s to %s:\n%s", c.now, c.then, d)
		}
	}
}

func TestWantOf(t *testing.T) {
	first := time.Unix(1000, 0)
	config := func(name string, after int, text string) Config {
		return Config{name, first.Add(time.Duration(after) * time.Second), parse(t, text)}
	}
	w, err := WantOf([]Config{config("b", 1, "{maxPods: 300, kind: KubeletConfiguration}"), config("a", 0, "{maxPods: 200, podsPerCore: 5}"), config("c", 1, "{maxPods: 300}")})
	if err != nil {
		t.Fatal(err)
	}
	want := Want{
		Fields: parse(t, "{maxPods: 300, podsPerCore: 5}"), Configs: []string{"a", "b", "c"}, Digest: w.Digest,
		Notes: []string{"maxPods: KubeletConfig a has 200, overridden by the later b with 300"},
	}
	if d := cmp.Diff(want, w); d != "" {
		t.Error(d)
	}
	if other, _ := WantOf([]Config{config("z", 9, "{podsPerCore: 5, maxPods: 300}")}); other.Digest != w.Digest || len(w.Digest) != 12 {
		t.Errorf("digests of the same fields: %q %q", other.Digest, w.Digest)
	}
	if none, err := WantOf(nil); err != nil || none.Digest != "" {
		t.Errorf("no objects: %+v %v", none, err)
	}
	w, err = WantOf([]Config{config("good", 0, "{maxPods: 300}"), config("bad", 1, "{cgroupDriver: systemd, maxPods: x}")})
	if err == nil || len(w.Fields) > 0 || !strings.Contains(err.Error(), "KubeletConfig bad: spec.kubeletConfig.cgroupDriver: ") || !strings.Contains(err.Error(), "spec.kubeletConfig.maxPods: ") {
		t.Errorf("one bad object: %+v %v", w, err)
	}
	many := slices.Repeat([]Config{config("x", 0, "{maxPods: 1}")}, MaxConfigs+1)
	if _, err := WantOf(many); err == nil {
		t.Error("eleven objects are taken")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("maxPods: 1")
	f.Add("reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]")
	f.Add(`{kubeReserved: {cpu: 1e9}, cpuManagerPolicyOptions: {a: b}}`)
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := Parse([]byte(text))
		if err != nil || Check("at", fields) != nil {
			return
		}
		Problems(fields, nil, On{Machine: machine()})
		if d := Differences(fields, fields); len(d) > 0 {
			t.Errorf("%q differs from itself: %v", text, d)
		}
		drop, err := DropIn(fields)
		if err != nil {
			t.Fatal(err)
		}
		if drop == "" {
			return
		}
		again, err := Parse([]byte(drop))
		if err != nil || len(Differences(fields, again)) > 0 || Digest(fields) == "" {
			t.Errorf("%q is not what was written: %v\n%s", text, err, drop)
		}
	})
}
