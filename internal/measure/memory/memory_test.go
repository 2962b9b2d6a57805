package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "measure" {
		var v Task
		err := json.Unmarshal([]byte(os.Args[2]), &v)
		if err == nil {
			var s Sample
			if s, err = v.Measure(); err == nil {
				err = json.NewEncoder(os.Stdout).Encode(s)
			}
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func fresh(t *testing.T) Runner {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Fresh(host.Live().Exec, self, "measure")
}

// TestSamples tests that the kernel reports the memory in the requested pages, and that the first
// touch causes one page fault per page.
func TestSamples(t *testing.T) {
	root.Undisturbed(t) // another test may turn transparent huge pages off
	const size = 64 << 20
	for _, p := range []Pages{Small, THP} {
		v := Task{Pages: p, Bytes: size, Reads: 100_000, Seed: 7}
		s, err := fresh(t)(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		// They may be off, or the machine's memory in small pieces: then the sample is unfit.
		if p == THP && s.Huge < least {
			if s.unfit(Cell{Pages: p}) == "" {
				t.Errorf("without transparent huge pages: %+v", s)
			}
			continue
		}
		pages := float64(size / p.Page())
		if s.Huge < least || s.Placed != 1 || s.TouchCPUS <= 0 || s.RandomCPUS <= 0 || s.TouchS < s.TouchCPUS/2 {
			t.Errorf("%s: %+v", p, s)
		}
		// Half as many and as many again: the kernel may fault several in at once, and
		// some of a huge mapping may come in small pages.
		if f := float64(s.Faults); f < pages/2 || f > 2*pages+float64(size/small)*(1-least) {
			t.Errorf("%s: %d page faults of %v pages", p, s.Faults, pages)
		}
	}
}

// TestBound tests that memory and thread are bound to the first node, which every machine has.
func TestBound(t *testing.T) {
	if _, err := os.Stat("/proc/self/numa_maps"); err != nil {
		root.Missing(t, "this kernel has no NUMA")
	}
	v := Task{Pages: Small, Bytes: 16 << 20, Reads: 1000, CPUs: []int{0}, Node: 0}
	s, err := fresh(t)(t.Context(), v)
	if err != nil || s.Placed != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	v.Node = 900
	if _, err := fresh(t)(t.Context(), v); err == nil || !strings.Contains(err.Error(), "node 900") {
		t.Errorf("on a node that is not there: %v", err)
	}
	v.CPUs = []int{1000}
	if _, err := fresh(t)(t.Context(), v); err == nil || !strings.Contains(err.Error(), "[1000]") {
		t.Errorf("on a CPU that is not there: %v", err)
	}
}

func TestSamplesRefused(t *testing.T) {
	for _, c := range []struct {
		sample Task
		want   string
	}{
		{Task{Pages: THP, Bytes: 3 << 20, Reads: 1}, "a multiple of the page size"},
		{Task{Pages: Small, Bytes: 1 << 60, Reads: 1}, "cannot allocate memory"},
		// More pages than any test has reserved.
		{Task{Pages: HugeTLB2M, Bytes: 1 << 46, Reads: 1}, "in pages of hugetlb-2m"},
	} {
		if _, err := c.sample.Measure(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.sample, err, c.want)
		}
	}
}

// machine is a tree with the files that a plan reads.
func machine(t *testing.T, files map[string]string) *fact.Facts {
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fact.Collect(h)
}

func plain(availableKiB, thp string) map[string]string {
	files := map[string]string{
		"proc/meminfo": "MemTotal: 33554432 kB\nMemFree: 1000 kB\nMemAvailable: " + availableKiB + " kB\nHugepagesize: 2048 kB\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "10\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":  "10\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
	}
	if thp != "" {
		files["sys/kernel/mm/transparent_hugepage/enabled"] = thp
	}
	return files
}

// simulated is a machine whose pages have a known speed, with drift.
func simulated(r *rand.Rand, speed map[Pages]float64) Runner {
	n := 0
	return func(_ context.Context, v Task) (Sample, error) {
		n++
		s := speed[v.Pages]
		if v.Node == 2 {
			s *= 1.4
		}
		noise := math.Exp(0.03*r.NormFloat64() + 0.002*float64(n))
		return Sample{TouchCPUS: noise * float64(v.Bytes) / (1 << 30), RandomCPUS: s * noise * float64(v.Reads) * 1e-7, Huge: 1, Placed: 1, Faults: 4}, nil
	}
}

func simulatedPlan(cells ...Cell) *Plan {
	return &Plan{Bytes: 1 << 30, Reads: 1000, Rounds: Rounds, Cells: cells, Far: 2}
}

// TestVerdicts tests that a known effect is found, with the right sign, under drift. Without an
// effect, at most 5 % of all benches find one.
func TestVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := simulatedPlan(Cell{Small, Local}, Cell{THP, Local}, Cell{HugeTLB2M, Local}, Cell{Small, Remote}, Cell{THP, Remote})
	b, err := p.Run(t.Context(), simulated(r, map[Pages]float64{Small: 1.5, THP: 1, HugeTLB2M: 3}), 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range b.Comparisons {
		i := c.Interval
		if i == nil {
			t.Fatalf("%+v has no interval", c)
		}
		side := "?"
		switch {
		case i[0] > 1:
			side = "faster"
		case i[1] < 1:
			side = "slower"
		}
		said = append(said, c.Cell+" "+c.Against+" "+string(c.Measure)+" "+side)
	}
	want := []string{"thp 4k random faster", "thp 4k touch ?", "hugetlb-2m 4k random slower", "hugetlb-2m 4k touch ?", "4k-remote 4k random slower", "4k-remote 4k touch ?", "thp-remote thp random slower", "thp-remote thp touch ?"}
	if d := cmp.Diff(want, said); d != "" {
		t.Error(d)
	}
	if c := b.Comparisons[0]; c.Interval[0] > 1.5 || c.Interval[1] < 1.5 || !strings.HasPrefix(c.Text, "1.") || !strings.Contains(c.Text, "times as fast [") {
		t.Errorf("%+v", c)
	}
	if c := b.Comparisons[2]; !strings.HasPrefix(c.Text, "takes 2.") && !strings.HasPrefix(c.Text, "takes 1.9") && !strings.HasPrefix(c.Text, "takes 2") {
		t.Errorf("%+v", c)
	}
	if len(b.Series) != 10 || b.Series[0].Name != "memory:4k-touch" || len(b.Series[0].Samples) != Rounds || len(b.Records) != 5*Rounds {
		t.Errorf("%+v", b.Series)
	}
	firsts := map[string]bool{}
	for i, v := range b.Records {
		if i%5 == 0 {
			firsts[v.Cell] = true
		}
	}
	if len(firsts) < 3 {
		t.Errorf("the order is always the same: %v begins", firsts)
	}
	wrong := 0
	const benches = 1000
	for i := range benches {
		b, err := p.Run(t.Context(), simulated(r, map[Pages]float64{Small: 1, THP: 1, HugeTLB2M: 1}), uint64(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(b.Comparisons, func(c Comparison) bool {
			remote := strings.HasSuffix(c.Cell, "-remote") && c.Measure == Random // is slower
			return !remote && (c.Interval[0] > 1 || c.Interval[1] < 1)
		}) {
			wrong++
		}
	}
	if wrong > benches*6/100 {
		t.Errorf("%d of %d benches find what is not there", wrong, benches)
	}
}

// TestLosses tests that a cell whose pages are not available, or whose process fails, is left out
// and the others are measured. If no cell remains, it is an error.
func TestLosses(t *testing.T) {
	good := simulated(rand.New(rand.NewPCG(1, 2)), map[Pages]float64{Small: 1, THP: 1, HugeTLB2M: 1})
	samples := 0
	run := func(ctx context.Context, v Task) (Sample, error) {
		s, err := good(ctx, v)
		if v.Pages == THP {
			if samples++; samples > 2 {
				s.Huge = 0.4
			}
		}
		if v.Pages == HugeTLB2M {
			err = errors.New("exit 137")
		}
		return s, err
	}
	b, err := simulatedPlan(Cell{Pages: Small}, Cell{Pages: THP}, Cell{Pages: HugeTLB2M}).Run(t.Context(), run, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Cells) != 1 || len(b.Comparisons) != 0 || len(b.Left) != 2 {
		t.Errorf("%+v", b)
	}
	for _, l := range b.Left {
		if want := map[string]string{"thp": "only 40 % of the memory is in pages of this size", "hugetlb-2m": "exit 137"}[l.Cell]; !strings.Contains(l.Why, want) {
			t.Errorf("%+v", l)
		}
	}
	if _, err := simulatedPlan(Cell{Pages: HugeTLB2M}).Run(t.Context(), run, 5, nil); err == nil || !strings.Contains(err.Error(), "exit 137") {
		t.Errorf("with nothing left: %v", err)
	}
	if _, err := simulatedPlan(Cell{Pages: THP}).once(t.Context(), run, Random); err == nil || !strings.Contains(err.Error(), "only 40 %") {
		t.Errorf("once: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := simulatedPlan(Cell{Pages: Small}).Run(ctx, run, 5, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cut off: %v", err)
	}
}

// TestWork tests that a cell, selected by name, returns one number per call on this machine.
func TestWork(t *testing.T) {
	f := machine(t, plain("1048576", "[always] madvise never"))
	work, err := Work(f, fresh(t), "4k-random")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := work(t.Context()); err != nil || s <= 0 || s > 600 {
		t.Errorf("%v s, %v", s, err)
	}
	for name, want := range map[string]string{"4k": "unknown memory cell", "thp-remote-touch": "one node of memory", "hugetlb-1g-touch": "the page size is 1 GiB"} {
		if _, err := Work(f, nil, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]struct {
		Cell
		Measure
	}{"thp-random": {Cell{Pages: THP}, Random}, "4k-remote-touch": {Cell{Small, Remote}, Touch}, "hugetlb-1g-touch": {Cell{Pages: HugeTLB1G}, Touch}} {
		if c, m, err := ParseName(name); c != want.Cell || m != want.Measure || err != nil {
			t.Errorf("%s: %v %v %v", name, c, m, err)
		}
	}
	for _, name := range []string{"", "thp", "random", "thp-latency", "8k-random"} {
		if _, _, err := ParseName(name); err == nil {
			t.Errorf("%q is a cell", name)
		}
	}
	for _, text := range []string{"", "4k,,thp", "4k,4k", "all"} {
		if _, err := ParseCells(text); err == nil {
			t.Errorf("%q is a list", text)
		}
	}
	if c, err := ParseCells("4k, thp-remote"); err != nil || len(c) != 2 {
		t.Errorf("%v %v", c, err)
	}
}

// TestCut tests that an interrupted bench keeps the complete rounds, and that the result says so.
func TestCut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	known := simulated(rand.New(rand.NewPCG(1, 2)), map[Pages]float64{Small: 1.5, THP: 1})
	run := func(ctx context.Context, v Task) (Sample, error) {
		if n++; n == 6 { // the second of the third round
			cancel()
			return Sample{}, ctx.Err()
		}
		return known(ctx, v)
	}
	var told []int
	b, err := simulatedPlan(Cell{Small, Local}, Cell{THP, Local}).Run(ctx, run, 5, func(done, all int, _ Cell) { told = append(told, done, all) })
	if !errors.Is(err, context.Canceled) || b == nil {
		t.Fatal(err)
	}
	if b.Rounds != 2 || len(b.Records) != 4 || *b.Cut != (evidence.Interruption{Done: 2, Planned: Rounds, Of: "rounds"}) || len(b.Series[0].Samples) != 2 || !strings.HasPrefix(b.Text, fmt.Sprintf("interrupted after 2 of %d rounds: ", Rounds)) || !strings.Contains(b.Text, "too few rounds") {
		t.Errorf("%+v", b)
	}
	if len(told) != 12 || told[10] != 5 || told[11] != 2*Rounds {
		t.Errorf("told %v", told)
	}
}

// TestFinished tests that the result so far is passed on after each round, and does not affect the
// final result. If it cannot be stored, the run ends with its result so far.
func TestFinished(t *testing.T) {
	measure := func(finished func(*Result) error) (*Result, error) {
		p := simulatedPlan(Cell{Small, Local}, Cell{THP, Local})
		p.Finished = finished
		return p.Run(t.Context(), simulated(rand.New(rand.NewPCG(1, 2)), map[Pages]float64{Small: 1.5, THP: 1}), 5, nil)
	}
	want, err := measure(nil)
	if err != nil {
		t.Fatal(err)
	}
	var by []*Result
	got, err := measure(func(r *Result) error { by = append(by, r); return nil })
	if d := cmp.Diff(want, got); err != nil || d != "" || len(by) != Rounds-1 {
		t.Fatal(len(by), err, d)
	}
	for i, r := range by {
		if r.Rounds != i+1 || r.Cut == nil || *r.Cut != (evidence.Interruption{Done: i + 1, Planned: Rounds, Of: "rounds"}) || !slices.Equal(r.Records, want.Records[:2*(i+1)]) || len(r.Series) != 4 || !slices.Equal(r.Series[0].Samples, want.Series[0].Samples[:i+1]) {
			t.Errorf("after round %d: %+v", i+1, r)
		}
	}
	full := errors.New("no space left on device")
	got, err = measure(func(*Result) error { return full })
	if !errors.Is(err, full) || got == nil || got.Rounds != 1 || got.Cut == nil || len(got.Records) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
