package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// rhel is a machine of testdata/hosts, altered.
type rhel struct {
	release string
	alter   func(t *testing.T, dir string)
	// files are the files whose content a tune of isolatedArgs changes, in addition to the
	// environment block. ENTRY stands for each entry of a kernel.
	files []string
}

const (
	isolatedArgs = "isolcpus=1-3 nohz=on"
	grubenv      = "/boot/grub2/grubenv"
	cmdlineFile  = "/etc/kernel/cmdline"
	ownHook      = "/etc/kernel/install.d/92-fettle.install"
	entriesDir   = "/boot/loader/entries"
)

var rhels = map[string]rhel{
	"8":               {"8", nil, nil}, // TuneD's package has prepared all entries
	"8 without TuneD": {"8", withoutTuneD, []string{"ENTRY", ownHook}},
	"9":               {"9", nil, []string{"ENTRY", cmdlineFile, "/etc/default/grub"}},
	"9 without /etc/kernel/cmdline": {"9", func(t *testing.T, dir string) {
		remove(t, dir, cmdlineFile)
	}, []string{"ENTRY", cmdlineFile, "/etc/default/grub"}},
	"10":               {"10", nil, []string{"/etc/default/grub"}},
	"10 without TuneD": {"10", withoutTuneD, []string{"ENTRY", cmdlineFile, "/etc/default/grub"}},
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// withoutTuneD removes TuneD's package and its references.
func withoutTuneD(t *testing.T, dir string) {
	remove(t, dir, "/usr/lib/kernel/install.d/92-tuned.install")
	names, err := filepath.Glob(dir + entriesDir + "/*.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(names, filepath.Join(dir, cmdlineFile)) {
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text := strings.NewReplacer(" $tuned_params", "", " $tuned_initrd", "").Replace(string(b))
		if err := errors.Join(err, os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	editenv(t, filepath.Join(dir, grubenv), func(env map[string]string) { delete(env, "tuned_params"); delete(env, "tuned_initrd") })
}

func (r rhel) machine(t *testing.T) *host.Host {
	t.Helper()
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of fsyncs
	}
	h := machine.Unpack(t, "../../../../testdata/hosts/rhel-"+r.release+".txt")
	machine.WriteFile(t, h.Name, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	if r.alter != nil {
		r.alter(t, h.Name)
	}
	h.Exec = grubEditenv(t, h)
	return h
}

// editenv rewrites an environment block, as grub2-editenv does: in the order of the variables, with
// # up to its size. No value of the test needs an escape.
func editenv(t testing.TB, file string, change func(env map[string]string)) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	head, env := "", map[string]string{}
	for line := range strings.Lines(strings.TrimRight(string(b), "#")) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if strings.HasPrefix(line, "#") || !ok {
			head += line
			continue
		}
		order, env[name] = append(order, name), value
	}
	change(env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		if value, ok := env[name]; ok {
			head += name + "=" + value + "\n"
		}
	}
	if len(head) > len(b) {
		t.Fatalf("%s: environment block too small", file)
	}
	if err := os.WriteFile(file, append([]byte(head), bytes.Repeat([]byte("#"), len(b)-len(head))...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func environment(t *testing.T, h *host.Host) map[string]string {
	t.Helper()
	out := map[string]string{}
	editenv(t, filepath.Join(h.Name, grubenv), func(env map[string]string) { out = maps.Clone(env) })
	return out
}

func grubEditenv(t testing.TB, h *host.Host) host.Exec {
	return &testkitplugin.Programs{Answer: map[string]func(host.Command) host.Result{"grub2-editenv": func(c host.Command) host.Result {
		editenv(t, filepath.Join(h.Name, c.Argv[1]), func(env map[string]string) {
			for _, a := range c.Argv[3:] {
				name, value, _ := strings.Cut(a, "=")
				if c.Argv[2] == "unset" {
					delete(env, name)
				} else {
					env[name] = value
				}
			}
		})
		return host.Result{}
	}}}
}

// bootEngine has the engine and the selection of the archive's profile "isolated".
type bootEngine struct {
	*tune.Engine
	profile *profile.Profile
}

func newBootEngine(t *testing.T, h *host.Host, state string) bootEngine {
	t.Helper()
	l := profile.Loader{Host: h, Dirs: []string{"/etc/tuned"}}
	p, err := l.Load(t.Context(), "isolated")
	if err != nil {
		t.Fatal(err)
	}
	return bootEngine{&tune.Engine{Host: h, Kinds: Kinds(h), Plugins: All, StateDir: state, Main: profile.DefaultMain(), User: "test", Reason: t.Name()}, p}
}

func (e bootEngine) tune(ctx context.Context) (*tune.Applied, error) {
	return e.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanProfile(ctx, e.profile, s)
	},
		tune.ApplyOptions{Kind: journal.Tune, Selection: &tune.Selection{Profiles: []string{"isolated"}, Mode: tune.ModeManual}})
}

// bootFiles are the files that have to do with the next boot.
func bootFiles(t *testing.T, h *host.Host) map[string]string {
	t.Helper()
	all := testkitplugin.Snapshot(t, h)
	maps.DeleteFunc(all, func(p, _ string) bool { return !strings.HasPrefix(p, "/boot/") && !strings.HasPrefix(p, "/etc/") })
	return all
}

// kernels are the paths of the entries of kernels.
func kernels(t *testing.T, h *host.Host) []string {
	t.Helper()
	names, err := host.Glob(h.Files, entriesDir+"/*.conf")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(p string) bool { return strings.HasSuffix(p, "-rescue.conf") })
}

// commandLine returns the arguments that GRUB passes with an entry.
func commandLine(t *testing.T, h *host.Host, entry string) string {
	t.Helper()
	env := environment(t, h)
	for line := range strings.Lines(readFile(t, h, entry)) {
		if options, ok := strings.CutPrefix(line, "options "); ok {
			return strings.Join(strings.Fields(os.Expand(strings.TrimSuffix(options, "\n"), func(name string) string { return env[name] })), " ")
		}
	}
	t.Fatalf("%s has no options", entry)
	return ""
}

func readFile(t *testing.T, h *host.Host, p string) string {
	t.Helper()
	b, err := h.Files.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func edit(t *testing.T, h *host.Host, p, old, to string) {
	t.Helper()
	text := readFile(t, h, p)
	if !strings.Contains(text, old) {
		t.Fatalf("%s lacks %q: %s", p, old, text)
	}
	machine.WriteFile(t, h.Name, p, strings.Replace(text, old, to, 1))
}

// installKernel does what kernel-install does with the boot files: RHEL 8 refers to $kernelopts,
// later releases copy /etc/kernel/cmdline, or else the running kernel's arguments. Then the hooks
// run, of which fettle's is a shell script.
func (r rhel) installKernel(t *testing.T, h *host.Host) string {
	t.Helper()
	id := strings.TrimSpace(readFile(t, h, "/etc/machine-id"))
	entry := entriesDir + "/" + id + "-9.9.9.conf"
	options := "$kernelopts"
	if r.release != "8" {
		if b, err := h.Files.ReadFile(cmdlineFile); err == nil {
			options = strings.TrimSuffix(string(b), "\n")
		} else {
			_, options, _ = strings.Cut(strings.TrimSuffix(readFile(t, h, "/proc/cmdline"), "\n"), " ")
		}
	}
	machine.WriteFile(t, h.Name, entry, "title new\nversion 9.9.9\nlinux /vmlinuz-9.9.9\ninitrd /initramfs-9.9.9.img\noptions "+options+"\ngrub_users $grub_users\n")
	if _, err := h.Files.Stat(ownHook); err == nil {
		script := strings.ReplaceAll(readFile(t, h, ownHook), entriesDir, h.Name+entriesDir)
		cmd := exec.Command("sh", "-c", script, "hook", "add", "9.9.9")
		cmd.Env = append(os.Environ(), "KERNEL_INSTALL_MACHINE_ID="+id)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	} else if _, err := h.Files.Stat("/usr/lib/kernel/install.d/92-tuned.install"); err == nil && !strings.Contains(options, "$tuned_params") {
		edit(t, h, entry, "options "+options, "options "+options+" $tuned_params")
	}
	return entry
}

// TestRHEL tunes, looks at every boot file, and takes all of it back byte for byte.
func TestRHEL(t *testing.T) {
	for name, r := range rhels {
		t.Run(name, func(t *testing.T) {
			h := r.machine(t)
			e := newBootEngine(t, h, filepath.Join(t.TempDir(), "state"))
			before := bootFiles(t, h)
			plain := map[string]string{}
			for _, p := range kernels(t, h) {
				plain[p] = commandLine(t, h, p)
			}
			if _, err := e.tune(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{grubenv: true}
			for _, f := range r.files {
				if f != "ENTRY" {
					want[f] = true
					continue
				}
				for p := range plain {
					want[p] = true
				}
			}
			changed := map[string]bool{}
			after := bootFiles(t, h)
			for p := range after {
				if after[p] != before[p] {
					changed[p] = true
				}
			}
			if d := cmp.Diff(want, changed); d != "" {
				t.Errorf("files changed (-want +got):\n%s", d)
			}
			for p, was := range plain {
				if got := commandLine(t, h, p); got != was+" "+isolatedArgs {
					t.Errorf("%s starts with %q", p, got)
				}
			}
			checkBeforeReboot(t, e)

			// After the reboot all of it is in force.
			machine.WriteFile(t, h.Name, "/proc/sys/kernel/random/boot_id", "boot-2\n")
			edit(t, h, "/proc/cmdline", "\n", " "+isolatedArgs+"\n")
			for _, c := range verify(t, e) {
				if strings.HasPrefix(c.Setting.Kind, "boot") && c.Verdict != plugin.OK {
					t.Errorf("after the reboot: %s: %s (%s)", c.Setting, c.Verdict, c.Why)
				}
			}
			if _, err := e.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before, bootFiles(t, h)); d != "" {
				t.Errorf("after undo:\n%s", d)
			}
		})
	}
}

func verify(t *testing.T, e bootEngine) []tune.Checked {
	t.Helper()
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Verify(t.Context(), e.profile, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.Values
}

// checkBeforeReboot tests that only the arguments wait for the reboot, and that a variable that this
// kernel lacks is unsupported.
func checkBeforeReboot(t *testing.T, e bootEngine) {
	t.Helper()
	for _, c := range verify(t, e) {
		want := plugin.OK
		switch c.Setting.String() {
		case "bootloader:grubenv":
			want = plugin.NeedsReboot
		case "sysctl:kernel.sched_min_granularity_ns", "sysctl:vm.compaction_proactiveness":
			if _, err := e.Host.Files.Stat("/proc/sys/" + strings.ReplaceAll(c.Setting.Name, ".", "/")); err != nil {
				want = plugin.Unsupported
			}
		}
		if c.Verdict != want {
			t.Errorf("before the reboot: %s: %s (%s), want %s", c.Setting, c.Verdict, c.Why, want)
		}
	}
}

// TestRHELChangedSince changes the boot files between tune and undo as the distribution's tools do:
// a new kernel, grubby, grub2-mkconfig --update-bls-cmdline. The new kernel has the arguments until
// undo, and what the tools wrote stays.
func TestRHELChangedSince(t *testing.T) {
	for name, r := range rhels {
		t.Run(name, func(t *testing.T) {
			h := r.machine(t)
			e := newBootEngine(t, h, filepath.Join(t.TempDir(), "state"))
			before := bootFiles(t, h)
			first := kernels(t, h)[0]
			plain := commandLine(t, h, first)
			if _, err := e.tune(t.Context()); err != nil {
				t.Fatal(err)
			}
			machine.WriteFile(t, h.Name, "/proc/sys/kernel/random/boot_id", "boot-2\n")
			edit(t, h, "/proc/cmdline", "\n", " "+isolatedArgs+"\n")
			entry := r.installKernel(t, h)
			if got, want := commandLine(t, h, entry), plain+" "+isolatedArgs; got != want {
				t.Errorf("new kernel: %q, want %q", got, want)
			}
			// grubby --update-kernel=PATH --args=bar=1
			text := readFile(t, h, first)
			options := text[strings.Index(text, "options "):]
			options = options[:strings.Index(options, "\n")]
			edit(t, h, first, options, options+" bar=1")
			for _, c := range verify(t, e) {
				if strings.HasPrefix(c.Setting.Kind, "boot") && c.Verdict != plugin.OK {
					t.Errorf("%s: %s (%s)", c.Setting, c.Verdict, c.Why)
				}
			}
			if _, err := e.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := commandLine(t, h, entry); got != plain {
				t.Errorf("new kernel after undo: %q, want %q", got, plain)
			}
			after := bootFiles(t, h)
			if want := before[first]; strings.Replace(after[first], " bar=1", "", 1) != want || after[first] == want {
				t.Errorf("%s after undo: %s\nwant with bar=1: %s", first, after[first], want)
			}
			for _, p := range []string{entry, first} {
				delete(after, p)
				delete(before, p)
			}
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("after undo:\n%s", d)
			}
		})
	}
}

// TestRHELMkconfig rewrites all entries as grub2-mkconfig does: RHEL 8 resets kernelopts, RHEL 9 and
// 10 rewrite every entry with --update-bls-cmdline. The arguments stay, and go with undo.
func TestRHELMkconfig(t *testing.T) {
	for name, r := range rhels {
		t.Run(name, func(t *testing.T) {
			h := r.machine(t)
			e := newBootEngine(t, h, filepath.Join(t.TempDir(), "state"))
			if _, err := e.tune(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The section must work in a shell, and grubby must not find a line of its own in it.
			out, err := exec.Command("sh", "-c", `. "$1"; printf '%s' "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"`, "sh", filepath.Join(h.Name, "/etc/default/grub")).Output()
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for line := range strings.Lines(readFile(t, h, "/etc/default/grub")) {
				if strings.HasPrefix(line, "GRUB_CMDLINE_LINUX") {
					lines++
				}
			}
			if lines != 1 {
				t.Errorf("grubby would replace %d lines of /etc/default/grub", lines)
			}
			args := "root=/dev/mapper/rhel-root ro " + string(out)
			if r.release == "8" {
				editenv(t, filepath.Join(h.Name, grubenv), func(env map[string]string) { env["kernelopts"] = args })
			} else {
				for _, p := range kernels(t, h) {
					text := readFile(t, h, p)
					options := text[strings.Index(text, "options "):]
					options = options[:strings.Index(options, "\n")]
					edit(t, h, p, options, "options "+args)
				}
			}
			for _, p := range kernels(t, h) {
				if got := commandLine(t, h, p); !strings.HasSuffix(got, " "+isolatedArgs) || strings.Count(got, "isolcpus") != 1 {
					t.Errorf("%s starts with %q", p, got)
				}
			}
			if _, err := e.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, p := range kernels(t, h) {
				if got := commandLine(t, h, p); strings.Contains(got, "isolcpus") {
					t.Errorf("after undo %s starts with %q", p, got)
				}
			}
		})
	}
}

// TestRHELTimes tests that /etc/default/grub does not become newer than /etc/kernel/cmdline, unless
// it was: kernel-install and grub2-mkconfig would overwrite the arguments of new kernels.
func TestRHELTimes(t *testing.T) {
	for _, stale := range []bool{false, true} {
		h := rhels["10"].machine(t)
		e := newBootEngine(t, h, filepath.Join(t.TempDir(), "state"))
		kernel, defaults := filepath.Join(h.Name, cmdlineFile), filepath.Join(h.Name, "/etc/default/grub")
		if stale {
			old, err := os.Stat(defaults)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(kernel, old.ModTime().Add(-1e9), old.ModTime().Add(-1e9)); err != nil {
				t.Fatal(err)
			}
		} else {
			machine.WriteFile(t, h.Name, cmdlineFile, readFile(t, h, cmdlineFile))
		}
		isStale := func() bool {
			k, err := os.Stat(kernel)
			d, err2 := os.Stat(defaults)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			return k.ModTime().Before(d.ModTime())
		}
		if _, err := e.tune(t.Context()); err != nil || isStale() != stale {
			t.Errorf("stale %v before, %v after tune, %v", stale, isStale(), err)
		}
		if _, err := e.Undo(t.Context()); err != nil || isStale() != stale {
			t.Errorf("stale %v before, %v after undo, %v", stale, isStale(), err)
		}
	}
}

// TestRHELNoRoom tests that arguments that do not fit in the environment block are refused before
// anything is written.
func TestRHELNoRoom(t *testing.T) {
	h := rhels["8"].machine(t)
	pl, _ := plugin.Find(All, "bootloader")
	fits := 1024 - len(strings.TrimRight(readFile(t, h, grubenv), "#"))
	for _, c := range []struct {
		bytes   int
		verdict plugin.Verdict
	}{{fits, ""}, {fits + 1, plugin.Unsupported}} {
		items, err := testkitplugin.TryPlan(pl, h, Kinds(h), "cmdline="+strings.Repeat("a", c.bytes))
		if err != nil {
			t.Fatal(err)
		}
		if last := items[len(items)-1]; last.Verdict != c.verdict {
			t.Errorf("%d bytes: %s %s", c.bytes, last.Verdict, last.Why)
		}
		if c.verdict == "" {
			if err := Kinds(h).Write(t.Context(), setting.Setting{Kind: "bootloader", Name: "grubenv"}, setting.Text(strings.Repeat("a", c.bytes))); err != nil {
				t.Error(err)
			}
		}
	}
}

// killPoint is a variable of the environment: the job, the machine, the state directory, the point.
const killPoint = "FETTLE_TEST_RHEL_KILL"

// TestRHELKilled kills fettle (kill -9) before each write to the machine and at each point of the
// engine, while it tunes and while it undoes. Undo then gives back every byte.
func TestRHELKilled(t *testing.T) {
	if job := os.Getenv(killPoint); job != "" {
		killed(t, job)
		return
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, name := range []string{"8 without TuneD", "9", "9 without /etc/kernel/cmdline"} {
		for _, job := range []string{"tune", "undo"} {
			t.Run(name+" "+job, func(t *testing.T) {
				points := 0
				for n := 1; ; n += step {
					h := rhels[name].machine(t)
					before := bootFiles(t, h)
					state := filepath.Join(t.TempDir(), "state")
					e := newBootEngine(t, h, state)
					if job == "undo" {
						if _, err := e.tune(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					cmd := exec.Command(os.Args[0], "-test.run=^TestRHELKilled$", "-test.count=1")
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%s\n%d", killPoint, job, h.Name, state, n))
					out, err := cmd.CombinedOutput()
					status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
					if err != nil && !status.Signaled() {
						t.Fatalf("%v: %s", err, out)
					}
					if _, err := e.Undo(t.Context()); err != nil && !errors.Is(err, tune.ErrNothing) {
						t.Fatalf("point %d: %v", n, err)
					}
					if d := cmp.Diff(before, bootFiles(t, h)); d != "" {
						t.Fatalf("killed at point %d:\n%s", n, d)
					}
					if !status.Signaled() {
						break
					}
					points++
				}
				if points*step < 15 {
					t.Errorf("only %d points", points)
				}
			})
		}
	}
}

func killed(t *testing.T, job string) {
	f := strings.Split(job, "\n")
	n, err := strconv.Atoi(f[3])
	if err != nil {
		t.Fatal(err)
	}
	point := func() {
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	h := host.Mounted(f[1])
	e := newBootEngine(t, h, f[2])
	h.Exec = killExec{grubEditenv(t, h), point}
	h.Files = killFiles{h.Files, point}
	e.At = func(string) { point() }
	if f[0] == "tune" {
		_, err = e.tune(t.Context())
	} else {
		_, err = e.Undo(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killExec reaches a point before and after each program.
type killExec struct {
	host.Exec
	point func()
}

func (k killExec) Run(ctx context.Context, c host.Command) (host.Result, error) {
	k.point()
	defer k.point()
	return k.Exec.Run(ctx, c)
}

// killFiles reaches a point before and after each write.
type killFiles struct {
	host.Files
	point func()
}

func (k killFiles) Replace(p string, data []byte, attr host.Attr) error {
	k.point()
	defer k.point()
	return k.Files.Replace(p, data, attr)
}

func (k killFiles) Remove(p string) error {
	k.point()
	defer k.point()
	return k.Files.Remove(p)
}

func (k killFiles) Store(p string, data []byte) error {
	k.point()
	defer k.point()
	return k.Files.Store(p, data)
}
