package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// A change of the saved settings and its undo are ended by kill -9 at every write and every
// operation of the journal. The next switch, and the next change of saved settings, bring no setting
// back that the journal does not have: file and values agree. The undo restores values and file.
func TestKilledSave(t *testing.T) {
	archive, err := filepath.Abs("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	const role = "[main]\nsummary = kernel settings\n[sysctl]\nvm.swappiness = 12\n"
	save := []string{"tune", "--save", "--set", "vm.swappiness=22", "--set", "net.core.somaxconn=2222"}
	step := 1
	if testing.Short() {
		step = 7
	}
	for i, c := range []struct {
		name, file string // the text of another tool's file
		setUp      [][]string
		cut        []string
		next       []string
	}{
		{"first, then a switch", "", nil, save, []string{"tune", "day"}},
		{"first, then an undo", "", nil, save, []string{"undo"}},
		{"another tool's file, then a switch", role, nil, save, []string{"tune", "day"}},
		{"another tool's file, then an undo", role, nil, save, []string{"undo"}},
		{"second, then a switch", "", [][]string{{"tune", "day", "--save", "--set", "vm.swappiness=11"}}, save, []string{"tune", "night"}},
		{"second, then a third", "", [][]string{{"tune", "--save", "--set", "vm.swappiness=11"}}, save, []string{"tune", "--save", "--set", "kernel.pid_max=33333"}},
		{"undo of the last, then a switch", "", [][]string{{"tune", "--save", "--set", "vm.swappiness=11"}, save}, []string{"undo", "2"}, []string{"tune", "day"}},
		{"undo, then a switch", role, [][]string{save}, []string{"undo"}, []string{"tune", "day"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kills, first := 0, 1+i%step
			for n := first; ; n += step { // under -short each case begins at another point
				machine := filepath.Join(testkitmachine.Dir(t), "machine")
				unpack(t, archive, machine)
				if err := withoutTuneD(machine); err != nil {
					t.Fatal(err)
				}
				t.Setenv("FETTLE_TEST_MACHINE", machine)
				read := func(name string) string {
					text, err := os.ReadFile(filepath.Join(machine, name))
					if err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
					return string(text)
				}
				write := func(name, text string) {
					path := filepath.Join(machine, name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				write("etc/tuned/day/tuned.conf", "[sysctl]\nvm.dirty_ratio=31\n")
				write("etc/tuned/night/tuned.conf", "[sysctl]\nvm.dirty_ratio=32\n")
				const file = "etc/tuned/profiles/kernel_settings/tuned.conf"
				if c.file != "" {
					write(file, c.file)
				}
				names := map[string]string{"vm.swappiness": "proc/sys/vm/swappiness", "net.core.somaxconn": "proc/sys/net/core/somaxconn", "kernel.pid_max": "proc/sys/kernel/pid_max"}
				before := map[string]string{}
				for name, path := range names {
					before[name] = strings.TrimSpace(read(path))
				}
				for _, args := range c.setUp {
					run(t, 0, args...)
				}
				killed, _ := run(t, n, c.cut...)
				_, out := run(t, 0, c.next...)

				saved := map[string]string{}
				if text := read(file); text != c.file {
					for line := range strings.Lines(text) {
						if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
							saved[strings.TrimSpace(name)] = strings.TrimSpace(value)
						}
					}
				}
				for name, path := range names {
					want, ok := saved[name]
					if !ok {
						want = before[name]
					}
					if got := strings.TrimSpace(read(path)); got != want {
						t.Errorf("killed at point %d: %s is %s, want %s with the file\n%s\n%s", n, name, got, want, read(file), out)
					}
				}
				run(t, 0, "undo")
				for name, path := range names {
					if got := strings.TrimSpace(read(path)); got != before[name] {
						t.Errorf("killed at point %d: after undo, %s is %s, want %s", n, name, got, before[name])
					}
				}
				if got := read(file); got != c.file {
					t.Errorf("killed at point %d: after undo, the file is %q, want %q", n, got, c.file)
				}
				if _, err := os.Stat(filepath.Join(machine, "etc/tuned/profiles")); c.file == "" && err == nil {
					t.Errorf("killed at point %d: after undo, the directory of the file remains", n)
				}
				if t.Failed() || !killed {
					break
				}
				kills++
			}
			if kills*step+first < 8 && !t.Failed() {
				t.Errorf("only %d crash points, every %d from %d on", kills, step, first)
			}
		})
	}
}

// The journal is rotated, and the transaction that first wrote the file is merged into a later
// one: undo still restores the file of another tool.
func TestSavedFileAfterRotation(t *testing.T) {
	archive, err := filepath.Abs("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	machine := filepath.Join(testkitmachine.Dir(t), "machine")
	unpack(t, archive, machine)
	if err := withoutTuneD(machine); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FETTLE_TEST_MACHINE", machine)
	const role = "[main]\nsummary = kernel settings\n[sysctl]\nvm.swappiness = 12\n"
	file := filepath.Join(machine, "etc/tuned/profiles/kernel_settings/tuned.conf")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(role), 0o644); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 8<<10) // recorded with the command
	for i := range 12 {
		run(t, 0, "tune", "--save", "--set", "vm.swappiness="+strconv.Itoa(20+i), "--unset", "vm."+long)
	}
	if rotated, _ := filepath.Glob(filepath.Join(machine, "var/lib/fettle/journal.*")); len(rotated) == 0 {
		t.Fatal("the journal was not rotated")
	}
	run(t, 0, "undo")
	if text, err := os.ReadFile(file); string(text) != role {
		t.Errorf("after undo, the file is %q (%v)", text, err)
	}
}
