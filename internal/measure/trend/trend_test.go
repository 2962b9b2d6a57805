package trend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// byName returns a series of a report.
func byName(t *testing.T, r *Report, name string) *Series {
	t.Helper()
	for i := range r.Series {
		if r.Series[i].Name == name {
			return &r.Series[i]
		}
	}
	t.Fatalf("no series %s", name)
	return nil
}

func analyzed(t *testing.T, o Options) *Report {
	t.Helper()
	samples, failed := OfRuns(nightly(t))
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	if o.Margin == 0 {
		o.Margin = 0.02
	}
	return Analyze(samples, o)
}

// TestNightly: of three series the one that changed is found, with the kernel, the boot, the
// packages and the transaction of that night.
func TestNightly(t *testing.T) {
	day := func(d, hour int) time.Time { return time.Date(2026, 11, d, hour, 0, 0, 0, time.UTC) }
	tx := func(id int, at time.Time, reason string) *journal.Tx {
		return &journal.Tx{Begin: journal.Begin{ID: id, Time: at, Reason: reason}}
	}
	phase := tx(8, day(14, 12), "fettle prove")
	phase.Try = &journal.Try{Experiment: true}
	undone := tx(9, day(14, 12), "fettle prove")
	undone.Undoes = []int{8}
	m := &Machine{
		Transactions: []*journal.Tx{tx(6, day(2, 1), "fettle tune before"), tx(7, day(14, 10), "fettle tune virtual-guest"), phase, undone, tx(10, day(20, 1), "fettle tune after")},
		Packages:     []PackageChange{{day(3, 1), "upgraded", "early", "1", "2"}, {day(14, 9), "installed", "linux-image-6.12.57", "", "6.12.57-1"}, {day(14, 9), "upgraded", "libc6", "2.41-12", "2.41-13"}},
	}
	r := analyzed(t, Options{Machine: m})
	s := byName(t, r, "disk:randrw-qd32@/srv")
	if s.Verdict != Worse || len(s.Changes) != 1 || s != &r.Series[0] {
		t.Fatalf("%+v", s)
	}
	c := s.Changes[0]
	if c.At != 14 || c.Earliest > 14 || c.Latest < 14 || c.Interval[0] > -0.12 || c.Interval[1] < -0.12 || math.Abs(c.Effect+0.12) > 0.02 || !c.Counts {
		t.Errorf("%+v", c)
	}
	text := fmt.Sprintf("%+v", c.Meanwhile)
	for _, want := range []string{"rebooted", "kernel: 6.12.48+deb13-amd64 -> 6.12.57+deb13-amd64", "7: fettle tune virtual-guest", "2 packages, such as linux-image-6.12.57 6.12.57-1 installed", "libc6 2.41-12 -> 2.41-13"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for _, other := range []string{"before", "after", "fettle prove", "early"} {
		if strings.Contains(text, other) {
			t.Errorf("%q is in %s", other, text)
		}
	}
	for _, name := range []string{"disk:stream-read@/srv", "disk:etcd@/srv"} {
		if s := byName(t, r, name); s.Verdict != NoChange || len(s.Changes) > 0 || len(s.Visible) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if err := r.Gate(NoWorse); ui.Code(err) != ui.GateNotMet {
		t.Errorf("gate: %v", err)
	}
	if err := r.Gate(""); err != nil {
		t.Error(err)
	}
	// A change of before the time does not count, nor does one within the margin.
	for _, o := range []Options{{Since: day(18, 0)}, {Margin: 0.3}} {
		r := analyzed(t, o)
		if s := byName(t, r, "disk:randrw-qd32@/srv"); s.Verdict != NoChange || s.Changes[0].Counts || r.Gate(NoWorse) != nil {
			t.Errorf("%+v: %+v", o, s)
		}
		var out bytes.Buffer
		r.Print(ui.NewScreen(&out, &out))
		want := []string{"no change seen in ", "below the margin, so it does not count", "no change seen "}
		if o.Margin == 0 {
			since := day(18, 0).Local()
			want = []string{"no change seen since " + since.Format(stamp) + " in 3 series", "before --since, so it does not count", "no change since " + since.Format(time.DateOnly)}
		}
		for _, words := range want {
			if !strings.Contains(out.String(), words) {
				t.Errorf("%q is missing:\n%s", words, &out)
			}
		}
	}
}

// TestFewPoints: too few measurements are not "no change".
func TestFewPoints(t *testing.T) {
	samples, failed := OfRuns(nightly(t)[:5])
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	r := Analyze(samples, Options{Margin: 0.02})
	if s := r.Series[0]; s.Verdict != CannotTell || s.Needed != 2 || len(s.Visible) > 0 {
		t.Errorf("%+v", s)
	}
	if err := r.Gate(NoWorse); ui.Code(err) != ui.Failed || !strings.Contains(err.Error(), "at least 2 more measurements") {
		t.Error(err)
	}
	if line := r.Headline.Lines[0]; !strings.HasPrefix(line, "cannot tell yet: ") {
		t.Error(line)
	}
}

// TestOfRuns: the same measurement is the same series, and an experiment counts without its change.
func TestOfRuns(t *testing.T) {
	for command, want := range map[string]string{
		"fettle bench disk /srv --output json -y":                     "fettle bench disk /srv",
		"fettle --state-dir /tmp/x bench disk /srv --reason=ticket":   "fettle bench disk /srv",
		"fettle bench disk /srv --for 1m":                             "fettle bench disk /srv --for 1m",
		"fettle power record --wide -- sh -c 'echo --output x' --yes": "fettle power record -- sh -c 'echo --output x' --yes",
	} {
		if got := measured(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	e := prove.Evidence{Work: []string{"make", "-j2"}, Design: prove.Design{Metric: prove.Metric{Name: "time", Unit: "s"}}, Method: prove.Method}
	for i, arm := range []prove.Arm{prove.Without, prove.With, prove.Without, prove.With} {
		v := prove.Sample{Values: prove.Values{"time": float64(10 + i)}}
		v.Arm, v.Phase = arm, prove.Blocks
		e.Samples = append(e.Samples, v)
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	runs := []*evidence.Run{{ID: "1", Kind: "prove", Body: body}, {ID: "1", Kind: "prove", Body: body}, {ID: "2", Kind: "bench", Body: json.RawMessage(`{"cut":{"finished":1},"series":[{"name":"a","samples":[1]}]}`)}}
	samples, failed := OfRuns(runs)
	if len(failed) > 0 || len(samples) != 1 || samples[0].Of != "make -j2" || samples[0].Name != "time" || samples[0].Value != 11 {
		t.Errorf("%+v, %v", samples, failed)
	}
	// A run that cannot be read does not hide the others.
	runs = append([]*evidence.Run{{ID: "3", Kind: "prove", Body: json.RawMessage(`{"visits":7}`)}, {ID: "4", Kind: "bench", Body: json.RawMessage(`{"series":[{"samples":[1]}]}`)}}, runs...)
	samples, failed = OfRuns(runs)
	if len(samples) != 1 || len(failed) != 2 || !strings.HasPrefix(failed[0].Error(), "run 3: ") || failed[1].Error() != "run 4: series 1 has no name" {
		t.Errorf("%+v, %v", samples, failed)
	}
}

// TestOfExperiments: series differ by the directory of a command, and by how a number is found; and
// each metric is one.
func TestOfExperiments(t *testing.T) {
	v := prove.Sample{Values: prove.Values{"time": 2, "size": 30}}
	v.Arm, v.Phase = prove.Without, prove.Blocks
	for asked, want := range map[string]string{
		`{"directory":"/srv/a","metric":"time","percentile":-1}`:                                          "time 2: make in /srv/a; size 30: make in /srv/a",
		`{"directory":"/srv/b","metric":"time=t ([0-9]+)","percentile":99,"also_metrics":["size=s (.)"]}`: "time 2: make in /srv/b, time=t ([0-9]+), percentile 99; size 30: make in /srv/b, size=s (.)",
		`{"directory":"/root","metric":"time","percentile":-1,"bench":"memory:thp-random"}`:               "time 2: make; size 30: make",
		`{"directory":"/srv/a","metric":"gobench:A","also_metrics":["gobench:A:B/op"]}`:                   "time 2: make in /srv/a; size 30: make in /srv/a",
		`7`: "run 1: its options cannot be read: ",
	} {
		e := prove.Evidence{Work: []string{"make"}, Asked: json.RawMessage(asked), Method: prove.Method, Samples: []prove.Sample{v},
			Design: prove.Design{Metric: prove.Metric{Name: "time", Unit: "s"}, Also: []prove.Metric{{Name: "size"}}}}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		samples, failed := OfRuns([]*evidence.Run{{ID: "1", Kind: "prove", Body: body}})
		var got []string
		for _, s := range samples {
			got = append(got, fmt.Sprintf("%s %v: %s", s.Name, s.Value, s.Of))
		}
		for _, err := range failed {
			got = append(got, err.Error())
		}
		if text := strings.Join(got, "; "); !strings.HasPrefix(text, want) || len(samples) > 0 && text != want {
			t.Errorf("%s: %s, want %s", asked, text, want)
		}
	}
}

// TestPackageLogs reads logs as dpkg 1.21 and DNF 4 write them, also rotated ones.
func TestPackageLogs(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"var/log/dpkg.log": "2026-11-14 09:00:00 startup archives unpack\n2026-11-14 09:00:01 install linux-image-6.12.57:amd64 <none> 6.12.57-1\n" +
			"2026-11-14 09:00:01 status half-installed linux-image-6.12.57:amd64 6.12.57-1\n2026-11-14 09:00:02 upgrade libc6:amd64 2.41-12 2.41-13\n2026-11-14 09:00:03 upgrade same:all 1 1\n" +
			"2026-11-14 09:00:04 remove old:all 1.0 <none>\n2026-11-14 09:00:05 configure libc6:amd64 2.41-13 <none>\n",
		"var/log/dpkg.log.1": "2026-10-01 09:00:02 upgrade bash:amd64 5.2-1 5.2-2\n",
		"var/log/dnf.rpm.log": "2026-11-15T10:00:00+0000 INFO --- logging initialized ---\n2026-11-15T10:00:01+0000 SUBDEBUG Upgrade: openssl-libs-1:3.2.2-6.el9.x86_64\n" +
			"2026-11-15T10:00:02+0000 SUBDEBUG Installed: kernel-core-5.14.0-503.el9.x86_64\n2026-11-15T10:00:03+0000 SUBDEBUG Upgraded: openssl-libs-1:3.0.7-27.el9.x86_64\n" +
			"2026-11-15T10:00:04+0000 SUBDEBUG Erase: flac-1.3.3-3.fc29.x86_64\n2026-11-15T10:00:05+0000 INFO warning: /etc/x created as /etc/x.rpmnew\n",
	})
	all, err := packageLogs(h)
	var got []string
	for _, p := range all {
		got = append(got, p.String())
	}
	want := []string{"bash 5.2-1 -> 5.2-2", "linux-image-6.12.57 6.12.57-1 installed", "libc6 2.41-12 -> 2.41-13", "old 1.0 removed",
		"openssl-libs 1:3.0.7-27.el9 -> 1:3.2.2-6.el9", "kernel-core 5.14.0-503.el9 installed", "flac 1.3.3-3.fc29 removed"}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v:\n%s", err, strings.Join(got, "\n"))
	}
}

// TestFiles: files of other benchmarks are read, and what is invalid is rejected with its line.
func TestFiles(t *testing.T) {
	samples, err := ReadFile(examples + "/commits.txt")
	if err != nil || len(samples) != 90 {
		t.Fatalf("%d, %v", len(samples), err)
	}
	r := Analyze(samples, Options{Margin: 0.02})
	s := &r.Series[0]
	if s.Name != "Decode-4 ns/op" || s.Unit != "ns/op" || s.Verdict != Worse || s.Changes[0].At != 20 || s.Of != "linux amd64 Intel Xeon example.com/codec" || s.Changes[0].Label != samples[60].Label {
		t.Errorf("%+v", s)
	}
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"a.txt":      {"BenchmarkA-2 100 12 ns/op 7.5 MB/s\nBenchmarkA-2 100 14 ns/op 8.5 MB/s\n", "A-2 ns/op 13 false; A-2 MB/s 8 true"},
		"unit.txt":   {"Unit score better=higher\nUnit loss better=lower\nBenchmarkA 1 5 score 2 loss\n", "A score 5 true; A loss 2 false"},
		"v.txt":      {"=== RUN\nBenchmarkA\nBenchmarkA-2 1 2 ns/op\nBenchmarks are here\r\nok  \tx\t1s\n", "A-2 ns/op 2 false"},
		"none.txt":   {"ok\n", "no results of a benchmark"},
		"odd.txt":    {"goos: linux\nBenchmarkA 1 2\n", "odd.txt:2: BenchmarkA: want pairs"},
		"nan.txt":    {"BenchmarkA 1 NaN ns/op\n", "nan.txt:1: BenchmarkA: \"NaN\" is not a measurement"},
		"word.txt":   {"BenchmarkA many 2 ns/op\n", "word.txt:1: BenchmarkA: \"many\" is not a number of iterations"},
		"zero.txt":   {"BenchmarkA 0 2 ns/op\n", "zero.txt:1: BenchmarkA: \"0\" is not a number of iterations"},
		"time.txt":   {"commit-time: yesterday\n", "time.txt:1: commit-time: \"yesterday\" is not a time"},
		"jmh.json":   {`[{"benchmark":"x.B.m","mode":"thrpt","params":{"n":"10","a":"1"},"primaryMetric":{"score":5.5,"scoreUnit":"ops/ms","rawData":[[5,6],[7,8]]}},{"benchmark":"x.B.t","mode":"avgt","primaryMetric":{"score":2.5,"scoreUnit":"us/op"}}]`, "thrpt x.B.m a=1 n=10 6.5 true; avgt x.B.t 2.5 false"},
		"modes.json": {`[{"benchmark":"x","mode":"avgt","primaryMetric":{"score":2,"scoreUnit":"us/op"}},{"benchmark":"x","mode":"ss","primaryMetric":{"score":9,"scoreUnit":"us/op"}}]`, "avgt x 2 false; ss x 9 false"},
		"jmh2.json":  {`[{"benchmark":"x"}]`, "element 1 has no benchmark or no primaryMetric"},
		"jmh3.json":  {`[{"benchmark":"x","primaryMetric":{"score":"NaN","scoreUnit":"ops/s"}}]`, `x: the score is "NaN", not a number`},
		"jmh4.json":  {`[1]`, "not JSON of JMH"},
		"jmh5.json":  {`[]`, "no benchmarks"},
		"run.json":   {`{"schema":"x"}`, "not a record of a run"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		samples, err := ReadFile(path)
		var got []string
		for _, s := range samples {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %v %v", s.Of, s.Name, s.Value, s.More)))
		}
		text := strings.Join(got, "; ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestPoints: a time before or after the line of its commit counts, but not that of the commit
// before; and a date in another format is not a time.
func TestPoints(t *testing.T) {
	const at, day = "commit-time: 2026-11-20T13:00:00Z\n", "date: 2026-11-22T13:00:00Z\n"
	for content, want := range map[string]string{
		"BenchmarkA 1 1 x\ncommit: a\n" + at + "BenchmarkA 1 2 x\nBenchmarkA 1 4 x\ncommit: b\nBenchmarkA 1 5 x\n":          "f.txt - 1; a 20 3; b - 5",
		at + "commit: a\nBenchmarkA 1 1 x\n" + at + "commit: b\nBenchmarkA 1 2 x\n" + day + "commit: c\nBenchmarkA 1 3 x\n": "a 20 1; b 20 2; c 22 3",
		"commit: a\n" + at + "commit: b\n" + day + "BenchmarkA 1 1 x\ncommit: c\nBenchmarkA 1 2 x\n":                        "b 22 1; c - 2",
		"date: Fri Nov 20 13:00:00 UTC 2026\nBenchmarkA 1 1 x\ndate: today\nBenchmarkA 1 3 x\n":                             "f.txt - 2",
		"commit: a\n" + at + "date: yesterday\nBenchmarkA 1 1 x\n":                                                          "a 20 1",
	} {
		samples, err := parseBenchfmt("f.txt", content)
		var got []string
		for _, s := range samples {
			day := "-"
			if !s.Time.IsZero() {
				day = fmt.Sprint(s.Time.Day())
			}
			got = append(got, fmt.Sprintf("%s %s %v", s.Label, day, s.Value))
		}
		if text := strings.Join(got, "; "); err != nil || text != want {
			t.Errorf("%q: %s, want %s; %v", content, text, want, err)
		}
	}
}

func FuzzBenchfmt(f *testing.F) {
	f.Add(commits()[:2000])
	f.Add("Unit x better=higher\ncommit-time: 2026-11-20T13:00:00Z\nBenchmarkA-2 1 2 x\n")
	f.Fuzz(func(t *testing.T, content string) {
		samples, err := parseBenchfmt("f", content)
		for _, s := range samples {
			if !isMeasurement(s.Value) || s.Unit == "" || err != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
		if len(samples) > 0 {
			if _, err := json.Marshal(Analyze(samples, Options{})); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzJMH(f *testing.F) {
	f.Add([]byte(`[{"benchmark":"x.B.m","mode":"thrpt","params":{"n":"10"},"primaryMetric":{"score":5.5,"scoreUnit":"ops/ms","rawData":[[5,6]]}}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		samples, err := parseJMH("f", content)
		if err == nil && len(samples) == 0 {
			t.Error("neither samples nor an error")
		}
		for _, s := range samples {
			if !isMeasurement(s.Value) {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestNotPositive: series with zeros are compared by differences in their unit.
func TestNotPositive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var samples []Sample
	for i := range 30 {
		v := float64(r.IntN(3))
		if i >= 15 {
			v += 10
		}
		samples = append(samples, Sample{Name: "lost", Unit: "packets", Point: Point{Label: fmt.Sprint(i), Value: v}})
	}
	s := Analyze(samples, Options{Margin: 0.02}).Series[0]
	if s.Relative || s.Verdict != Worse || s.Changes[0].Interval[0] > -10 || s.Changes[0].Interval[1] < -10 || s.Changes[0].Label != "15" {
		t.Errorf("%+v", s)
	}
}

// TestCompared: the present level is compared with that before the first change, or at the time from
// which changes count.
func TestCompared(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, 1+n, 3, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		levels  []float64 // of ten points each
		since   int       // day
		verdict Verdict
		effect  float64
		line    string
	}{
		"worse, then a little better": {[]float64{100, 150, 145}, 0, Worse, -0.45, "worse: a by 44.9 % [-45.7, -44.2] compared with before 2026-11-11 "},
		"only the improvement":        {[]float64{100, 150, 145}, 15, Better, 0.033, "better: a by 3."},
		"worse, then fixed":           {[]float64{100, 150, 100}, 0, NoChange, 0, "no change left in 1 series"},
		"fixed in time":               {[]float64{100, 150, 100}, 15, Better, 0.333, "better: a by 33"},
		"small steps":                 {[]float64{100, 101.5, 103}, 0, Worse, -0.03, "worse: a by 3"},
		"worse twice":                 {[]float64{100, 120, 144}, 0, Worse, -0.44, "worse: a by 43.9 % [-44.6, -43.2] compared with before 2026-11-11 "},
	} {
		r := rand.New(rand.NewPCG(5, 5))
		var samples []Sample
		for i := range 10 * len(c.levels) {
			samples = append(samples, Sample{Name: "a", Unit: "ms", Point: Point{Label: fmt.Sprint(i), Time: day(i), Value: c.levels[i/10] * math.Exp(0.003*r.NormFloat64())}})
		}
		o := Options{Margin: 0.02}
		if name == "small steps" {
			o.Since = day(0)
		}
		if c.since > 0 {
			o.Since = day(c.since)
		}
		report := Analyze(samples, o)
		s := report.Series[0]
		if x := s.Compared; s.Verdict != c.verdict || x == nil || math.Abs(x.Effect-c.effect) > 0.01 || x.Interval[0] > c.effect || x.Interval[1] < c.effect || x.Interval[1]-x.Interval[0] > 0.03 {
			t.Errorf("%s: %s, %+v", name, s.Verdict, x)
		}
		if line := report.Headline.Lines[0]; !strings.HasPrefix(line, c.line) {
			t.Errorf("%s: %s", name, line)
		}
		if err := report.Gate(NoWorse); (err != nil) != (c.verdict == Worse) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDependent: a change among measurements that depend on their neighbors is said to be doubtful.
func TestDependent(t *testing.T) {
	r, last := rand.New(rand.NewPCG(1, 2)), 0.0
	var samples []Sample
	for i := range 120 {
		last = 0.6*last + 0.8*r.NormFloat64()
		v := 100 + last
		if i >= 60 {
			v += 8
		}
		samples = append(samples, Sample{Name: "a", Unit: "ms", Point: Point{Label: fmt.Sprint(i), Value: v}})
	}
	report := Analyze(samples, Options{Margin: 0.02})
	var out bytes.Buffer
	report.Print(ui.NewScreen(&out, &out))
	if s := report.Series[0]; s.Verdict != Worse || s.Lag1 < 0.4 || s.Lag1 > 0.8 || !strings.Contains(out.String(), "resemble each other") {
		t.Errorf("%s %v: %s", s.Verdict, s.Lag1, &out)
	}
}

// TestSameNames: the table says of what a series is where two have the same name.
func TestSameNames(t *testing.T) {
	of := func(names ...string) string {
		var samples []Sample
		for i, of := range names {
			samples = append(samples, Sample{Name: "p50", Unit: "s", Of: of, Point: Point{Label: fmt.Sprint(i), Value: 1}})
		}
		var out bytes.Buffer
		Analyze(samples, Options{}).Print(ui.NewScreen(&out, &out))
		return out.String()
	}
	if out := of("load /a", "load /b"); !strings.Contains(out, "load /a") || !strings.Contains(out, "load /b") {
		t.Errorf("two series: %s", out)
	}
	if out := of("load /a", "load /a"); strings.Contains(out, "load /a") {
		t.Errorf("one series: %s", out)
	}
}

// TestOutputs: every output can be made of every kind of report.
func TestOutputs(t *testing.T) {
	few, failed := OfRuns(nightly(t)[:3])
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	same := make([]Sample, 9)
	for i := range same {
		same[i] = Sample{Name: "allocs", Unit: "allocs/op", Point: Point{Label: fmt.Sprint(i)}}
	}
	for name, r := range map[string]*Report{"changed": analyzed(t, Options{}), "few": Analyze(few, Options{}), "constant": Analyze(same, Options{})} {
		var out bytes.Buffer
		if err := r.OpenMetrics(&out, time.Unix(5, 0)); err != nil || !strings.HasSuffix(out.String(), "# EOF\n") {
			t.Errorf("%s: %v %s", name, err, &out)
		}
		for _, format := range []ui.Format{ui.Table, ui.Markdown} {
			out.Reset()
			s := ui.NewScreen(&out, &out)
			s.Format, s.Width = format, 80
			r.Print(s)
			if text := out.String(); !strings.Contains(strings.Join(strings.Fields(text), " "), "fettle prove tests one cause") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s: %s", name, text)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
}
