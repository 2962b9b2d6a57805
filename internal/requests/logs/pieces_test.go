package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// openPieces opens logs with their detected formats.
func openPieces(t *testing.T, paths []string) (*source.Set, []*logformat.Format) {
	t.Helper()
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	var formats []*logformat.Format
	for i := range found {
		head, err := set.Head(i, logformat.HeadSize)
		if err != nil {
			t.Fatal(err)
		}
		formats = append(formats, detected(t, head))
	}
	return set, formats
}

// detected returns the format of a log, or nil if it has none.
func detected(t *testing.T, head []byte) *logformat.Format {
	t.Helper()
	f, err := logformat.Detect(head, nil)
	if several := (*logformat.AmbiguousError)(nil); errors.As(err, &several) {
		if f, err = logformat.Parse(several.Choices[0].Text); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// answers returns all outputs of a result: JSON, table, CSV and OpenMetrics.
func answers(t *testing.T, r *Result) string {
	t.Helper()
	report := r.Report("total", 0)
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.Write(append(text, '\n'))
	s := ui.NewScreen(&b, &b)
	s.Wide = true
	Print(s, report, Shown{Groups: true, Slowest: true})
	for _, write := range []func(io.Writer, *Report) error{CSV, OpenMetrics} {
		if err := write(&b, report); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// joined reads logs in n pieces that begin at random bytes, each with its own reader, saves and
// loads the results, and joins them.
func joined(t *testing.T, r *rand.Rand, n int, o Options, paths []string) (all *Result, at []int64) {
	t.Helper()
	ends := make([][]int64, len(paths))
	for i, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		for range n - 1 {
			ends[i] = append(ends[i], r.Int64N(st.Size()+1))
		}
		slices.Sort(ends[i])
		at = append(at, ends[i]...)
		ends[i] = append(append([]int64{0}, ends[i]...), st.Size())
	}
	for k := range n {
		set, formats := openPieces(t, paths)
		pieces := make([]source.Piece, len(paths))
		for i, f := range formats {
			pieces[i] = source.Piece{From: ends[i][k], To: ends[i][k+1]}
			if f.Joined() || f.PartDetector() != nil { // as shares.Plan does
				pieces[i] = source.Piece{}
				if k == n/2 {
					pieces[i] = source.Whole
				}
			}
		}
		set.Only(pieces)
		o.Workers = 1 + r.IntN(3)
		if slices.ContainsFunc(formats, (*logformat.Format).Joined) {
			o.Workers = 1
		}
		one, err := Read(t.Context(), set, formats, o)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := one.Save(&b); err != nil {
			t.Fatal(err)
		}
		if one, err = Load(&b); err != nil {
			t.Fatal(err)
		}
		if all == nil {
			all = one
		} else if err := all.Join(one); err != nil {
			t.Fatal(err)
		}
	}
	all.Complete()
	return all, at
}

// wantSame compares the answer of one process with those of 1 to 8 pieces.
func wantSame(t *testing.T, r *rand.Rand, o Options, paths ...string) {
	t.Helper()
	set, formats := openPieces(t, paths)
	if slices.Contains(formats, nil) {
		return // not a format that fettle detects
	}
	o.Groups, o.Workers, o.Percentiles = 1e6, 1, true
	if o.By == nil {
		var err error
		if o.By, err = Usual(set, formats); err != nil {
			t.Fatal(err)
		}
	}
	one, err := Read(t.Context(), set, formats, o)
	if err != nil {
		t.Fatal(err)
	}
	want := answers(t, one)
	for _, n := range root.Some([]int{8, 1, 2, 3, 4, 5, 6, 7}) {
		all, at := joined(t, r, n, o, paths)
		if diff := cmp.Diff(want, answers(t, all)); diff != "" {
			t.Errorf("%d pieces, at %v (-one process +joined):\n%s", n, at, diff)
		}
	}
}

// TestPieces tests that the answer does not depend on where a log is cut: for the fixtures of each
// format, repeated to several blocks.
func TestPieces(t *testing.T) {
	files, err := filepath.Glob("../../logformat/testdata/*/*.log")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	r := rand.New(rand.NewPCG(3, 9))
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), filepath.Base(file))
			if err := os.WriteFile(path, bytes.Repeat(text, 1+20_000/len(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			wantSame(t, r, Options{Slowest: 7}, path)
		})
	}
}

// TestPiecesOfOddLogs tests logs whose lines are not all requests: too long, with zero bytes, CRLF,
// empty, without a final line end. Requests are equally slow, in random order, of many years.
func TestPiecesOfOddLogs(t *testing.T) {
	for seed := range root.Sample(8) {
		r := rand.New(rand.NewPCG(uint64(seed), 10))
		var paths []string
		for i := range 1 + r.IntN(3) {
			path := filepath.Join(t.TempDir(), fmt.Sprintf("access.log.%d", i))
			if err := os.WriteFile(path, oddLog(r), 0o600); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		wantSame(t, r, Options{Slowest: 1 + r.IntN(20), By: [][]string{{"path"}, {"requestor", "status"}}}, paths...)
	}
}

// oddLog returns a log of some thousand lines. It begins with a few usual ones.
func oddLog(r *rand.Rand) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	gap := time.Duration(1) << (10 + r.IntN(28)) // up to minutes
	for i := range 1500 {
		at = at.Add(time.Duration(r.Int64N(int64(gap))) - gap/8)
		if at.Year() > 2100 || at.Year() < 2000 {
			at = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		}
		took := []int64{0, 30_000_000, 30_000_000, int64(r.ExpFloat64() * 1e5), 1 << r.IntN(32)}[r.IntN(5)]
		line := fmt.Sprintf("10.0.0.%d - - [%s] \"GET /p%d HTTP/1.1\" %d 5 \"-\" \"curl\" %d", r.IntN(50), at.Format("02/Jan/2006:15:04:05 -0700"), r.IntN(300), []int{200, 404, 503}[r.IntN(3)], took)
		switch k := r.IntN(600); {
		case i < 200 || k > 6:
		case k == 0:
			line = strings.Repeat("x", r.IntN(3<<20))
		case k == 1:
			line = strings.Repeat("\x00", r.IntN(100_000)) + line
		case k == 2:
			line = line[:20] + strings.Repeat("\x00", r.IntN(30)) + line[20:]
		case k == 3:
			line += "\r"
		case k == 4:
			line = ""
		default:
			line = line[:r.IntN(len(line))]
		}
		b.WriteString(line + "\n")
	}
	return b.Bytes()[:b.Len()-r.IntN(2)*r.IntN(200)]
}

// TestTimelineOrder tests that the intervals and figures of a timeline do not depend on the order
// of the requests, nor on how they are divided.
func TestTimelineOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	type request struct{ at, took int64 }
	for _, spread := range []int64{1e11, 3e13} {
		var all []request
		for range 20_000 {
			all = append(all, request{r.Int64N(spread), r.Int64N(1 << (1 + r.IntN(36)))})
		}
		var one timeline
		for _, q := range all {
			one.add(q.at, q.took, false)
		}
		one.bound()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		parts := make([]timeline, 5)
		for _, q := range all {
			parts[r.IntN(r.IntN(5)+1)].add(q.at, q.took, false)
		}
		for i := range parts[1:] {
			parts[0].merge(&parts[1+i])
		}
		if parts[0].step != one.step || parts[0].mean(0, spread) != one.mean(0, spread) {
			t.Errorf("within %d us: step %d, mean %v, of the parts %d, %v", spread, one.step, one.mean(0, spread), parts[0].step, parts[0].mean(0, spread))
		}
		for _, least := range []time.Duration{0, time.Minute} {
			var a, b []Moment
			_, x := one.moments(least)
			_, y := parts[0].moments(least)
			for m := range x {
				a = append(a, m)
			}
			for m := range y {
				b = append(b, m)
			}
			if len(a) == 0 || !slices.Equal(a, b) {
				t.Errorf("within %d us, steps of %v: %d moments, of the parts %d", spread, least, len(a), len(b))
			}
		}
	}
}

// TestJoinRefused tests that only pieces of the same logs, read with the same formats, are joined.
func TestJoinRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	read := func(line string) *Result {
		if err := os.WriteFile(path, []byte(strings.Repeat(line+"\n", 5)), 0o600); err != nil {
			t.Fatal(err)
		}
		set, formats := openPieces(t, []string{path})
		set.Only([]source.Piece{{To: 1e6}})
		r, err := Read(t.Context(), set, formats, Options{Groups: 10, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const combined = `::1 - - [18/Mar/2012:04:02:25 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"`
	first, other := read(combined), read(`::1 - - [18/Mar/2012:04:02:25 +0000] "GET /a HTTP/1.1" 200 5`)
	if err := first.Join(other); err == nil || !strings.Contains(err.Error(), path+" was read as ") || !strings.Contains(err.Error(), "it changed while it was read") {
		t.Errorf("another format: %v", err)
	}
	if err := first.Join(readLogs(t, Options{}, path)); err == nil || !strings.Contains(err.Error(), "only pieces of the same logs can be joined") {
		t.Errorf("a whole log: %v", err)
	}
	if err := first.Join(read(combined)); err != nil || first.Requests != 10 || first.Lines[0] != 10 {
		t.Errorf("%d requests, %v: %v", first.Requests, first.Lines, err)
	}
}
