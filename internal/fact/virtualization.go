package fact

import (
	"strings"
)

// Virtualization describes the platform that the system runs on.
type Virtualization struct {
	// Hypervisor is kvm, vmware, hyperv, xen, qemu (emulated), oracle (VirtualBox), amazon
	// (Nitro), google, parallels, bhyve, powervm, zvm, or "other" if unidentified. It is
	// absent on bare metal.
	Hypervisor Fact[string] `json:"hypervisor"`
	// Container is docker, podman, kubernetes, lxc, systemd-nspawn, openvz, or the name that
	// the container manager reports. It is absent outside of containers.
	Container Fact[string] `json:"container"`
	// BareMetal reports whether there is neither a hypervisor nor a container.
	BareMetal Fact[bool] `json:"bare_metal"`
	// Cloud is aws, azure, google, alibaba, oracle, digitalocean, hetzner, ibm, tencent,
	// openstack or another name in cloudMarks. It is absent outside of clouds.
	Cloud Fact[string] `json:"cloud"`
}

// dmiMark is a prefix of a DMI value that identifies a hypervisor or cloud.
type dmiMark struct{ file, prefix, name string }

// hypervisorMarks are in the order of systemd's detect_vm_dmi (src/basic/virt.c) where it
// matters: specific marks precede general ones.
var hypervisorMarks = []dmiMark{
	{"product_name", "KVM", "kvm"},
	{"product_name", "OpenStack", "kvm"},
	{"product_name", "KubeVirt", "kvm"},
	{"product_name", "Google Compute Engine", "google"},
	{"sys_vendor", "Amazon EC2", "amazon"},
	{"sys_vendor", "QEMU", "qemu"},
	{"sys_vendor", "Red Hat", "kvm"},
	{"sys_vendor", "VMware", "vmware"},
	{"sys_vendor", "innotek GmbH", "oracle"},
	{"product_name", "VirtualBox", "oracle"},
	{"sys_vendor", "Xen", "xen"},
	{"bios_vendor", "Xen", "xen"},
	{"sys_vendor", "Parallels", "parallels"},
	{"bios_vendor", "BHYVE", "bhyve"},
	{"bios_vendor", "Parallels", "parallels"},
	{"product_name", "Virtual Machine", "hyperv"},
	{"sys_vendor", "Alibaba Cloud", "kvm"},
}

// hypervisorFlag is the CPU flag of virtual machines (CPUID 1, ECX bit 31). Bare-metal
// machines in a cloud have the cloud's DMI values but not this flag.
const hypervisorFlag = "hypervisor"

// cloudMarks follow cloud-init's ds-identify and the vendors' documentation.
var cloudMarks = []dmiMark{
	{"sys_vendor", "Amazon EC2", "aws"},
	{"bios_vendor", "Amazon EC2", "aws"},
	{"bios_version", "4.2.amazon", "aws"},
	{"bios_version", "4.11.amazon", "aws"},
	{"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"},
	{"sys_vendor", "Google", "google"},
	{"product_name", "Google", "google"},
	{"sys_vendor", "Alibaba Cloud", "alibaba"},
	{"product_name", "Alibaba Cloud", "alibaba"},
	{"chassis_asset_tag", "OracleCloud.com", "oracle"},
	{"sys_vendor", "DigitalOcean", "digitalocean"},
	{"sys_vendor", "Hetzner", "hetzner"},
	{"sys_vendor", "Scaleway", "scaleway"},
	{"sys_vendor", "Vultr", "vultr"},
	{"sys_vendor", "Linode", "akamai"},
	{"sys_vendor", "Akamai", "akamai"},
	{"sys_vendor", "Tencent Cloud", "tencent"},
	{"chassis_asset_tag", "ibmcloud", "ibm"},
	{"sys_vendor", "UpCloud", "upcloud"},
	{"sys_vendor", "Exoscale", "exoscale"},
	{"product_name", "Exoscale", "exoscale"},
	{"sys_vendor", "e24cloud", "e24cloud"},
	{"sys_vendor", "Huawei Cloud", "huawei"},
	{"chassis_asset_tag", "HUAWEICLOUD", "huawei"},
	{"sys_vendor", "OVH", "ovh"},
	{"sys_vendor", "Nutanix", "nutanix"},
	{"product_name", "OpenStack", "openstack"},
	{"chassis_asset_tag", "OpenTelekomCloud", "opentelekom"},
	{"sys_vendor", "OpenStack Foundation", "openstack"},
}

func (r *reader) firstMark(marks []dmiMark) (name, source string) {
	for _, m := range marks {
		if v, n := r.text(dmi + m.file); n.known() && strings.HasPrefix(strings.TrimSpace(v), m.prefix) {
			return m.name, n.source
		}
	}
	return "", ""
}

func collectVirtualization(r *reader, f *Facts) {
	v := &f.Virtualization
	v.Hypervisor = hypervisor(r, f)
	v.Container = containerKind(r)
	switch {
	case v.Hypervisor.known() || v.Container.known():
		v.BareMetal = Known(false, firstKnown(v.Container, v.Hypervisor).source)
	case v.Hypervisor.absent && v.Container.absent:
		v.BareMetal = Known(true, v.Hypervisor.source)
	default:
		v.BareMetal = Unknown[bool](v.Hypervisor.source, firstNonEmpty(v.Hypervisor.unknown, v.Container.unknown))
	}
	v.Cloud = cloud(r, v.BareMetal)
}

func firstNonEmpty(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func hypervisor(r *reader, f *Facts) Fact[string] {
	// Xen's control domain has the hardware's DMI values, but is not a guest.
	if s, n := r.text("/proc/xen/capabilities"); n.known() && strings.Contains(s, "control_d") {
		return Absent[string]("/proc/xen/capabilities")
	}
	if t := r.str("/sys/hypervisor/type"); t.known() || r.exists(t.source).Or(false) {
		return t
	}
	flagged, cpuKnown := false, false
	if flags, ok := f.CPU.Flags.Get(); ok && len(flags) > 0 {
		cpuKnown = true
		for _, flag := range flags {
			flagged = flagged || flag == hypervisorFlag
		}
	}
	x86 := cpuKnown && Is(f.CPU.Vendor, "GenuineIntel") || Is(f.CPU.Vendor, "AuthenticAMD") || Is(f.CPU.Vendor, "HygonGenuine")
	if name, source := r.firstMark(hypervisorMarks); name != "" && (flagged || !x86) {
		if name == "qemu" && guestClock(f) == "kvm" {
			name = "kvm"
		}
		return Known(name, source)
	}
	if flagged {
		if name := guestClock(f); name != "" {
			return Known(name, f.Kernel.ClocksourcesAvailable.source)
		}
		return Known("other", "/proc/cpuinfo")
	}
	if name, source := r.host.DeviceTreeHypervisor(); name != "" {
		return Known(name, source)
	}
	if s, n := r.text("/proc/sysinfo"); n.known() { // s390
		if strings.Contains(s, "z/VM") {
			return Known("zvm", "/proc/sysinfo")
		} else if strings.Contains(s, "KVM") {
			return Known("kvm", "/proc/sysinfo")
		}
	}
	if !cpuKnown {
		return Unknown[string]("/proc/cpuinfo", firstNonEmpty(f.CPU.Flags.unknown, "/proc/cpuinfo has no flags and DMI names no hypervisor"))
	}
	return Absent[string]("/proc/cpuinfo")
}

// guestClock returns the hypervisor whose paravirtual clock source is available, or "".
func guestClock(f *Facts) string {
	for _, c := range f.Kernel.ClocksourcesAvailable.Or(nil) {
		switch {
		case c == "kvm-clock":
			return "kvm"
		case strings.HasPrefix(c, "hyperv_clocksource"):
			return "hyperv"
		case c == "xen":
			return "xen"
		}
	}
	return ""
}

func containerKind(r *reader) Fact[string] {
	if s := r.str("/run/systemd/container"); s.known() || r.exists(s.source).Or(false) {
		return s
	}
	if r.exists("/run/.containerenv").Or(false) {
		return Known("podman", "/run/.containerenv")
	}
	if r.exists("/.dockerenv").Or(false) {
		return Known("docker", "/.dockerenv")
	}
	s, n := r.text("/proc/1/cgroup")
	if n.known() && !strings.Contains(s, ":") {
		n.unknown = n.source + " has no control group"
	}
	if n.known() {
		for _, m := range []struct{ part, name string }{
			{"/kubepods", "kubernetes"}, {"/docker/", "docker"}, {"/libpod", "podman"}, {"/lxc/", "lxc"}, {"/lxc.payload", "lxc"}, {"/machine.slice/", "systemd-nspawn"},
		} {
			if strings.Contains(s, m.part) {
				return Known(m.name, "/proc/1/cgroup")
			}
		}
	}
	if r.exists("/proc/vz").Or(false) && !r.exists("/proc/bc").Or(false) {
		return Known("openvz", "/proc/vz")
	}
	if n.known() {
		return Absent[string]("/proc/1/cgroup")
	}
	// Without process 1 in a copy, a root that is not a whole file system on a block device
	// indicates a container.
	table, mn := r.mountTable()
	for _, m := range parseMounts(table, mn.source) {
		if m.point == "/" && m.root == "/" && strings.HasPrefix(m.source, "/dev/") {
			return Absent[string](mn.source)
		}
	}
	n.absent, n.unknown = false, firstNonEmpty(n.unknown, "/proc/1/cgroup is missing")
	return Fact[string]{note: n}
}

// cloud identifies the cloud from firmware tables. It is unknown if a guest or container
// cannot read them.
func cloud(r *reader, bareMetal Fact[bool]) Fact[string] {
	if name, source := r.firstMark(cloudMarks); name != "" {
		return Known(name, source)
	}
	_, n := r.text(dmi + "sys_vendor")
	for _, m := range cloudMarks {
		if _, mn := r.nonEmpty(dmi + m.file); mn.unknown != "" {
			n = mn
		}
	}
	if n.absent && !bareMetal.Or(false) {
		n.absent, n.unknown = false, "the firmware tables (DMI), which name the cloud, are missing"
	}
	if n.unknown != "" {
		return Fact[string]{note: n}
	}
	return Absent[string](dmi + "sys_vendor")
}
