package peers

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/profiles"
)

// effect is what a tuner leaves of one profile: the values below /proc and
// /sys, the files elsewhere, and "run PROGRAM ARGUMENTS" for every program that
// it ran to change something.
type effect map[string]string

// Words for what has no value.
const (
	unchanged = "unchanged"
	gone      = "gone"
	ran       = "ran"
)

func (e effect) at(path string) string {
	if v, ok := e[path]; ok {
		return v
	}
	return unchanged
}

// TestEffectsAsTuneD applies every profile that Debian's TuneD installs, and
// every one of ours, by the real TuneD and by fettle to two copies of one
// invented machine. What is left has to be the same, except for what the table
// differences lists; an entry of it that no profile shows any more fails, too.
func TestEffectsAsTuneD(t *testing.T) {
	root.Real(t, "runs TuneD once for every profile")
	program := root.Program(t, "./cmd/fettle")
	var mu sync.Mutex
	met := make([]int, len(differences))
	compared, values := 0, 0
	compare := func(t *testing.T, of, name string, files map[string]string) {
		theirs := effectOf(t, files, func(r *root.Root) {
			r.TunedOnce(name)
			t.Logf("TuneD's log:\n%s", r.TunedLog())
		})
		var plan tune.Plan
		ours := effectOf(t, files, func(r *root.Root) {
			plan = planOf(t, r, name)
			out, code := r.Run("fettle", "tune", name)
			if code != 0 && code != 7 {
				t.Errorf("fettle tune %s: exit %d", name, code)
			}
			t.Logf("fettle, exit %d:\n%s", code, out)
		}, root.Bind{Source: program, Target: "/usr/bin/fettle", ReadOnly: true})
		mu.Lock()
		defer mu.Unlock()
		compared, values = compared+1, values+len(theirs)
		both := maps.Clone(theirs)
		maps.Copy(both, ours)
		for _, path := range slices.Sorted(maps.Keys(both)) {
			was, is := theirs.at(path), ours.at(path)
			if was == is {
				proves(t, plugin.TuneD, &plan, path)
				continue
			}
			i := slices.IndexFunc(differences, func(d difference) bool { return d.matches(of+name, path, was, is) })
			switch {
			case i >= 0:
				met[i]++
			case pendingFor(path) != "":
				t.Logf("pending, for there is no %s yet: %s: TuneD left %q, fettle %q", pendingFor(path), path, was, is)
			default:
				t.Errorf("%s: %s: TuneD left %q, fettle %q", of+name, path, was, is)
			}
		}
	}
	t.Run("profiles", func(t *testing.T) {
		for _, name := range installed(t) {
			t.Run("TuneD:"+name, func(t *testing.T) {
				everyTier(t, name)
				t.Parallel()
				compare(t, "TuneD:", name, nil)
			})
		}
		files := ownFiles(t)
		for _, name := range ownNames(t) {
			t.Run("fettle:"+name, func(t *testing.T) {
				everyTier(t, name)
				t.Parallel()
				compare(t, "fettle:", name, files)
			})
		}
	})
	if t.Failed() || compared < len(installed(t))+len(ownNames(t)) {
		return // not all were run (go test -run)
	}
	for i, d := range differences {
		if met[i] == 0 {
			t.Errorf("%s (%s): no profile shows this difference any more: correct the table", d.id, d.path)
		}
	}
	t.Logf("%d profiles, of which TuneD left %d values", compared, values)
}

// everyTier leaves most profiles to the slow matrix: a TuneD takes seconds.
func everyTier(t *testing.T, name string) {
	t.Helper()
	switch name {
	case "throughput-performance", "network-latency", "powersave", "cpu-partitioning", "realtime", "openshift-node", "postgresql":
		return
	}
	nightly(t)
}

// nightly leaves a test to the slow matrix.
func nightly(t *testing.T) {
	t.Helper()
	root.Nightly(t, "runs TuneD once for every profile")
}

// planOf is what fettle would do.
func planOf(t *testing.T, r *root.Root, name string) (plan tune.Plan) {
	t.Helper()
	text, err := r.Command("fettle", "diff", name, "--output", "json").Output()
	if err != nil {
		t.Errorf("fettle diff %s: %v", name, err)
	} else if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// proves notes the options of a plan that led to what is at a path.
func proves(t *testing.T, ground plugin.Ground, plan *tune.Plan, path string) {
	t.Helper()
	for _, s := range plan.Steps {
		at := s.Setting.Name
		switch s.Setting.Kind {
		case "sysctl":
			at = "/proc/sys/" + strings.ReplaceAll(at, ".", "/")
		case "bootloader":
			at = bootArguments
		}
		// The unit is named after its plug-in, or "sysctl.thunderx".
		typ, _, _ := strings.Cut(s.Unit, ".")
		option, _, _ := strings.Cut(s.Reason.Text, "=")
		if p, ok := engineplugin.Find(table.All, typ); ok && at == path && s.Action == tune.Write {
			if _, ok := p.Option(option); ok {
				plugin.Proves(t, ground, typ, option)
			}
		}
	}
}

// pendingFor names the option that a path waits for, "" if none exists.
func pendingFor(path string) string {
	for _, p := range pending {
		if !regexp.MustCompile(p.path).MatchString(path) {
			continue
		}
		known, there := engineplugin.Find(table.All, p.plugin)
		if there {
			_, there = known.Option(p.option)
		}
		if !there {
			return "[" + p.plugin + "] " + p.option
		}
	}
	return ""
}

// installed lists the profiles that Debian's TuneD brings.
func installed(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root.Dir(t), "usr/lib/tuned/*/tuned.conf"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	if len(names) < 30 {
		t.Fatalf("TuneD brings only %d profiles: %v", len(names), names)
	}
	return names
}

// ownNames lists the profiles that fettle brings.
func ownNames(t *testing.T) []string {
	t.Helper()
	entries, err := profiles.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// ownFiles puts fettle's profiles where both tuners look first.
func ownFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(profiles.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(p, "/") {
			return err
		}
		text, err := profiles.FS.ReadFile(p)
		files["/etc/tuned/"+p] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// effectOf lets a tuner tune a new invented machine and returns what it leaves.
func effectOf(t *testing.T, files map[string]string, tune func(*root.Root), binds ...root.Bind) effect {
	t.Helper()
	machine := root.NewMachine(t)
	before, err := root.ReadTree(machine.Dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"/usr/lib/python3/dist-packages/perf.py": noPerf,
		"/boot/grub2/grub.cfg":                   grubConfig,
		"/etc/default/grub.d/.dir":               "",
		"/var/lib/tuned/.dir":                    "", // Debian's package forgets it
	}
	maps.Copy(all, files)
	stubs := root.TunerStubs()
	stubs["grub-mkconfig"] = grubMkconfig
	r := root.New(t, root.Options{Machine: machine, Stubs: stubs, Files: all, Binds: binds})
	etc, err := root.ReadTree(r.Path("/etc"))
	if err != nil {
		t.Fatal(err)
	}
	// A machine that systemd has booted: programs ask for this directory.
	r.Must("mkdir", "-p", "/run/systemd/system")
	tune(r)
	after, err := root.ReadTree(machine.Dir)
	if err != nil {
		t.Fatal(err)
	}
	left := effect{}
	for _, d := range before.Diff(after) {
		// A plain file shows what was written last; that the kernel ends a line
		// and puts brackets around a choice is its own doing.
		switch was, is := strings.TrimSpace(d.Before), strings.TrimSpace(d.After); {
		case d.Gone:
			left[d.Path] = gone
		case setting.ActiveWord(was) != setting.ActiveWord(is):
			left[d.Path] = is
		}
	}
	written, err := r.Written()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range written {
		if ownPlace.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(r.Path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			left[name] = gone
		case err != nil:
			t.Fatal(err)
		default:
			if was, there := etc[strings.TrimPrefix(name, "/etc")]; !there || was != string(text) {
				left.file(t, name, strings.TrimSpace(string(text)))
			}
		}
	}
	calls, err := r.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if line := strings.TrimSuffix(strings.Join(c, " "), ".service"); !asks.MatchString(line) {
			left["run "+line] = ran
		}
	}
	return left
}

// noPerf lets TuneD's scheduler and irqbalance plug-ins load: Debian 12 has no
// Python binding of perf. Without events TuneD does not follow new tasks.
const noPerf = "def cpu_map():\n    return list(range(8))\n"

// ownPlace are the files that a tuner keeps for itself.
var ownPlace = regexp.MustCompile(`/__pycache__/|^/var/log/tuned/|^/var/lib/fettle/|^/etc/tuned/(active_profile|profile_mode|post_loaded_profile|tuned-main\.conf)$|^/etc/(passwd|group|shadow)-?$`)

// asks are the calls of programs that change nothing.
var asks = regexp.MustCompile(`^(` + strings.Join([]string{
	`virt-what`, `modinfo .*`, `ethtool (-[acgkl]|--show-.*) .*`, `ethtool [a-z0-9]+`, `ethtool -i .*`,
	`hdparm -[CB] /dev/\S+`, `x86_energy_perf_policy( -c \S+)? -r`, `x86_energy_perf_policy -h`,
	`systemctl (is-active|is-enabled|is-system-running|list-jobs|show|cat|list-unit-files).*`, `rpm-ostree status.*`,
}, "|") + `)$`)
