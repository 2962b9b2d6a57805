package product

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// programExec is a machine on which process 7 is in the middle of execve(2): its arguments
// are empty for some readings, and once it is a zombie if it ends.
type programExec struct {
	host.Files
	empty int
	ends  bool
	asked int
}

func (e *programExec) ReadFile(name string) ([]byte, error) {
	b, err := e.Files.ReadFile(name)
	switch {
	case name == "/proc/7/cmdline" && e.asked < e.empty:
		e.asked++
		return nil, err
	case name == "/proc/7/stat" && e.ends && e.asked > 0:
		return []byte(strings.Replace(string(b), ") S ", ") Z ", 1)), err
	}
	return b, err
}

// A program that starts itself anew has no arguments for a moment, as HAProxy's master
// whenever it is told, and once more when its worker runs: it is found with them all
// the same.
func TestFindStartsItself(t *testing.T) {
	for _, c := range []struct {
		name  string
		live  bool
		empty int
		ends  bool
		asked int
		want  []string
	}{
		{"it starts", true, 20, false, 20, []string{"web", "-f", "/etc/web"}},
		{"it ends", true, 1e9, true, 1, []string{""}},
		{"a copy stays as it is", false, 20, false, 1, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := machine.Mounted(t, map[string]string{
				"/proc/7/comm": "web\n", "/proc/7/cmdline": "web\x00-f\x00/etc/web\x00",
				"/proc/7/stat": "7 (web) S 1 7 7 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 250 1 1\n",
			})
			e := &programExec{Files: h.Files, empty: c.empty, ends: c.ends}
			h.Files, h.Live = e, c.live
			all, err := read(h, []string{"web"})
			if err != nil || len(all) != 1 || !slices.Equal(all[0].Argv, c.want) || e.asked != c.asked {
				t.Errorf("%+v, %v, after %d empty readings", all, err, e.asked)
			}
		})
	}
}

// A number of 0 or less is not passed to kill, which would signal a group of processes: 0
// is the caller's.
func TestSignalOfGroup(t *testing.T) {
	h := machine.Mounted(t, nil)
	for _, pid := range []int{0, -1} {
		if err := sendSignal(t.Context(), h, "TERM", pid); err == nil || !strings.Contains(err.Error(), "invalid process id") {
			t.Errorf("%d: %v", pid, err)
		}
	}
}
