package fact

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Line is one line of the summary.
type Line struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Brief summarizes a machine in about twelve lines. Unknown facts are "unknown", and absent
// facts are omitted.
func Brief(f *Facts) []Line {
	return []Line{
		{"machine", briefMachine(f)},
		{"runs on", briefVirtualization(f)},
		{"system", join(factText(f.OS.Name), "kernel "+factText(f.Kernel.Release), factText(f.Kernel.Arch), briefSELinux(f), absentIs(f.Kernel.UptimeS, "", func(s float64) string { return "up " + uptime(s) }))},
		{"cpu", briefCPU(f)},
		{"frequency", briefFrequency(f)},
		{"numa", briefNUMA(f)},
		{"memory", join(size(f.Memory.TotalBytes), briefPages(f), absentIs(f.Memory.AvailableBytes, "", func(n int64) string { return unit.Size(n).Human() + " available" }), briefSwap(f))},
		{"huge pages", briefHuge(f)},
		{"disks", briefDisks(f)},
		{"network", briefNet(f)},
		{"cgroups", briefCgroup(f)},
		{"tuners", briefTuners(f)},
	}
}

const unknownWord = "unknown"

// briefSELinux returns the mode of SELinux if it is enabled.
func briefSELinux(f *Facts) string {
	if mode, ok := f.Kernel.SELinux.Get(); ok && mode != "disabled" {
		return "SELinux " + mode
	}
	return ""
}

// join joins the non-empty parts with commas.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// absentIs formats a fact. It returns the text absent for an absent fact, and "unknown" for an
// unknown one.
func absentIs[T any](f Fact[T], absent string, show func(T) string) string {
	v, ok := f.Get()
	switch {
	case ok:
		return show(v)
	case f.absent:
		return absent
	}
	return unknownWord
}

func factText(f Fact[string]) string { return absentIs(f, "", func(s string) string { return s }) }
func size(f Fact[int64]) string {
	return absentIs(f, "", func(n int64) string { return unit.Size(n).Human() })
}

func number(f Fact[int64]) string {
	return absentIs(f, "", func(n int64) string { return fmt.Sprint(n) })
}

func uptime(s float64) string {
	switch m := int(s / 60); {
	case m < 120:
		return fmt.Sprintf("%d min", m)
	case m < 48*60:
		return fmt.Sprintf("%d h", m/60)
	default:
		return fmt.Sprintf("%d days", m/60/24)
	}
}

func briefMachine(f *Facts) string {
	m := f.Machine
	if m.Vendor.absent && m.Product.absent {
		return "no vendor named in firmware"
	}
	name := strings.Trim(factText(m.Vendor)+" "+factText(m.Product), " ")
	if m.Vendor.unknown != "" && m.Product.unknown != "" {
		name = unknownWord
	}
	return join(name, absentIs(m.FirmwareVersion, "", func(s string) string {
		if s == "" {
			return ""
		}
		return strings.TrimSpace("firmware " + s + " " + m.FirmwareDate.Or(""))
	}))
}

func briefVirtualization(f *Facts) string {
	v := f.Virtualization
	if Is(v.BareMetal, true) {
		return join("bare metal", prefixed("cloud ", v.Cloud.Or("")))
	}
	if v.BareMetal.unknown != "" {
		return unknownWord
	}
	return join(absentIs(v.Container, "", func(s string) string { return s + " container" }),
		absentIs(v.Hypervisor, "", func(s string) string {
			if s == "other" {
				return "virtual machine"
			}
			return s + " guest"
		}), prefixed("cloud ", v.Cloud.Or("")))
}

func briefCPU(f *Facts) string {
	c := f.CPU
	shape := unknownWord + " count"
	if n, ok := c.Count.Get(); ok {
		shape = text.Count(n, "CPU")
		if c.Cores.known() && c.Sockets.known() {
			shape += fmt.Sprintf(" (%s, %s, %s a core)", text.Count(c.Sockets.Or(0), "socket"), text.Count(c.Cores.Or(0), "core"), text.Count(c.ThreadsPerCore.Or(0), "thread"))
		}
	}
	l3 := ""
	if cache := c.Cache.Get("l3"); cache != nil {
		l3 = fmt.Sprintf("L3 %s x %s", number(cache.Instances), size(cache.SizeBytes))
	}
	return join(factText(c.Model), shape, l3, prefixed("isolated ", c.IsolatedList.Or("")), prefixed("microcode ", c.Microcode.Or("")))
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func briefFrequency(f *Facts) string {
	q := f.CPU.Frequency
	scaling := "no frequency scaling"
	if !q.Policy.absent {
		scaling = join(absentIs(q.Driver, "", func(s string) string { return s }),
			absentIs(q.Governors, "", func(w []string) string { return "governor " + strings.Join(w, " and ") }),
			absentIs(q.Preference, "", func(w []string) string { return "preference " + strings.Join(w, " and ") }),
			absentIs(q.Boost, "", func(on bool) string { return "boost " + onOff(on) }))
	}
	if q.Policy.unknown != "" {
		scaling = "scaling " + unknownWord
	}
	idle := absentIs(f.CPU.Idle.Driver, "no idle driver", func(s string) string {
		states := []string{}
		for _, name := range f.CPU.Idle.State.Names() {
			st := f.CPU.Idle.State.Get(name)
			name = st.Name.Or(name)
			if st.DisabledList.Or("") != "" {
				name += " (disabled)"
			}
			states = append(states, name)
		}
		return s + " " + strings.Join(states, " ")
	})
	if idle == unknownWord {
		idle = ""
	}
	return join(scaling, idle)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func briefNUMA(f *Facts) string {
	n := f.NUMA
	count, ok := n.Count.Get()
	if !ok {
		return absentIs(n.Count, "one node (no NUMA in this kernel)", func(int64) string { return "" })
	}
	parts := []string{text.Count(count, "node")}
	if count > 1 {
		for i, name := range n.Node.Names() {
			node := n.Node.Get(name)
			if i == 8 {
				parts = append(parts, "...")
				break
			}
			parts = append(parts, fmt.Sprintf("%s %s %s", name, cpusText(node.CPUList), size(node.TotalBytes)))
		}
		parts = append(parts, absentIs(n.Balancing, "", func(v int64) string { return "balancing " + onOff(v != 0) }))
	}
	return join(parts...)
}

// cpusText returns a CPU list, or the number of CPUs if the list is long.
func cpusText(f Fact[string]) string {
	return absentIs(f, "", func(list string) string {
		if list == "" {
			return "no CPU"
		}
		if len(list) > 20 {
			return text.Count(cpuCount(list), "CPU")
		}
		return "CPUs " + list
	})
}

// briefPages returns the page size if it is not the usual one.
func briefPages(f *Facts) string {
	n := f.Memory.PageBytes.Or(4 << 10)
	if n == 4<<10 {
		return ""
	}
	return "pages of " + unit.Size(n).Human()
}

func briefSwap(f *Facts) string {
	if Is(f.Memory.SwapTotalBytes, 0) {
		return "no swap"
	}
	return absentIs(f.Memory.SwapTotalBytes, "", func(n int64) string { return "swap " + unit.Size(n).Human() })
}

func briefHuge(f *Facts) string {
	m := f.Memory
	parts := []string{absentIs(m.THP.Enabled, "no transparent huge pages", func(s string) string {
		return join("transparent "+s, prefixed("defrag ", m.THP.Defrag.Or("")))
	})}
	if parts[0] == unknownWord {
		parts[0] = "transparent " + unknownWord
	}
	reserved := false
	for _, name := range m.HugePages.Names() {
		p := m.HugePages.Get(name)
		if total := p.Total.Or(0); total > 0 {
			parts = append(parts, fmt.Sprintf("%d x %s (%s free)", total, size(p.SizeBytes), number(p.Free)))
			reserved = true
		}
	}
	if !reserved && m.HugePages.known() {
		parts = append(parts, "none reserved")
	}
	return join(parts...)
}

// briefDisks groups identical disks: "4 x nvme 1.82 TiB none".
func briefDisks(f *Facts) string {
	if f.Disk.unknown != "" {
		return unknownWord
	}
	var order []string
	alike := map[string][]string{}
	quiet := 0
	for _, name := range f.Disk.Names() {
		d := f.Disk.Get(name)
		t := d.Transport.Or(unknownWord)
		if n, ok := d.SizeBytes.Get(); ok && n == 0 || t == "loop" || t == "ram" || t == "zram" && Is(d.SizeBytes, 0) {
			quiet++
			continue
		}
		kind := strings.Join(slices.DeleteFunc([]string{t, d.MapperKind.Or(""), d.RAIDLevel.Or(""), d.Model.Or(""), size(d.SizeBytes), d.Scheduler.Or("")}, func(s string) bool { return s == "" }), " ")
		if alike[kind] == nil {
			order = append(order, kind)
		}
		alike[kind] = append(alike[kind], name)
	}
	parts := []string{}
	for i, kind := range order {
		names := alike[kind]
		if i == 6 {
			parts = append(parts, fmt.Sprintf("and %d more kinds", len(order)-i))
			break
		}
		label := names[0]
		if m, ok := f.Disk.Get(names[0]).MapperName.Get(); ok && len(names) == 1 {
			label += " (" + m + ")"
		}
		if len(names) > 1 {
			label = fmt.Sprintf("%d x %s..%s", len(names), names[0], names[len(names)-1])
		}
		parts = append(parts, label+" "+kind)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

func briefNet(f *Facts) string {
	if f.Net.unknown != "" {
		return unknownWord
	}
	parts := []string{}
	for _, name := range f.Net.Names() {
		d := f.Net.Get(name)
		if Is(d.Kind, "loopback") || !d.Physical.Or(false) && !Is(d.Kind, "bond") && !Is(d.State, "up") {
			continue
		}
		words := []string{name, d.Driver.Or(""), d.BondMode.Or(""), d.State.Or("")}
		if s, ok := d.SpeedBps.Get(); ok {
			words = append(words, unit.Digits(float64(s)/1e9)+" Gbit/s")
		}
		_, rx := d.RxQueues.Get()
		_, tx := d.TxQueues.Get()
		queues := "queues unknown"
		if rx || tx {
			queues = number(d.RxQueues) + " rx " + number(d.TxQueues) + " tx queues"
		}
		words = append(words, "mtu "+number(d.MTUBytes), queues)
		parts = append(parts, strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "))
		if len(parts) == 8 {
			parts = append(parts, "...")
			break
		}
	}
	if len(parts) == 0 {
		return "no interface is up"
	}
	return strings.Join(parts, "; ")
}

func briefCgroup(f *Facts) string {
	version := absentIs(f.Cgroup.Version, "not mounted", func(v int64) string {
		if f.Cgroup.Hybrid.Or(false) {
			return "version 1 (version 2 too)"
		}
		return fmt.Sprintf("version %d", v)
	})
	return join(version, absentIs(f.Kernel.Pressure, "", func(on bool) string {
		if on {
			return "pressure readable"
		}
		return "no pressure information"
	}), absentIs(f.Kernel.Clocksource, "", func(s string) string { return "clock " + s }))
}

func briefTuners(f *Facts) string {
	parts := []string{}
	for _, name := range f.Services.Tuner.Names() {
		t := f.Services.Tuner.Get(name)
		switch {
		case Is(t.Running, true):
			parts = append(parts, name+" running")
		case Is(t.Enabled, true):
			parts = append(parts, name+" enabled")
		}
	}
	if p, ok := f.Services.TunedProfile.Get(); ok {
		parts = append(parts, "TuneD profile "+p)
	}
	if len(parts) == 0 {
		if !f.Services.ProcessCount.known() && !f.Services.EnabledUnits.known() && f.Services.EnabledUnits.unknown != "" {
			return unknownWord
		}
		return "none running or enabled"
	}
	return join(parts...)
}
