package runpage

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// began is the start time of the runs in these tests.
var began = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// experiment is the record of a simulated experiment: work of ten seconds on a machine that becomes
// slower and has spikes, with a change of the given effect (0.92: 8 % less).
func experiment(t testing.TB, effect float64, change func(*evidence.Run, *prove.Evidence)) *evidence.Run {
	t.Helper()
	d := prove.Defaults(prove.Metric{Name: "time", Unit: "s"})
	d.Seed = 42
	d.Guards = []prove.Guard{{Metric: prove.Metric{Name: "max-memory", Unit: "bytes"}, Most: 0.1}}
	r := rand.New(rand.NewPCG(1, 2))
	c := prove.Begin(d)
	var samples []prove.Sample
	for at := began; ; {
		s := c.Next()
		if s.Phase == prove.Done {
			break
		}
		v := prove.Sample{Step: s, At: at, Values: prove.Values{"time": 10 * math.Exp(0.008*r.NormFloat64()+0.0004*float64(len(samples))), "max-memory": 1 << 30 * math.Exp(0.01*r.NormFloat64())},
			Moved: prove.Values{"context_switches": 1000 + 10*r.NormFloat64()}}
		if r.IntN(20) == 0 {
			v.Values["time"] *= 1.2
		}
		if s.Arm == prove.With && s.Phase == prove.Blocks {
			v.Values["time"] *= effect
			v.Moved["context_switches"] += 200
		}
		v.TookS = v.Values["time"]
		at = at.Add(time.Duration(v.TookS * float64(time.Second)))
		samples = append(samples, v)
		if err := c.Took(v.Values); err != nil {
			t.Fatal(err)
		}
	}
	e := prove.Sum(c, prove.EndedVerdict, nil, samples)
	e.Work = []string{"make", "-j2"}
	e.Change.Settings = []prove.Setting{{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Before: setting.Text("60"), With: setting.Text("10"), Why: "asked for"}}
	e.Asked = json.RawMessage("{}")
	run := &evidence.Run{Kind: "prove", Command: "fettle prove --set vm.swappiness=10 -- make -j2", Version: "1.0", Began: began, Ended: samples[len(samples)-1].At,
		Machine: evidence.Machine{Name: "db1", Model: "QEMU Standard PC", CPU: "Intel Xeon", CPUs: 2, MemoryBytes: 8 << 30, Hypervisor: "kvm", OS: "Debian 13", Kernel: "6.12.0", Hardware: "0123456789abcdef",
			Settings: map[string]string{"sysctl:vm.swappiness": "60", "sysctl:vm.dirty_ratio": "20"}}}
	if change != nil {
		change(run, e)
	}
	run.Verdict = e.Text
	return sealed(t, run, e)
}

// benchmark is the record of a bench with series and curves.
func benchmark(t testing.TB) *evidence.Run {
	t.Helper()
	body := struct {
		Series []evidence.Series `json:"series"`
		Curves []evidence.Curve  `json:"curves"`
	}{
		Series: []evidence.Series{{Name: "disk:read@/srv", Unit: "MB/s", More: true, Samples: []float64{512, 498, 530.5}}, {Name: "disk:etcd@/srv", Unit: "ms", Samples: []float64{1.2}}, {Name: "disk:none@/srv", Unit: "ms"}},
		Curves: []evidence.Curve{
			{Name: "latency of random reads", X: evidence.Axis{Name: "percentile", Unit: "%", Scale: evidence.Percentile}, Y: evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Log},
				Lines: []evidence.Line{{Name: "QD1", Points: [][2]float64{{50, 0.1}, {90, 0.14}, {99, 0.4}, {99.9, 2.5}}}, {Name: "QD32", Points: [][2]float64{{50, 0.9}, {90, 1.4}, {99, 4}, {99.9, 12}}}}},
			{Name: "queue depth", X: evidence.Axis{Name: "queue depth", Scale: evidence.Log}, Y: evidence.Axis{Name: "reads", Unit: "1/s", Scale: evidence.Linear},
				Lines: []evidence.Line{{Name: "4 KiB", Points: [][2]float64{{1, 9000}, {2, 17000}, {4, 30000}, {8, 46000}, {32, 61000}}, Doubts: []string{"", "", "", "", "noisy"}}}},
		},
	}
	return sealed(t, &evidence.Run{Kind: "bench", Command: "fettle bench disk /srv", Version: "1.0", Began: began.Add(time.Hour), Verdict: "good enough for pulp",
		Machine: evidence.Machine{Name: "db2", CPU: "Intel Xeon", CPUs: 2, Kernel: "6.12.1", Settings: map[string]string{"sysctl:vm.swappiness": "10", "sysctl:vm.dirty_ratio": "20"}}}, body)
}

func sealed(t testing.TB, r *evidence.Run, body any) *evidence.Run {
	t.Helper()
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	if err := (evidence.Store{Dir: t.TempDir()}).Put(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// writePage writes runs as one page, which depends only on the records.
func writePage(w io.Writer, runs []*evidence.Run) error {
	s := &ui.Screen{Out: w, Err: io.Discard, Format: ui.HTML}
	s.StartPage("fettle runs show", "")
	if err := PrintAll(s, runs); err != nil {
		return err
	}
	return s.EndPage()
}

func write(t testing.TB, runs ...*evidence.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := writePage(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// words returns the text of a page as a reader sees it.
func words(t testing.TB, text string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" {
			b.WriteString(n.Data + " ")
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestPage(t *testing.T) {
	r := experiment(t, 0.92, nil)
	text := write(t, r)
	if text != write(t, r) {
		t.Error("a page depends on its records alone")
	}
	read := words(t, text)
	for _, want := range []string{
		"✓ faster by 8", "With the change, time was 8", "% less than without it.", "With 95 % confidence the true effect is between +",
		"sysctl:vm.swappiness 60 10 asked for", "fettle prove --seed 42 --set vm.swappiness=10 -- make -j2", "max-memory", "context_switches", "AB", "BA",
		"2 × Intel Xeon", "sysctl:vm.dirty_ratio 20", r.ID, "median of A: 10",
	} {
		if !strings.Contains(read, want) {
			t.Errorf("the page does not say %q:\n%s", want, read)
		}
	}
	for _, c := range []struct {
		effect float64
		says   string
	}{{1.08, "✗ slower by"}, {1.0, "is below the margin of 2 %"}} {
		if read := words(t, write(t, experiment(t, c.effect, nil))); !strings.Contains(read, c.says) {
			t.Errorf("%v: does not say %q: %.600s", c.effect, c.says, read)
		}
	}
}

// TestLive tests an experiment on running work, with a covariate and a cap.
func TestLive(t *testing.T) {
	read := words(t, write(t, experiment(t, 0.92, func(_ *evidence.Run, e *prove.Evidence) {
		e.Work, e.Design.Live, e.Design.Caps = nil, &prove.Live{WindowS: 600, SettleS: 30}, []prove.Cap{{Metric: prove.Metric{Name: "errors"}, Most: 3}}
		e.Covariate = &prove.Adjusted{Metric: prove.Metric{Name: "rate"}, Slope: 0.5, P: 0.3}
	})))
	for _, want := range []string{"measured in windows of 10m0s; the first 30s after each switch do not count", "cap errors: 3", "covariate rate: the metric is proportional to its power 0.5"} {
		if !strings.Contains(read, want) {
			t.Errorf("does not say %q: %s", want, read)
		}
	}
}

// TestForged tests that the content of a record is calculated again from its samples.
func TestForged(t *testing.T) {
	r := experiment(t, 1, func(_ *evidence.Run, e *prove.Evidence) {
		e.Word, e.Text = prove.Better, "faster by 50 % [40, 60]"
	})
	if read := words(t, write(t, r)); !strings.Contains(read, `its samples give "no effect above 2 %`) {
		t.Errorf("%.900s", read)
	}
	r = experiment(t, 1, func(_ *evidence.Run, e *prove.Evidence) { e.Samples[5].Arm = "C" })
	if err := writePage(&bytes.Buffer{}, []*evidence.Run{r}); err == nil || !strings.Contains(err.Error(), "does not match its design") {
		t.Error(err)
	}
	r = experiment(t, 1, func(_ *evidence.Run, e *prove.Evidence) { e.Word = `x"><script>` })
	if err := writePage(&bytes.Buffer{}, []*evidence.Run{r}); err == nil {
		t.Error("there is no such verdict")
	}
}

func TestSeveral(t *testing.T) {
	read := words(t, write(t, experiment(t, 0.92, nil), benchmark(t)))
	for _, want := range []string{"2 runs", "kernel 6.12.0 6.12.1", "sysctl:vm.swappiness 60 10", "good enough for pulp", "disk:read@/srv 512 MB/s 498 to 531 (6.3 %) 3", "latency of random reads", "99.9 2.5 12", "8 46,000 32 61,000 (noisy)"} {
		if !strings.Contains(read, want) {
			t.Errorf("the page does not say %q:\n%s", want, read)
		}
	}
	if strings.Contains(read, "sysctl:vm.dirty_ratio 20 20") {
		t.Error("what is the same does not differ")
	}
}

// hostile are texts with HTML.
var hostile = []string{`"><script>alert(1)</script>`, `</script><script>alert(2)</script>`, `'-alert(3)-'`, "<!--", `\u003c/script>`, "]]>", "`${alert(4)}`", "\x1b[2J\x00\u202e\u2028", "javascript:alert(5)", `</style><img src="http://evil.example/x" onerror=alert(6)>`}

// hostileRuns have hostile texts everywhere.
func hostileRuns(t testing.TB) []*evidence.Run {
	bad := strings.Join(hostile, " ")
	p := experiment(t, 0.92, func(r *evidence.Run, e *prove.Evidence) {
		r.Command, r.User, r.Version = "fettle prove "+bad, bad, bad
		r.Machine.Name, r.Machine.CPU, r.Machine.OS, r.Machine.Kernel, r.Machine.Model, r.Machine.Hypervisor = bad, bad, bad, bad, bad, bad
		r.Machine.Settings = map[string]string{bad: bad}
		e.Work, e.Warnings, e.Text, e.Error = []string{bad}, []string{bad}, "faster by "+bad, bad
		e.Change.Settings[0] = prove.Setting{Setting: setting.Setting{Kind: "sysctl", Name: bad}, Before: setting.Text(bad), With: setting.Text(bad), Why: bad}
		e.Change.Left, e.Change.Profile, e.Change.Apply, e.Change.Undo = e.Change.Settings, []string{bad}, bad, bad
		for i := range e.Samples {
			e.Samples[i].Values[bad] = e.Samples[i].Values["time"]
		}
		e.Design.Metric.Name, e.Design.Metric.Unit = bad, bad
		e.Guards[0].Name = bad
		e.Guards[0].State = bad
		e.Moved[0].Name = bad
		e.Ending = prove.Ending(bad)
	})
	b := benchmark(t)
	body, err := json.Marshal(map[string]any{"series": []evidence.Series{{Name: bad, Unit: bad, Samples: []float64{1, 2}}},
		"curves": []evidence.Curve{{Name: bad, X: evidence.Axis{Name: bad, Unit: bad, Scale: evidence.Linear}, Y: evidence.Axis{Name: bad, Unit: bad, Scale: evidence.Log}, Lines: []evidence.Line{{Name: bad, Points: [][2]float64{{1, 1}, {2, 3}}, Doubts: []string{bad, ""}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	b.Body, b.Verdict, b.Kind = body, bad, bad
	return []*evidence.Run{p, b, diskRun(t, true)}
}

// TestEscape tests that a page of hostile records has the same elements and attributes as one of
// harmless records.
func TestEscape(t *testing.T) {
	shape := func(text string) string {
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		var walk func(*html.Node)
		walk = func(n *html.Node) {
			if n.Type == html.CommentNode {
				t.Errorf("a comment: %.80q", n.Data)
			}
			if n.Type == html.ElementNode {
				b.WriteString("<" + n.Data)
				for _, a := range n.Attr {
					b.WriteString(" " + a.Key)
					if a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
						t.Errorf("the page names another place: %s=%q", a.Key, a.Val)
					}
				}
				b.WriteString(">")
			}
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				walk(c)
			}
		}
		walk(doc)
		return b.String()
	}
	for i, r := range hostileRuns(t) {
		text := write(t, r)
		harmless := *r
		harmless.Body = json.RawMessage(cleaned(string(r.Body)))
		record, err := json.Marshal(harmless)
		if err != nil {
			t.Fatal(err)
		}
		var clean evidence.Run
		if err := json.Unmarshal([]byte(cleaned(string(record))), &clean); err != nil {
			t.Fatal(err)
		}
		if want, got := shape(write(t, &clean)), shape(text); want != got {
			n := 0
			for n < min(len(want), len(got)) && want[n] == got[n] {
				n++
			}
			t.Errorf("run %d: the page has another shape: %.200s, want %.200s", i, got[max(0, n-60):], want[max(0, n-60):])
		}
		if at := strings.IndexAny(text, "\x1b\x00\u202e"); at >= 0 {
			t.Errorf("run %d: control characters are on the page: %.200q", i, text[max(0, at-100):])
		}
	}
}

// bodyOf returns a page without its scripts and styles.
func bodyOf(text string) string {
	return regexp.MustCompile(`(?s)<(script|style)>.*?</(script|style)>`).ReplaceAllString(text, "")
}

// cleaned replaces the hostile texts in their JSON form.
func cleaned(text string) string {
	bad, err := json.Marshal(strings.Join(hostile, " "))
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(text, strings.Trim(string(bad), `"`), "harmless")
}

// TestExtremes tests that the largest and smallest numbers of JSON give a valid page.
func TestExtremes(t *testing.T) {
	for i, change := range []func(*evidence.Run, *prove.Evidence){
		func(_ *evidence.Run, e *prove.Evidence) {
			*e.Effect, e.Interval[0], e.Interval[1] = 1e308, -1e308, 1e308
		},
		func(_ *evidence.Run, e *prove.Evidence) {
			*e.Effect, e.Interval[0], e.Interval[1] = 0, 0, 0
			e.Design.Margin = 0
		},
		func(_ *evidence.Run, e *prove.Evidence) { e.Interval = nil },
		func(_ *evidence.Run, e *prove.Evidence) { e.Blocks, e.Samples = nil, nil },
		func(_ *evidence.Run, e *prove.Evidence) { e.Effect = nil },
		func(r *evidence.Run, _ *prove.Evidence) {
			r.Machine.MemoryBytes, r.Machine.CPUs = math.MinInt64, math.MinInt64
		},
		func(_ *evidence.Run, e *prove.Evidence) {
			e.Samples, e.Blocks = slices.DeleteFunc(e.Samples, func(v prove.Sample) bool { return v.Phase == prove.Blocks && v.Block > 5 }), e.Blocks[:6]
			for i := range e.Samples {
				e.Samples[i].Values["time"] = math.Exp(700 * float64(i%3-1))
			}
		},
	} {
		text := write(t, experiment(t, 0.92, change))
		if m := regexp.MustCompile(`NaN|[^a-z]Inf`).FindString(bodyOf(text)); m != "" {
			t.Errorf("%d: the page says %q", i, m)
		}
	}
}

func TestSigned(t *testing.T) {
	for ratio, want := range map[float64]string{0.082: "+8.2", -0.08: "−8", 0: "0", 1.5: "+150", 0.00004: "+0.004", -0.0004: "−0.04", 0.00999: "+1", 123.4: "+12340"} {
		if got := signed(ratio); got != want {
			t.Errorf("%v: %q, want %q", ratio, got, want)
		}
	}
}

// TestShowsEmptyRecords tests a record without the data of its kind, of another version or
// truncated: the page shows the rest. An experiment is refused, because its verdict is calculated
// again.
func TestShowsEmptyRecords(t *testing.T) {
	for _, kind := range Kinds() {
		if kind == "prove" {
			continue
		}
		r := sealed(t, &evidence.Run{Kind: kind, Command: "fettle", Began: began, Verdict: "measured"}, map[string]any{})
		for _, format := range []ui.Format{ui.Table, ui.HTML} {
			s := ui.NewScreen(io.Discard, io.Discard)
			if format == ui.HTML {
				s.StartPage("fettle runs show", "")
			}
			if err := show(s, r); err != nil {
				t.Errorf("%s, %s: %v", kind, format, err)
			}
		}
	}
}
