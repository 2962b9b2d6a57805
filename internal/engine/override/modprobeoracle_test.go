package override

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestWinnerIsWhatModprobeHandsOver compares the claims with the real modprobe, which prints the
// options of modprobe.d and the kernel command line that it would pass to the kernel. The kernel
// uses the last value.
func TestWinnerIsWhatModprobeHandsOver(t *testing.T) {
	testkitroot.Real(t, "runs modprobe in the Debian test root")
	const trees, seed = 100, 20261124
	root := testkitroot.New(t, testkitroot.Options{})
	modules, params := []string{"foo", "foo-bar", "foo_bar", "snd"}, []string{"x", "y", "max-z"}
	for n := range trees {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		for _, d := range []string{"etc", "run", "usr/local/lib", "usr/lib"} {
			machine.Write(t, dir, map[string]string{d + "/modprobe.d/": ""})
			for range rnd.IntN(3) {
				p := d + "/modprobe.d/" + pick("a.conf", "b.conf", "c.conf", "d.txt", ".e.conf")
				if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
					continue
				}
				if rnd.IntN(6) == 0 {
					machine.Write(t, dir, map[string]string{p: "-> /dev/null"})
					continue
				}
				var b strings.Builder
				for range 1 + rnd.IntN(4) {
					fmt.Fprintf(&b, "%soptions %s%s%s=%d%s%s\n", pick("", "", " ", "#", "alias x y\n"), pick(modules...), pick(" ", "  ", "\t", " \\\n "),
						pick(params...), rnd.IntN(100), pick("", ` y="a b"`, " x", "  max-z=0x10"), pick("", " ", "\n"))
				}
				machine.WriteFile(t, dir, p, b.String())
			}
		}
		line := "quiet root=/dev/x"
		for range rnd.IntN(3) {
			line += fmt.Sprintf(" %s.%s=%d", pick(modules...), pick(params...), 100+rnd.IntN(9))
		}
		machine.WriteFile(t, dir, "proc/cmdline", line+pick("\n", " ro\n", " -- foo.x=999\n"))
	}
	root.Must("sh", "-euc", `
for d in etc run usr/local/lib usr/lib; do
  mkdir -p "/$d"; rm -rf "/$d/modprobe.d"; ln -s "$1/now/$d/modprobe.d" "/$d/modprobe.d"
done
for tree in "$1"/tree*; do
  ln -sfn "$tree" "$1/now"
  mount --bind "$tree/proc/cmdline" /proc/cmdline
  modprobe --showconfig >"$tree/config" 2>"$tree/log" || :
  umount /proc/cmdline
done`, "sh", root.Share())
	handed := 0
	for n := range trees {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		config, err := os.ReadFile(filepath.Join(dir, "config"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		lines, _ := parseModprobe(string(config))
		for _, l := range lines {
			for _, p := range l.params {
				if !p.assigned {
					p.value = "1"
				}
				want[modulePath(l.module, p.key)] = p.value
				handed++
			}
		}
		h := host.Mounted(dir)
		c, _ := Read(context.Background(), h, setting.Kernel(h))
		for _, m := range modules {
			for _, p := range params {
				name := modulePath(m, p)
				// modprobe does load it, so what is conditional on that holds.
				w, ok := last(c.For(setting.Setting{Kind: "sysfs", Name: name}), func(c Claim) bool { return c.Void == "" })
				value, wanted := want[name]
				if ok != wanted || w.Value.Text != value {
					t.Fatalf("tree %d, %s: modprobe hands over %q (%v), the winner is %q (%v)\n%s\n%s", n, name, value, wanted, w.Value.Text, ok, config, dump(t, dir))
				}
			}
		}
	}
	t.Logf("%d trees, %d parameters handed over", trees, handed)
	if handed < trees {
		t.Errorf("the trees are too easy: %d parameters", handed)
	}
}
