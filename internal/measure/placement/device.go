package placement

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Device is a disk or network interface with the node that it is attached to.
type Device struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // disk or network
	// Node is absent if the firmware does not report it.
	Node fact.Fact[int64] `json:"node"`
	// Interrupts is the number of its message-signaled interrupts. OffNode lists those that
	// no CPU of the device's node serves. A disk has a queue and an interrupt for each CPU by
	// design, so its interrupts are listed only if the node serves none of them.
	Interrupts fact.Fact[int64]   `json:"interrupts"`
	OffNode    fact.Fact[[]int64] `json:"off_node"`
}

// devices returns the disks and network interfaces that are hardware.
func devices(h *host.Host, f *fact.Facts, cpus map[int]unit.CPUSet) (all []Device) {
	for _, name := range f.Disk.Names() {
		d := f.Disk.Get(name)
		if _, err := h.Files.Lstat("/sys/block/" + name + "/device"); err == nil {
			all = append(all, newDevice(h, Device{Name: name, Kind: "disk", Node: d.NUMANode}, "/sys/block/"+name+"/device", cpus))
		}
	}
	for _, name := range f.Net.Names() {
		if d := f.Net.Get(name); fact.Is(d.Physical, true) {
			all = append(all, newDevice(h, Device{Name: name, Kind: "network", Node: d.NUMANode}, "/sys/class/net/"+name+"/device", cpus))
		}
	}
	return all
}

func newDevice(h *host.Host, d Device, link string, cpus map[int]unit.CPUSet) Device {
	irqs, why := interrupts(h, link)
	if why != "" {
		d.Interrupts, d.OffNode = fact.Unknown[int64](link, why), fact.Unknown[[]int64](link, why)
		return d
	}
	d.Interrupts = fact.Known(int64(len(irqs)), link)
	node, ok := d.Node.Get()
	near := cpus[int(node)]
	if !ok || near.IsEmpty() {
		d.OffNode = fact.Absent[[]int64](link)
		return d
	}
	off, some := []int64{}, false
	for _, irq := range irqs {
		served, why := servedBy(h, irq)
		if why != "" {
			d.OffNode = fact.Unknown[[]int64](link, why)
			return d
		}
		switch {
		case served.IsEmpty():
		case served.Intersect(near).IsEmpty():
			off = append(off, int64(irq))
		default:
			some = true
		}
	}
	if some && d.Kind == "disk" {
		off = []int64{}
	}
	d.OffNode = fact.Known(off, link)
	return d
}

// interrupts returns the message-signaled interrupts of a device: those of the nearest parent
// that has any (Documentation/ABI/testing/sysfs-bus-pci, msi_irqs).
func interrupts(h *host.Host, link string) (irqs []int, why string) {
	dir, err := h.Files.Resolve(link)
	if err != nil {
		return nil, host.Why(link, err)
	}
	for range 4 { // nvme0n1/device is the controller nvme0, whose parent is the PCI device
		list, err := h.Files.ReadDir(dir + "/msi_irqs")
		if host.Unknown(err) {
			return nil, host.Why(dir+"/msi_irqs", err)
		}
		for _, e := range list {
			if n, err := strconv.Atoi(e.Name()); err == nil {
				irqs = append(irqs, n)
			}
		}
		dir = path.Dir(dir)
		if len(irqs) > 0 || !strings.HasPrefix(dir, "/sys/devices/") {
			break
		}
	}
	slices.Sort(irqs)
	return irqs, ""
}

// servedBy returns the CPUs that serve an interrupt. An interrupt without a handler has none.
func servedBy(h *host.Host, irq int) (cpus unit.CPUSet, why string) {
	dir := "/proc/irq/" + strconv.Itoa(irq) + "/"
	for _, name := range []string{"effective_affinity_list", "smp_affinity_list"} {
		f := h.File(dir + name)
		if text := strings.TrimSpace(f.Text); text != "" {
			cpus, err := unit.ParseCPUList(text)
			if err != nil {
				return cpus, dir + name + " is not a list of CPUs"
			}
			return cpus, ""
		}
		why = f.Unknown
	}
	return cpus, why
}
