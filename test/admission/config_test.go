package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/test/admission/upstream"
)

// merges are the tables that internal/product/kubelet is held against. A kubelet before 1.32
// merges its first file as its internal type, with its defaults and Go's names of the fields.
// Source: k8s.io/kubernetes v1.31.14 and v1.32.13, cmd/kubelet/app/server.go,
// mergeKubeletConfigurations.
const (
	merges         = "../../internal/product/kubelet/testdata/merges.json"
	mergesBefore32 = "../../internal/product/kubelet/testdata/merges-before-1.32.json"
)

// merge is a configuration file with its drop-ins, and what the kubelet runs with.
type merge struct {
	Base    string            `json:"base"`
	DropIns map[string]string `json:"drop_ins,omitempty"`
	// Options are those of fettle, maps as "a=b,c=d" in order; Starts is false where the
	// kubelet refuses the files.
	Options map[string]string `json:"options,omitempty"`
	Starts  bool              `json:"starts"`
}

// mergeValues are what the options are set to: usual values, zeros, null, and other
// spellings of YAML.
var mergeValues = map[string][]string{
	"maxPods": {"250", "0", "null", "0x6e", "0100"}, "podsPerCore": {"10", "0", "null"},
	"cpuManagerPolicy": {"static", "none", "null", `""`}, "cpuManagerReconcilePeriod": {"5s", "0s", "null"},
	"topologyManagerPolicy": {"restricted", "null", `""`}, "memoryManagerPolicy": {"Static", "null", `""`},
	"kubeAPIQPS": {"20", "0", "null"}, "kubeAPIBurst": {"40", "0", "null"}, "podPidsLimit": {"4096", "-1", "-7", "0", "null"},
	"containerLogMaxSize": {"50Mi", "null", `""`}, "containerLogMaxFiles": {"3", "null"},
	"protectKernelDefaults": {"true", "false", "null"}, "failSwapOn": {"false", "no", "true", "null"},
	"cgroupDriver": {"systemd", "null", `""`}, "serializeImagePulls": {"true", "false", "null"}, "maxParallelImagePulls": {"1", "5", "null"},
	"reservedSystemCPUs": {"0-1", "null", `""`},
	"systemReserved":     {"{cpu: 500m, memory: 1Gi}", "{memory: 2Gi}", "{cpu: null}", "{}", "null"},
	"kubeReserved":       {"{cpu: 200m}", "{cpu: null, memory: 1Gi}", "null"},
	"evictionHard":       {"{memory.available: 100Mi, nodefs.available: 10%}", "{memory.available: 5%}", "{nodefs.available: null}", "null"},
}

// kubeletConfig is the head of a file.
const kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// TestConfigMerge makes files at random and lets the kubelet's own code read them; with
// -update it writes the table anew. Before 1.32 also with drop-ins of other kinds, which such
// a kubelet takes.
func TestConfigMerge(t *testing.T) {
	table, seed := merges, uint64(3)
	var all []merge
	if upstream.Release < 32 {
		table, seed = mergesBefore32, 31
		for _, drop := range []string{
			"maxPods: 99\n", "kind: KubeletConfiguration\nmaxPods: 99\n", "apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 99\n", "", "# nothing\n", "---\n", "null\n", "{}\n",
			"apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\nmaxPods: 99\n", "apiVersion: v1\nkind: KubeletConfiguration\nmaxPods: 99\n",
			"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nmaxPods: 99\n",
		} {
			all = append(all, merge{Base: kubeletConfig, DropIns: map[string]string{"10-a.conf": drop}})
		}
	}
	r := rand.New(rand.NewPCG(20, seed))
	names := make([]string, 0, len(mergeValues))
	for name := range mergeValues {
		names = append(names, name)
	}
	slices.Sort(names)
	text := func(share int) string {
		out := kubeletConfig
		for _, name := range names {
			if r.IntN(100) < share {
				values := mergeValues[name]
				out += name + ": " + values[r.IntN(len(values))] + "\n"
			}
		}
		return out
	}
	for range 150 {
		m := merge{Base: text(40), DropIns: map[string]string{}}
		for _, name := range []string{"10-a.conf", "20-more/b.conf", "20-more/c.yaml", "30-c.conf"} {
			if r.IntN(2) == 0 {
				m.DropIns[name] = text(25)
			}
		}
		all = append(all, m)
	}
	started := 0
	var lines []string
	for i := range all {
		if err := all[i].run(t); err != nil {
			t.Fatal(err)
		}
		if all[i].Starts {
			started++
		}
		line, err := json.Marshal(all[i])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	t.Logf("%d of %d start", started, len(all))
	got := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if *update {
		if err := os.WriteFile(table, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(table); err != nil || string(want) != got {
		t.Errorf("%s is not what the kubelet does (%v): go test -run TestConfigMerge . -update", table, err)
	}
	compared(t, "configurations with drop-ins", len(all))
}

// Which files the kubelet's loader refuses (internal/product/kubelet TestRefusedFiles has
// the same table).
func TestConfigKinds(t *testing.T) {
	if upstream.Release < 32 {
		t.Log("TestConfigMerge has the files of other kinds")
		return
	}
	const whole = kubeletConfig
	for _, c := range []struct {
		text   string
		starts bool
	}{
		{whole + "maxPods: 99\n", true}, {"maxPods: 99\n", false}, {"kind: KubeletConfiguration\nmaxPods: 99\n", false},
		{"apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 99\n", false}, {"", false}, {"# nothing\n", false}, {"---\n", false}, {"null\n", false}, {"{}\n", false},
		{"apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n", false}, {"apiVersion: v1\nkind: KubeletConfiguration\n", false},
		{"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n", false},
	} {
		for _, m := range []merge{{Base: c.text}, {Base: whole, DropIns: map[string]string{"10-a.conf": c.text}}} {
			if err := m.run(t); err != nil {
				t.Fatal(err)
			}
			if m.Starts != c.starts {
				t.Errorf("%q, drop-ins %q: starts is %v", m.Base, m.DropIns, m.Starts)
			}
		}
	}
}

// run lets the kubelet read the files.
func (m *merge) run(t *testing.T) error {
	dir := t.TempDir()
	file, dropIns := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(dropIns, "20-more"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(m.Base), 0o644); err != nil {
		return err
	}
	for name, text := range m.DropIns {
		if err := os.WriteFile(filepath.Join(dropIns, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	c, err := upstream.Config(file, dropIns)
	if m.Starts = err == nil; err != nil {
		t.Log(err)
		return nil //nolint:nilerr // it is an outcome
	}
	m.Options = map[string]string{}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		if _, ok := mergeValues[name]; !ok {
			continue
		}
		v := fields.Field(i)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		if v.Kind() == reflect.Map {
			var parts []string
			for _, key := range v.MapKeys() {
				parts = append(parts, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
			}
			slices.Sort(parts)
			m.Options[name] = strings.Join(parts, ",")
			continue
		}
		m.Options[name] = fmt.Sprint(v.Interface())
		if s, ok := v.Interface().(fmt.Stringer); ok {
			m.Options[name] = s.String()
		}
		if name == "cpuManagerReconcilePeriod" {
			m.Options[name] = strings.TrimSuffix(strings.TrimPrefix(m.Options[name], "{"), "}")
		}
	}
	return nil
}
