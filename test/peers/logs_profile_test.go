package peers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/testkit/accesslog"
)

// TestProfileLogs writes to cmd/fettle/default.pgo where the time goes when the logs of the
// benchmarks are read, also compressed ones. The compiler reads that when it builds fettle
// (go.dev/doc/pgo): code that runs often is inlined more.
func TestProfileLogs(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH_PROFILE") != "1" {
		t.Skip("measures; make profile runs it")
	}
	dir := t.TempDir()
	puppet := filepath.Join(dir, "access.log")
	lines, _ := writeLog(t, puppet)
	type log struct {
		path   string
		format string // "" to detect it
		lines  int
		by     [][]string // nil for the usual groupings
	}
	all := []log{{puppet, "", lines, [][]string{{"environment"}, {"indirector"}, {"resource"}, {"requestor"}}}}
	for _, f := range accesslog.Formats {
		one := log{path: filepath.Join(dir, f.Name+".log"), lines: formatLines}
		writeFormat(t, f, one.path)
		if formatArguments[f.Name] != nil {
			one.format = combinedWithDuration
		}
		for _, c := range [][]string{{"gzip", "-k", one.path}, {"zstd", "-q", one.path}} {
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", c, err, out)
			}
		}
		all = append(all, one)
		for _, extension := range []string{".gz", ".zst"} {
			one.path = filepath.Join(dir, f.Name+".log"+extension)
			all = append(all, one)
		}
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	for _, percentiles := range []bool{true, false, true} {
		for _, l := range all {
			profiled(t, l.path, l.format, l.lines, l.by, percentiles)
		}
	}
	pprof.StopCPUProfile()
	if err := os.WriteFile("../../cmd/fettle/default.pgo", profile.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// profiled reads a log with a format, or the detected one if it is empty. by are the groupings, nil
// for the usual ones.
func profiled(t *testing.T, path, format string, lines int, by [][]string, percentiles bool) {
	t.Helper()
	files, err := source.Find(host.Live(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(files)
	head, err := set.Head(0, logformat.HeadSize)
	if err != nil {
		t.Fatal(err)
	}
	f, err := logformat.Detect(head, nil)
	if format != "" {
		f, err = logformat.Parse(format)
	}
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		if by, err = logs.Usual(set, []*logformat.Format{f}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := logs.Read(t.Context(), set, []*logformat.Format{f}, logs.Options{Percentiles: percentiles, Groups: 1e6, Workers: 1, Slowest: 10, By: by})
	if err != nil || int(res.Requests) != lines {
		t.Fatalf("%s: %d requests of %d, %v", path, res.Requests, lines, err)
	}
}
