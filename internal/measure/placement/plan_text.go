package placement

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/text"
)

// Text is text for the user to copy, to place a process.
type Text struct {
	// Kind is systemd, libvirt, kubelet, container or process.
	Kind string `json:"kind"`
	// File is the path for Content, or "".
	File    string `json:"file"`
	Content string `json:"content"`
	// Then is the command that activates Content, or the whole text if none exists.
	Then string `json:"then"`
	// Omitted lists the directives that this machine does not honor, with reasons.
	Omitted []string `json:"omitted"`
}

// directives describes which directives the machine's systemd, cgroups and kubelet honor.
type directives struct {
	systemd    int    // version, or 0
	systemdWhy string // why it is 0
	cpuset     string // why units cannot have a cpuset, or ""
	reserved   string // memory that the kubelet reserves, such as 500Mi, or ""
	first      int    // first node with memory
}

// Versions of systemd that introduced directives (NEWS).
const (
	sinceNUMAPolicy  = 243
	sinceAllowedCPUs = 244
)

// readDirectives asks the running systemd for its version, and reads which controllers units have.
func readDirectives(ctx context.Context, h *host.Host, v *View) (d directives) {
	if _, err := h.Files.Lstat("/run/systemd/system"); err != nil {
		d.systemdWhy = "systemd does not run this machine"
	} else if result, err := h.Exec.Run(ctx, host.Command{Argv: []string{"systemctl", "--version"}}); err != nil {
		d.systemdWhy = "systemctl --version: " + err.Error()
	} else if words := strings.Fields(string(result.Stdout)); len(words) < 2 {
		d.systemdWhy = "systemctl --version prints no version"
	} else if d.systemd, err = strconv.Atoi(words[1]); err != nil {
		d.systemdWhy = "systemctl --version prints " + words[1]
	}
	cgroup := fact.Collect(h, "cgroup").Cgroup
	switch controllers, ok := cgroup.Controllers.Get(); {
	case !fact.Is(cgroup.Version, 2):
		d.cpuset = "units have no cpuset on cgroup version 1"
	case !ok || !slices.Contains(controllers, "cpuset"):
		d.cpuset = "the cpuset controller is not available"
	}
	for _, n := range slices.Backward(v.Nodes) {
		if n.MemoryBytes.Or(0) > 0 {
			d.first = n.Number
		}
	}
	d.reserved = kubeletReserved(ctx, h)
	return d
}

// write adds the text to copy to each move.
func (p *Plan) write(d directives) {
	for i := range p.Moves {
		m := &p.Moves[i]
		switch {
		case m.Pod != "":
			m.Text = d.kubelet(m)
		case m.Guest != "" && libvirtGroup().MatchString(m.Cgroup):
			m.Text = libvirt(m)
		case strings.Contains(m.Cgroup, "docker") && m.Container != "":
			m.Text = container(m, "docker")
		case strings.Contains(m.Cgroup, "libpod") && m.Container != "":
			m.Text = container(m, "podman")
		case m.serviceUnit() != "":
			m.Text = d.systemdDropIn(m)
		default:
			m.Text = numaBalance(m)
		}
		if m.Text.Omitted == nil {
			m.Text.Omitted = []string{}
		}
	}
}

// systemdDropIn returns a drop-in with the directives that this machine honors. Without a cpuset,
// it uses CPUAffinity= instead of AllowedCPUs=.
func (d directives) systemdDropIn(m *Move) Text {
	t := Text{Kind: "systemd", File: "/etc/systemd/system/" + m.Unit + ".d/60-numa.conf", Then: "systemctl daemon-reload && systemctl restart " + text.Quote(m.Unit)}
	lines := []string{"[Service]"}
	why := d.cpuset
	if d.systemd < sinceAllowedCPUs {
		why = d.older(sinceAllowedCPUs)
	}
	if d.systemd >= sinceNUMAPolicy {
		lines = append(lines, "NUMAPolicy=bind", "NUMAMask="+m.Nodes)
	} else {
		t.Omitted = append(t.Omitted, "NUMAPolicy=, NUMAMask=: "+d.older(sinceNUMAPolicy))
	}
	if why == "" {
		lines = append(lines, "AllowedCPUs="+m.TargetCPUs, "AllowedMemoryNodes="+m.Nodes)
	} else {
		lines = append(lines, "CPUAffinity="+m.TargetCPUs)
		t.Omitted = append(t.Omitted, "AllowedCPUs=, AllowedMemoryNodes=: "+why)
	}
	t.Content = strings.Join(lines, "\n") + "\n"
	return t
}

// older returns why a directive is not honored by this systemd.
func (d directives) older(since int) string {
	if d.systemd == 0 {
		return d.systemdWhy
	}
	return fmt.Sprintf("systemd %d; they need %d", d.systemd, since)
}

// libvirt returns the elements of a domain's XML. The mode is strict, which holds from the start of
// the guest on in all releases. In mode restrictive (libvirt 7.3) only the control group limits the
// memory: the nodes can change while the guest runs (libvirt 8.0 refuses that in mode strict), but
// memory that QEMU has locked stays where it is, and RHEL 8 set the group of a starting guest from
// libvirt-8.0.0-22 on.
func libvirt(m *Move) Text {
	t := Text{Kind: "libvirt", File: "virsh edit " + text.Quote(m.Guest), Then: "virsh shutdown " + text.Quote(m.Guest) + " && virsh start " + text.Quote(m.Guest)}
	t.Content = "<!-- strict holds from the start of the guest on; to change the nodes while it\n     runs, start it with mode='restrictive' (libvirt 7.3 and later) -->\n"
	if m.vcpus > 0 {
		t.Content += fmt.Sprintf("<vcpu placement='static' cpuset='%s'>%d</vcpu>\n", m.TargetCPUs, m.vcpus)
	} else {
		t.Omitted = append(t.Omitted, "<vcpu cpuset='"+m.TargetCPUs+"'>: the number of CPUs is not on QEMU's command line (-smp)")
	}
	t.Content += "<numatune>\n  <memory mode='strict' nodeset='" + m.Nodes + "'/>\n</numatune>\n"
	return t
}

// container returns the command that moves a container of Docker or Podman.
func container(m *Move, engine string) Text {
	return Text{Kind: "container", Then: fmt.Sprintf("%s update --cpuset-cpus %s --cpuset-mems %s %s", engine, m.TargetCPUs, m.Nodes, m.Container)}
}

// numaBalance returns the command that moves a running process, and can be undone.
func numaBalance(m *Move) Text {
	return Text{Kind: "process", Then: fmt.Sprintf("fettle numa balance -p %d", m.PID)}
}

// kubelet returns the configuration with which the kubelet places the pods of the Guaranteed class.
func (d directives) kubelet(m *Move) Text {
	policy := "single-numa-node"
	if strings.ContainsAny(m.Nodes, ",-") {
		policy = "restricted"
	}
	t := Text{Kind: "kubelet", File: "KubeletConfiguration"}
	lines := []string{
		"# Places Guaranteed pods with whole CPUs; needs reserved CPUs (reservedSystemCPUs).",
		"# Drain the node, delete cpu_manager_state and memory_manager_state in",
		"# /var/lib/kubelet, and restart the kubelet.",
		"cpuManagerPolicy: static", "topologyManagerPolicy: " + policy,
	}
	if d.reserved == "" {
		t.Omitted = append(t.Omitted, "memoryManagerPolicy, reservedMemory: what the kubelet reserves is unknown (kubeReserved, systemReserved, evictionHard), and reservedMemory must be the sum")
	} else {
		lines = append(lines, "memoryManagerPolicy: Static", "reservedMemory:", fmt.Sprintf("- numaNode: %d", d.first), "  limits: {memory: "+d.reserved+"}")
	}
	t.Content = strings.Join(lines, "\n") + "\n"
	return t
}

// kubeletReserved returns the memory that a machine's kubelet keeps from pods: kubeReserved,
// systemReserved and the hard eviction threshold (100Mi by default); "" if it is unknown.
func kubeletReserved(ctx context.Context, h *host.Host) string {
	all, err := kubelet.Product.Find(ctx, h)
	if err != nil || len(all) == 0 {
		return ""
	}
	sum := 0.0
	for _, o := range []struct{ name, resource, standard string }{
		{"kubeReserved", "memory=", "0"}, {"systemReserved", "memory=", "0"}, {"evictionHard", "memory.available=", "100Mi"},
	} {
		value := all[0].Option(o.name).Effective()
		if value.Unknown() != "" {
			return ""
		}
		amount := o.standard
		for part := range strings.SplitSeq(value.Or(""), ",") {
			if a, ok := strings.CutPrefix(part, o.resource); ok {
				amount = a
			}
		}
		bytes, err := sizing.Quantity(amount)
		if err != nil {
			return "" // a share of the memory
		}
		sum += bytes
	}
	return fmt.Sprintf("%dMi", int64(math.Ceil(sum/(1<<20))))
}

// cgroupMemory returns the anonymous and shared memory of a cgroup and those below it, in bytes;
// 0 if it is unknown.
func cgroupMemory(h *host.Host, cgroup string) int64 {
	const root = "/sys/fs/cgroup"
	v, _ := activity.ParseKeyed(h.File(path.Join(root, cgroup, "memory.stat")).Text)
	if len(v) == 0 { // version 1
		v, _ = activity.ParseKeyed(h.File(path.Join(root, "memory", cgroup, "memory.stat")).Text)
		return int64(v["total_rss"] + v["total_shmem"])
	}
	return int64(v["anon"] + v["shmem"])
}
