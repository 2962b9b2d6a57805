package peers

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// safeHere are the profiles that change nothing on a real machine but sysctls
// and attributes below /sys; what they do to /etc and /boot stays in the test
// root, and programs that would load modules are stubs.
var safeHere = []string{"throughput-performance", "latency-performance", "virtual-guest", "virtual-host", "postgresql"}

// TestEffectsHere is TestEffectsAsTuneD on the kernel that the test runs on: of
// what the one or the other changes, both leave the same, and after fettle undo
// everything that can be written is as it was, the affinities of tasks and
// interrupts included.
func TestEffectsHere(t *testing.T) {
	testkitroot.Untuned(t)
	testkitroot.Real(t, "runs TuneD once for every profile")
	program := testkitroot.Program(t, "./cmd/fettle")
	pinMinFree(t)
	for _, name := range safeHere {
		t.Run(name, func(t *testing.T) {
			before, tasks := testkitroot.Settings(), testkitroot.Tasks()
			if len(before) < 500 || len(tasks) < 20 {
				t.Fatalf("only %d settings and %d tasks found", len(before), len(tasks))
			}
			t.Cleanup(func() { restore(t, before) })

			root := func() *testkitroot.Root {
				return testkitroot.New(t, testkitroot.Options{Live: true, Stubs: liveStubs(),
					Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}}})
			}
			root().TunedOnce(name)
			theirs := testkitroot.Settings()
			restore(t, before)
			if left := before.Differences(testkitroot.Settings()); len(left) > 0 {
				t.Fatalf("TuneD's changes could not be taken back:\n%s", strings.Join(left, "\n"))
			}

			r := root()
			plan := planOf(t, r, name)
			out, code := r.Run("fettle", "tune", name)
			if code != 0 && code != 7 {
				t.Fatalf("fettle tune: exit %d\n%s", code, out)
			}
			ours := testkitroot.Settings()
			scheduled := testkitroot.Tasks()
			if changed := tasks.Common(scheduled).Differences(scheduled); len(changed) > 0 {
				t.Errorf("tasks are scheduled otherwise:\n%s", strings.Join(changed, "\n"))
			}
			written := before.Changed(theirs)
			maps.Copy(written, before.Changed(ours))
			if len(written) < 3 {
				t.Errorf("only %d values changed: %v", len(written), written)
			}
			for _, path := range slices.Sorted(maps.Keys(written)) {
				if theirs[path] == ours[path] {
					proves(t, plugin.Here(), &plan, path)
				} else if !differsHere(name, path, theirs[path], ours[path]) {
					t.Errorf("%s: was %q, TuneD left %q, fettle %q", path, before[path], theirs[path], ours[path])
				}
			}
			t.Logf("%d values compared", len(written))

			r.Must("fettle", "undo")
			if left := before.Differences(testkitroot.Settings()); len(left) > 0 {
				t.Errorf("fettle undo left behind:\n%s", strings.Join(left, "\n"))
			}
			now := testkitroot.Tasks()
			if left := tasks.Common(now).Differences(now); len(left) > 0 {
				t.Errorf("fettle undo left tasks otherwise:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

// pinMinFree writes vm.min_free_kbytes as it is. The kernel computes it again each time that huge
// pages are switched on or off, until a process has written it for the first time, as restore does
// between the runs of the two programs.
func pinMinFree(t *testing.T) {
	t.Helper()
	const path = "/proc/sys/vm/min_free_kbytes"
	value, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, value, 0o644); err != nil {
		t.Fatal(err)
	}
}

// differsHere says whether the table of differences has it.
func differsHere(name, path, tuned, fettle string) bool {
	return slices.ContainsFunc(differences, func(d difference) bool {
		return d.matches("here:"+name, path, strings.TrimSpace(tuned), strings.TrimSpace(fettle))
	})
}

// liveStubs are the programs that reach further than this test may.
func liveStubs() map[string]string {
	stubs := map[string]string{}
	for _, name := range []string{"modprobe", "ethtool", "hdparm", "systemctl", "grub-mkconfig", "rpm-ostree"} {
		stubs[name] = testkitroot.TunerStubs()[name]
	}
	return stubs
}

// restore writes what is otherwise than before: twice, because a write can
// change a second value (vm.dirty_bytes and vm.dirty_ratio).
func restore(t *testing.T, before testkitroot.Tree) {
	t.Helper()
	for range 3 {
		for path, was := range before.Changed(testkitroot.Settings()) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Log(err)
				continue
			}
			// The kernel prints choices with brackets and takes the one word. A
			// limit of 0 stands for the other limit, and writing it is an error.
			_, _ = f.WriteString(setting.ActiveWord(strings.TrimSpace(was)))
			f.Close()
		}
	}
}
