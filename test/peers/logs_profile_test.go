package peers

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
)

// TestProfileLogs writes to cmd/fettle/default.pgo where the time goes when the log of
// TestBenchLogs is read with percentiles and without: the compiler reads that when it
// builds fettle (go.dev/doc/pgo), and its calls are fewer where a request has many.
func TestProfileLogs(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH_PROFILE") != "1" {
		t.Skip("measures; make profile runs it")
	}
	log := filepath.Join(t.TempDir(), "access.log")
	lines, _ := writeLog(t, log)
	read := func(percentiles bool) {
		files, err := source.Find(host.Live(), []string{log})
		if err != nil {
			t.Fatal(err)
		}
		set := source.NewSet(files)
		head, err := set.Head(0, 1<<18)
		if err != nil {
			t.Fatal(err)
		}
		f, err := logformat.Detect(head, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := logs.Read(t.Context(), set, []*logformat.Format{f}, logs.Options{Percentiles: percentiles, Groups: 1e6, Workers: 1, Slowest: 10,
			By: [][]string{{"environment"}, {"indirector"}, {"resource"}, {"requestor"}}})
		if err != nil || int(res.Requests) != lines {
			t.Fatalf("%d requests of %d, %v", res.Requests, lines, err)
		}
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		read(false)
		read(true)
	}
	pprof.StopCPUProfile()
	if err := os.WriteFile("../../cmd/fettle/default.pgo", profile.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
