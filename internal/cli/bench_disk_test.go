package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/disk"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// benchDir is a directory to be measured, and the command line of fettle for it.
func benchDir(t *testing.T, args ...string) (dir string, cmd *exec.Cmd) {
	t.Helper()
	dir = t.TempDir()
	args = append([]string{"--state-dir", filepath.Join(t.TempDir(), "state"), "bench", "disk", "--fio", testkitroot.ServerProgram(t, "fio"), dir}, args...)
	return dir, fettleCommand(t, args...)
}

// working says whether a fio works on files of a process.
func working(pid int) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, fmt.Appendf(nil, "--filename=/proc/%d/fd/", pid)) {
			return true
		}
	}
	return false
}

// Whatever ends fettle, nothing is left: no file, no fio, and no record but one that is told.
func TestBenchDiskEnds(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		says   string
	}{{syscall.SIGINT, 130, "interrupted: the files are removed"}, {syscall.SIGKILL, -1, ""}} {
		dir, cmd := benchDir(t)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		await(t, "fio", func() bool { return working(cmd.Process.Pid) })
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		<-ended
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: exit code %d, want %d; %s", c.signal, code, c.code, said.String())
		}
		if !strings.Contains(said.String(), "this takes about 2 min, until ") {
			t.Errorf("%v: the time was not said: %s", c.signal, said.String())
		}
		await(t, "the end of fio", func() bool { return !working(cmd.Process.Pid) })
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: left are %v, %v", c.signal, left, err)
		}
		if runs, err := (evidence.Store{Dir: filepath.Join(cmd.Args[2], "runs")}).All(); err != nil || len(runs) > 0 && !strings.Contains(said.String(), "the measurements so far are stored as run "+runs[0].ID) {
			t.Errorf("%v: recorded are %v, %v", c.signal, runs, err)
		}
	}
}

func TestBenchDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"":                                {2, "no directory given; name the directories to measure"},
		"/nonexistent":                    {2, "no such file or directory"},
		file:                              {2, "is not a directory"},
		dir + " " + dir + "/.":            {2, "is given twice"},
		"--full --classic " + dir:         {2, "use only one of"},
		"--role mysql " + dir:             {2, "want pulp, postgresql or etcd"},
		"--platform rhv":                  {2, "want satellite"},
		"--platform satellite " + dir:     {2, "--platform chooses the directories itself; use --platform or DIR, not both"},
		"--budget 5m " + dir:              {2, "--budget needs --sustained"},
		"--sustained --budget 1s " + dir:  {2, `--budget "1s": want 1m to 24h`},
		"--size lots " + dir:              {2, "--size"},
		"--size 1MiB " + dir:              {4, "--size 1 MiB is too small, minimum 64 MiB"},
		"--size 8MiB " + dir:              {4, "want 64MiB to "},
		"--size 1000000TiB " + dir:        {4, "exceed a quarter of the free space"},
		"--size= " + dir:                  {2, `--size ""`},
		"--fio /bin/true " + dir:          {2, "/bin/true is not fio"},
		"--fio /nonexistent/fio " + dir:   {2, "--fio: "},
		"--root /tmp " + dir:              {2, "this command acts on the live machine; leave out --root"},
		"--dry-run --size 128MiB " + dir:  {0, ""},
		"--dry-run --sustained " + dir:    {0, ""},
		"--dry-run --full " + dir:         {0, ""},
		"--dry-run --size 2xRAM /dev/shm": {4, "exceed a quarter of the free space"},
	} {
		var out, said bytes.Buffer
		line := append([]string{"--state-dir", filepath.Join(dir, "state"), "bench", "disk"}, strings.Fields(args)...)
		if code := Main("test", line, &out, &said); code != want.code || !strings.Contains(said.String(), want.says) {
			t.Errorf("%s: exit code %d, want %d; said %q, want %q", args, code, want.code, said.String(), want.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 2 { // the file, and the place of the journal
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestBenchDiskPlanJSON: a plan is a document too.
func TestBenchDiskPlanJSON(t *testing.T) {
	out, said, code := mainWith(t, t.TempDir(), "bench", "disk", "--dry-run", "--output", "json", t.TempDir())
	var plan disk.DryRun
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil || len(plan.Plan.Cells) == 0 || len(plan.Places) != 1 || plan.TakesS < 60 {
		t.Errorf("exit code %d, %v, %d cells, %d directories, %.0f s; said %s", code, err, len(plan.Plan.Cells), len(plan.Places), plan.TakesS, said)
	}
}

// TestBenchDiskUnwritable: a directory in which nothing can be written is a wrong word of
// the call, and a disk without room a guard rail, for bench and prove alike.
func TestBenchDiskUnwritable(t *testing.T) {
	if os.Getuid() != 0 {
		testkitroot.Missing(t, "root's rights: file systems are mounted, and given up for another user")
	}
	fettle, dir := filepath.Join(binDir(t), "fettle"), t.TempDir()
	at := filepath.Join(dir, "at")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	fio := fakeFio(t, 0)
	for name, x := range map[string]struct {
		mount string
		user  string
		code  int
		says  string
	}{
		"read-only":   {"mount -t tmpfs -o ro none " + at, "", 2, "read-only file system"},
		"not allowed": {"true", "65534", 2, "not writable: cannot create a file in " + at + ": permission denied"},
		"full":        {"mount -t tmpfs -o size=300m none " + at, "", 4, "a quarter of the free space is 75 MiB"},
	} {
		for _, verb := range []string{"bench disk --fio " + fio + " " + at, "prove --change-cmd true --undo-cmd true --force --fio " + fio + " --bench disk:randread@" + at} {
			state := t.TempDir() // below /tmp
			if err := os.Chmod(state, 0o777); err != nil {
				t.Fatal(err)
			}
			if x.user != "" && strings.HasPrefix(verb, "prove") {
				continue // it wants root
			}
			cmd := exec.Command("unshare", "--mount", "sh", "-c", x.mount+" && exec "+fettle+" --state-dir "+state+"/state "+verb)
			cmd.Env = append(os.Environ(), "FETTLE_TEST_UID="+x.user)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != x.code || !strings.Contains(string(out), x.says) {
				t.Errorf("%s: %s: exit code %d, want %d: %s", name, verb, code, x.code, out)
			}
			if strings.Contains(string(out), "this takes") {
				t.Errorf("%s: %s: the time is announced before the refusal: %s", name, verb, out)
			}
		}
	}
}

// noPrograms is a machine on which nothing is installed.
type noPrograms struct{ host.Exec }

func (noPrograms) LookPath(name string) (string, error) {
	return "", &os.PathError{Op: "look up", Path: name, Err: os.ErrNotExist}
}

func TestBenchDiskWithoutFIO(t *testing.T) {
	sys := thisSystem()
	sys.live = func() *host.Host { h := *host.Live(); h.Exec = noPrograms{h.Exec}; return &h }
	var said bytes.Buffer
	code := sys.main("test", []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "bench", "disk", t.TempDir()}, io.Discard, &said)
	if code != 1 || !strings.Contains(said.String(), "fio is not installed") || !strings.Contains(said.String(), "install") {
		t.Errorf("exit code %d, said %q", code, said.String())
	}
}

// Satellite's directories: each that exists, and each file system once.
func TestBenchDiskOfSatellite(t *testing.T) {
	if os.Geteuid() != 0 {
		testkitroot.Missing(t, "mounting needs root")
	}
	satellite := func(set string) string {
		t.Helper()
		c := exec.Command("sh", "-euc", "mount --make-rprivate / && mount -t tmpfs -o size=4g tmpfs /var/lib && "+set+`; exec "$0" --state-dir /var/lib/state bench disk --platform satellite --dry-run`, filepath.Join(binDir(t), "fettle"))
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		out, _ := c.CombinedOutput()
		return string(out)
	}
	for set, want := range map[string][]string{
		"true":                               {"no data directory of Satellite found on this machine"},
		"mkdir /var/lib/pulp /var/lib/pgsql": {"/var/lib/pgsql is on the same file system as /var/lib/pulp: measured once", "/var/lib/pulp: a file of 960 MiB, removed afterwards, judged as a directory of satellite"},
		"mkdir /var/lib/pulp /var/lib/pgsql /var/lib/candlepin && mount -t tmpfs -o size=4g tmpfs /var/lib/pgsql": {
			"/var/lib/candlepin is on the same file system as /var/lib/pulp", "/var/lib/pulp: a file of 960 MiB, removed afterwards, judged as a directory of pulp\n/var/lib/pgsql: a file of 960 MiB, removed afterwards, judged as a directory of postgresql\n"},
		"mkdir /var/lib/pulp && mount -t tmpfs -o ro tmpfs /var/lib/pulp": {"/var/lib/pulp: read-only file system"},
	} {
		out := satellite(set)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in:\n%s", set, w, out)
			}
		}
	}
}

// A whole run: its record, what is printed of it, and what fettle itself costs.
func TestBenchDisk(t *testing.T) {
	testkitroot.Nightly(t, "takes two minutes")
	dir, cmd := benchDir(t, "--output", "json", "--size", "128MiB")
	began := time.Now()
	out, err := cmd.Output()
	took := time.Since(began)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if took > 6*time.Minute {
		t.Errorf("two minutes were said, and it took %v", took)
	}
	if err := validate(out); err != nil {
		t.Error(err)
	}
	var r evidence.Run
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if err := validate(r.Body); err != nil || r.Kind != disk.Kind {
		t.Errorf("%s: %v", r.Kind, err)
	}
	series, err := evidence.SeriesOf(&r)
	if err != nil || len(series) != 21 {
		t.Errorf("%d series, %v", len(series), err)
	}
	for _, s := range series {
		if len(s.Samples) != 3 || !strings.HasSuffix(s.Name, "@"+dir) {
			t.Errorf("%+v", s)
		}
	}
	for _, args := range [][]string{{"runs", "list"}, {"runs", "show", r.ID}} {
		c := exec.Command(cmd.Path, append([]string{"--state-dir", cmd.Args[2]}, args...)...)
		if text, err := c.CombinedOutput(); err != nil || !bytes.Contains(text, []byte(dir)) || !bytes.Contains(text, []byte("stream")) {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
}
