package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a third of the time of these tests would be garbage collection
	// Not inside a root, where PostgreSQL needs the memory file system for itself.
	if dir := machine.Memory(); dir != "" && os.Getenv("TMPDIR") == "" && os.Getenv("FETTLE_TEST_INSIDE") == "" {
		if err := os.Setenv("TMPDIR", dir); err != nil { // hundreds of machines, each of hundreds of files
			panic(err)
		}
	}
	testscript.Main(m, map[string]func(){
		"fettle": func() {
			becomeUser(os.Getenv("FETTLE_TEST_UID"))
			machine := os.Getenv("FETTLE_TEST_MACHINE")
			sys := standIn(machine)
			sys.crashPoint = killAt(os.Getenv("FETTLE_TEST_KILL_AT"))
			sys.watchdogEnv = append(sys.watchdogEnv, "FETTLE_TEST_KILL_AT=") // only the program itself is killed
			before := choices(machine)
			code := sys.main("test", os.Args[1:], os.Stdout, os.Stderr)
			if err := choose(before); err != nil {
				panic(err)
			}
			os.Exit(code)
		},
	})
}

// choices returns the files of a fixture that list what can be chosen, "[none] mq-deadline", with
// their text.
func choices(machine string) map[string]string {
	all := map[string]string{}
	if machine == "" {
		return all
	}
	for _, pattern := range []string{"sys/block/*/queue/scheduler", "sys/kernel/mm/transparent_hugepage/*"} {
		files, _ := filepath.Glob(filepath.Join(machine, pattern))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "[") {
				all[file] = string(text)
			}
		}
	}
	return all
}

// choose gives these files the text that the kernel would have: the list as before, with the word
// that was written in brackets.
func choose(before map[string]string) error {
	for file, list := range before {
		text, err := os.ReadFile(file)
		word := strings.TrimSpace(string(text))
		words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(list))
		i := slices.Index(words, word)
		if err != nil || i < 0 {
			continue
		}
		words[i] = "[" + word + "]"
		if err := os.WriteFile(file, []byte(strings.Join(words, " ")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// becomeUser gives root's rights up for those of a user.
func becomeUser(id string) {
	uid, err := strconv.Atoi(id)
	if err != nil || uid == os.Getuid() { // started by a process that did so
		return
	}
	// The user must be able to start the program again, as a watchdog.
	if self, err := os.Executable(); err == nil {
		if dir := filepath.Dir(filepath.Dir(self)); strings.HasPrefix(filepath.Base(dir), "testscript-main") {
			_ = os.Chmod(dir, 0o711)
		}
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
		panic(err)
	}
}

// standIn returns a system whose live machine is a directory, a fixture that can be tuned, or
// this one if dir is empty.
func standIn(dir string) system {
	sys := thisSystem()
	if dir == "" {
		return sys
	}
	sys.live = func() *host.Host {
		h := host.Mounted(dir)
		h.SpaceReader = spaceOf(filepath.Join(filepath.Dir(dir), "space"))
		if now, err := time.Parse(time.RFC3339, os.Getenv("FETTLE_TEST_NOW")); err == nil {
			h.Clock = clockAt{h.Clock, now}
		}
		return h
	}
	caller := host.Caller{Name: "root"} // the output must not depend on who runs the tests
	if text := os.Getenv("FETTLE_TEST_CALLER"); text != "" {
		if err := json.Unmarshal([]byte(text), &caller); err != nil {
			panic(err)
		}
	}
	sys.caller = func() host.Caller { return caller }
	sys.stateDir = filepath.Join(dir, "var/lib/fettle")
	sys.watchdogEnv = []string{"FETTLE_TEST_MACHINE=" + dir}
	sys.settle, sys.shortest = 0, time.Millisecond
	return sys
}

// clockAt is a clock that stands still.
type clockAt struct {
	host.Clock
	now time.Time
}

func (c clockAt) Now() time.Time { return c.now }

// spaceOf is a file with the size of the stand-in's disk and what is free on it, in
// bytes: how full the disks of the machine that tests are is no part of the story.
// Without it a third of 40 GiB is full.
type spaceOf string

// Space implements host.SpaceReader.
func (name spaceOf) Space(string) (size, free uint64, err error) {
	b, err := os.ReadFile(string(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 42949672960, 28633115306, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(b), &size, &free)
	}
	return size, free, err
}

// unpack writes the archive of a machine into a directory.
func unpack(t testing.TB, archive, dir string) {
	t.Helper()
	h, err := host.OpenArchive(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // an archive's first entry may be a file
		t.Fatal(err)
	}
	var walk func(p string)
	walk = func(p string) {
		entries, err := h.Files.ReadDir(p)
		if err != nil {
			return
		}
		for _, e := range entries {
			q := path.Join(p, e.Name())
			out := filepath.Join(dir, q)
			switch {
			case e.IsDir():
				if err := os.MkdirAll(out, 0o755); err != nil {
					t.Fatal(err)
				}
				walk(q)
			case e.Type()&fs.ModeSymlink != 0:
				to, err := h.Files.Readlink(q)
				if err == nil {
					err = os.Symlink(to, out)
				}
				if err != nil {
					t.Fatal(err)
				}
			default:
				if text, err := h.Files.ReadFile(q); err == nil {
					if err := os.WriteFile(out, text, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	walk("/")
}

// withoutTuneD takes the fixture's TuneD away: another tuner is tuner.txtar's
// story.
func withoutTuneD(machine string) error {
	gone := []string{filepath.Join(machine, "etc/systemd/system/multi-user.target.wants/tuned.service"), filepath.Join(machine, "etc/tuned/active_profile"), filepath.Join(machine, "etc/tuned/profile_mode")}
	comms, err := filepath.Glob(filepath.Join(machine, "proc/[0-9]*/comm"))
	if err != nil {
		return err
	}
	for _, c := range comms {
		if name, err := os.ReadFile(c); err == nil && string(name) == "tuned\n" {
			gone = append(gone, filepath.Dir(c))
		}
	}
	for _, p := range gone {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}

// exits runs a program and wants an exit code of it: exits CODE PROGRAM ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// repeat appends a file to another one many times: repeat COUNT FILE TO.
func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat COUNT FILE TO")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	to, err := os.OpenFile(ts.MkAbs(args[2]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = to.WriteString(strings.Repeat(ts.ReadFile(args[1]), n))
	ts.Check(errors.Join(err, to.Close()))
}

// become makes $MACHINE another one of testdata/hosts, as far as its files are
// recorded: become NAME.
func become(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: become NAME")
	}
	machine := ts.Getenv("MACHINE")
	ts.Check(os.RemoveAll(machine))
	archive := filepath.Join(ts.Getenv("HOSTS"), args[0]+".txt")
	h, err := host.OpenArchive(archive)
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(archive)) {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " --"))
		if len(words) < 3 || words[0] != "--" {
			continue
		}
		name := words[len(words)-1]
		at := filepath.Join(machine, name)
		if words[1] == "dir" || words[1] == "file" {
			ts.Check(os.MkdirAll(filepath.Dir(at), 0o755))
		}
		switch text, err := h.Files.ReadFile(name); {
		case words[1] == "dir":
			ts.Check(os.MkdirAll(at, 0o755))
		case words[1] == "file" && err == nil:
			ts.Check(os.WriteFile(at, text, 0o644))
		case words[1] == "link" && len(words) == 5:
			at := filepath.Join(machine, words[2])
			ts.Check(errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(words[4], at)))
		}
	}
	ts.Check(withoutTuneD(machine))
}

// killAt ends this process with SIGKILL at the n-th crash point: what a power
// cut or the kernel's out-of-memory killer does, nothing that could be caught.
func killAt(n string) func(string) {
	limit, err := strconv.Atoi(n)
	if err != nil {
		return nil
	}
	passed := 0
	return func(string) {
		if passed++; passed == limit {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// Each script of testdata/script is a session on a machine of its own: a copy of
// testdata/hosts/kvm-guest.txt that can be tuned, in $MACHINE.
func TestScripts(t *testing.T) {
	t.Parallel()
	archive, err := filepath.Abs("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script", WorkdirRoot: machine.Dir(t), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			machine := filepath.Join(env.WorkDir, "machine")
			unpack(t, archive, machine)
			if err := withoutTuneD(machine); err != nil {
				return err
			}
			// Other users are let in: some scripts are of one.
			for _, dir := range []string{env.WorkDir, filepath.Dir(env.WorkDir)} {
				if err := os.Chmod(dir, 0o755); err != nil {
					return err
				}
			}
			env.Setenv("MACHINE", machine)
			env.Setenv("FETTLE_TEST_MACHINE", machine)
			env.Setenv("HOSTS", filepath.Dir(archive))
			env.Setenv("EVIL", "a\nb\x1b[2J\x07") // what may stand in an argument
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"valid": valid, "exits": exits, "repeat": repeat, "become": become},
	})
}
