package placement

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestNumactl: in a guest with four nodes, a command started by fettle numa run has the policy and
// the CPUs that numactl gives it, for 200 random valid calls; 100 invalid calls exit alike.
func TestNumactl(t *testing.T) {
	programs := testkitroot.Numactl(t)
	fettle := testkitroot.Program(t, "./cmd/fettle")
	vm := testkitvm.Boot(t, testkitvm.Options{})
	vm.Put(fettle, "/usr/bin/fettle")
	vm.Put(programs+"/numactl", "/usr/bin/numactl")
	r := rand.New(rand.NewPCG(24, 3))
	var script bytes.Buffer
	script.WriteString(`
both() {
	a=$(numactl "$@" numactl --show 2>/dev/null; echo $?)
	b=$(fettle numa run "$@" numactl --show 2>/run/said; echo $?)
	# Which node is next under interleaving depends on what was allocated before.
	a=$(echo "$a" | grep -v -e 'interleave next' -e interleavenode)
	b=$(echo "$b" | grep -v -e 'interleave next' -e interleavenode)
	[ "$a" = "$b" ] && n=$((n + 1)) || echo "$*: numactl: $a; fettle: $b $(cat /run/said)"
}
exits() {
	numactl "$@" true >/dev/null 2>&1
	a=$?
	fettle numa run "$@" true >/dev/null 2>&1
	b=$?
	[ $a = $b ] && n=$((n + 1)) || echo "$*: exit code $a of numactl, $b of fettle"
}
n=0
`)
	for range 200 {
		fmt.Fprintf(&script, "both %s\n", validBinding(r))
	}
	for range 100 {
		fmt.Fprintf(&script, "exits %s\n", invalidBinding(r))
	}
	script.WriteString("echo checked $n\n")
	vm.Write("/run/numactl.sh", script.String())
	out, code := vm.RunFor(time.Hour, "sh /run/numactl.sh")
	if strings.TrimSpace(out) != "checked 300" {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// validBinding returns options of a valid call: at most one policy, and CPUs.
func validBinding(r *rand.Rand) string {
	nodes := func() string {
		return oneOf(r, "0", "1", "3", "0-1", "0,2", "1-3", "all", "+0", "+1-2", "'!0'", "'!1-2'", "'!+3'")
	}
	words := []string{oneOf(r, "", "-a", "-b")}
	switch r.IntN(7) {
	case 0:
		words = append(words, "-m "+nodes())
	case 1:
		words = append(words, "--interleave="+nodes())
	case 2:
		words = append(words, "-p "+oneOf(r, "0", "2", "+3", "'!0-2'"))
	case 3:
		words = append(words, "-l")
	case 4:
		words = append(words, "--preferred-many "+nodes())
	}
	switch r.IntN(4) {
	case 0:
		words = append(words, "-N "+nodes())
	case 1:
		words = append(words, "--physcpubind="+oneOf(r, "0", "1-2", "0,3", "all", "+1", "+0-2", "'!0'"))
	case 2:
		words = append(words, "-N "+nodes(), "-C "+oneOf(r, "0", "2-3"))
	}
	if r.IntN(2) == 0 {
		words = append(words, "--")
	}
	return strings.Join(words, " ")
}

func invalidBinding(r *rand.Rand) string {
	bad := oneOf(r, "-m 4", "-m x", "-i 9-10", "-N 17", "-C 99", "-C x", "-p 0-1", "-m 0 -i 1", "-l -l", "-p 0 -m 1", "-N '!all'", "-q", "--nosuch", "-m netdev:nosuch", "-N block:nosuch", "-m file:/nosuch", "-i +7", "-C +9")
	return strings.TrimSpace(oneOf(r, "", "-b", "-C 0", "-N 1") + " " + bad)
}
