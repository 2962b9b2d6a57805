package placement

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestNumastat: in a guest with four nodes, 200 random calls of numastat print the same and
// exit alike; 100 invalid calls exit alike. The files of the nodes are a copy, so that they do
// not change between the two programs, and the processes sleep.
func TestNumastat(t *testing.T) {
	testkitroot.Real(t, "boots a virtual machine")
	programs := testkitroot.Numactl(t)
	fettle := testkitroot.Program(t, "./cmd/fettle")
	vm := testkitvm.Boot(t, testkitvm.Options{})
	vm.Put(fettle, "/usr/bin/fettle")
	for _, name := range []string{"numastat", "numactl"} {
		vm.Put(programs+"/"+name, "/usr/bin/"+name)
	}
	r := rand.New(rand.NewPCG(24, 1))
	var script bytes.Buffer
	script.WriteString(sleepers)
	for range 200 {
		fmt.Fprintf(&script, "%s\nboth %s\n", oneOf(r, "unset NUMASTAT_WIDTH", "export NUMASTAT_WIDTH="+oneOf(r, "0", "1", "30", "40", "60", "79", "80", "100", "200", "x")), randomCall(r))
	}
	for range 100 {
		fmt.Fprintf(&script, "exits %s\n", invalidCall(r))
	}
	script.WriteString("echo checked $n\n")
	vm.Write("/run/numastat.sh", script.String())
	out, code := vm.RunFor(time.Hour, "unshare --mount sh /run/numastat.sh")
	if strings.TrimSpace(out) != "checked 300" {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// sleepers starts processes with memory on different nodes, covers the files of the nodes with
// a copy, and defines the comparisons.
const sleepers = `
nodes=/sys/devices/system/node
mkdir /run/nodes
for from in $nodes/*; do
	case $from in
	*/node[0-9]*) mkdir /run/nodes/${from##*/}; cp $from/meminfo $from/numastat $from/cpulist $from/distance /run/nodes/${from##*/} ;;
	*) cp $from /run/nodes 2>/dev/null ;;
	esac
done
numactl --membind=2 sleep 991 &
A=$!
numactl --interleave=0,1 sleep 992 &
B=$!
sleep 993 &
C=$!
echo 4 >$nodes/node1/hugepages/hugepages-2048kB/nr_hugepages
while [ "$(cat /proc/$A/comm /proc/$B/comm /proc/$C/comm | sort -u)" != sleep ]; do :; done
sleep 2
cp $nodes/node1/meminfo /run/nodes/node1/meminfo
mount --bind /run/nodes $nodes
n=0
both() {
	n=$((n+1))
	numastat "$@" >/run/want 2>/dev/null; want=$?
	fettle numa show --numastat "$@" >/run/got 2>/dev/null; got=$?
	[ $want = $got ] && cmp -s /run/want /run/got || { echo "NUMASTAT_WIDTH=$NUMASTAT_WIDTH numastat $*: exit code $got, want $want"; diff /run/want /run/got; }
}
exits() {
	n=$((n+1))
	numastat "$@" >/dev/null 2>&1; want=$?
	fettle numa show --numastat "$@" >/dev/null 2>&1; got=$?
	[ $want = $got ] || echo "numastat $*: exit code $got, want $want"
}
trap 'kill $A $B $C' EXIT
`

func oneOf(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// randomCall returns the arguments of a valid call.
func randomCall(r *rand.Rand) string {
	var words []string
	for _, o := range []string{"-c", "-m", "-n", "-z", "-v"} {
		if r.IntN(3) == 0 {
			words = append(words, o)
		}
	}
	if slices.Contains(words, "-z") && slices.Contains(words, "-v") {
		words = words[:len(words)-1] // -z -v of several processes is known to differ (docs/numa.md)
	}
	if r.IntN(4) == 0 {
		words = append(words, oneOf(r, "-s", "-s0", "-s2", "-s9", "-sx"))
	}
	for range r.IntN(4) {
		words = append(words, oneOf(r, "$A", "$B", "-p $C", "2", "1", "-p 'sleep 99'", "'sleep 992'", "99999", "kthread", "nothing-has-this", "''"))
	}
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words, " ")
}

func invalidCall(r *rand.Rand) string {
	bad := oneOf(r, "-x", "-h", "-p", "--help", "--version", "-1", "-cx", "-mq", "-czp", "-s -2", "--zero", "-c=1")
	if strings.HasSuffix(bad, "p") && bad != "--help" {
		return oneOf(r, "", "-c ", "-m -n ", "1 ") + bad // needs an argument, so it comes last
	}
	return strings.TrimSpace(oneOf(r, "", "-c", "-m -n", "1", "-z -v") + " " + bad + " " + oneOf(r, "", "1", "-m", "sleep"))
}
