package profile

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// virtualisation is the machine's platform, as virt-what reports it.
type virtualisation struct {
	known bool
	// text is virt-what's output, "" on bare metal. If virtual is true and text is "", the kind of
	// virtual machine is unknown.
	text    string
	virtual bool
	source  string
}

func (v virtualisation) String() string {
	switch {
	case !v.known:
		return v.source
	case v.virtual && v.text == "":
		return "a virtual machine (" + v.source + ")"
	case v.text == "":
		return "not virtual (" + v.source + ")"
	}
	return "found " + quoted(v.text) + " (" + v.source + ")"
}

// quoted quotes an observed text. Its lines become a list.
func quoted(text string) string {
	return strconv.Quote(strings.ReplaceAll(strip(text), "\n", ", "))
}

// hypervisorNames are possible outputs of virt-what; see match.
var hypervisorNames = []string{"kvm\n", "vmware\n", "hyperv\n", "xen\nxen-hvm\n", "virtualbox\n", "qemu\n", "x\n"}

// match applies a regular expression to virt-what's output. For an unknown kind of virtual machine
// the result is known only if it is the same for every kind.
func (v virtualisation) match(re func(string) bool) verdict {
	answer := func(ok bool) verdict {
		if ok {
			return holds
		}
		return fails
	}
	switch {
	case !v.known:
		return unknown
	case !v.virtual || v.text != "":
		return answer(re(v.text))
	}
	first := re(hypervisorNames[0])
	for _, name := range hypervisorNames[1:] {
		if re(name) != first {
			return unknown
		}
	}
	return answer(first)
}

// virtualisation runs virt-what if programs may run. Otherwise it reads the files that virt-what
// reads first.
func (l *Loader) virtualisation(ctx context.Context) virtualisation {
	if l.executes() {
		res, err := l.Host.Exec.Run(ctx, host.Command{Argv: []string{"virt-what"}})
		if err == nil && res.ExitCode == 0 {
			text := string(res.Stdout)
			return virtualisation{known: true, text: text, virtual: text != "", source: "virt-what"}
		}
	}
	return virtualisationFiles(l.Host)
}

// dmiVendors maps DMI names (/sys/class/dmi/id: sys_vendor, product_name) to virt-what's
// output.
var dmiVendors = []struct{ vendor, product, name string }{
	{"QEMU", "", "kvm\n"},
	{"", "KVM", "kvm\n"},
	{"Red Hat", "KVM", "kvm\n"},
	{"Google", "Google Compute Engine", "kvm\ngoogle_cloud\n"},
	{"Amazon EC2", "", "kvm\naws\n"},
	{"VMware", "", "vmware\n"},
	{"innotek GmbH", "", "virtualbox\n"},
	{"Microsoft Corporation", "Virtual Machine", "hyperv\n"},
	{"Xen", "", "xen\nxen-hvm\n"},
}

func virtualisationFiles(h *host.Host) virtualisation {
	read := func(p string) (string, bool) {
		b, err := h.Files.ReadFile(p)
		return strip(string(b)), err == nil
	}
	if kind, ok := read("/sys/hypervisor/type"); ok && kind == "xen" {
		return virtualisation{known: true, text: "xen\n", virtual: true, source: "/sys/hypervisor/type"}
	}
	flagged, x86 := false, false
	cpuinfo, err := h.Files.ReadFile("/proc/cpuinfo")
	if err == nil {
		flagged, x86 = hypervisorFlag(string(cpuinfo))
	}
	vendor, hasDMI := read("/sys/class/dmi/id/sys_vendor")
	product, _ := read("/sys/class/dmi/id/product_name")
	if (flagged || hasDMI && !x86) && !strings.HasSuffix(product, ".metal") { // excludes Amazon's bare metal
		for _, d := range dmiVendors {
			if strings.HasPrefix(vendor, d.vendor) && strings.HasPrefix(product, d.product) {
				return virtualisation{known: true, text: d.name, virtual: true, source: "/sys/class/dmi/id"}
			}
		}
	}
	switch {
	case flagged:
		return virtualisation{known: true, virtual: true, source: "the hypervisor flag of /proc/cpuinfo"}
	case x86:
		return virtualisation{known: true, source: "no hypervisor flag in /proc/cpuinfo"}
	case hasDMI:
		return virtualisation{known: true, source: "/sys/class/dmi/id names hardware of " + vendor}
	}
	if name, source := h.DeviceTreeHypervisor(); name != "" {
		return virtualisation{known: true, virtual: true, source: source}
	}
	reason := host.NotRecorded("virtualisation").Error()
	if err == nil || !host.NotFound(err) {
		reason = "virtualisation cannot be determined from this machine's files"
	}
	return virtualisation{source: reason}
}

// hypervisorFlag reports whether the CPU flag "hypervisor" is set, and whether the CPU is x86.
func hypervisorFlag(cpuinfo string) (flagged, x86 bool) {
	for _, line := range strings.Split(cpuinfo, "\n") {
		key, value, _ := strings.Cut(line, ":")
		if strip(key) != "flags" {
			continue
		}
		return slices.Contains(strings.Fields(value), "hypervisor"), true
	}
	return false, false
}
