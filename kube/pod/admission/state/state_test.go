package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/state/checksum"
)

// file reads a file that a kubelet has written: test/admission creates these files.
func file(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCPUAsWritten(t *testing.T) {
	s, err := CPU(file(t, "cpu_manager_state"), admission.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := CPU(file(t, "cpu_manager_state.1.37"), admission.Settings{})
	if err != nil || !reflect.DeepEqual(s, newer) {
		t.Errorf("1.37: %+v, %v; want %+v", newer, err, s)
	}
	if s.Policy != "static" || s.Default.String() != "0,4-7" || len(s.Entries) != 1 || s.Entries["uid-1"]["c"].String() != "1-3" {
		t.Errorf("%+v", s)
	}
}

func TestMemoryAsWritten(t *testing.T) {
	s, err := Memory(file(t, "memory_manager_state"), admission.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := Memory(file(t, "memory_manager_state.1.37"), admission.Settings{})
	if err != nil || !reflect.DeepEqual(s.Nodes, newer.Nodes) || len(newer.Entries["uid-1"]["c"]) != 2 { // a kubelet writes blocks in any order
		t.Errorf("1.37: %+v, %v; want %+v", newer, err, s)
	}
	b := s.Entries["uid-1"]["c"]
	if s.Policy != "Static" || len(s.Nodes) != 2 || len(b) != 2 || s.Nodes[1].Group != 2 {
		t.Fatalf("%+v", s)
	}
	for _, x := range b {
		if x.Nodes != 1 || x.Resource == admission.Memory && x.SizeBytes != 1<<30 || x.Resource != admission.Memory && (x.Resource != "hugepages-2Mi" || x.SizeBytes != 4<<20) {
			t.Errorf("%+v", x)
		}
	}
	if m := s.Nodes[0].Tables[admission.Memory]; m.ReservedBytes != 1<<30 || m.AllocatableBytes-m.ReservedBytes != m.FreeBytes || s.Nodes[0].Assignments != 2 {
		t.Errorf("%+v, %+v", s.Nodes[0], m)
	}
}

// TestData tests that the content of data counts for a kubelet of 1.37 if its checksum is right. A
// damaged file is refused, and so are keys that no kubelet writes.
func TestData(t *testing.T) {
	good := string(file(t, "cpu_manager_state.1.37"))
	for name, c := range map[string]struct{ from, to string }{
		"data changed": {`1-3\"`, `1-2\"`},
		"sum changed":  {`"dataChecksum":1`, `"dataChecksum":2`},
		"no sum":       {`,"dataChecksum":1772500467`, ""},
		"unknown key":  {`{"policyName"`, `{"other":1,"policyName"`},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%s: nothing changed in %s", name, good)
		}
		if _, err := CPU([]byte(text), admission.Settings{}); err == nil {
			t.Errorf("%s is read: %s", name, text)
		}
	}
	// The keys next to data are for older kubelets.
	if s, err := CPU([]byte(strings.Replace(good, `"defaultCpuSet":"0,4-7"`, `"defaultCpuSet":"0"`, 1)), admission.Settings{}); err != nil || s.Default.String() != "0,4-7" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestByRelease tests which kubelets start with which file, and their resulting assignments. The
// files are those of the real managers of 1.34.4, of 1.36.3 with PodLevelResourceManagers, and of
// 1.37.2; TestForms of test/admission runs the kubelets of each release.
func TestByRelease(t *testing.T) {
	plain := func(name string) string { return string(file(t, name)) }
	noSum := regexp.MustCompile(`"checksum":\d+`)
	gate := map[string]bool{"PodLevelResourceManagers": true}
	for name, c := range map[string]struct {
		cpu, memory     string
		s               admission.Settings
		cpuOK, memoryOK bool
		shared, pod     string
	}{
		"1.37's on 1.31":             {plain("cpu_manager_state.1.37"), plain("memory_manager_state.1.37"), admission.Settings{Release: 31}, true, true, "0,4-7", ""},
		"1.37's on 1.36":             {plain("cpu_manager_state.1.37"), plain("memory_manager_state.1.37"), admission.Settings{Release: 36}, true, true, "0,4-7", ""},
		"1.36's with the gate, 1.35": {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{Release: 35}, false, false, "", ""},
		"without it":                 {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{Release: 36}, false, false, "", ""},
		"with it":                    {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{Release: 36, FeatureGates: gate}, true, true, "0,4-7", "1-3"},
		"by AllAlpha":                {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{Release: 36, FeatureGates: map[string]bool{"AllAlpha": true}}, true, true, "0,4-7", "1-3"},
		"on 1.37":                    {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{Release: 37}, true, true, "0,4-7", "1-3"},
		"of a kubelet not known":     {plain("cpu_manager_state.1.36"), plain("memory_manager_state.1.36"), admission.Settings{}, true, true, "0,4-7", "1-3"},
		"no sum, 1.35":               {noSum.ReplaceAllString(plain("cpu_manager_state"), `"checksum":0`), noSum.ReplaceAllString(plain("memory_manager_state"), `"checksum":0`), admission.Settings{Release: 35}, true, false, "0,4-7", ""},
		"no sum, 1.36":               {noSum.ReplaceAllString(plain("cpu_manager_state"), `"checksum":0`), noSum.ReplaceAllString(plain("memory_manager_state"), `"checksum":0`), admission.Settings{Release: 36}, true, true, "0,4-7", ""},
		"a later key, 1.34":          {`{"later":{},` + plain("cpu_manager_state")[1:], `{"later":{},` + plain("memory_manager_state")[1:], admission.Settings{Release: 34}, true, true, "0,4-7", ""},
		"a later key, 1.38":          {`{"later":{},` + plain("cpu_manager_state")[1:], `{"later":{},` + plain("memory_manager_state")[1:], admission.Settings{Release: 38}, false, false, "", ""},
	} {
		cpu, err := CPU([]byte(c.cpu), c.s)
		if (err == nil) != c.cpuOK || err == nil && (cpu.Default.String() != c.shared || cpu.Pods["uid-1"].String() != c.pod) {
			t.Errorf("%s: %+v, %v", name, cpu, err)
		}
		memory, err := Memory([]byte(c.memory), c.s)
		if (err == nil) != c.memoryOK || err == nil && len(memory.Pods["uid-1"]) != len(c.pod)/3 {
			t.Errorf("%s: %+v, %v", name, memory, err)
		}
	}
}

// TestAroundData tests that a kubelet before 1.37 uses the keys next to data: it detects damage
// there, and ignores damage in data.
func TestAroundData(t *testing.T) {
	good := string(file(t, "cpu_manager_state.1.37"))
	around := strings.Replace(good, `"defaultCpuSet":"0,4-7"`, `"defaultCpuSet":"0"`, 1)
	within := strings.Replace(good, `1-3\"`, `1-2\"`, 1)
	if around == good || within == good {
		t.Fatal(good)
	}
	for r, want := range map[admission.Release][2]bool{36: {false, true}, 37: {true, false}} {
		for i, text := range []string{around, within} {
			if _, err := CPU([]byte(text), admission.Settings{Release: r}); (err == nil) != want[i] {
				t.Errorf("%s, %d: %v", r, i, err)
			}
		}
	}
}

// sealed returns a checkpoint with its checksum, as JSON.
func sealed(t *testing.T, c any, sum *checksum.Checksum) string {
	t.Helper()
	*sum = checksum.Of(c)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRefused(t *testing.T) {
	cpu := func(policy, list string, entries map[string]map[string]string) string {
		c := &CPUManagerCheckpoint{PolicyName: policy, DefaultCPUSet: list, Entries: entries}
		if entries == nil {
			c.Entries = map[string]map[string]string{}
		}
		return sealed(t, c, &c.Checksum)
	}
	good := cpu("static", "0-3", nil)
	if _, err := CPU([]byte(good), admission.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, err := CPU([]byte(`{"policyName":"none","defaultCpuSet":"","checksum":0}`), admission.Settings{}); err != nil {
		t.Errorf("without a sum: %v", err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"changed":       {strings.Replace(good, "0-3", "0-2", 1), "checksum"},
		"no JSON":       {"{", "unexpected end"},
		"unknown key":   {`{"policyName":"none","defaultCpuSet":"","checksum":0,"more":1}`, `"more"`},
		"other case":    {`{"policyname":"none","defaultCpuSet":"","checksum":0}`, `"policyname"`},
		"twice":         {`{"policyName":"none","policyName":"none","checksum":0}`, `"policyName"`},
		"no policyName": {cpu("", "0-3", nil), "no policyName"},
		"bad list":      {cpu("static", "0-x", nil), "defaultCpuSet"},
		"groups":        {cpu("static", "0-7:1/2", nil), "numbers and ranges"},
		"all":           {cpu("static", "all", nil), "numbers and ranges"},
		"bad container": {cpu("static", "0-3", map[string]map[string]string{"u": {"c": "4-"}}), "container c of pod u"},
		"of 1.17":       {`{"policyName":"static","defaultCpuSet":"0","entries":{"0123":"1"},"checksum":0}`, "cannot unmarshal"},
		"too large":     {strings.Repeat(" ", maxSize+1), "bytes; at most"},
	} {
		if _, err := CPU([]byte(c.text), admission.Settings{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cpu_manager_state: ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	memory := func(m MemoryManagerCheckpoint) string {
		if m.MachineState == nil {
			m.MachineState = NUMANodeMap{}
		}
		if m.Entries == nil {
			m.Entries = ContainerMemoryAssignments{}
		}
		return sealed(t, &m, &m.Checksum)
	}
	good = memory(MemoryManagerCheckpoint{PolicyName: "None"})
	if _, err := Memory([]byte(good), admission.Settings{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"changed":    {strings.Replace(good, "None", "Static", 1), "checksum"},
		"no sum":     {`{"policyName":"None","machineState":{},"checksum":0}`, "checksum"},
		"no account": {memory(MemoryManagerCheckpoint{PolicyName: "Static", MachineState: NUMANodeMap{0: nil}}), "NUMA node 0: empty entry"},
		"no table":   {memory(MemoryManagerCheckpoint{PolicyName: "Static", MachineState: NUMANodeMap{0: {MemoryMap: map[v1.ResourceName]*MemoryTable{"memory": nil}}}}), "NUMA node 0: empty entry for memory"},
		"far node":   {memory(MemoryManagerCheckpoint{PolicyName: "Static", MachineState: NUMANodeMap{0: {Cells: []int{64}}}}), "NUMA node 64"},
		"below zero": {memory(MemoryManagerCheckpoint{PolicyName: "Static", Entries: ContainerMemoryAssignments{"u": {"c": {{NUMAAffinity: []int{-1}}}}}}), "container c of pod u"},
	} {
		if _, err := Memory([]byte(c.text), admission.Settings{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "memory_manager_state: ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// machine is a machine to which the files may or may not belong.
var machine = admission.Node{
	CPUs: []admission.Processor{{ID: 0, Uncore: -1}, {ID: 1, Core: 1, Uncore: -1}, {ID: 2, Core: 2, NUMA: 1, Socket: 1, Uncore: -1}, {ID: 3, Core: 3, NUMA: 1, Socket: 1, Uncore: -1}},
	NUMA: []admission.NUMANode{{MemoryBytes: 4 << 30, HugePages: []admission.HugePages{{SizeBytes: 2 << 20, Pages: 4}}}, {ID: 1, MemoryBytes: 4 << 30, HugePages: []admission.HugePages{{SizeBytes: 2 << 20}}}},
}

// FuzzCPU tests that any file is read or refused, and that a kubelet starts with it or not.
func FuzzCPU(f *testing.F) {
	f.Add(file(f, "cpu_manager_state"))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-1","entries":{"u":{"c":"2","d":"2-3"}},"checksum":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := CPU(text, admission.Settings{})
		if err != nil {
			return
		}
		predict(t, admission.Settings{CPUManagerPolicy: s.Policy, ReservedSystemCPUs: s.Default}, admission.State{CPU: s, Active: []admission.ActivePod{}})
	})
}

// FuzzMemory corrects the checksum of its input, so that more than the checksum is tested.
func FuzzMemory(f *testing.F) {
	f.Add(file(f, "memory_manager_state"))
	f.Add([]byte(`{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":1}},"cells":[0,1]}},"entries":{"u":{"c":[{"numaAffinity":[0,1],"type":"memory","size":5}]}},"checksum":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Memory(text, admission.Settings{}); err == nil {
			return
		}
		c := MemoryManagerCheckpoint{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}}
		if (reader{}).decode(text, &c) != nil {
			return
		}
		c.Checksum = 0
		c.Checksum = checksum.Of(&c)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Memory(text, admission.Settings{})
		if err != nil {
			return
		}
		one := resource.MustParse("1Gi")
		predict(t, admission.Settings{
			MemoryManagerPolicy: s.Policy, KubeReserved: admission.Resources{admission.Memory: one},
			ReservedMemory: []admission.MemoryReservation{{Limits: admission.Resources{admission.Memory: one}}},
		}, admission.State{Memory: s, Active: []admission.ActivePod{}})
	})
}

func predict(t *testing.T, settings admission.Settings, s admission.State) {
	r := admission.Resources{admission.CPU: resource.MustParse("1"), admission.Memory: resource.MustParse("1Gi")}
	if _, err := admission.Predict(admission.Input{Node: machine, Settings: settings, State: s, Pod: admission.Pod{Containers: []admission.Container{{Name: "c", Requests: r, Limits: r}}}}); err != nil {
		t.Fatal(err)
	}
}
