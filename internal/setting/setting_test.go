package setting_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestOneIdentityPerPlace(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/sys/devices/pci0/block/sda/queue/scheduler":               "[none] mq-deadline\n",
		"/sys/devices/pci0/block/sda/queue/read_ahead_kb":           "128\n",
		"/sys/devices/virtual/bdi/8:0/read_ahead_kb":                "128\n",
		"/sys/devices/virtual/workqueue/writeback/cpumask":          "3\n",
		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "0\n",
		"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		"/proc/meminfo":                        "Hugepagesize:       2048 kB\n",
		"/outside":                             "x\n",
		"/sys/block/sda":                       "-> ../devices/pci0/block/sda",
		"/sys/dev/block/8:0":                   "-> ../../devices/pci0/block/sda",
		"/sys/class/bdi/8:0":                   "-> ../../devices/virtual/bdi/8:0",
		"/sys/bus/workqueue/devices/writeback": "-> ../../../devices/virtual/workqueue/writeback",
		"/sys/escape":                          "-> ../outside",
	})
	kinds := setting.Kernel(h)
	for given, want := range map[string]string{
		"vm.swappiness":                                             "sysctl:vm.swappiness",
		"vm/swappiness":                                             "sysctl:vm.swappiness",
		"/proc/sys/vm/swappiness":                                   "sysctl:vm.swappiness",
		"sysctl:net.ipv4.conf.eth0/100.rp_filter":                   "sysctl:net.ipv4.conf.eth0/100.rp_filter",
		"net/ipv4/conf/eth0.100/rp_filter":                          "sysctl:net.ipv4.conf.eth0/100.rp_filter",
		"vm.nr_hugepages_mempolicy":                                 "sysctl:vm.nr_hugepages",
		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "sysctl:vm.nr_hugepages",
		"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "sysfs:/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
		"/sys/block/sda/queue/scheduler":                            "sysfs:/sys/devices/pci0/block/sda/queue/scheduler",
		"/sys/block/sda/queue/missing":                              "sysfs:/sys/devices/pci0/block/sda/queue/missing",
		"/sys/class/bdi/8:0/read_ahead_kb":                          "sysfs:/sys/devices/pci0/block/sda/queue/read_ahead_kb",
		"/sys/bus/workqueue/devices/writeback/cpumask":              "sysfs:/sys/devices/virtual/workqueue/writeback/cpumask",
		"file:/etc/../etc/x":                                        "file:/etc/x",
	} {
		s, err := setting.Parse(given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if got, err := kinds.Resolve(s); err != nil || got.String() != want {
			t.Errorf("%s is %s, want %s (%v)", given, got, want, err)
		}
	}
	for _, bad := range []string{"sysctl:vm/../../../etc/passwd", "sysctl:", "sysfs:/etc/passwd", "sysfs:/sys/../etc/passwd", "/sys/escape", "file:relative", "file:/proc/self/mem", ":x", ""} {
		s, err := setting.Parse(bad)
		if err != nil {
			continue
		}
		if got, err := kinds.Resolve(s); err == nil {
			t.Errorf("%s resolves to %s, want a refusal", bad, got)
		}
	}
}

func TestEqualAsTheKernelPrints(t *testing.T) {
	kinds := setting.Kernel(machine.Mounted(t, nil))
	for _, c := range []struct {
		kind, a, b string
		equal      bool
	}{
		{"sysctl", "4096 87380 6291456", "4096\t87380\t6291456", true},
		{"sysctl", "010", "8", true}, // proc_get_long reads octal
		{"sysctl", "10", "010", false},
		{"sysctl", "0x10", "16", true},
		{"sysctl", "16", "10", false},
		{"sysctl", "1 2", "1 2 3", true}, // the third keeps its value
		{"sysctl", "1 2 3", "1 2", false},
		{"sysctl", "bbr", "cubic", false},
		{"sysfs", "f", "00000000,0000000f", true},
		{"sysfs", "ff", "0ff", false}, // 0ff may be a name
		{"sysfs", "f", "e", false},
		{"sysfs", "N", "Y", false},
		{"sysfs", "madvise", "always", false},
		{"sysctl", "Y", "1", false},
		{"sysctl", "8081", "80,81", false},
		{"sysfs", "1,2", "12", false},
		{"sysfs", "1,00000002", "00000001,00000002", true},
	} {
		s := setting.Setting{Kind: c.kind, Name: "x"}
		if got := kinds.Equal(s, setting.Text(c.a), setting.Text(c.b)); got != c.equal {
			t.Errorf("%s: %q and %q equal: %v, want %v", c.kind, c.a, c.b, got, c.equal)
		}
	}
	if kinds.Equal(setting.Setting{Kind: "sysctl", Name: "x"}, setting.Absent, setting.Text("")) {
		t.Error("absent equals empty")
	}
}

func TestValueKeepsEveryByte(t *testing.T) {
	for _, v := range []setting.Value{
		setting.Absent, setting.Text(""), setting.Text("a\tb"), setting.Text("\xff\xfe\x00"),
		{Text: "x\n", Attr: &host.Attr{Mode: 0o4755, UID: 1, GID: 2}},
		{Text: "\xff", Attr: &host.Attr{Mode: 0o600}},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var w setting.Value
		if err := json.Unmarshal(b, &w); err != nil {
			t.Fatal(err)
		}
		if w.Text != v.Text || w.Absent != v.Absent || (v.Attr == nil) != (w.Attr == nil) || v.Attr != nil && *v.Attr != *w.Attr {
			t.Errorf("%+v became %+v through %s", v, w, b)
		}
	}
}

func TestActiveWord(t *testing.T) {
	for text, want := range map[string]string{
		"always [madvise] never": "madvise", "[none] mq-deadline": "none", "plain": "plain", "[a] [b]": "[a] [b]", "[]": "[]", "x[1] y": "x[1] y",
	} {
		if got := setting.ActiveWord(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestFileComesBackToTheByte(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/etc/x.conf": "a\x00b\n", "/etc/link.conf": "-> x.conf"})
	ctx := context.Background()
	kinds := setting.Kernel(h)
	s, err := kinds.Resolve(setting.Setting{Kind: "file", Name: "/etc/link.conf"})
	if err != nil || s.Name != "/etc/x.conf" {
		t.Fatalf("%s, %v", s, err)
	}
	before, err := kinds.Read(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(kinds.Write(ctx, s, setting.Text("new\n")), kinds.Write(ctx, s, setting.Absent), kinds.Write(ctx, s, before)); err != nil {
		t.Fatal(err)
	}
	after, err := kinds.Read(ctx, s)
	if err != nil || !kinds.Equal(s, before, after) || *after.Attr != *before.Attr {
		t.Errorf("%+v, want %+v (%v)", after, before, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"vm.swappiness", "/sys/block/sda", "sysctl:a/b.c", "unit:x.service/y", "\x00", "a:b:c"} {
		f.Add(s)
	}
	kinds := setting.Kernel(host.Mounted(f.TempDir()))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := setting.Parse(text)
		if err != nil {
			return
		}
		r, err := kinds.Resolve(s)
		if err != nil {
			return
		}
		again, err := kinds.Resolve(r)
		if err != nil || again != r {
			t.Errorf("%q resolves to %s and that to %s (%v)", text, r, again, err)
		}
	})
}

// TestFiles: every path of a setting is listed, and resolves to it.
func TestFiles(t *testing.T) {
	kinds := setting.Kernel(machine.Mounted(t, map[string]string{
		"/proc/meminfo":                                          "Hugepagesize:       2048 kB\n",
		"/proc/sys/vm/nr_hugepages":                              "0\n",
		"/sys/devices/x/block/sda/dev":                           "8:0\n",
		"/sys/devices/x/block/sda/queue/read_ahead_kb":           "128\n",
		"/sys/devices/virtual/bdi/8:0/read_ahead_kb":             "128\n",
		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
		"/proc/sys/net/netfilter/nf_conntrack_buckets":           "1024\n",
		"/sys/module/nf_conntrack/parameters/hashsize":           "1024\n",
		"/sys/dev/block/8:0":                                     "-> ../../devices/x/block/sda",
	}))
	for _, c := range []struct {
		s    setting.Setting
		want []string
	}{
		{setting.Setting{"sysctl", "vm.swappiness"}, []string{"/proc/sys/vm/swappiness"}},
		{setting.Setting{"sysctl", "net.ipv4.conf.eth0/100.rp_filter"}, []string{"/proc/sys/net/ipv4/conf/eth0.100/rp_filter"}},
		{setting.Setting{"sysctl", "vm.nr_hugepages"}, []string{"/proc/sys/vm/nr_hugepages", "/proc/sys/vm/nr_hugepages_mempolicy", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages_mempolicy"}},
		{setting.Setting{"sysctl", "vm.nr_overcommit_hugepages"}, []string{"/proc/sys/vm/nr_overcommit_hugepages", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages"}},
		{setting.Setting{"sysctl", "net.netfilter.nf_conntrack_buckets"}, []string{"/proc/sys/net/netfilter/nf_conntrack_buckets", "/sys/module/nf_conntrack/parameters/hashsize"}},
		{setting.Setting{"sysfs", "/sys/devices/x/block/sda/queue/read_ahead_kb"}, []string{"/sys/devices/x/block/sda/queue/read_ahead_kb", "/sys/devices/virtual/bdi/8:0/read_ahead_kb"}},
		{setting.Setting{"sysfs", "/etc/passwd"}, nil},
		{setting.Setting{"file", "/etc/passwd"}, nil},
	} {
		got := kinds.KernelFiles(c.s)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.s, got, c.want)
		}
		for _, p := range got {
			named, err := setting.Parse(p)
			if err != nil {
				t.Fatal(err)
			}
			if id, err := kinds.Resolve(named); err != nil || id != c.s {
				t.Errorf("%s leads to %s (%v), want %s", p, id, err, c.s)
			}
		}
	}
}
