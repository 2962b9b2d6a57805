package disk

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// simulate returns a simulated device, whose speed in bytes per second depends on the amount
// written.
func simulate(seconds int, speed func(written float64) float64) (perSecond []float64) {
	written := 0.0
	for range seconds {
		v := speed(written)
		written += v
		perSecond = append(perSecond, v)
	}
	return perSecond
}

// endOf returns the end of a run with --sustained, and its text.
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
	v := Sample{Value: 220, PerSecond: fallen}
	if got := lastly(write, &v); math.Abs(got-100) > 10 {
		t.Errorf("%.3g MB/s, want 100", got)
	}
	if got := lastly(mixed, &v); math.Abs(got-100e6/4096) > 2500 {
		t.Errorf("%.4g 1/s, want %.4g", got, 100e6/4096)
	}
	if got := lastly(write, &Sample{Value: 220, PerSecond: fallen[:5]}); got != 220 {
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

func place(class fact.Class, device string) *Place {
	p := &Place{Directory: "/d", SizeBytes: usualSize, Storage: fact.Storage{Type: "ext4", Device: device, Class: class}}
	if device != "" {
		p.Storage.Layers = []fact.Layer{{Device: device}}
	}
	return p
}

func TestDoubts(t *testing.T) {
	read := func(bytes, ios int64) *Side { return &Side{Bytes: bytes, IOs: ios} }
	const mb = 1 << 20
	direct, _ := Find("block-64k")
	write, _ := Find("write")
	etcd, _ := Find("etcd")
	warm, _ := Find("cached-read")
	cold, _ := Find("buffered-read")
	deep, _ := Find("depth-32")
	disk := place(fact.ClassSSD, "sda")
	for name, c := range map[string]struct {
		cell   Cell
		place  *Place
		sample Sample
		want   string
	}{
		"as it should be":                {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 101 * mb, Reads: 1700, Writes: 3, WrittenBytes: 20 << 10}}, ""},
		"silently buffered, cached":      {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 3 * mb}, "cached"},
		"silently buffered, not cached":  {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 102 * mb, Resident: new(0.09)}, "cached"},
		"silently buffered writes":       {write, disk, Sample{InFlight: 8, Write: read(100*mb, 100), Resident: new(0.09)}, "cached"},
		"left behind by others":          {write, disk, Sample{InFlight: 8, Write: read(1000*mb, 100), Resident: new(0.01)}, ""},
		"a read-ahead too many":          {cold, disk, Sample{Read: read(100*mb, 25600), StorageBytes: 106 * mb, Resident: new(0.1)}, ""},
		"cold that was warm":             {cold, disk, Sample{Read: read(100*mb, 25600), StorageBytes: 40 * mb}, "cached"},
		"warm":                           {warm, disk, Sample{Read: read(900*mb, 200000), Resident: new(0.06)}, ""},
		"warm that was cold":             {warm, disk, Sample{Read: read(100*mb, 25600), StorageBytes: 60 * mb}, "not-cached"},
		"others read":                    {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 120 * mb, Reads: 2000}}, "contended"},
		"others write":                   {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 100 * mb, WrittenBytes: 20 * mb, Writes: 20}}, "contended"},
		"others write in small pieces":   {direct, disk, Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Device: &Traffic{ReadBytes: 100 * mb, WrittenBytes: mb / 2, Writes: 200}}, "contended"},
		"others read meanwhile we write": {write, disk, Sample{InFlight: 8, Write: read(100*mb, 100), Device: &Traffic{WrittenBytes: 100 * mb, ReadBytes: 30 * mb, Reads: 30}}, "contended"},
		"others write as we do":          {write, disk, Sample{InFlight: 8, Write: read(100*mb, 100), Device: &Traffic{WrittenBytes: 200 * mb}}, "contended"},
		"the journal's part":             {etcd, disk, Sample{Write: read(10*mb, 1300), Sync: &Latency{N: 1300}, Device: &Traffic{WrittenBytes: 40 * mb, Writes: 4000}}, ""},
		"too few syncs":                  {etcd, disk, Sample{Write: read(mb, 130), Sync: &Latency{N: 130}}, "few"},
		"32 in flight":                   {deep, disk, Sample{Read: read(100*mb, 25600), StorageBytes: 100 * mb, InFlight: 31.8}, ""},
		"a few in flight":                {deep, disk, Sample{Read: read(100*mb, 25600), StorageBytes: 100 * mb, InFlight: 3}, "shallow"},
		"tmpfs":                          {direct, place(fact.ClassMemory, ""), Sample{Read: read(100*mb, 1600)}, "memory"},
		"a network that does not count":  {direct, place(fact.ClassNetwork, ""), Sample{Read: read(100*mb, 1600)}, "unproven"},
		"a network that counts":          {direct, place(fact.ClassNetwork, ""), Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb}, ""},
	} {
		var kinds []string
		for _, d := range doubts(c.cell, c.place, &c.sample) {
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
	if d := doubts(direct, refusing, &Sample{Read: read(100*mb, 1600), StorageBytes: 100 * mb, Resident: new(0.1)}); len(d) != 1 || d[0].Kind != Refused {
		t.Errorf("%v", d)
	}
}

func TestJudge(t *testing.T) {
	stream := func(mibs ...float64) Result {
		var samples []Sample
		c, _ := Find("read")
		for _, m := range mibs {
			samples = append(samples, Sample{Value: m * (1 << 20) / 1e6, Read: &Side{Bytes: 1 << 30}, StorageBytes: 1 << 30})
		}
		return result(Quick, c, samples)
	}
	etcd := func(p99, rate float64) Result {
		c, _ := Find("etcd")
		v := Sample{Value: p99, Write: &Side{IOPS: rate}, Sync: &Latency{N: 1500, P99: p99 / 1000}}
		return result(Quick, c, []Sample{v, v, v})
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
	if w := overall([]Judgment{{Verdict: Pass}, {Verdict: NoVerdict}, {Verdict: Warn}}); w != Warn {
		t.Error(w)
	}
	if w := overall(nil); w != NoVerdict {
		t.Error(w)
	}
}

// TestForemanMaintain tests the case that Red Hat's solution confuses: a disk that streams 500 MB/s
// is too slow for foreman-maintain.
func TestForemanMaintain(t *testing.T) {
	small, _ := Find("block-4k")
	for value, want := range map[float64]string{35: "fail", 68: "pass", 62.8: "fail", 63: "pass"} {
		f := foremanMaintain([]Result{{Cell: small, Value: value}})
		if f == nil || f.Says != want || math.Abs(f.MiBPS-value/1.048576) > 1e-9 {
			t.Errorf("%g MB/s: %+v, want %s", value, f, want)
		}
	}
}

// TestDoubtsOfACell tests that one disturbed repeat of three increases the spread, and that two are
// a doubt.
func TestDoubtsOfACell(t *testing.T) {
	c, _ := Find("read")
	sample := func(kinds ...DoubtKind) Sample {
		v := Sample{Value: 100, Read: &Side{Bytes: 1}}
		for _, k := range kinds {
			v.Doubts = append(v.Doubts, Doubt{k, "x"})
		}
		return v
	}
	for want, samples := range map[string][]Sample{
		"":                 {sample(), sample(), sample(Contended)},
		"contended":        {sample(Contended), sample(), sample(Contended)},
		"cached contended": {sample(Contended, Cached), sample(Cached), sample(Contended)},
	} {
		var kinds []string
		for _, d := range result(Quick, c, samples).Doubts {
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
		result(Quick, read, []Sample{{Value: 5, Read: &Side{}}, {Value: 6, Read: &Side{}}}),
		result(Quick, etcd, []Sample{{Value: 2, Write: &Side{IOPS: 700}, Sync: &Latency{}}}),
	}}}}
	e.Sum("kvm")
	want := "[{disk:stream-read@/srv MB/s true [5 6]} {disk:etcd@/srv ms false [2]} {disk:etcd-rate@/srv 1/s true [700]}]"
	if got := fmt.Sprint(e.Series); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w := strings.Join(e.Warnings, "\n"); !strings.Contains(w, "--sustained measures the sustained speed") || !strings.Contains(w, "guest (kvm)") {
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

// TestNoRoom tests that a lack of disk blocks is reported as such, whatever the free space was
// before.
func TestNoRoom(t *testing.T) {
	p, err := LookAt(host.Live(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p.SizeBytes = 1 << 60
	if err := p.Open(); !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
	for why, want := range map[error]error{unix.EDQUOT: errNoRoom, unix.EROFS: errUnwritable, unix.EPERM: errUnwritable} {
		if err := unmade(&os.PathError{Op: "x", Path: "y", Err: why}); !errors.Is(err, want) || !errors.Is(err, why) {
			t.Error(err)
		}
	}
	if err := unmade(unix.EIO); err != unix.EIO {
		t.Error(err)
	}
}
