package disk

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/bench/fio"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

func TestPlanFillsItsTime(t *testing.T) {
	for mode, want := range map[Mode]time.Duration{Quick: 2 * time.Minute, Full: 10 * time.Minute} {
		for _, places := range []int{1, 3} {
			p := NewPlan(mode, places, 0)
			sum := time.Duration(places) * laying
			seen := map[Step]bool{}
			for _, s := range p.Steps() {
				if seen[s] {
					t.Errorf("%s: %+v twice", mode, s)
				}
				seen[s] = true
				c := p.Cells[s.Cell]
				sum += starting + time.Duration(c.weight)*p.unit
			}
			if all := len(p.Cells) * p.Repeats * places; len(seen) != all {
				t.Errorf("%s: %d steps, want %d", mode, len(seen), all)
			}
			if p.Takes() != want*time.Duration(places) || (sum-p.Takes()).Abs() > 2*time.Second*time.Duration(places) {
				t.Errorf("%s on %d: says %v, want %v, and is %v", mode, places, p.Takes(), want, sum)
			}
			if p.Repeats < 3 {
				t.Errorf("%s: %d repeats", mode, p.Repeats)
			}
		}
	}
	// A full run looks at its streams for long enough to say whether they are steady.
	full := NewPlan(Full, 1, 0)
	for _, c := range full.Cells {
		if c.weight == 3 && full.runtime(c) < long {
			t.Errorf("%s: %v", c.Name, full.runtime(c))
		}
	}
}

// Several directories are measured turn by turn, none always first, and no cell
// always late.
func TestPlanInterleaves(t *testing.T) {
	p := NewPlan(Quick, 2, 0)
	steps := p.Steps()
	first := map[int]int{}
	for i := 0; i < len(steps); i += 2 {
		if steps[i].Cell != steps[i+1].Cell || steps[i].Place == steps[i+1].Place {
			t.Fatalf("steps %d and %d are %+v and %+v", i, i+1, steps[i], steps[i+1])
		}
		first[steps[i].Place]++
	}
	if d := first[0] - first[1]; d < -2 || d > 2 {
		t.Errorf("first: %v", first)
	}
	if a, b := steps[0].Cell, steps[len(p.Cells)*2].Cell; a != 0 || b != len(p.Cells)-1 {
		t.Errorf("rounds begin with cells %d and %d", a, b)
	}
}

func TestFileSize(t *testing.T) {
	const gib = int64(unit.GiB)
	for _, c := range []struct {
		asked, free int64
		sharers     int
		want        int64
		fault       string
	}{
		{0, 100 * gib, 1, gib, ""},
		{0, 2 * gib, 1, gib/2 - logSize, ""},
		{0, 400 << 20, 1, 0, "a quarter of the free space is 100 MiB"},
		{0, 0, 1, 0, "a quarter of the free space is 0 B"},
		{128 << 20, 400 << 20, 2, 0, "make room until 1024 MiB are free"}, // a smaller one is not possible either
		{8 << 20, 400 << 20, 1, 0, "make room until 512 MiB are free"},
		{8 * gib, 40 * gib, 1, 8 * gib, ""},
		{8 * gib, 40 * gib, 2, 0, "more than a quarter"},
		{8 << 20, 40 * gib, 1, 0, "a file of 8 MiB is too small: 64 MiB is the least, because"},
		{8 << 20, 40 * gib, 1, 0, "; 64MiB to 10176MiB are possible here"},
		{1 << 10, 40 * gib, 1, 0, "a file of 1.00 KiB is too small"},
		{20 * gib, 40 * gib, 1, 0, "which is 10.0 GiB: 64MiB to 10176MiB are possible here"},
		{math.MaxInt64, 40 * gib, 1, 0, "more than a quarter"},
	} {
		got, err := FileSize(c.asked, c.free, c.sharers)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%d of %d: %d, %v; want %d, %q", c.asked, c.free, got, err, c.want, c.fault)
		}
		if err == nil && (got+logSize)*int64(c.sharers)*4 > c.free {
			t.Errorf("%d of %d: more than a quarter", got, c.free)
		}
	}
}

// device is a simulated one: its speed in bytes per second by what was written.
func simulate(seconds int, speed func(written float64) float64) (perSecond []float64) {
	written := 0.0
	for range seconds {
		v := speed(written)
		written += v
		perSecond = append(perSecond, v)
	}
	return perSecond
}

// endOf is when a run with --sustained ends, and what it says then.
func endOf(perSecond []float64) (int, Steady) {
	for n := range perSecond {
		if lasting(perSecond[:n]) {
			return n, settled(perSecond[:n], window(Sustained, n))
		}
	}
	return len(perSecond), settled(perSecond, window(Sustained, len(perSecond)))
}

func TestSteady(t *testing.T) {
	const gb = 1e9
	wobble := func(v float64, n float64) float64 { return v * (1 + 0.1*math.Sin(n/gb*1.7)) }
	cliff := func(at, before, after float64) func(float64) float64 {
		return func(written float64) float64 {
			if written < at {
				return before
			}
			return wobble(after, written)
		}
	}
	for name, c := range map[string]struct {
		device func(float64) float64
		state  State
		last   float64 // of the speed at the end
		ends   bool    // before the ten minutes
	}{
		"as fast as ever":           {func(float64) float64 { return 500e6 }, Yes, 500e6, true},
		"wobbles":                   {func(w float64) float64 { return wobble(500e6, w) }, Yes, 500e6, true},
		"a cache of 40 GB":          {cliff(40*gb, 1000e6, 100e6), Yes, 100e6, true},
		"a cache of 100 GB":         {cliff(100*gb, 1000e6, 100e6), Yes, 100e6, true},
		"ends on the cliff":         {cliff(570*gb, 1000e6, 20e6), Yes, 1000e6, true}, // it says after how much
		"slower and slower":         {func(w float64) float64 { return max(0, 1000e6-w/200) }, No, 0, false},
		"stands still":              {cliff(10*gb, 1000e6, 0), No, 0, false},
		"two speeds, turn and turn": {func(w float64) float64 { return []float64{900e6, 300e6}[int(w/(12*gb))%2] }, No, 0, false},
	} {
		at, s := endOf(simulate(600, c.device))
		if c.ends != (at < 600) {
			t.Errorf("%s: ends after %d s", name, at)
		}
		if c.ends && s.State != c.state || !c.ends && s.State == Yes {
			t.Errorf("%s: %+v, want %s", name, s, c.state)
		}
		if c.last > 0 && math.Abs(s.LastBytesPS-c.last) > 0.1*c.last {
			t.Errorf("%s: %.3g bytes/s at the end, want %.3g", name, s.LastBytesPS, c.last)
		}
	}
	// The value is the speed that lasts.
	fallen := simulate(300, cliff(40*gb, 1000e6, 100e6))
	write, _ := Find("write")
	mixed, _ := Find("randrw")
	v := Visit{Value: 220, PerSecond: fallen}
	if got := lastly(write, &v); math.Abs(got-100) > 10 {
		t.Errorf("%.3g MB/s, want 100", got)
	}
	if got := lastly(mixed, &v); math.Abs(got-100e6/4096) > 2500 {
		t.Errorf("%.4g 1/s, want %.4g", got, 100e6/4096)
	}
	if got := lastly(write, &Visit{Value: 220, PerSecond: fallen[:5]}); got != 220 {
		t.Errorf("of 5 s: %.3g", got)
	}
	if text := settled(fallen, usualWindow).Text(); !strings.HasPrefix(text, "yes, for 60 s; 7") || !strings.Contains(text, " MB/s at first, ") {
		t.Error(text)
	}
	// A short run sees the cache alone, and does not say that this is how it stays.
	short := simulate(3, cliff(40*gb, 1000e6, 100e6))
	if s := settled(short, window(Quick, len(short))); s.State != NotTested {
		t.Errorf("3 s: %+v", s)
	}
	// And one that is long enough to see the cliff says no.
	if s := settled(simulate(14, cliff(10*gb, 1000e6, 100e6)), shortWindow); s.State != No || s.Excursion < 1 {
		t.Errorf("with the cliff in the window: %+v", s)
	}
}

func TestFit(t *testing.T) {
	var sizes, times []float64
	for _, b := range blockSizes {
		sizes, times = append(sizes, float64(b)), append(times, 80e-6+float64(b)/700e6)
	}
	f := fit(sizes, times)
	if f == nil || math.Abs(f.FixedS-80e-6) > 1e-9 || math.Abs(f.BytesPS-700e6) > 1 || f.Worst > 1e-9 {
		t.Errorf("%+v", f)
	}
	// The small blocks count as much as the large ones.
	times[0] *= 1.2
	if g := fit(sizes, times); g == nil || math.Abs(g.BytesPS-700e6) > 0.05*700e6 || g.FixedS < 80e-6 || g.Worst < 0.05 {
		t.Errorf("%+v", g)
	}
	// The table of source 001: 4k 15.3, 16k 52, 1M 489, 4M 828 MiB/s.
	sizes, times = nil, nil
	for _, r := range []struct{ kib, mibs float64 }{{4, 15.3}, {16, 52}, {1024, 489}, {4096, 828}} {
		sizes, times = append(sizes, r.kib*1024), append(times, r.kib/1024/r.mibs)
	}
	if f := fit(sizes, times); f == nil || f.Worst > 0.3 || f.FixedS < 200e-6 || f.FixedS > 300e-6 {
		t.Errorf("%+v", f)
	}
	if f := fit([]float64{1, 2, 3}, []float64{3, 2, 1}); f != nil {
		t.Errorf("larger requests that are quicker: %+v", f)
	}
}

// A rung that is doubtful has no part in the fit, and is marked in the curve.
func TestFitDoubtful(t *testing.T) {
	var results []Result
	for _, b := range blockSizes {
		r := Result{Cell: Cell{Name: "block-" + kib(b), BlockBytes: b}, Value: 5, MeanS: 80e-6 + float64(b)/700e6}
		if b == 16<<10 {
			r.MeanS, r.Doubts = 10*r.MeanS, []Doubt{{Shallow, "is none"}, {Noisy, "others"}}
		}
		results = append(results, r)
	}
	m := measured(place(fact.ClassSSD, "sda"), results)
	if m.Fit == nil || m.Fit.Worst > 1e-9 || len(m.Unfitted) != 1 || m.Unfitted[0] != "block-16k" {
		t.Errorf("%+v, without %v", m.Fit, m.Unfitted)
	}
	c := curves([]Measured{m})
	if got := strings.Join(c[0].Lines[0].Doubts, ","); got != ",noisy,,,," {
		t.Errorf("doubts %q", got)
	}
	for i := range results {
		results[i].Doubts = []Doubt{{Cached, "all of them"}}
	}
	if m := measured(place(fact.ClassSSD, "sda"), results); m.Fit != nil || len(m.Unfitted) != 6 {
		t.Errorf("%+v, without %v", m.Fit, m.Unfitted)
	}
	for i := range results {
		results[i].Doubts = nil
	}
	if c := curves([]Measured{measured(place(fact.ClassSSD, "sda"), results)}); c[0].Lines[0].Doubts != nil {
		t.Errorf("%+v", c)
	}
}

func place(class fact.Class, device string) *Place {
	p := &Place{Directory: "/d", SizeBytes: usualSize, Storage: fact.Storage{Type: "ext4", Device: device, Class: class}}
	if device != "" {
		p.Storage.Layers = []fact.Layer{{Device: device}}
	}
	return p
}

func TestDoubts(t *testing.T) {
	read := func(bytes, ios int64) *fio.Side { return &fio.Side{Bytes: bytes, IOs: ios} }
	const mb = 1 << 20
	direct, _ := Find("block-64k")
	write, _ := Find("write")
	etcd, _ := Find("etcd")
	warm, _ := Find("cached-read")
	cold, _ := Find("buffered-read")
	deep, _ := Find("depth-32")
	disk := place(fact.ClassSSD, "sda")
	for name, c := range map[string]struct {
		cell  Cell
		place *Place
		visit Visit
		want  string
	}{
		"as it should be":                {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 101 * mb, Reads: 1700, Writes: 3, WrittenBytes: 20 << 10}}, ""},
		"silently buffered, cached":      {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 3 * mb}, "cached"},
		"silently buffered, not cached":  {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 102 * mb, Resident: new(0.09)}, "cached"},
		"silently buffered writes":       {write, disk, Visit{InFlight: 8, Write: read(100*mb, 100), Resident: new(0.09)}, "cached"},
		"left behind by others":          {write, disk, Visit{InFlight: 8, Write: read(1000*mb, 100), Resident: new(0.01)}, ""},
		"a read-ahead too many":          {cold, disk, Visit{Read: read(100*mb, 25600), StorageBytes: 106 * mb, Resident: new(0.1)}, ""},
		"cold that was warm":             {cold, disk, Visit{Read: read(100*mb, 25600), StorageBytes: 40 * mb}, "cached"},
		"warm":                           {warm, disk, Visit{Read: read(900*mb, 200000), Resident: new(0.06)}, ""},
		"warm that was cold":             {warm, disk, Visit{Read: read(100*mb, 25600), StorageBytes: 60 * mb}, "not-cached"},
		"others read":                    {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 120 * mb, Reads: 2000}}, "contended"},
		"others write":                   {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 100 * mb, WrittenBytes: 20 * mb, Writes: 20}}, "contended"},
		"others write in small pieces":   {direct, disk, Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 100 * mb, WrittenBytes: mb / 2, Writes: 200}}, "contended"},
		"others read meanwhile we write": {write, disk, Visit{InFlight: 8, Write: read(100*mb, 100), Device: &Traffic{WrittenBytes: 100 * mb, ReadBytes: 30 * mb, Reads: 30}}, "contended"},
		"others write as we do":          {write, disk, Visit{InFlight: 8, Write: read(100*mb, 100), Device: &Traffic{WrittenBytes: 200 * mb}}, "contended"},
		"the journal's part":             {etcd, disk, Visit{Write: read(10*mb, 1300), Sync: &fio.Latency{N: 1300}, Device: &Traffic{WrittenBytes: 40 * mb, Writes: 4000}}, ""},
		"too few syncs":                  {etcd, disk, Visit{Write: read(mb, 130), Sync: &fio.Latency{N: 130}}, "few"},
		"32 in flight":                   {deep, disk, Visit{Read: read(100*mb, 25600), StorageBytes: 100 * mb, InFlight: 31.8}, ""},
		"a few in flight":                {deep, disk, Visit{Read: read(100*mb, 25600), StorageBytes: 100 * mb, InFlight: 3}, "shallow"},
		"tmpfs":                          {direct, place(fact.ClassMemory, ""), Visit{Read: read(100*mb, 1600)}, "memory"},
		"a network that does not count":  {direct, place(fact.ClassNetwork, ""), Visit{Read: read(100*mb, 1600)}, "unproven"},
		"a network that counts":          {direct, place(fact.ClassNetwork, ""), Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb}, ""},
	} {
		var kinds []string
		for _, d := range doubts(c.cell, c.place, &c.visit) {
			kinds = append(kinds, string(d.Kind))
			if d.Text == "" {
				t.Errorf("%s: %s without a reason", name, d.Kind)
			}
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	refusing := place(fact.ClassSSD, "sda")
	refusing.NoDirect = "it refuses"
	if d := doubts(direct, refusing, &Visit{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Resident: new(0.1)}); len(d) != 1 || d[0].Kind != Refused {
		t.Errorf("%v", d)
	}
}

func TestJudge(t *testing.T) {
	stream := func(mibs ...float64) Result {
		var visits []Visit
		c, _ := Find("read")
		for _, m := range mibs {
			visits = append(visits, Visit{Value: m * (1 << 20) / 1e6, Read: &fio.Side{Bytes: 1 << 30}, StorageBytes: 1 << 30})
		}
		return result(Quick, c, visits)
	}
	etcd := func(p99, rate float64) Result {
		c, _ := Find("etcd")
		v := Visit{Value: p99, Write: &fio.Side{IOPS: rate}, Sync: &fio.Latency{N: 1500, P99: p99 / 1000}}
		return result(Quick, c, []Visit{v, v, v})
	}
	for _, c := range []struct {
		class   fact.Class
		role    Role
		results []Result
		want    string
	}{
		{fact.ClassVirtual, "", []Result{stream(59, 59, 59)}, "fail"},
		{fact.ClassVirtual, "", []Result{stream(60, 61, 62)}, "warn"},
		{fact.ClassVirtual, "", []Result{stream(80, 81, 82)}, "pass"},
		{fact.ClassSAN, Pulp, []Result{stream(130, 131, 132), etcd(20, 30)}, "pass"},
		{fact.ClassHDD, "", []Result{stream(90, 91, 92)}, "pass warn"},
		{fact.ClassSSD, "", []Result{stream(500, 500, 500)}, "pass warn"},
		{fact.ClassNVMe, "", []Result{stream(2000, 2000, 2000)}, "pass pass"},
		{fact.ClassVirtual, "", []Result{stream(100, 120, 140)}, "no verdict"},
		{fact.ClassVirtual, "", []Result{stream(100, 110, 124)}, "pass"},
		{fact.ClassVirtual, Etcd, []Result{stream(10, 10, 10), etcd(9.9, 600)}, "pass pass"},
		{fact.ClassVirtual, Etcd, []Result{etcd(10, 60)}, "fail pass"},
		{fact.ClassVirtual, Etcd, []Result{etcd(2, 49)}, "pass fail"},
		{fact.ClassVirtual, PostgreSQL, []Result{stream(300, 300, 300), etcd(25, 60)}, "pass warn"},
		{fact.ClassVirtual, Satellite, []Result{stream(300, 300, 300), etcd(25, 60)}, "pass warn"},
		{fact.ClassVirtual, "", []Result{stream(300, 300, 300), etcd(25, 60)}, "pass fail pass"},
	} {
		p := place(c.class, "sda")
		p.Role = c.role
		var words []string
		for _, j := range judge(p, c.results) {
			words = append(words, string(j.Verdict))
			if j.Source == "" || j.Verdict != Pass && j.Text == "" {
				t.Errorf("%+v", j)
			}
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s %s %.0f: %q, want %q", c.class, c.role, c.results[0].Value, got, c.want)
		}
	}
	cached := stream(5000, 5000, 5000)
	cached.Doubts = []Doubt{{Cached, "only 3 % came from storage"}}
	if j := judge(place(fact.ClassNVMe, "sda"), []Result{cached}); j[0].Verdict != NoVerdict || j[0].Text != cached.Doubts[0].Text {
		t.Errorf("a cache: %+v", j)
	}
	if w := Overall([]Judgment{{Verdict: Pass}, {Verdict: NoVerdict}, {Verdict: Warn}}); w != Warn {
		t.Error(w)
	}
	if w := Overall(nil); w != NoVerdict {
		t.Error(w)
	}
}

// The confusion of the solution's comments: the disk that streams 500 MB/s is one that
// foreman-maintain calls too slow.
func TestForemanMaintain(t *testing.T) {
	small, _ := Find("block-4k")
	for value, want := range map[float64]string{35: "fail", 68: "pass", 62.8: "fail", 63: "pass"} {
		f := foremanMaintain([]Result{{Cell: small, Value: value}})
		if f == nil || f.Says != want || math.Abs(f.MiBPS-value/1.048576) > 1e-9 {
			t.Errorf("%g MB/s: %+v, want %s", value, f, want)
		}
	}
}

// One disturbed repeat of three shows in the spread; two are a doubt.
func TestDoubtsOfACell(t *testing.T) {
	c, _ := Find("read")
	visit := func(kinds ...DoubtKind) Visit {
		v := Visit{Value: 100, Read: &fio.Side{Bytes: 1}}
		for _, k := range kinds {
			v.Doubts = append(v.Doubts, Doubt{k, "x"})
		}
		return v
	}
	for want, visits := range map[string][]Visit{
		"":                 {visit(), visit(), visit(Contended)},
		"contended":        {visit(Contended), visit(), visit(Contended)},
		"cached contended": {visit(Contended, Cached), visit(Cached), visit(Contended)},
	} {
		var kinds []string
		for _, d := range result(Quick, c, visits).Doubts {
			kinds = append(kinds, string(d.Kind))
		}
		slices.Sort(kinds)
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSeries(t *testing.T) {
	etcd, _ := Find("etcd")
	read, _ := Find("read")
	e := Evidence{Plan: NewPlan(Quick, 1, 0), Places: []Measured{{Place: Place{Directory: "/srv"}, Results: []Result{
		result(Quick, read, []Visit{{Value: 5, Read: &fio.Side{}}, {Value: 6, Read: &fio.Side{}}}),
		result(Quick, etcd, []Visit{{Value: 2, Write: &fio.Side{IOPS: 700}, Sync: &fio.Latency{}}}),
	}}}}
	e.Sum("kvm")
	want := "[{disk:stream-read@/srv MB/s true [5 6]} {disk:etcd@/srv ms false [2]} {disk:etcd-rate@/srv 1/s true [700]}]"
	if got := fmt.Sprint(e.Series); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w := strings.Join(e.Warnings, "\n"); !strings.Contains(w, "not the speed that lasts") || !strings.Contains(w, "guest (kvm)") {
		t.Error(w)
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{"randrw": "randrw-qd32", "etcd": "etcd", "block-256k": "block-256k", "depth-16": "depth-16"} {
		if c, err := Find(name); err != nil || c.Name != want {
			t.Errorf("%s: %s, %v", name, c.Name, err)
		}
	}
	if _, err := Find("nope"); err == nil || !strings.Contains(err.Error(), "stream-read") {
		t.Error(err)
	}
}

// TestNoRoom: a file that the disk has no blocks for is that, whatever the free space said.
func TestNoRoom(t *testing.T) {
	p, err := LookAt(host.Live(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p.SizeBytes = 1 << 60
	if err := p.Open(); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	for why, want := range map[error]error{unix.EDQUOT: ErrNoRoom, unix.EROFS: ErrUnwritable, unix.EPERM: ErrUnwritable} {
		if err := unmade(&os.PathError{Op: "x", Path: "y", Err: why}); !errors.Is(err, want) || !errors.Is(err, why) {
			t.Error(err)
		}
	}
	if err := unmade(unix.EIO); err != unix.EIO {
		t.Error(err)
	}
}
