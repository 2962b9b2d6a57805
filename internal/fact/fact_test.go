package fact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// open parses an archive.
func open(t testing.TB, text string) *host.Host {
	t.Helper()
	h, err := host.ParseArchive("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// settled returns facts as JSON without the parts that differ between runs.
func settled(t testing.TB, f *Facts) string {
	t.Helper()
	g := *f
	g.Time, g.Collectors = time.Time{}, nil
	b, err := json.MarshalIndent(&g, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// The archive of this machine gives the same facts as this machine.
func TestArchiveGivesTheSameFacts(t *testing.T) {
	live, recording := Archive(host.Live())
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	h := open(t, text.String())
	again := Collect(h)
	if diff := cmp.Diff(settled(t, live), settled(t, again)); diff != "" {
		t.Errorf("live and archived facts differ:\n%s", diff)
	}
	if n, ok := live.CPU.Count.Get(); !ok || n < 1 {
		t.Errorf("this machine has %d CPUs", n)
	}
	if v, ok := live.Memory.TotalBytes.Get(); !ok || v < 64<<20 {
		t.Errorf("this machine has %d bytes of memory", v)
	}
	for _, r := range again.Collectors {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Name, r.Error)
		}
	}
	links, err := h.Net.Links()
	if err != nil || len(links) == 0 {
		t.Errorf("network devices of the archive: %v, %v", links, err)
	}
	for _, l := range links {
		if _, err := h.Net.Params(l.Name, host.NetRing); l.Kind == "device" && host.Unknown(err) {
			t.Errorf("the archive does not say whether %s has rings", l.Name)
		}
	}
	t.Logf("archive of %d bytes", text.Len())
}

func TestNoFactOfAnEmptyCopyHasAValue(t *testing.T) {
	h, err := host.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := Collect(h)
	for _, it := range f.List() {
		if it.Value != nil || it.Absent || it.Unknown == "" {
			t.Errorf("%s: value %v, absent %v, unknown %q", it.Name, it.Value, it.Absent, it.Unknown)
		}
	}
	for _, l := range Brief(f) {
		if !strings.Contains(l.Text, "unknown") {
			t.Errorf("brief %s: %q", l.Label, l.Text)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	f := Collect(host.Live())
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var g Facts
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settled(t, f), settled(t, &g)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(f.List()[:40], g.List()[:40], cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Source" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
}

// Every field of the tree has a unique name, and every collector fills an
// existing part.
func TestNames(t *testing.T) {
	f := Collect(host.Live())
	seen := map[string]bool{}
	for _, it := range f.List() {
		if seen[it.Name] {
			t.Errorf("%s is defined twice", it.Name)
		}
		seen[it.Name] = true
		if b, err := json.Marshal(it.Value); err != nil || it.Value != nil && string(b) == "null" {
			t.Errorf("%s is %s in JSON and has a value", it.Name, b)
		}
		if it.Time.IsZero() || it.Source == "" {
			t.Errorf("%s has no time or no source: %+v", it.Name, it)
		}
	}
	for _, c := range Collectors {
		found := false
		for name := range seen {
			found = found || strings.HasPrefix(name, c.Name+".") || name == c.Name
		}
		if !found {
			t.Errorf("collector %s fills nothing", c.Name)
		}
	}
	for _, name := range []string{"cpu.count", "memory.total_bytes", "kernel.release"} {
		if it, ok := f.Lookup(name); !ok || it.Value == nil {
			t.Errorf("%s: %+v, %v", name, it, ok)
		}
	}
	x := f.Index()
	disks, ok := x.Members("disk")
	if !ok || len(disks) != len(f.Disk.Names()) {
		t.Errorf("members of disk: %v, %v", disks, ok)
	}
	for _, d := range disks {
		if it, ok := x.Lookup("disk." + d + ".size_bytes"); !ok || it.Value == nil {
			t.Errorf("%s: %+v, %v", d, it, ok)
		}
	}
	if _, ok := x.Members("cpu.count"); ok {
		t.Error("a fact has members")
	}
	if _, ok := f.Lookup("cpu.count.of"); ok {
		t.Error("a name below a value was found")
	}
}

// A failing collector leaves reasons, and the others still run.
func TestFailingCollector(t *testing.T) {
	defer func(saved []Collector) { Collectors = saved }(Collectors)
	broken := append([]Collector{}, Collectors...)
	for i := range broken {
		if broken[i].Name == "memory" {
			broken[i].collect = func(r *reader, f *Facts) {
				f.Memory.TotalBytes = Known(int64(1), "x")
				panic("boom")
			}
		}
	}
	Collectors = broken
	f := Collect(host.Live())
	if it, _ := f.Lookup("memory.free_bytes"); !strings.Contains(it.Unknown, "collector memory failed: boom") {
		t.Errorf("%+v", it)
	}
	if !Is(f.Memory.TotalBytes, 1) {
		t.Error("what was read before is lost")
	}
	if !f.CPU.Count.known() || f.Disk.unknown != "" {
		t.Error("other collectors did not run")
	}
}

func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		Collect(host.Live())
	}
}

// The size of an archive of a copied tree is bounded.
func TestSweepIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSubdirs + 20 {
		machine.WriteFile(t, dir, fmt.Sprintf("proc/sys/net/ipv4/conf/veth%d/rp_filter", i), "1\n")
	}
	_, recording := Archive(host.Mounted(dir))
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "/rp_filter --"); n != maxSubdirs+20 { // named by the count of sysctls
		t.Errorf("%d files are named", n)
	}
	if n := strings.Count(text.String(), " unread /proc/sys/net/ipv4/conf/veth"); n != 20 {
		t.Errorf("%d files are unread, want 20", n)
	}
}
