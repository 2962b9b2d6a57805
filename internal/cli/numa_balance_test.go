package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/measure/balance"
)

// TestNumaBalanceHere plans for this machine. With one NUMA node there is nothing to do, whatever
// runs; TestBalanceInGuest has four.
func TestNumaBalanceHere(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	call := func(args ...string) (string, string, int) {
		var out, errw bytes.Buffer
		code := Main("test", append([]string{"--state-dir", state, "numa", "balance", "--all"}, args...), &out, &errw)
		return out.String(), errw.String(), code
	}
	out, said, code := call("--dry-run", "--output", "json")
	var r balance.Report
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Schema != "fettle/numa-balance/v1" || len(r.Headline.Lines) == 0 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, said)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("a plan writes to the state directory")
	}
	if r.Nodes > 1 {
		return
	}
	if out, said, code := call("--yes"); code != 0 || !strings.HasPrefix(out, "nothing to do: this machine has 1 NUMA node\n") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("nothing to do, but the state directory was written")
	}
}
