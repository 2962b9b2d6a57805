package disk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestArgs(t *testing.T) {
	has := func(j Job, want ...string) {
		t.Helper()
		got := j.Args()
		for _, w := range want {
			no := strings.HasPrefix(w, "!")
			if slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, strings.TrimPrefix(w, "!")) }) == no {
				t.Errorf("%+v: %v, want %s", j, got, w)
			}
		}
	}
	has(Job{File: "/proc/1/fd/3", SizeBytes: 1 << 30, RW: "read", BlockBytes: 1 << 20, Engine: "io_uring", Depth: 8, Direct: true, Runtime: 950 * time.Millisecond},
		"--filename=/proc/1/fd/3", "--allow_file_create=0", "--thread", "--rw=read", "--bs=1048576", "--iodepth=8", "--ioengine=io_uring", "--direct=1", "--time_based", "--runtime=950ms",
		"!--status-interval", "!--fdatasync", "!--end_fsync", "!--pre_read", "!--rwmixread")
	has(Job{RW: "randrw", ReadPercent: 80, EverySecond: true, Fdatasync: true, EndFsync: true, Warm: true}, "--rwmixread=80", "--status-interval=1", "--fdatasync=1", "--end_fsync=1", "--pre_read=1", "--invalidate=0", "--iodepth=1", "--direct=0", "!--runtime", "!--time_based")
}

// printed is shortened output of fio 3.33, with notes before and after the JSON.
func printed(t testing.TB, name string) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRead(t *testing.T) {
	var all []Figures
	// One byte at a time: a document ends where it ends, not where a read does.
	if err := Read(iotest.OneByteReader(bytes.NewReader(printed(t, "etcd.txt"))), func(f Figures) { all = append(all, f) }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d documents", len(all))
	}
	want := Figures{
		Version: "fio-3.33",
		Write:   Side{Bytes: 5992000, IOs: 749, BytesPS: 5986013, IOPS: 748.251748, RuntimeS: 1.001, Latency: Latency{749, 110.926815754e-6, 64.256e-6, 432.128e-6, 19791.872e-6}},
		// total_ios of sync is 0 in what fio printed.
		Sync:    Latency{749, 1217.83164486e-6, 798.72e-6, 4554.752e-6, 10027.008e-6},
		UserCPU: 0.012, SystemCPU: 0.034,
	}
	about := cmp.Comparer(func(a, b float64) bool { return a == b || fioAbs(a-b) < 1e-9*fioAbs(a) })
	if d := cmp.Diff(want, all[1], about); d != "" {
		t.Error(d)
	}
	if all[0].Write.IOs >= all[1].Write.IOs {
		t.Errorf("not cumulative: %v", all)
	}
}

// TestFieldsOfFio tests fio's misleading names: bw_agg is a percentage, bw is in KiB/s, job_runtime
// is the sum of all jobs, and runtime the elapsed time (fio 3.33 and 3.39).
func TestFieldsOfFio(t *testing.T) {
	const text = `{"fio version": "fio-3.39", "jobs": [{"jobname": "fettle", "error": 0, "job_runtime": 4004, "elapsed": 2, "usr_cpu": 1.5, "sys_cpu": 2.5,
		"read": {"io_bytes": 104857600, "io_kbytes": 102400, "bw_bytes": 104752847, "bw": 102297, "bw_agg": 100.0, "bw_mean": 101000.5, "iops": 99.9, "runtime": 1001, "total_ios": 100,
			"lat_ns": {"N": 100, "mean": 2000000}, "clat_ns": {"N": 100, "mean": 1900000, "percentile": {"50.000000": 1800000, "99.000000": 5000000, "99.900000": 6000000}}}}]}`
	var got Figures
	if err := Read(strings.NewReader(text), func(f Figures) { got = f }); err != nil {
		t.Fatal(err)
	}
	want := Side{Bytes: 104857600, IOs: 100, BytesPS: 104752847, IOPS: 99.9, RuntimeS: 1.001, Latency: Latency{N: 100, Mean: 2e-3, P50: 1.8e-3, P99: 5e-3, P999: 6e-3}}
	if d := cmp.Diff(want, got.Read, cmp.Comparer(func(a, b float64) bool { return fioAbs(a-b) <= 1e-9*fioAbs(a) })); d != "" {
		t.Error(d)
	}
	// The rate is the bytes over the time by the clock.
	if r := got.Read; fioAbs(r.BytesPS*r.RuntimeS/float64(r.Bytes)-1) > 1e-3 {
		t.Errorf("%+v", r)
	}
}

func fioAbs(x float64) float64 { return max(x, -x) }

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"fio: nothing to do\n":               "",
		"{":                                  "invalid output of fio",
		"note\n{}":                           "0 jobs",
		`{"jobs":[{},{}]}`:                   "2 jobs",
		`{"jobs":[{"error":28}]}`:            "error 28",
		`{"jobs":[{"read":{"iops":-1}}]}`:    "figure -1",
		`{"jobs":[{"read":{"iops":"many"}}]`: "invalid output of fio",
		`{"jobs":[{"sync":{"lat_ns":{"N":1,"mean":-5}}}]}`: "a negative time",
		`{"jobs":[{}]} trailing`:                           "",
		`{"a":"` + strings.Repeat("x", largest) + `"}`:     "output larger than 4 MiB",
	} {
		err := Read(strings.NewReader(text), func(Figures) {})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(printed(f, "etcd.txt"))
	f.Add([]byte(`note {"jobs":[{}]}` + "\n" + `{"jobs":[{"read":{"clat_ns":{"percentile":{"99.000000":1e308}}}}]}{"jobs":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		err := Read(bytes.NewReader(text), func(f Figures) {
			n++
			for _, s := range []Side{f.Read, f.Write} {
				if s.Bytes < 0 || s.IOPS < 0 || s.Latency.P99 < 0 {
					t.Errorf("%+v", s)
				}
			}
		})
		// How it is cut into pieces does not matter.
		m := 0
		again := Read(iotest.HalfReader(io.MultiReader(bytes.NewReader(text))), func(Figures) { m++ })
		if n != m || (err == nil) != (again == nil) {
			t.Errorf("%d documents and %v, then %d and %v", n, err, m, again)
		}
	})
}

func TestInstall(t *testing.T) {
	for _, c := range []struct{ ids, want string }{
		{"debian", "apt-get install fio"}, {"rocky rhel centos fedora", "dnf install fio"}, {"rhel fedora", "dnf install fio"}, {"sles suse", "zypper install fio"}, {"nixos", ""},
	} {
		if got := Install(strings.Fields(c.ids)...); got != c.want {
			t.Errorf("%s: %q, want %q", c.ids, got, c.want)
		}
	}
}

// TestHangs tests that a hanging fio is killed with all its processes at the time limit of its job.
func TestHangs(t *testing.T) {
	defer func(d time.Duration) { allowance = d }(allowance)
	allowance = 300 * time.Millisecond
	dir := t.TempDir()
	program := filepath.Join(dir, "fio")
	text := "#!/bin/sh\n[ \"$1\" = --version ] && { echo fio-3.33; exit; }\nsleep 600 &\necho $! >" + dir + "/child.new; mv " + dir + "/child.new " + dir + "/child\nwait\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := findFio(t.Context(), host.Live(), program)
	if err != nil {
		t.Fatal(err)
	}
	for started := false; !started; { // on a busy machine a shell may take longer than that
		_, err = e.Run(t.Context(), Job{File: "/dev/null", Runtime: 50 * time.Millisecond, BlockBytes: 4096}, nil)
		if !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "a job of 50ms") {
			t.Fatal(err)
		}
		_, err := os.Stat(dir + "/child")
		started = err == nil
		allowance *= 2
	}
	pid, err := os.ReadFile(dir + "/child")
	if err != nil {
		t.Fatal(err)
	}
	if !root.Eventually(time.Minute, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}) {
		t.Error("what it has started goes on")
	}
}

// TestBound tests that a job that reads or writes a file once gets enough time for a very slow
// disk.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		job         Job
		least, most time.Duration
	}{
		{Job{Runtime: time.Second, SizeBytes: 1 << 30, BlockBytes: 4096}, 2 * time.Minute, 5 * time.Minute},
		{Job{Runtime: 10 * time.Minute, SizeBytes: 1 << 30, BlockBytes: 4096}, 12 * time.Minute, 25 * time.Minute},
		{Job{SizeBytes: 1 << 30, BlockBytes: 1 << 20}, 17 * time.Minute, 30 * time.Minute},
		{Job{SizeBytes: 1 << 30, BlockBytes: 4096}, 3 * time.Hour, 5 * time.Hour}, // random, at 20 requests a second
		{Job{SizeBytes: 64 << 30, BlockBytes: 4096}, 200 * time.Hour, 300 * time.Hour},
	} {
		if b := c.job.bound(); b < c.least || b > c.most {
			t.Errorf("%+v: %v", c.job, b)
		}
	}
}
