package pod

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
)

var update = flag.Bool("update", os.Getenv("FETTLE_UPDATE_GOLDEN") == "1", "write the expected outputs anew")

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: trade, namespace: fast}
spec:
  selector: {matchLabels: {app: trade}}
  template:
    metadata: {labels: {app: trade}}
    spec:
      initContainers:
      - name: warm
        image: warm
        resources: {limits: {cpu: 1, memory: 1Gi}}
      containers:
      - name: engine
        image: engine
        resources: {limits: {cpu: 6, memory: 4Gi, hugepages-2Mi: 64Mi, example.com/nic: 1}}
      volumes:
      - {name: pages, emptyDir: {medium: HugePages, sizeLimit: 128Mi}}
`

// input is the deployment's pod on a machine with two sockets of four cores with two threads each.
func input(t *testing.T) admission.Input {
	t.Helper()
	f, err := podfile.Read("deployment.yaml", []byte(deployment))
	if err != nil {
		t.Fatal(err)
	}
	in := admission.Input{Pod: f.Pods[0].Pod, Node: admission.Node{Name: "worker-1"}}
	in.Pod.Default()
	for core := range 8 {
		for thread := range 2 {
			in.Node.CPUs = append(in.Node.CPUs, admission.Processor{ID: thread*8 + core, Core: core, Socket: core / 4, NUMA: core / 4, Uncore: -1})
		}
	}
	for id := range 2 {
		in.Node.NUMA = append(in.Node.NUMA, admission.NUMANode{ID: id, MemoryBytes: 16 << 30, HugePages: []admission.HugePages{{SizeBytes: 2 << 20, Pages: 64}}})
	}
	gib := admission.Resources{admission.Memory: resource.MustParse("1Gi")}
	in.Settings = admission.Settings{Release: 34,
		CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"}, ReservedSystemCPUs: unit.CPUs(0, 8),
		TopologyManagerPolicy: "single-numa-node", MemoryManagerPolicy: "Static", KubeReserved: gib,
		ReservedMemory: []admission.MemoryReservation{{NUMANode: 0, Limits: gib}},
	}
	in.Devices = []admission.DeviceResource{{Name: "example.com/nic", Devices: []admission.Device{{ID: "eth0", NUMA: []int{1}}, {ID: "eth1", NUMA: []int{1}}}}}
	return in
}

func predict(t *testing.T, in admission.Input) *admission.Prediction {
	t.Helper()
	p, err := admission.Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWrite(t *testing.T) {
	for name, c := range map[string]struct {
		format  ui.Format
		edit    func(*admission.Input)
		width   int
		details bool
	}{
		"refused.txt": {format: ui.Table, edit: func(in *admission.Input) {
			in.Pod.Init[0].Limits[admission.CPU] = resource.MustParse("1")
			setCPU(in, 0, "2")
		}},
		"refused-80.txt":      {format: ui.Table, width: 80, edit: func(in *admission.Input) { setCPU(in, 0, "2") }},
		"refused-details.txt": {format: ui.Table, details: true, edit: func(in *admission.Input) { setCPU(in, 0, "2") }},
		"smt.txt":             {format: ui.Table, edit: func(*admission.Input) {}},
		"admitted.md": {format: ui.Markdown, edit: func(in *admission.Input) {
			setCPU(in, 0, "2")
			in.Settings.TopologyManagerScope = "pod"
			size := resource.MustParse("64Mi")
			in.Pod.Volumes[0].SizeLimit = &size
		}},
		"admitted.json": {format: ui.JSON, edit: func(in *admission.Input) { setCPU(in, 0, "2"); in.Settings.TopologyManagerScope = "pod" }},
		"no-start.txt":  {format: ui.Table, edit: func(in *admission.Input) { in.Settings.ReservedSystemCPUs = unit.CPUSet{} }},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t)
			c.edit(&in)
			var out bytes.Buffer
			s := ui.NewScreen(&out, &out)
			s.Format, s.Width = c.format, c.width
			if err := Explain(s, predict(t, in), 0, c.details); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "explain", name)
			if *update {
				if err := os.MkdirAll("testdata/explain", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("%s (-want +got); -update writes it anew:\n%s", path, diff)
			}
			if c.width > 0 {
				fits(t, out.String(), c.width)
			}
			if c.format == ui.JSON {
				valid(t, out.Bytes())
			}
		})
	}
}

// fits checks that a page has at most 40 lines, and no line wider than the terminal.
func fits(t *testing.T, page string, width int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if len(lines) > 40 {
		t.Errorf("%d lines, want at most 40", len(lines))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > width {
			t.Errorf("%d columns: %s", n, l)
		}
	}
}

func setCPU(in *admission.Input, init int, cpus string) {
	c := &in.Pod.Init[init]
	c.Limits[admission.CPU], c.Requests[admission.CPU] = resource.MustParse(cpus), resource.MustParse(cpus)
}

// valid checks a document against the schema of its type.
func valid(t *testing.T, text []byte) {
	t.Helper()
	schema, err := ui.Schema(admission.Schema, Explanation{})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(doc); err != nil {
		t.Errorf("the document is not of its schema: %v", err)
	}
}

// Text from a manifest cannot control a terminal.
func TestPrintable(t *testing.T) {
	in := input(t)
	in.Pod.Name = "a\x1b[31mb"
	in.Pod.Containers[0].Name = "c\rd"
	var out bytes.Buffer
	s := ui.NewScreen(&out, &out)
	if err := Explain(s, predict(t, in), 0, true); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(out.Bytes(), "\x1b\r") {
		t.Errorf("%q", out.String())
	}
}
