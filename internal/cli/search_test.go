package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestSearchKilled: kill -9 at any point of a search leaves the machine as it was. A search that
// has recorded a run continues, and finds what it would have found.
func TestSearchKilled(t *testing.T) {
	testkitroot.Real(t, "kills some twenty searches")
	t.Parallel()
	step := 13 // a prime, so that each kind of point has its turn
	if os.Getenv("FETTLE_TEST_NIGHTLY") != "" {
		step = 3
	}
	args := []string{"search", "--try", "vm.swappiness=10,30", "--metric", "took=took ([0-9]+)", "--unit", "s", "--seed", "7", "--force", "--output", "json", "--"}
	resumed := 0
	for at := 1; ; at += step {
		p := newProving(t)
		cmd := p.command(append(args, p.work)...)
		cmd.Env = append(cmd.Env, "FETTLE_TEST_KILL_AT="+strconv.Itoa(at))
		out, err := cmd.Output()
		p.restored()
		if err == nil {
			if resumed == 0 {
				t.Fatal("nothing was resumed")
			}
			t.Logf("%d points, %d searches resumed", at, resumed)
			found(t, out)
			return
		}
		names, err := p.runs().Unfinished()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			r, _, err := p.runs().Peek(name, func([]byte) error { return nil })
			if errors.Is(err, fs.ErrNotExist) {
				continue // the proof, which the resumed search has continued
			}
			if err != nil {
				t.Fatalf("killed at %d: %v", at, err)
			}
			if r.Kind != search.Kind {
				continue // the proof
			}
			if list, err := p.command("runs", "list").CombinedOutput(); err != nil || !strings.Contains(string(list), "fettle search --resume "+name) {
				t.Fatalf("killed at %d: %v: %s", at, err, list)
			}
			out, err := p.command("search", "--resume", name, "--force", "--output", "json").Output()
			if err != nil {
				t.Fatalf("killed at %d: %v: %s", at, err, out)
			}
			found(t, out)
			p.restored()
			if left, err := p.runs().Unfinished(); err != nil || len(left) > 0 {
				t.Errorf("killed at %d: left unfinished: %v, %v", at, left, err)
			}
			resumed++
		}
	}
}

// found tests that a search has proved the better value.
func found(t *testing.T, out []byte) {
	t.Helper()
	var r evidence.Run
	var e search.Evidence
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	if e.Proof == nil || e.Proof.Word != prove.Better || strings.Join(e.Best, " ") != "vm.swappiness=10" {
		t.Errorf("found %v, %+v: %s", e.Best, e.Proof, r.Verdict)
	}
}
