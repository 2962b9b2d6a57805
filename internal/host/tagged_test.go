package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tagged programs are found and killed even if their parent has ended and they
// have another session; programs with another tag are not.
func TestKillTagged(t *testing.T) {
	dir := t.TempDir()
	start := func(mark string) (pids []string) {
		t.Helper()
		out := filepath.Join(dir, mark)
		// Two generations in the background; the caller returns at once.
		script := `setsid sh -c 'sleep 600 & echo $! > "$0.2"; echo $$ > "$0.1"; wait' "$0" </dev/null >/dev/null 2>&1 &`
		if _, err := (liveExec{}).Run(context.Background(), Command{Argv: []string{"/bin/sh", "-c", script, out}, Tag: mark}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{".1", ".2"} {
			var pid string
			eventually(t, "the program does not start", func() bool {
				b, err := os.ReadFile(out + n)
				pid = strings.TrimSpace(string(b))
				return err == nil && strings.HasSuffix(string(b), "\n")
			})
			pids = append(pids, pid)
		}
		return pids
	}
	mark := fmt.Sprintf("ours-%d", os.Getpid()) // another process may run the same test
	ours, others := start(mark), start(mark+"-not")
	t.Cleanup(func() {
		for _, mark := range []string{mark, mark + "-not"} {
			if err := (liveExec{}).KillTagged(mark); err != nil {
				t.Error(err)
			}
		}
		for _, pid := range others {
			eventually(t, "it goes on", func() bool { return !runs(pid) })
		}
	})
	if err := (liveExec{}).KillTagged(mark); err != nil {
		t.Fatal(err)
	}
	for _, pid := range ours {
		eventually(t, "it goes on", func() bool { return !runs(pid) })
	}
	for _, pid := range others {
		if !runs(pid) {
			t.Errorf("process %s of another call was ended too", pid)
		}
	}
	if err := (liveExec{}).KillTagged("nobody"); err != nil {
		t.Errorf("nobody has the mark: %v", err)
	}
}
