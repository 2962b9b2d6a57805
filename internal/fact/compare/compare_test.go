package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// machine returns a machine with the given files and 8 GiB of memory. More entries of an archive
// may follow.
func machine(t *testing.T, files map[string]string, entries ...string) *Snapshot {
	t.Helper()
	all := map[string]string{"/proc/sys/kernel/osrelease": "6.1.0", "/proc/meminfo": "MemTotal:        8388608 kB"}
	for p, text := range files {
		all[p] = text
	}
	var b strings.Builder
	b.WriteString("fettle archive v2\n")
	for _, dir := range []string{"/proc/sys", "/proc/sys/vm", "/proc/sys/kernel"} {
		fmt.Fprintf(&b, "-- dir 0755 %s --\n", dir)
	}
	for p, text := range all {
		fmt.Fprintf(&b, "-- file 0644 %s --\n%s\n", p, text)
	}
	b.WriteString(strings.Join(append(entries, "-- end --\n"), "\n"))
	h, err := host.ParseArchive("test", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compared(t *testing.T, lookup Lookup, machines ...*Snapshot) *Result {
	t.Helper()
	c := New()
	for i, m := range machines {
		if err := c.Add(fmt.Sprintf("m%d", i), m); err != nil {
			t.Fatal(err)
		}
	}
	r := c.Result(context.Background(), lookup)
	r.Conclude()
	return r
}

// find returns the difference of a name in a list, or nil.
func find(list []Difference, name string) *Difference {
	for i, d := range list {
		if slices.Contains(d.Names, name) {
			return &list[i]
		}
	}
	return nil
}

const swappiness = "/proc/sys/vm/swappiness"

func swap(v string) map[string]string { return map[string]string{swappiness: v} }

func TestMajority(t *testing.T) {
	normal := func() *Snapshot { return machine(t, swap("60")) }
	r := compared(t, nil, normal(), machine(t, swap("10")), normal(), normal())
	d := find(r.Settings, "vm.swappiness")
	if d == nil || len(d.Values) != 2 || !d.Values[0].Majority || *d.Values[0].Value != "60" || d.Values[0].Count != 3 || d.Values[0].Machines != nil ||
		*d.Values[1].Value != "10" || !slices.Equal(d.Values[1].Machines, []string{"m1"}) {
		t.Fatalf("%+v", d)
	}
	if r.Machines[1].Deviates != 1 || r.Machines[0].Deviates != 0 {
		t.Errorf("deviations: %+v", r.Machines)
	}
	if want := "4 machines: 1 setting deviates on 1 machine, m1"; r.Headline.Lines[0] != want {
		t.Errorf("headline %q, want %q", r.Headline.Lines[0], want)
	}

	r = compared(t, nil, normal(), machine(t, swap("10")), normal(), machine(t, swap("10")))
	if d := find(r.Settings, "vm.swappiness"); d == nil || d.Values[0].Majority {
		t.Errorf("half of the machines is not a majority: %+v", d)
	}
	if r.Headline.Figures["settings_without_majority"] != 1 || r.Machines[1].Deviates != 0 {
		t.Errorf("%+v %+v", r.Headline, r.Machines)
	}
}

// Unknown is never a difference, the majority, or a deviation; absent is a value.
func TestUnknownAndAbsent(t *testing.T) {
	unread := machine(t, nil, "-- file 0644 unread "+swappiness+" --")
	secret := machine(t, swap("[redacted]"))
	missing := machine(t, nil)
	for _, other := range []*Snapshot{unread, secret} {
		r := compared(t, nil, machine(t, swap("60")), other)
		if d := find(r.Settings, "vm.swappiness"); d != nil || r.NotCompared == 0 {
			t.Errorf("unknown counts as a difference: %+v, %d not compared", d, r.NotCompared)
		}
	}
	r := compared(t, nil, unread, unread, unread, machine(t, swap("60")), machine(t, swap("60")), machine(t, swap("10")))
	d := find(r.Settings, "vm.swappiness")
	if d == nil || !d.Values[0].Majority || *d.Values[0].Value != "60" || !slices.Equal(d.Unknown, []string{"m0", "m1", "m2"}) {
		t.Errorf("two of three known values are the majority: %+v", d)
	}
	for i, order := range [][]*Snapshot{{missing, machine(t, swap("60"))}, {machine(t, swap("60")), missing}} {
		r := compared(t, nil, order...)
		d := find(r.Settings, "vm.swappiness")
		if d == nil || d.Values[i].Value != nil || *d.Values[1-i].Value != "60" {
			t.Errorf("order %d: absent is a value: %+v", i, d)
		}
	}
	// A machine without a listing of the directory may have the setting.
	text := "fettle archive v2\n-- file 0644 /proc/sys/kernel/osrelease --\n6.1.0\n-- end --\n"
	h, err := host.ParseArchive("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if d := find(compared(t, nil, machine(t, swap("60")), s).Settings, "vm.swappiness"); d != nil {
		t.Errorf("a setting that is not recorded counts as absent: %+v", d)
	}
}

// What follows another value is folded, unless a file sets it. Sizes of memory that differ a little
// are one size.
func TestFollowers(t *testing.T) {
	memory := func(kib int, free string) map[string]string {
		return map[string]string{"/proc/meminfo": fmt.Sprintf("MemTotal: %d kB", kib), "/proc/sys/vm/min_free_kbytes": free}
	}
	small := func(free string) *Snapshot { return machine(t, memory(8388608, free)) }
	near := func(free string) *Snapshot { return machine(t, memory(8388100, free)) }
	large := func(free string) *Snapshot { return machine(t, memory(33554432, free)) }
	for _, c := range []struct {
		name     string
		machines []*Snapshot
		lookup   Lookup
		folded   string // of vm.min_free_kbytes; "" if it is listed
	}{
		{"a little", []*Snapshot{small("67584"), near("67580")}, nil, string(perBoot)},
		{"with memory", []*Snapshot{small("67584"), near("67580"), large("135168")}, nil, "what follows memory.total_bytes"},
		{"written by hand", []*Snapshot{small("67584"), near("1000000"), large("135168")}, nil, ""},
		{"set by a file", []*Snapshot{small("67584"), near("67580"), large("135168")}, func(_ int, q []Question) []*Source {
			out := make([]*Source, len(q))
			for i := range q {
				out[i] = &Source{By: "sysctl.d", File: "/etc/sysctl.d/99.conf", Line: 1}
			}
			return out
		}, ""},
	} {
		r := compared(t, c.lookup, c.machines...)
		listed, folded := find(r.Settings, "vm.min_free_kbytes"), find(r.Folded, "vm.min_free_kbytes")
		if (listed != nil) != (c.folded == "") || folded != nil && folded.Folded != c.folded {
			t.Errorf("%s: listed %+v, folded %+v", c.name, listed, folded)
		}
		if total := find(r.Facts, "memory.total_bytes"); (total != nil) != (len(c.machines) == 3) {
			t.Errorf("%s: memory %+v", c.name, total)
		}
	}
	// A sysctl that only a newer kernel has.
	r := compared(t, nil, machine(t, nil), machine(t, map[string]string{"/proc/sys/kernel/osrelease": "6.12.0", "/proc/sys/vm/defrag_mode": "0"}))
	if d := find(r.Folded, "vm.defrag_mode"); d == nil || d.Folded != "what follows kernel.release" {
		t.Errorf("%+v", d)
	}
	if d := find(r.Facts, "kernel.release"); d == nil {
		t.Error("the release of the kernel is not listed")
	}
}

// A device that a machine lacks is one difference, not one for each of its attributes; one row
// stands for devices with the same difference.
func TestDevices(t *testing.T) {
	disks := func(scheduler string, names ...string) *Snapshot {
		entries := []string{"-- dir 0755 /sys/block --"}
		for _, n := range names {
			entries = append(entries, "-- dir 0755 /sys/block/"+n+" --", "-- dir 0755 /sys/block/"+n+"/queue --", "-- file 0644 /sys/block/"+n+"/queue/scheduler --", scheduler)
		}
		return machine(t, nil, entries...)
	}
	r := compared(t, nil, disks("[none] mq-deadline", "vda", "vdb", "vdc"), disks("none [mq-deadline]", "vda", "vdb"))
	if d := find(r.Facts, "disk.vdc"); d == nil || len(d.Values) != 2 {
		t.Errorf("%+v", r.Facts)
	}
	if d := find(r.Settings, "disk.vdc.scheduler"); d != nil {
		t.Errorf("an attribute of a missing disk: %+v", d)
	}
	d := find(r.Settings, "disk.vda.scheduler")
	if d == nil || d.Name != "disk.{vda,vdb}.scheduler" || len(r.Settings) != 1 {
		t.Errorf("%+v", r.Settings)
	}
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"root=UUID=3f1c7b52-0000-4000-8000-1234567890ab ro", "root=UUID=aaaaaaaa-0000-4000-8000-1234567890ab ro", true},
		{"52:54:00:12:34:56", "52:54:00:ab:cd:ef", true},
		{"10.0.0.1:/export", "10.0.0.2:/export", true},
		{"fd00::1:2:3:4", "fd00::5:6:7:8", true},
		{"/dev/web17/root", "/dev/web18/root", true},
		{"/dev/web17/root", "/dev/web18/home", false},
		{"10", "60", false},
		{"4096 87380 6291456", "4096 131072 6291456", false},
		{"mq-deadline", "none", false},
	} {
		if got := withoutIdentity(c.a, "web17.example.com") == withoutIdentity(c.b, "web18.example.com"); got != c.same {
			t.Errorf("%q and %q: same %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  bool
	}{
		{[]string{"100", "101"}, true},
		{[]string{"100", "103"}, false},
		{[]string{"1000 2000 3000", "1001 2002 3003"}, true},
		{[]string{"1000 2000 3000", "1001 2002 6000"}, false},
		{[]string{"100", "100 100"}, false},
		{[]string{"100", "max"}, false},
		{[]string{"NaN", "NaN"}, false},
		{[]string{"0", "0"}, true},
		{[]string{"0", "1"}, false},
	} {
		if got := near(c.texts); got != c.want {
			t.Errorf("near(%q) = %v", c.texts, got)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.bc", false}, {"a.*", "a.b.c", true}, {"*.b", "a.b", true}, {"a.*.c", "a.b.b.c", true},
		{"a.*.c", "a.c", false}, {"a.*.c.*", "a.x.c.y", true}, {"a*a", "a", false}, {"*", "", true},
	} {
		if got := match(c.pattern, c.name); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

// Hostile input: long values, and more values than are compared.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", maxValueText+1)
	files := swap(long)
	for i := range maxValues + 10 {
		files[fmt.Sprintf("/proc/sys/vm/x%d", i)] = "1"
	}
	s := machine(t, files)
	if len(s.values) != maxValues {
		t.Errorf("%d values", len(s.values))
	}
	a, b := machine(t, swap(long+"a")), machine(t, swap(long+"b"))
	d := find(compared(t, nil, a, b).Settings, "vm.swappiness")
	if d == nil || len(*d.Values[0].Value) > maxValueText || *d.Values[0].Value == *d.Values[1].Value {
		t.Errorf("%+v", d)
	}
}

// The machines whose files explain the most differences are asked, at most maxLookups.
func TestLookups(t *testing.T) {
	var machines []*Snapshot
	for i := range 3 * maxLookups {
		machines = append(machines, machine(t, swap(fmt.Sprint(i))))
	}
	asked := map[int]bool{}
	r := compared(t, func(m int, q []Question) []*Source {
		asked[m] = true
		if len(q) != 1 || q[0].At != swappiness || q[0].Text != fmt.Sprint(m) {
			t.Errorf("machine %d is asked %+v", m, q)
		}
		return []*Source{{By: "sysctl.d", File: "/etc/x", Line: 3}}
	}, machines...)
	if len(asked) != maxLookups || len(r.Settings) != 1 {
		t.Errorf("%d machines asked", len(asked))
	}
}
