package systemd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// The real systemd reads the same: for a dozen generated trees, "systemd-analyze
// verify" lists the drop-ins in order, the environment and the limits.
func TestUnitsAreReadAsSystemdReadsThem(t *testing.T) {
	testkitroot.Real(t, "runs systemd-analyze in the Debian test root")
	const trees, seed = 40, 20261122
	root := testkitroot.New(t, testkitroot.Options{Env: []string{"SYSTEMD_LOG_LEVEL=debug", "SYSTEMD_LOG_TARGET=console"}})
	names := make([]string, trees)
	for n := range trees {
		names[n] = generate(t, rand.New(rand.NewPCG(seed, uint64(n))), filepath.Join(root.Share(), fmt.Sprint("tree", n)))
	}
	root.Must(append([]string{"sh", "-euc", `
n=0; share=$1; shift
for name; do
  systemd-analyze verify --man=no --root="$share/tree$n" "$name" >"$share/said$n" 2>&1 || :
  n=$((n+1))
done`, "sh", root.Share()}, names...)...)
	contested := 0
	for n, name := range names {
		dir := filepath.Join(root.Share(), fmt.Sprint("tree", n))
		out, err := os.ReadFile(filepath.Join(root.Share(), fmt.Sprint("said", n)))
		if err != nil {
			t.Fatal(err)
		}
		want, skipped := dump(string(out), dir, name)
		contested += skipped
		u, err := New(host.Mounted(dir)).Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(u); got != want {
			t.Fatalf("tree %d, %s:\nfettle:\n%s\nsystemd:\n%s", n, name, got, want)
		}
	}
	if contested < trees {
		t.Errorf("the trees are too easy: only %d files were hidden by others", contested)
	}
}

func describe(u *Unit) string {
	var b strings.Builder
	fmt.Fprintln(&b, "Fragment", u.Files[0])
	for _, f := range u.Files[1:] {
		fmt.Fprintln(&b, "DropIn", f)
	}
	env, _ := u.Environment()
	var names []string
	for n := range env {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintf(&b, "Environment %s=%s\n", n, env[n].Text)
	}
	if l, ok := u.Limit("NOFILE"); ok {
		fmt.Fprintf(&b, "Limit %g %g\n", l.Soft, l.Hard)
	}
	return b.String()
}

// dump extracts the same from systemd's output after it has loaded a unit.
func dump(out, dir, name string) (text string, skipped int) {
	var files, env []string
	hard, soft := "", ""
	in := false
	for row := range strings.Lines(out) {
		row = strings.TrimSpace(row)
		skipped += strings.Count(row, "Skipping overridden file")
		if rest, ok := strings.CutPrefix(row, "-> Unit "); ok {
			if in = rest == name+":"; in {
				files, env, hard, soft = nil, nil, "", ""
			}
		}
		if !in {
			continue
		}
		key, value, _ := strings.Cut(row, ": ")
		switch key {
		case "Fragment Path":
			files = append(files, "Fragment "+strings.TrimPrefix(value, dir))
		case "DropIn Path":
			files = append(files, "DropIn "+strings.TrimPrefix(value, dir))
		case "Environment":
			env = append(env, "Environment "+value)
		case "LimitNOFILE":
			hard = endless(value)
		case "LimitNOFILESoft":
			soft = endless(value)
		}
	}
	slices.Sort(env)
	all := append(files, env...)
	if h, err := strconv.ParseFloat(hard, 64); err == nil {
		s, _ := strconv.ParseFloat(soft, 64)
		all = append(all, fmt.Sprintf("Limit %g %g", s, h))
	}
	return strings.Join(all, "\n") + "\n", skipped
}

// endless replaces systemd's largest number by infinity.
func endless(value string) string {
	if value == "18446744073709551615" {
		return "Inf"
	}
	return value
}

// generate writes a unit with drop-ins in many of the possible directories.
func generate(t *testing.T, r *rand.Rand, dir string) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	name := pick("a.service", "a-b.service", "a-b-c.service", "a@i.service", "a-b@i-1.service")
	values := []string{"A=1 B=2", `"A=x y" C=3`, "A=", `B='q"r'`, `C=\x41\\`, "D=%n E=%p:%i", `A=2 "B=broken`, "", "F=a\\\n  b", "1=no G=%%"}
	limits := []string{"1000", "1000:2000", "infinity", ""}
	body := func() string {
		s := "[Service]\n"
		for range 1 + r.IntN(3) {
			s += "Environment=" + pick(values...) + "\n"
		}
		if r.IntN(3) == 0 {
			s += "LimitNOFILE=" + pick(limits...) + "\n"
		}
		return s
	}
	files := map[string]string{
		pick(lib, etc) + name: "[Service]\nExecStart=/bin/true\nLimitNOFILE=77\n" + body()[len("[Service]\n"):],
	}
	if tmpl := template(name); tmpl != "" && r.IntN(2) == 0 {
		files = map[string]string{lib + tmpl: "[Service]\nExecStart=/bin/true\nLimitNOFILE=88\n" + body()[len("[Service]\n"):]}
	}
	dropIns := append(variants(name), "service")
	for range 4 + r.IntN(8) {
		at := pick(lib, etc, run, "/usr/local/lib/systemd/system/") + pick(dropIns...) + ".d/" + pick("10.conf", "20.conf", "9.conf", "x.conf", "y.txt")
		files[at] = body()
	}
	machine.Write(t, dir, files)
	return name
}
