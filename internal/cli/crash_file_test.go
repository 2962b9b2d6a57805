package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An administrator's sysctl file has come while a profile is in force, and the switch
// that lets its values in is ended by kill -9, at every write and every operation of the
// journal: undo leads back to the values before fettle, and the same switch again to
// those of the file. A switch that came to its end is undone to the old profile's.
func TestKilledSwitchToAFilesValues(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "machine")
	archive, err := filepath.Abs("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, archive, machine)
	if err := withoutTuneD(machine); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FETTLE_TEST_MACHINE", machine)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(machine, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	values := func() string {
		t.Helper()
		var all []string
		for _, name := range []string{"vm/swappiness", "net/core/somaxconn", "kernel/pid_max"} {
			text, err := os.ReadFile(filepath.Join(machine, "proc/sys", name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.TrimSpace(string(text)))
		}
		return strings.Join(all, " ")
	}
	write("etc/tuned/day/tuned.conf", "[sysctl]\nvm.swappiness=11\nnet.core.somaxconn=1111\nkernel.pid_max=111111\n")
	write("etc/tuned/night/tuned.conf", "[sysctl]\nvm.swappiness=22\nkernel.pid_max=222222\n")
	const file = "etc/sysctl.d/90-site.conf"
	before := values()
	points, step := 0, 1
	if testing.Short() {
		step = 7
	}
	for n := 1; ; n += step {
		run(t, 0, "tune", "day")
		day := values()
		if day != "11 1111 111111" {
			t.Fatalf("the profile day makes it %s", day)
		}
		write(file, "vm.swappiness = 33\nnet.core.somaxconn = 3333\n")
		killed, out := run(t, n, "tune", "night")
		if killed && n%2 == 0 {
			_, out = run(t, 0, "tune", "night")
		}
		if !killed || n%2 == 0 {
			if got := values(); got != "33 3333 222222" {
				t.Fatalf("killed at point %d: the switch makes it %s\n%s", n, got, out)
			}
		}
		if !killed {
			_, list := run(t, 0, "history", "--output", "json")
			var h History
			if err := json.Unmarshal([]byte(list), &h); err != nil {
				t.Fatalf("%v\n%s", err, list)
			}
			last := 0
			for _, tx := range h.Transactions {
				last = max(last, tx.Tx)
			}
			run(t, 0, "undo", strconv.Itoa(last))
			if got := values(); got != day {
				t.Errorf("the switch undone: %s, want %s", got, day)
			}
		}
		run(t, 0, "undo")
		if got := values(); got != before {
			t.Fatalf("killed at point %d: undo makes it %s, want %s", n, got, before)
		}
		if err := os.Remove(filepath.Join(machine, file)); err != nil {
			t.Fatal(err)
		}
		if !killed {
			break
		}
		points += step
	}
	if points < 8 {
		t.Errorf("only %d crash points", points)
	}
	t.Logf("%d crash points", points)
}
