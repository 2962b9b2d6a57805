package profiles_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/profiles"
)

// The table "tuned Profile Summary" of Skinner's slides, cell by cell as it is
// printed. An empty cell says nothing.
var (
	summaryColumns = []string{"default", "enterprise-storage", "virtual-host", "virtual-guest", "latency-performance", "throughput-performance"}
	summaryRows    = []struct {
		tunable string
		cells   [6]string
	}{
		{"kernel.sched_min_granularity_ns", [6]string{"4ms", "10ms", "10ms", "10ms", "", "10ms"}},
		{"kernel.sched_wakeup_granularity_ns", [6]string{"4ms", "15ms", "15ms", "15ms", "", "15ms"}},
		{"vm.dirty_ratio", [6]string{"20% RAM", "40%", "10%", "40%", "", "40%"}},
		{"vm.dirty_background_ratio", [6]string{"10% RAM", "", "5%", "", "", ""}},
		{"vm.swappiness", [6]string{"60", "", "10", "30", "", ""}},
		{"I/O Scheduler (Elevator)", [6]string{"CFQ", "deadline", "deadline", "deadline", "deadline", "deadline"}},
		{"Filesystem Barriers", [6]string{"On", "Off", "Off", "Off", "", ""}},
		{"CPU Governor", [6]string{"ondemand", "performance", "", "", "performance", "performance"}},
		{"Disk Read-ahead", [6]string{"", "4x", "", "", "", ""}},
		{"Disable THP", [6]string{"", "", "", "", "Yes", ""}},
		{"CPU C-States", [6]string{"", "", "", "", "Locked @ 1", ""}},
	}
	// summaryNames are the twelve profiles of "tuned-adm list" in the slides.
	summaryNames = []string{
		"virtual-host", "laptop-ac-powersave", "virtual-guest", "server-powersave", "desktop-powersave", "sap", "default",
		"throughput-performance", "latency-performance", "laptop-battery-powersave", "spindown-disk", "enterprise-storage",
	}
)

// answer is how a cell is met today: an option of a merged profile, or a refusal.
type answer struct {
	unit, option, value string
	refusal             string
}

// answers has an entry for every tunable and cell text.
var answers = map[string]map[string]answer{
	"kernel.sched_min_granularity_ns": {
		"4ms":  {refusal: "scheduler-granularity-4ms"},
		"10ms": {unit: "scheduler", option: "sched_min_granularity_ns", value: "10000000"},
	},
	"kernel.sched_wakeup_granularity_ns": {
		"4ms":  {refusal: "scheduler-granularity-4ms"},
		"15ms": {unit: "scheduler", option: "sched_wakeup_granularity_ns", value: "15000000"},
	},
	"vm.dirty_ratio": {
		"20% RAM": {unit: "vm", option: "dirty_bytes", value: "20%"},
		"40%":     {unit: "vm", option: "dirty_bytes", value: "40%"},
		"10%":     {unit: "vm", option: "dirty_bytes", value: "10%"},
	},
	"vm.dirty_background_ratio": {
		"10% RAM": {unit: "vm", option: "dirty_background_bytes", value: "10%"},
		"5%":      {unit: "vm", option: "dirty_background_bytes", value: "5%"},
	},
	"vm.swappiness": {
		"60": {unit: "sysctl", option: "vm.swappiness", value: "60"},
		"10": {unit: "sysctl", option: "vm.swappiness", value: "10"},
		"30": {unit: "sysctl", option: "vm.swappiness", value: "30"},
	},
	"I/O Scheduler (Elevator)": {
		"CFQ":      {unit: "disk.turning", option: "elevator", value: "bfq"},
		"deadline": {unit: "disk.queue", option: "elevator", value: "mq-deadline"},
	},
	"Filesystem Barriers": {
		"On":  {}, // asserted for every profile below
		"Off": {refusal: "write-barriers-off"},
	},
	"CPU Governor": {
		"ondemand":    {unit: "cpu", option: "governor", value: "schedutil|ondemand|powersave"},
		"performance": {unit: "cpu", option: "governor", value: "performance"},
	},
	"Disk Read-ahead": {"4x": {unit: "disk", option: "readahead_multiply", value: "4"}},
	"Disable THP":     {"Yes": {unit: "vm", option: "transparent_hugepages", value: "never"}},
	"CPU C-States":    {"Locked @ 1": {unit: "cpu", option: "force_latency", value: "cstate.id_no_zero:1|3"}},
}

// isolating are the files of a machine of 8 CPUs, two of which are to be isolated.
var isolating = map[string]string{
	"/sys/devices/system/cpu/online": "0-7\n", "/sys/devices/system/cpu/present": "0-7\n",
	"/etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=2-3\n",
	"/etc/tuned/realtime-variables.conf":         "isolated_cores=2-3\nisolate_managed_irq=Y\nnetdev_queue_count=6\n",
	"/proc/cpuinfo":                              "processor\t: 0\nvendor_id\t: GenuineIntel\n",
}

func load(t *testing.T, names ...string) *profile.Profile {
	t.Helper()
	l := &profile.Loader{Host: machine.Mounted(t, isolating), Dirs: []string{}, Builtin: profiles.FS}
	p, err := l.Load(context.Background(), names...)
	if err != nil {
		t.Fatalf("%q: %v", names, err)
	}
	return p
}

func value(p *profile.Profile, unit, option string) string {
	u := p.Unit(unit)
	if u == nil {
		return fmt.Sprintf("no unit %s", unit)
	}
	o := u.Option(option)
	if o == nil {
		return fmt.Sprintf("no option %s in %s", option, unit)
	}
	return o.Value
}

// TestSummary asserts each cell of the table against our merged profiles.
func TestSummary(t *testing.T) {
	cells := 0
	for i, name := range summaryColumns {
		p := load(t, name)
		for _, row := range summaryRows {
			cell := row.cells[i]
			if cell == "" {
				continue
			}
			cells++
			a, ok := answers[row.tunable][cell]
			switch {
			case !ok:
				t.Errorf("%s, %s: %q has no answer", name, row.tunable, cell)
			case a.refusal != "":
				if !slices.ContainsFunc(profiles.Refusals, func(r profiles.Refusal) bool {
					return r.ID == a.refusal && slices.Contains(r.Profiles, name)
				}) {
					t.Errorf("%s, %s: %q: no refusal %s for this profile", name, row.tunable, cell, a.refusal)
				}
			case a.unit != "":
				if got := value(p, a.unit, a.option); got != a.value {
					t.Errorf("%s, %s: [%s] %s is %q, want %q for %q", name, row.tunable, a.unit, a.option, got, a.value, cell)
				}
			}
		}
	}
	if cells != 37 {
		t.Errorf("the table has %d cells, want 37", cells)
	}
}

// TestRefusedIsNotSet: what a refusal names is not in the profile.
func TestRefusedIsNotSet(t *testing.T) {
	for _, name := range want {
		for _, u := range load(t, name).Units {
			if u.Type == "mounts" || u.Type == "script" {
				t.Errorf("%s has a unit of type %s", name, u.Type)
			}
		}
	}
	if u := load(t, "default").Unit("scheduler"); u != nil {
		t.Errorf("default sets %v", u.Options)
	}
}

func TestTwelveNamesLoad(t *testing.T) {
	for _, name := range summaryNames {
		if !slices.Contains(want, name) {
			t.Errorf("no profile %s", name)
		}
	}
}

// plugins are the types of units that there are.
var plugins = []string{"acpi", "audio", "bootloader", "cpu", "disk", "irqbalance", "net", "scheduler", "scsi_host", "selinux", "sysctl", "sysfs", "systemd", "video", "vm"}

// TestEveryProfileLoads loads each alone: no error, no warning, no unit without
// a plug-in, and disk sections that share no device.
func TestEveryProfileLoads(t *testing.T) {
	for _, name := range want {
		p := load(t, name)
		deferred := strings.HasPrefix(name, "openshift")
		if len(p.Warnings) > 0 && !deferred {
			t.Errorf("%s: %v", name, p.Warnings)
		}
		if p.Summary == "" {
			t.Errorf("%s has no summary", name)
		}
		for _, u := range p.Units {
			if !slices.Contains(plugins, u.Type) {
				t.Errorf("%s: unit %s has the unknown type %s", name, u.Name, u.Type)
			}
			for _, o := range u.Options {
				if strings.Contains(o.Value, "${") && !deferred {
					t.Errorf("%s: [%s] %s=%s is not expanded", name, u.Name, o.Name, o.Value)
				}
			}
		}
		for _, dev := range []string{"sda", "vda", "xvda", "dasda", "nvme0n1", "dm-0", "md0", "mmcblk0"} {
			var in []string
			for _, u := range p.Units {
				if u.Type == "disk" && matches(u.Devices, dev) && u.DevicesUdevRegex == "" {
					in = append(in, u.Name)
				}
			}
			if len(in) > 1 {
				t.Errorf("%s: %s is in %q", name, dev, in)
			}
		}
	}
}

// matches is TuneD's matching of a device name, for lists of names and one star
// at the end.
func matches(devices, name string) bool {
	positive, matched := false, false
	for _, rule := range strings.Split(devices, ",") {
		rule, not := strings.CutPrefix(rule, "!")
		stem, star := strings.CutSuffix(rule, "*")
		hit := name == rule || star && strings.HasPrefix(name, stem)
		if not && hit {
			return false
		}
		if !not {
			positive = true
			matched = matched || hit
		}
	}
	return matched || !positive
}

// TestVariants: today's openshift profiles and those of the source differ in
// what README and the profiles say, and share the rest.
func TestVariants(t *testing.T) {
	now, then := load(t, "openshift-node"), load(t, "openshift-node-4.4")
	for _, c := range []struct{ unit, option, now, then string }{
		{"net", "nf_conntrack_hashsize", "1048576", "131072"},
		{"sysctl", "net.ipv4.ip_forward", "no option net.ipv4.ip_forward in sysctl", "1"},
		{"sysctl", "fs.aio-max-nr", "1048576", "no option fs.aio-max-nr in sysctl"},
		{"sysctl", "kernel.pid_max", "4194304", "4194304"},
		{"sysctl", "fs.inotify.max_user_watches", "65536", "65536"},
		{"sysctl", "net.ipv6.neigh.default.gc_thresh3", "65536", "65536"},
	} {
		if got := strings.TrimPrefix(value(now, c.unit, c.option), ">"); got != c.now {
			t.Errorf("openshift-node: %s is %s, want %s", c.option, got, c.now)
		}
		if got := strings.TrimPrefix(value(then, c.unit, c.option), ">"); got != c.then {
			t.Errorf("openshift-node-4.4: %s is %s, want %s", c.option, got, c.then)
		}
	}
	if got := value(load(t, "openshift-control-plane-4.4"), "scheduler", "sched_wakeup_granularity_ns"); got != "4000000" {
		t.Errorf("openshift-control-plane-4.4: wake-up granularity %s", got)
	}
}

// TestHugepagesVariable: a profile of one's own sets the number of pages.
func TestHugepagesVariable(t *testing.T) {
	l := &profile.Loader{Host: machine.Mounted(t, map[string]string{"/etc/tuned/profiles/db/tuned.conf": "[main]\ninclude=hugepages\n[variables]\nnr_hugepages=8192\n"}), Builtin: profiles.FS}
	p, err := l.Load(context.Background(), "db")
	if err != nil {
		t.Fatal(err)
	}
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	if got := value(p, "sysfs", pool); got != "8192" {
		t.Errorf("the pool has %s pages", got)
	}
	if got := value(load(t, "hugepages"), "sysfs", pool); got != "1024" {
		t.Errorf("the pool has %s pages", got)
	}
}

// TestInstalledProfileWins: TuneD's own of the same name counts.
func TestInstalledProfileWins(t *testing.T) {
	l := &profile.Loader{Host: machine.Mounted(t, map[string]string{"/usr/lib/tuned/default/tuned.conf": "[main]\nsummary=installed\n"}), Builtin: profiles.FS}
	p, err := l.Load(context.Background(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if p.Summary != "installed" || len(p.Units) > 0 {
		t.Errorf("loaded %q with %d units", p.Summary, len(p.Units))
	}
}

// TestRecommendation asks our recommend.conf for three machines.
func TestRecommendation(t *testing.T) {
	for _, c := range []struct{ what, vendor, product, chassis, flags, want string }{
		{"KVM guest", "QEMU", "Standard PC (Q35 + ICH9, 2009)", "1", " hypervisor", "virtual-guest"},
		{"rack server", "Dell Inc.", "PowerEdge R740", "23", "", "throughput-performance"},
		{"laptop", "LENOVO", "20XW0026GE", "10", "", "balanced"},
		{"desktop", "HP", "HP EliteDesk 800", "3", "", "balanced"},
	} {
		h := machine.Mounted(t, map[string]string{
			"/sys/devices/virtual/dmi/id/sys_vendor":   c.vendor + "\n",
			"/sys/devices/virtual/dmi/id/product_name": c.product + "\n",
			"/sys/devices/virtual/dmi/id/chassis_type": c.chassis + "\n",
			"/sys/class/dmi/id/sys_vendor":             c.vendor + "\n",
			"/sys/class/dmi/id/product_name":           c.product + "\n",
			"/sys/class/dmi/id/chassis_type":           c.chassis + "\n",
			"/proc/cpuinfo":                            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme" + c.flags + "\n",
		})
		l := &profile.Loader{Host: h, Builtin: profiles.FS}
		r, err := l.Recommend(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if r.Profile != c.want {
			t.Errorf("%s: %s, want %s (%v, unknown %v)", c.what, r.Profile, c.want, r.Why, r.Unknown)
		}
	}
}
