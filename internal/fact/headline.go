package fact

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Summarize returns a headline that describes the machine in three lines.
func Summarize(f *Facts) ui.Headline {
	var h ui.Headline
	m := f.Machine
	name := strings.TrimSpace(m.Vendor.Or("") + " " + m.Product.Or(""))
	system := join(f.OS.Name.Or("system "+unknownWord), kernelWords(f))
	platform := briefVirtualization(f)
	if platform == unknownWord {
		platform = "platform " + unknownWord
	}
	h.Line("%s: %s", join(name, platform), system)

	cpus := "CPUs " + unknownWord
	if n, ok := f.CPU.Count.Get(); ok {
		cpus = h.Count("cpus", int(n), "CPU")
		if model := f.CPU.Model.Or(""); model != "" {
			cpus += " (" + model + ")"
		}
	}
	nodes := ""
	if n := f.NUMA.Count.Or(0); n > 1 {
		nodes = h.Count("numa_nodes", int(n), "NUMA node")
	}
	memory := "memory " + unknownWord
	if n, ok := f.Memory.TotalBytes.Get(); ok {
		memory = h.Value("memory_bytes", float64(n), unit.Size(n).Human()) + " of memory"
		if page, ok := f.Memory.PageBytes.Get(); ok && page != 4<<10 {
			memory += " in pages of " + h.Value("page_bytes", float64(page), unit.Size(page).Human())
		}
		if free, ok := f.Memory.AvailableBytes.Get(); ok {
			memory += ", " + h.Value("memory_available_bytes", float64(free), unit.Size(free).Human()) + " available"
		}
	}
	swap := briefSwap(f)
	if strings.HasSuffix(swap, unknownWord) {
		swap = ""
	}
	h.Line("%s", join(cpus, nodes, memory, swap))
	h.Line("disks: %s; network: %s", headlineDisks(&h, f), headlineNet(&h, f))
	return h
}

// Summarize returns the headline of selected facts: their number, and how many are unknown.
func (s *Selection) Summarize(names []string) (h ui.Headline) {
	list, unknown := s.List(), 0
	for _, it := range list {
		if it.Unknown != "" {
			unknown++
		}
	}
	line := h.Count("facts", len(list), "fact")
	if unknown > 0 {
		line += ", " + h.Count("unknown", unknown, "") + " unknown"
	}
	h.Line("%s: %s", strings.Join(names, ", "), line)
	return h
}

// headlineDisks counts the disks and their total size. It omits loop and RAM disks, and
// devices that consist of other disks.
func headlineDisks(h *ui.Headline, f *Facts) string {
	if f.Disk.unknown != "" {
		return unknownWord
	}
	var names []string
	var total int64
	for _, name := range f.Disk.Names() {
		d := f.Disk.Get(name)
		t := d.Transport.Or(unknownWord)
		if n, ok := d.SizeBytes.Get(); ok && n == 0 || t == "loop" || t == "ram" || t == "zram" || d.MapperKind.Or("") != "" || d.RAIDLevel.Or("") != "" {
			continue
		}
		names = append(names, name)
		total += d.SizeBytes.Or(0)
	}
	return h.Count("disks", len(names), "") + someNames(names) + diskSize(h, total)
}

func diskSize(h *ui.Headline, total int64) string {
	if total == 0 {
		return ""
	}
	return ", " + h.Value("disks_bytes", float64(total), unit.Size(total).Human())
}

// headlineNet counts the hardware network interfaces.
func headlineNet(h *ui.Headline, f *Facts) string {
	if f.Net.unknown != "" {
		return unknownWord
	}
	names := slices.DeleteFunc(f.Net.Names(), func(name string) bool { return !f.Net.Get(name).Physical.Or(false) })
	text := h.Count("network_interfaces", len(names), "") + someNames(names)
	fastest := int64(0)
	for _, name := range names {
		fastest = max(fastest, f.Net.Get(name).SpeedBps.Or(0))
	}
	if fastest > 0 {
		text += ", up to " + h.Figure("network_gbit_per_s", float64(fastest)/1e9, "Gbit/s")
	}
	return text
}

// someNames lists up to four names in parentheses.
func someNames(names []string) string {
	const most = 4
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most:
		return fmt.Sprintf(" (%s, %s ... %s)", names[0], names[1], names[len(names)-1])
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// kernelWords returns the release and the architecture of the kernel. Some releases end with the
// architecture.
func kernelWords(f *Facts) string {
	release, arch := f.Kernel.Release.Or(unknownWord), f.Kernel.Arch.Or("")
	if arch == "" || strings.HasSuffix(release, arch) {
		return "kernel " + release
	}
	return "kernel " + release + " " + arch
}
