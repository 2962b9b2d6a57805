package root

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The outer shell waits for the inner one, which writes: both end at the point,
// and what is there is what the writes before it have made.
func TestKillAtWrite(t *testing.T) {
	const script = `cat /proc/sys/vm/swappiness >/dev/null
sh -c 'echo 11 >/proc/sys/vm/swappiness; echo 1 >/run/state; echo 2 >/run/state; echo 1 >/sys/kernel/mm/ksm/run'
echo 22 >/proc/sys/vm/swappiness`
	points := []string{
		"/proc/sys/vm/swappiness", "/run/state", "/run/state", "/run/state" + emptied, "/sys/kernel/mm/ksm/run", "/proc/sys/vm/swappiness",
	}
	for n, want := range []struct{ swappiness, state, ksm string }{
		{"22", "2", "1"}, // nothing is killed
		{"60", "", "0"},
		{"11", "", "0"},
		{"11", "1", "0"},
		{"11", "", "0"},
		{"11", "2", "0"},
		{"11", "2", "1"},
		{"22", "2", "1"}, // there is no such point
	} {
		m := NewMachine(t)
		r := New(t, Options{Machine: m})
		at := n
		if n > len(points) {
			at = 1000
		}
		k := r.KillAtWrite(at)
		out, code := r.Run("sh", "-c", script)
		killed := n > 0 && n <= len(points)
		if (code != 0) != killed {
			t.Errorf("point %d: exit %d: %s", n, code, out)
		}
		r.Must("sh", "-c", "echo 1 >/run/other") // once is enough
		k.Close()
		seen := points
		if killed {
			seen = points[:n]
			if k.Killed() != points[n-1] {
				t.Errorf("point %d: killed at %q", n, k.Killed())
			}
		} else if k.Killed() != "" {
			t.Errorf("point %d: killed at %q", n, k.Killed())
		} else {
			seen = append(slices.Clip(seen), "/run/other")
		}
		if got := k.Seen(); strings.Join(got, " ") != strings.Join(seen, " ") {
			t.Errorf("point %d: saw %q, want %q", n, got, seen)
		}
		read := func(name string) string {
			b, err := os.ReadFile(name)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(b))
		}
		got := struct{ swappiness, state, ksm string }{
			read(filepath.Join(m.Dir, "proc/sys/vm/swappiness")), read(r.Path("/run/state")), read(filepath.Join(m.Dir, "sys/kernel/mm/ksm/run")),
		}
		if got != want {
			t.Errorf("point %d: %+v, want %+v", n, got, want)
		}
	}
}
