package cli

import (
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// After a change of a Satellite, fettle runs its own health check (Satellite 6.12 Tuning Guide,
// 5.1), with the words of the guide alone, and what it finds is fettle's failure. Satellite cannot
// be had here: a program with the name of its check stands in.
func TestFixAsksForHealth(t *testing.T) {
	testkitroot.Real(t, "builds the program")
	t.Parallel()
	program := testkitroot.Program(t, "./cmd/fettle")
	r := testkitroot.New(t, testkitroot.Options{
		Machine: testkitroot.NewMachine(t), Stubs: testkitroot.TunerStubs(),
		Binds: []testkitroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}},
	})
	r.Must("sh", "-c", `mkdir -p /etc/fettle/rules.d && cat >/etc/fettle/rules.d/own.yaml <<'RULE'
- id: L1
  title: The machine swaps late
  failed: The machine swaps early
  platforms: [satellite]
  inputs: {swappiness: {input: "sysctl:vm.swappiness", as: number}}
  want: "11"
  why: Swapped memory is slow memory.
  sources: [{document: ours}]
  fix: {changes: ["sysctl:vm.swappiness"]}
  examples:
    - {name: late, given: {swappiness: 11}, finding: pass}
    - {name: early, given: {swappiness: 60}, finding: warn}
RULE
cat >/usr/bin/satellite-maintain <<'CHECK'
#!/bin/sh
echo "asked: $*" >>/tmp/asked
cat /tmp/broken 2>/dev/null && exit 1
exit 0
CHECK
chmod +x /usr/bin/satellite-maintain`)

	// No Satellite: no question.
	if out := r.Must("fettle", "fix", "L1", "--yes"); strings.Contains(out, "satellite-maintain") {
		t.Errorf("a machine that is no Satellite was asked as one:\n%s", out)
	}
	r.Must("fettle", "undo")
	r.Must("sh", "-c", `printf 'Package: satellite\nStatus: install ok installed\nVersion: 6.16.0\n\n' >>/var/lib/dpkg/status`)
	if out := r.Must("fettle", "fix", "L1", "--yes"); !strings.Contains(out, "✓ passed satellite-maintain health check") {
		t.Errorf("fix says\n%s", out)
	}
	if asked := r.Must("cat", "/tmp/asked"); asked != "asked: health check\n" {
		t.Errorf("the check was %q", asked)
	}
	// Nothing was changed, so nothing is asked.
	r.Must("fettle", "fix", "L1", "--yes")
	if asked := r.Must("cat", "/tmp/asked"); strings.Count(asked, "\n") != 1 {
		t.Errorf("the check was asked for without a change: %q", asked)
	}
	r.Must("fettle", "undo")
	r.Must("sh", "-c", "echo 'candlepin: [FAIL] is not running' >/tmp/broken")
	out, err := r.Command("fettle", "fix", "L1", "--yes").CombinedOutput()
	for _, want := range []string{"✗ failed satellite-maintain health check", "    candlepin: [FAIL] is not running", "fettle undo"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: fix of a Satellite that is not well lacks %q:\n%s", err, want, out)
		}
	}
	r.Must("fettle", "undo")
}
