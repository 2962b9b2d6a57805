package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reader that has seen enough is no failure, and a transaction whose report
// has no reader ends and reports it.
func TestReaderThatHasSeenEnough(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "machine")
	unpack(t, "../../testdata/hosts/kvm-guest.txt", machine)
	if err := withoutTuneD(machine); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, say string }{
		{"facts", ""},
		{"facts --output json", ""},
		{"diff throughput-performance --sysctl", "cannot contain"},
		{"list", ""},
		{"--help", ""},
		{"tune --set vm.swappiness=30", "output not read to its end, but transaction 1 is complete: done;"},
		{"undo", "output not read to its end, but transaction 2 is complete: done;"},
		{"tune --set vm.swappiness=30 --output json", "output not read to its end, but transaction 3 is complete: done;"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			defer w.Close()
			var said bytes.Buffer
			cmd := fettleCommand(t, strings.Fields(c.args)...)
			cmd.Env = append(os.Environ(), "FETTLE_TEST_MACHINE="+machine)
			cmd.Stdout, cmd.Stderr = w, &said
			err = cmd.Run()
			if refused := c.say == "cannot contain"; (err != nil) != refused || refused && cmd.ProcessState.ExitCode() != 4 {
				t.Errorf("%v: %s", err, &said)
			}
			if !strings.Contains(said.String(), c.say) {
				t.Errorf("said %q, want %q", &said, c.say)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(b)) != "30" {
		t.Errorf("vm.swappiness is %q (%v)", b, err)
	}
}
