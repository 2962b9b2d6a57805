//go:build kubernetes_1_29 || kubernetes_1_30 || kubernetes_1_31

package admission

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// mergesBefore32 is the table that internal/product/kubelet is held against for kubelets
// before 1.32.
const mergesBefore32 = "../../internal/product/kubelet/testdata/merges-before-1.32.json"

// TestConfigMergeBefore32 is TestConfigMerge for the releases that merge drop-ins into their
// configuration in memory: also with files of other kinds, and members whose names differ.
// With -update it writes the table anew.
func TestConfigMergeBefore32(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 31))
	names := make([]string, 0, len(mergeValues))
	for name := range mergeValues {
		names = append(names, name)
	}
	slices.Sort(names)
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	text := func(share int) string {
		out := head
		for _, name := range names {
			if r.IntN(100) < share {
				values := mergeValues[name]
				out += name + ": " + values[r.IntN(len(values))] + "\n"
			}
		}
		return out
	}
	var all []merge
	for _, drop := range []string{
		"maxPods: 99\n", "kind: KubeletConfiguration\nmaxPods: 99\n", "apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 99\n", "", "# nothing\n", "---\n", "null\n", "{}\n",
		"apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\nmaxPods: 99\n", "apiVersion: v1\nkind: KubeletConfiguration\nmaxPods: 99\n",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nmaxPods: 99\n",
	} {
		all = append(all, merge{Base: head, DropIns: map[string]string{"10-a.conf": drop}})
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
	var lines []string
	for i := range all {
		if err := all[i].run(t); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(all[i])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	got := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if *update {
		if err := os.WriteFile(mergesBefore32, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(mergesBefore32); err != nil || string(want) != got {
		t.Errorf("%s is not what the kubelet does (%v): go test -run TestConfigMergeBefore32 . -update", mergesBefore32, err)
	}
}
