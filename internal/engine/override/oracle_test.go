package override

import (
	"context"
	"fmt"
	"io/fs"
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

// TestWinnerIsWhatSystemdSysctlWrites runs the real systemd-sysctl on several hundred generated
// sysctl.d trees over a simulated /proc/sys. Every value that it writes must be the winner's, and
// every value that it leaves must have no winner.
func TestWinnerIsWhatSystemdSysctlWrites(t *testing.T) {
	testkitroot.Real(t, "runs systemd-sysctl in the Debian test root")
	const trees, seed = 400, 20261121
	root := testkitroot.New(t, testkitroot.Options{})
	for n := range trees {
		generateSysctlTree(t, rand.New(rand.NewPCG(seed, uint64(n))), filepath.Join(root.Share(), fmt.Sprint("tree", n)))
	}
	root.Must("sh", "-euc", `
for d in etc/sysctl.d run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d; do
  mkdir -p "/${d%/*}"; rm -rf "/$d"; ln -s "$1/now/$d" "/$d"
done
for tree in "$1"/tree*; do
  ln -sfn "$tree" "$1/now"
  mount --bind "$tree/proc/sys" /proc/sys
  /lib/systemd/systemd-sysctl >"$tree/log" 2>&1 || :
  umount /proc/sys
done`, "sh", root.Share())

	written, conflicts := 0, 0
	for n := range trees {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		h, err := host.Copy(dir)
		if err != nil {
			t.Fatal(err)
		}
		kinds := setting.Kernel(h)
		kinds["sysctl"] = independent{kinds["sysctl"]}
		claims, _ := Read(context.Background(), h, kinds)
		for _, key := range oracleKeys {
			b, err := os.ReadFile(filepath.Join(dir, "proc/sys", key))
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(string(b), "\n")
			s := setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + key)}
			want := untouched
			if w, ok := claims.Winner(s); ok {
				want = w.Value.Text
			}
			if got != untouched {
				written++
			}
			if len(claims.For(s)) > 1 {
				conflicts++
			}
			if got != want {
				t.Errorf("tree %d, %s: systemd-sysctl left %q, the winner is %q\n%s%s", n, s, got, want, describe(claims.For(s)), dump(t, dir))
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d trees, %d values written, %d of them contested", trees, written, conflicts)
	if written < trees || conflicts < trees {
		t.Errorf("the trees are too easy: %d values written, %d contested", written, conflicts)
	}
}

// independent treats each file as separate, as in these trees: a write to ip_forward does not
// change conf/all/forwarding.
type independent struct{ setting.Kind }

const untouched = "as it was"

var oracleKeys = func() (keys []string) {
	for _, dev := range []string{"all", "default", "lo", "eth0", "eth1", "eth0.100"} {
		for _, k := range []string{"rp_filter", "forwarding"} {
			keys = append(keys, "net/ipv4/conf/"+dev+"/"+k)
		}
	}
	return append(keys, "net/ipv4/ip_forward", "vm/swappiness", "vm/dirty_expire_centisecs", "kernel/panic", "kernel/sysrq")
}()

var oraclePatterns = []string{
	"net/ipv4/conf/*/rp_filter", "net/ipv4/conf/eth*/rp_filter", "net/ipv4/conf/eth[01]/rp_filter",
	"net/ipv4/conf/[!e]*/rp_filter", "net/ipv4/conf/*/*", "net/ipv4/conf/?o/forwarding", "*/*",
	"net/ipv4/conf/{all,lo}/rp_*", "vm/*", "kernel/p*", "net/*/ip_forward", "net/ipv4/conf/*",
	"net/ipv4/conf/eth0.*/rp_filter", "vm/{swappiness,dirty_*}", "kernel/[", "vm/{swap*",
}

func generateSysctlTree(t *testing.T, rnd *rand.Rand, dir string) {
	t.Helper()
	for _, k := range oracleKeys {
		machine.WriteFile(t, dir, "proc/sys/"+k, untouched+"\n")
	}
	dirs := []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"}
	for _, d := range dirs {
		machine.Write(t, dir, map[string]string{d + "/": ""})
	}
	names := []string{"10-a.conf", "50-default.conf", "50-pid.conf", "99-protect.conf", "9.conf", "Z.conf", "zz.conf", ".hidden.conf", "70-x.conf.bak", "README"}
	linked := false
	for range 1 + rnd.IntN(7) {
		p := dirs[rnd.IntN(len(dirs))] + "/" + names[rnd.IntN(len(names))]
		if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
			continue
		}
		var text string
		switch rnd.IntN(12) {
		case 0:
			text = "-> /dev/null"
		case 1:
			text = "-> nowhere"
		default:
			text = sysctlText(rnd)
		}
		machine.Write(t, dir, map[string]string{p: text})
	}
	if rnd.IntN(2) == 0 && !linked {
		machine.Write(t, dir, map[string]string{"etc/sysctl.conf": sysctlText(rnd), "etc/sysctl.d/99-sysctl.conf": "-> ../sysctl.conf"})
	}
}

func sysctlText(rnd *rand.Rand) string {
	pick := func(s []string) string { return s[rnd.IntN(len(s))] }
	var b strings.Builder
	for range 1 + rnd.IntN(9) {
		key := pick(oracleKeys)
		if rnd.IntN(3) == 0 {
			key = pick(oraclePatterns)
		}
		switch rnd.IntN(4) {
		case 0, 1: // with dots, as most people write
			key = strings.TrimPrefix(setting.SysctlName("/proc/sys/"+key), "/")
		case 2:
			key = pick([]string{"/", "", "//"}) + strings.Replace(key, "/", pick([]string{"/", "//", "/./"}), 1)
		}
		value := fmt.Sprint(rnd.IntN(5))
		switch rnd.IntN(12) {
		case 0:
			value = "a = b"
		case 1:
			value = "4096\t87380 6291456"
		case 2:
			value = "7 # no comment"
		}
		line := key + pick([]string{"=", " = ", "\t=", "= "}) + value
		switch rnd.IntN(14) {
		case 0:
			line = "-" + line
		case 1, 2:
			line = "-" + pick([]string{"", " "}) + key
		case 3:
			line = pick([]string{"#", ";", " # "}) + line
		case 4:
			line = key
		case 5:
			line = "=" + value
		case 6:
			line = key + "="
		}
		b.WriteString(pick([]string{"", " ", "\t"}) + line + pick([]string{"", "", "  "}))
		b.WriteString(pick([]string{"\n", "\n", "\n", "\n\n", "\r\n", "\r", "\n\r\n", "\x00"}))
	}
	return b.String()
}

func describe(claims []Claim) string {
	var b strings.Builder
	for _, c := range claims {
		fmt.Fprintf(&b, "  %s %q = %q void %q condition %q\n", c.Place(), c.Text, c.Value, c.Void, c.Condition)
	}
	return b.String()
}

func dump(t *testing.T, dir string) string {
	var b strings.Builder
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !strings.Contains(p, "/proc/") && !d.IsDir() {
			text, _ := os.ReadFile(p)
			to, _ := os.Readlink(p)
			fmt.Fprintf(&b, "-- %s %s --\n%q\n", strings.TrimPrefix(p, dir), to, text)
		}
		return nil
	})
	return b.String()
}

// TestWinnerIsWhatSystemdTmpfilesWrites does the same for tmpfiles.d, over a simulated part of
// /sys.
func TestWinnerIsWhatSystemdTmpfilesWrites(t *testing.T) {
	testkitroot.Real(t, "runs systemd-tmpfiles in the Debian test root")
	const trees, seed = 150, 20261122
	files := []string{"ksm/run", "ksm/sleep", "thp/enabled", "thp/defrag", "thp/khuge/defrag"}
	root := testkitroot.New(t, testkitroot.Options{})
	for n := range trees {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		for _, f := range files {
			machine.WriteFile(t, dir, "sys/kernel/mm/"+f, untouched)
		}
		for _, d := range []string{"etc/tmpfiles.d", "run/tmpfiles.d", "usr/lib/tmpfiles.d"} {
			var b strings.Builder
			for range rnd.IntN(6) {
				p := pick(append(files, "ksm/*", "thp/*d", "*/defrag", "thp/[!x]*", "none")...)
				if rnd.IntN(5) == 0 {
					p = "/" + p // twice a slash is one
				}
				value := pick("1", "2", "3", `a\x62c`, "two words", `100%%`, `'q'`)
				fmt.Fprintf(&b, "%s %s %s%s\n", pick("w", "w", "w!", "w-", "w+", "f", "F", "f+", "#", `"w"`),
					pick("/sys/kernel/mm/"+p, `"/sys/kernel/mm/`+p+`"`), pick("- - - - ", "0644 root root - "), value)
			}
			machine.WriteFile(t, dir, d+"/"+pick("10-a.conf", "20-b.conf", "c.conf"), b.String())
		}
	}
	root.Must("sh", "-euc", `
for d in etc/tmpfiles.d run/tmpfiles.d usr/lib/tmpfiles.d; do
  rm -rf "/$d"; ln -s "$1/now/$d" "/$d"
done
for tree in "$1"/tree*; do
  ln -sfn "$tree" "$1/now"
  mount --bind "$tree/sys/kernel/mm" /sys/kernel/mm
  systemd-tmpfiles --create --boot --prefix=/sys >"$tree/log" 2>&1 || :
  umount /sys/kernel/mm
done`, "sh", root.Share())

	written := 0
	for n := range trees {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		h := host.Mounted(dir)
		claims, _ := Read(context.Background(), h, setting.Kernel(h))
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, "sys/kernel/mm", f))
			if err != nil {
				t.Fatal(err)
			}
			s := setting.Setting{Kind: "sysfs", Name: "/sys/kernel/mm/" + f}
			want := untouched
			for _, c := range claims.For(s) {
				if v := c.Value.Text; c.Certain() {
					// How a plain file keeps the writes that a kernel file
					// takes one by one: F truncates, w+ appends, w neither.
					switch kind := strings.Trim(strings.Fields(c.Text)[0], `"`); {
					case kind[0] != 'w':
						want = v
					case strings.Contains(kind, "+"):
						want += v
					default:
						want = v + want[min(len(v), len(want)):]
					}
				}
			}
			if string(b) != untouched {
				written++
			}
			if string(b) != want {
				t.Fatalf("tree %d, %s: systemd-tmpfiles left %q, the claims say %q\n%s%s", n, s, b, want, describe(claims.For(s)), dump(t, dir))
			}
		}
	}
	t.Logf("%d trees, %d values written", trees, written)
	if written < trees {
		t.Errorf("the trees are too easy: %d values written", written)
	}
}
