package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/measure/network"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestProveBench: a cell of a bench is the work, by its name; what it cannot be is said.
func TestProveBench(t *testing.T) {
	if os.Getuid() != 0 {
		testkitroot.Missing(t, "root's rights: prove needs them")
	}
	t.Parallel()
	fio := testkitroot.ServerProgram(t, "fio")
	dir, err := os.MkdirTemp("/var/tmp", "fettle-test-") // on a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	peer := servePeer(t)
	for name, x := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"memory":            {[]string{"--bench", "memory:4k-touch", "--budget", "1s"}, 0, []string{"work              fettle bench memory 4k-touch", "metric            4k-touch", "ended by budget"}},
		"disk":              {[]string{"--bench", "disk:randread@" + dir, "--fio", fio, "--budget", "1s"}, 0, []string{"fettle bench disk randread@" + dir, "ended by budget"}},
		"network":           {[]string{"--bench", "network:request-1@" + peer.Address, "--budget", "1s"}, 0, []string{"work              fettle bench network request-1@" + peer.Address, "metric            request-1", "ended by budget"}},
		"no such bench":     {[]string{"--bench", "net:tcp"}, 2, []string{"want disk:CELL"}},
		"no peer":           {[]string{"--bench", "network:udp"}, 2, []string{"no peer"}},
		"no network cell":   {[]string{"--bench", "network:tcp@ssh:one"}, 2, []string{`unknown cell "tcp"`}},
		"no such cell":      {[]string{"--bench", "memory:5k-touch"}, 2, []string{`unknown memory cell "5k-touch"`}},
		"no such fio":       {[]string{"--bench", "disk:etcd@" + dir, "--fio", "/nonexistent"}, 2, []string{"--fio: "}},
		"no such place":     {[]string{"--bench", "disk:etcd@/nonexistent", "--fio", fio}, 2, []string{"/nonexistent"}},
		"another metric":    {[]string{"--bench", "memory:4k-touch", "--metric", "time"}, 2, []string{"--metric does not work with --bench"}},
		"and a command":     {[]string{"--bench", "memory:4k-touch", "--", "true"}, 2, []string{"--bench is the work"}},
		"and running work":  {[]string{"--bench", "memory:4k-touch", "--live"}, 2, []string{"want --bench or --live, not both"}},
		"fio for a command": {[]string{"--fio", fio, "--", "true"}, 2, []string{"--fio needs --bench disk:CELL"}},
	} {
		t.Run(name, func(t *testing.T) {
			// On this machine, where there is memory and a disk; of it nothing is changed.
			args := []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "prove", "--change-cmd", "true", "--undo-cmd", "true", "--force"}
			cmd := fettleCommand(t, append(args, x.args...)...)
			cmd.Env = append(os.Environ(), network.KeyVariable+"="+peer.Key)
			out, err := cmd.CombinedOutput()
			code := 0
			if err != nil {
				code = err.(*exec.ExitError).ExitCode()
			}
			if code != x.code {
				t.Errorf("exit code %d, want %d:\n%s", code, x.code, out)
			}
			for _, says := range x.says {
				if !strings.Contains(string(out), says) {
					t.Errorf("not there: %q\n%s", says, out)
				}
			}
		})
	}
}

// TestProveBenchCannot: what cannot be measured here is said before anything is changed.
func TestProveBenchCannot(t *testing.T) {
	p := newProving(t)
	for name, x := range map[string]struct {
		code int
		says string
	}{
		"etcd:put=bench":          {1, "etcd not found on this machine"},
		"etcd:put=bench@east":     {1, "etcd not found on this machine"},
		"etcd:get":                {2, `bench etcd: unknown cell "get"; want put=PREFIX`},
		"etcd":                    {2, `bench etcd: unknown cell ""; want put=PREFIX`},
		"memory:thp-remote-touch": {1, "one node of memory"},
	} {
		if out, code := p.run("prove", "--set", "vm.swappiness=10", "--force", "--bench", name); code != x.code || !strings.Contains(out, x.says) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, x.code, out)
		}
	}
	p.restored()
}
