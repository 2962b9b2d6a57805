package node

import (
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/kube/pod/admission"
)

// TestCgroupV1 tests that CPU weights are predicted only if control groups have them, also with a
// record.
func TestCgroupV1(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		s := snapshot(t)
		if v1 {
			file := filepath.Join(s.From, cpuShares)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("1024\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(t.TempDir(), "copy")
		if err := s.Save(dir); err != nil {
			t.Fatal(err)
		}
		copied, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []*Snapshot{s, copied} {
			in, err := from.Input()
			if err != nil {
				t.Fatal(err)
			}
			in.Pod = admission.Pod{Name: "p", Containers: []admission.Container{{Name: "c"}}}
			p, err := admission.Predict(in)
			if err != nil {
				t.Fatal(err)
			}
			if weights := p.Document().Weights; weights == nil || (len(weights) == 0) != v1 {
				t.Errorf("version 1 %t, from %s: weights %+v", v1, from.From, weights)
			}
		}
	}
}
