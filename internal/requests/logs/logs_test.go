package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// writeLog writes a log with a number of requests by Puppet agents, and some lines that are not
// requests.
func writeLog(t *testing.T, path string, seed uint64, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	at := time.Date(2012, 3, 18, 4, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	for i := range n {
		at = at.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		indirector := []string{"file_metadata", "file_metadata", "file_metadata", "catalog", "report", "file_content"}[r.IntN(6)]
		key := fmt.Sprintf("modules/m%d/f%d", r.IntN(10), r.IntN(300))
		method := "GET"
		switch indirector {
		case "catalog":
			key = fmt.Sprintf("host%d", r.IntN(40))
		case "report":
			key, method = fmt.Sprintf("host%d", r.IntN(40)), "PUT"
		}
		status := 200
		if r.IntN(100) == 0 {
			status = 503
		}
		fmt.Fprintf(&b, "10.0.0.%d - - [%s] \"%s /env%d/%s/%s HTTP/1.1\" %d %d %d \"-\" \"-\"\n", r.IntN(40), at.Format("02/Jan/2006:15:04:05 -0700"), method, r.IntN(4), indirector, key, status, r.IntN(1000), int(math.Exp(r.NormFloat64()*2+9)))
		if i%500 == 250 {
			b.WriteString("what is no request\n")
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readLogs(t *testing.T, o Options, paths ...string) *Result {
	t.Helper()
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	var formats []*logformat.Format
	for i := range found {
		head, err := set.Head(i, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		f, err := logformat.Detect(head, nil)
		if several := (*logformat.AmbiguousError)(nil); errors.As(err, &several) { // one with %D
			f, err = logformat.Parse(several.Choices[0].Text)
		}
		if err != nil {
			t.Fatal(err)
		}
		formats = append(formats, f)
	}
	if o.Groups == 0 {
		o.Groups = 1e6
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	r, err := Read(context.Background(), set, formats, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// asJSON returns the whole report without the logs' paths.
func asJSON(t *testing.T, r *Result) string {
	t.Helper()
	report := r.Report("total", 0)
	report.Logs = nil
	for i := range report.Unread.Examples {
		report.Unread.Examples[i].Path = ""
	}
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var byAll = [][]string{{"environment"}, {"requestor"}, {"method", "indirector"}, {"resource"}}

// TestWorkersAndParts tests that the report is identical for any number of workers, and for any
// number of saved and merged parts.
func TestWorkersAndParts(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range 3 {
		paths = append(paths, filepath.Join(dir, fmt.Sprint("log", i)))
		writeLog(t, paths[i], uint64(i), 20_000)
	}
	o := Options{By: byAll, Percentiles: true, Slowest: 20}
	want := asJSON(t, readLogs(t, o, paths...))
	o.Workers = 4
	if diff := cmp.Diff(want, asJSON(t, readLogs(t, o, paths...))); diff != "" {
		t.Errorf("four workers (-one +four):\n%s", diff)
	}
	var merged *Result
	for _, p := range paths {
		var b bytes.Buffer
		if err := readLogs(t, o, p).Save(&b); err != nil {
			t.Fatal(err)
		}
		one, err := Load(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 10, b.Len() / 2, b.Len() - 1} {
			if _, err := Load(bytes.NewReader(b.Bytes()[:n])); err == nil {
				t.Errorf("%d of %d bytes are a part", n, b.Len())
			}
		}
		if merged == nil {
			merged = one
		} else if err := merged.Merge(one); err != nil {
			t.Fatal(err)
		}
		again, err := Load(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := merged.Merge(again); err == nil || !strings.Contains(err.Error(), "already merged") {
			t.Errorf("a part is merged twice: %v", err)
		}
	}
	if diff := cmp.Diff(want, asJSON(t, merged)); diff != "" {
		t.Errorf("merged parts (-at once +merged):\n%s", diff)
	}
	if err := merged.Merge(readLogs(t, Options{By: [][]string{{"path"}}, Percentiles: true}, paths[0])); err == nil || !strings.Contains(err.Error(), "grouped differently") {
		t.Errorf("parts that are grouped otherwise: %v", err)
	}
}

// TestExamplesOfUnreadLines tests that the examples are the first ones by path and line, although
// several workers read the logs in random order.
func TestExamplesOfUnreadLines(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	writeLog(t, first, 1, 5000)
	writeLog(t, second, 2, 5000)
	for _, paths := range [][]string{{first, second}, {second, first}} {
		examples := readLogs(t, Options{}, paths...).Unread.Examples
		if len(examples) != mostExamples {
			t.Fatalf("%d examples", len(examples))
		}
		for _, e := range examples {
			if e.Path != first {
				t.Errorf("read in the order %v: an example of %s, line %d", paths, e.Path, e.Line)
			}
		}
	}
}

// TestTimeline compares the requests in progress with a calculation in milliseconds.
func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	const length = 200_000 // ms
	busy := make([]float64, length/1000)
	var line, other timeline
	for i := range 3000 {
		at, took := r.Int64N(length/2), r.Int64N(1<<r.IntN(16))
		for ms := at; ms < at+took; ms++ {
			busy[ms/1000] += 0.001
		}
		if i%2 == 0 {
			line.add(at*1000, took*1000, false)
		} else {
			other.add(at*1000, took*1000, false)
		}
	}
	line.merge(&other)
	check := func(step time.Duration, moments iter.Seq[Moment]) {
		t.Helper()
		per := int(step / time.Second)
		seen := map[int]float64{}
		for m := range moments {
			seen[int(m.Start.Unix())/per] = m.Busy
		}
		for i := 0; i < len(busy); i += per {
			want := 0.0
			for _, b := range busy[i:min(i+per, len(busy))] {
				want += b / float64(per)
			}
			if math.Abs(seen[i/per]-want) > 1e-6 {
				t.Fatalf("over %v, second %d: %g at work, want %g", step, i, seen[i/per], want)
			}
		}
	}
	for _, least := range []time.Duration{0, 10 * time.Second, time.Minute} {
		check(line.moments(least))
	}
	for _, of := range [][2]int64{{0, length/1000 - 1}, {0, 60}, {0, 0}} { // nothing comes before the first
		want := 0.0
		for _, b := range busy[of[0] : of[1]+1] {
			want += b / float64(of[1]-of[0]+1)
		}
		if got := line.mean(of[0]*1e6, of[1]*1e6+999_999); math.Abs(got-want) > 1e-6 {
			t.Errorf("seconds %d to %d: %g at work on average, want %g", of[0], of[1], got, want)
		}
	}
}

// TestMeanIsBelowMost tests requests that last longer than their log: the time after the log is in
// no mean, so the mean never exceeds the maximum.
func TestMeanIsBelowMost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for name, took := range map[string]int{"quick": 1_000, "as long as the log": 60_000_000, "days": 4e11} {
		var b bytes.Buffer
		for i := range 60 {
			fmt.Fprintf(&b, "::1 - - [18/Mar/2012:04:00:%02d +0000] \"GET / HTTP/1.1\" 200 1 %d \"-\" \"-\"\n", i, took)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		busy := readLogs(t, Options{By: [][]string{{"path"}}}, path).Report("total", 0).Busy
		// The first is at work in all 60 seconds, the last in one of them.
		if want := 30.5; busy.Mean > busy.Most || took > 1_000 && (math.Abs(busy.Mean-want) > 1e-9 || busy.Most != 60) {
			t.Errorf("%s: %g at work on average, and at most %g", name, busy.Mean, busy.Most)
		}
		if m := busy.Minutes; len(m) != 1 || m[0].Requests != 60 || busy.MinuteS != 60 {
			t.Errorf("%s: %d minutes of %g s of a log of one, the first %+v", name, len(m), busy.MinuteS, m[0])
		}
	}
}

// TestTimelineBounded tests that a log with one line of each year stays within the memory limit.
func TestTimelineBounded(t *testing.T) {
	var line timeline
	for i := range int64(400_000) {
		line.add(i*7_919_000_000%(60*365*86400e6), 30*86400e6, false)
	}
	if n := len(line.chunks); n > mostChunks+2 {
		t.Errorf("%d chunks", n)
	}
}

// TestHostile tests that ten million paths and lines that are not requests stay within the memory
// limit.
func TestHostile(t *testing.T) {
	var b bytes.Buffer
	for i := range 30_000 {
		fmt.Fprintf(&b, "::1 - - [18/Mar/2012:04:00:00 +0000] \"GET /%d HTTP/1.1\" 200 1 5 \"-\" \"-\"\n", i)
	}
	b.WriteString(strings.Repeat("x", 10<<20) + "\n")
	b.Write([]byte{0, 1, 2, 255, '\n'})
	b.WriteString(`::1 - - [18/Mar/2012:04:00:00 +0000] "GET / HTTP/1.1 200 1 5 "-" "-` + "\n")
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := readLogs(t, Options{By: [][]string{{"path"}}, Groups: 1000, Percentiles: true}, path).Report("count", 5)
	if r.Requests != 30_000 || r.Unread.Lines != 3 || r.Unread.TooLong != 1 || r.By[0].Groups > 1000 || r.By[0].Folded.Count != uint64(30_000-r.By[0].Groups) || r.By[0].Missing == nil {
		t.Errorf("%d requests, unread %+v, %d groups and %+v beyond", r.Requests, r.Unread, r.By[0].Groups, r.By[0].Folded)
	}
	if e := r.Unread.Examples; len(e) != 2 || e[0].Line != 30_002 || e[1].Line != 30_003 {
		t.Errorf("examples %+v", r.Unread.Examples)
	}
}

// TestPartsOverBlocks tests a log with many lines that the kubelet has split: all are read,
// wherever a block ends and whichever worker reads it.
func TestPartsOverBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var b bytes.Buffer
	const n = 12000
	for i := range n {
		line := fmt.Sprintf("192.0.2.1 - - [20/Nov/2026:10:00:05 +0000] \"GET /%s HTTP/1.1\" 200 9 \"-\" \"A\"", strings.Repeat("x", r.IntN(90)))
		if i%2 == 0 {
			at := 1 + r.IntN(len(line)-1)
			fmt.Fprintf(&b, "2026-11-20T10:00:09.1Z stdout P %s\n", line[:at])
			line = line[at:]
		}
		fmt.Fprintf(&b, "2026-11-20T10:00:09.1Z stdout F %s\n", line)
	}
	log := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(log, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		r := readLogs(t, Options{Workers: workers, Groups: 1000}, log)
		if r.Requests != n || r.Others != n/2 || r.Unread.Lines != 0 {
			t.Errorf("%d workers: %d requests, %d parts, %d lines not read", workers, r.Requests, r.Others, r.Unread.Lines)
		}
	}
}
