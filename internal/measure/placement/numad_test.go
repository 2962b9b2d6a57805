package placement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestNumadAnswers: on 60 made-up machines, fettle numa advise answers what the real numad -w
// answers at the same time, in at least 54. Some differ because the two do not read the CPU time
// at the same instant, and because numad counts an idle CPU as a little less than one.
func TestNumadAnswers(t *testing.T) {
	programs := testkitroot.Numactl(t)
	testkitroot.Disposable(t)
	fettle := testkitroot.Program(t, "./cmd/fettle")
	r := rand.New(rand.NewPCG(24, 2))
	equal, machines := 0, 60
	for range machines / 10 {
		var wg sync.WaitGroup
		answers := make([][2]string, 10)
		for i := range answers {
			dir := machine.Dir(t)
			need := madeUp(t, r, dir)
			wg.Go(func() { answers[i] = askBoth(dir, fettle, programs+"/numad", need) })
		}
		wg.Wait()
		for _, a := range answers {
			if a[0] == "" || a[1] == "" {
				t.Errorf("no answer: fettle %q, numad %q", a[0], a[1])
			}
			if a[0] == a[1] {
				equal++
			} else {
				t.Logf("fettle %s, numad %s", a[0], a[1])
			}
		}
	}
	if equal < machines*9/10 {
		t.Errorf("%d of %d answers are equal", equal, machines)
	}
}

// askBoth asks fettle and numad in a mount namespace in which the files of the machine are those
// below dir. Halfway through their 2 s, the CPU times change.
func askBoth(dir, fettle, numad, need string) [2]string {
	script := `
mount -t tmpfs none /run && mount -t tmpfs none /var/log || exit 1
for f in sys/devices/system/cpu sys/devices/system/node proc/stat proc/meminfo; do
	mount --bind "$1/$f" "/$f" || exit 1
done
(sleep 1; cat "$1/later" > "$1/proc/stat") &
"$2" numa advise "$4" --output json > "$1/fettle" 2>&1 &
"$3" -w "$4" > "$1/numad" 2>&1
wait`
	if out, err := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", dir, fettle, numad, need).CombinedOutput(); err != nil {
		return [2]string{string(out), err.Error()}
	}
	_, answer, _ := strings.Cut(read(dir, "fettle"), `"nodes": "`)
	answer, _, _ = strings.Cut(answer, `"`)
	return [2]string{answer, strings.TrimSpace(read(dir, "numad"))}
}

func read(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return string(text)
}

// madeUp writes the files of a machine with 1 to 8 nodes below dir, and returns a random need.
func madeUp(t *testing.T, r *rand.Rand, dir string) string {
	write := func(name, format string, args ...any) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pick := func(from ...int) int { return from[r.IntN(len(from))] }
	nodes, per, total := pick(1, 2, 2, 3, 4, 4, 8), pick(1, 2, 4, 8, 16), pick(1024, 4096, 16384, 65536)
	threads := 1
	if per > 1 {
		threads = pick(1, 1, 2)
	}
	const node, cpu = "sys/devices/system/node/", "sys/devices/system/cpu/"
	for _, name := range []string{"online", "possible", "has_cpu", "has_memory"} {
		write(node+name, "0-%d\n", nodes-1)
	}
	for _, name := range []string{"online", "possible", "present"} {
		write(cpu+name, "0-%d\n", nodes*per-1)
	}
	var now, later strings.Builder
	idleOfAll := 0
	// tmpfs lists the newest entry first, so the nodes are listed in order.
	for n := nodes - 1; n >= 0; n-- {
		free := r.IntN(total)
		inactive := r.IntN(total-free) / 2
		write(fmt.Sprintf("%snode%d/cpulist", node, n), "%d-%d\n", n*per, (n+1)*per-1)
		write(fmt.Sprintf("%snode%d/meminfo", node, n), "Node %[1]d MemTotal: %[2]d kB\nNode %[1]d MemFree: %[3]d kB\nNode %[1]d Inactive(file): %[4]d kB\n", n, total*1024, free*1024, inactive*1024)
		var distances []string
		for to := range nodes {
			d := 10
			if to != n {
				d = 20 + 5*min((to-n+nodes)%nodes, (n-to+nodes)%nodes)
			}
			distances = append(distances, fmt.Sprint(d))
		}
		write(fmt.Sprintf("%snode%d/distance", node, n), "%s\n", strings.Join(distances, " "))
		for c := n * per; c < (n+1)*per; c++ {
			first := n*per + (c-n*per)/threads*threads
			topology := fmt.Sprintf("%scpu%d/topology/", cpu, c)
			write(topology+"thread_siblings_list", "%d-%d\n", first, first+threads-1)
			write(topology+"thread_siblings", "%x,%08x,%08x,%08x\n", maskWord(first, threads, 3), maskWord(first, threads, 2), maskWord(first, threads, 1), maskWord(first, threads, 0))
			write(topology+"core_id", "%d\n", first)
			write(topology+"physical_package_id", "%d\n", n)
			idle := pick(0, 200, 200, r.IntN(200))
			idleOfAll += idle
			fmt.Fprintf(&now, "cpu%d 1000 0 0 1000 0 0 0 0 0 0\n", c)
			fmt.Fprintf(&later, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", c, 1200-idle, 1000+idle)
		}
	}
	write("proc/stat", "cpu  1000 0 0 1000 0 0 0 0 0 0\n%s", now.String())
	write("later", "cpu  1000 0 0 %d 0 0 0 0 0 0\n%s", 1000+idleOfAll, later.String())
	write("proc/meminfo", "MemTotal: %d kB\nMemFree: %d kB\nHugepagesize: 2048 kB\n", nodes*total*1024, total*512)
	return fmt.Sprintf("%d:%d", pick(1, 2, per, per+1, 2*per, max(nodes*per/2, 1)), pick(100, 500, total/2, total, 1+r.IntN(total*nodes)))
}

// maskWord returns the 32-bit word of a CPU mask that has n CPUs from first.
func maskWord(first, n, word int) uint32 {
	var mask uint32
	for c := first; c < first+n; c++ {
		if c/32 == word {
			mask |= 1 << (c % 32)
		}
	}
	return mask
}
