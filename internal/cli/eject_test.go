package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEjectHosts compares what keeps a profile on the recorded machines with NAME.eject.
func TestEjectHosts(t *testing.T) {
	t.Parallel()
	hosts, err := filepath.Glob("../../testdata/hosts/*.txt")
	if err != nil || len(hosts) == 0 {
		t.Fatal(hosts, err)
	}
	for _, h := range hosts {
		var out, errw bytes.Buffer
		code := thisSystem().main("test", []string{"eject", "--root", h, "throughput-performance", "--all"}, &out, &errw)
		got := strings.ReplaceAll(out.String(), h, filepath.Base(h))
		if code != 0 {
			t.Errorf("%s: exit %d: %s", h, code, errw.String())
		}
		golden := strings.TrimSuffix(h, ".txt") + ".eject"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: %s", golden, d)
		}
	}
}
