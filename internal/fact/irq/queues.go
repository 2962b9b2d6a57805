package irq

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// readQueues reads the queues of network devices that have hardware
// (Documentation/networking/scaling.rst).
func (r *Report) readQueues(h *host.Host) {
	const dir = "/sys/class/net"
	if n, err := strconv.ParseInt(strings.TrimSpace(h.File("/proc/sys/net/core/rps_sock_flow_entries").Text), 10, 64); err == nil {
		r.RFSEntries = &n
	}
	list, err := h.Files.ReadDir(dir)
	if why := host.Why(dir, err); why != "" {
		r.Unknown = append(r.Unknown, why)
	}
	for _, d := range list {
		at := dir + "/" + d.Name()
		if _, err := h.Files.Lstat(at + "/device"); err != nil {
			continue
		}
		queues, err := h.Files.ReadDir(at + "/queues")
		if err != nil {
			if why := host.Why(at+"/queues", err); why != "" {
				r.Unknown = append(r.Unknown, why)
			}
			continue
		}
		slices.SortFunc(queues, func(a, b fs.DirEntry) int { return fact.Natural(a.Name(), b.Name()) }) // tx-2 before tx-10
		q := Queues{Device: d.Name(), Node: nodeOf(h, at+"/device")}
		var rps, xps unit.CPUSet
		for _, d := range queues {
			name := d.Name()
			in := at + "/queues/" + name + "/"
			switch {
			case strings.HasPrefix(name, "rx-"):
				q.RxQueues++
				if cpus := mask(h, in+"rps_cpus"); !cpus.IsEmpty() {
					rps = rps.Union(cpus)
					q.RPSQueues++
					q.rps = append(q.rps, queue{name, cpus})
				}
				if n, err := strconv.ParseInt(strings.TrimSpace(h.File(in+"rps_flow_cnt").Text), 10, 64); err == nil {
					q.RFSEntries += n
				}
			case strings.HasPrefix(name, "tx-"):
				q.TxQueues++
				q.tx = append(q.tx, name)
				if cpus := mask(h, in+"xps_cpus"); !cpus.IsEmpty() {
					xps = xps.Union(cpus)
					q.XPSQueues++
				}
			}
		}
		q.RPSList, q.XPSList = rps.String(), xps.String()
		if local, _ := r.cpusOf(q.Node); !local.IsEmpty() {
			q.OffNodeList = rps.Minus(local).String()
		}
		r.Queues = append(r.Queues, q)
	}
}

// mask reads a CPU mask, or the empty set if the kernel does not offer it.
func mask(h *host.Host, p string) unit.CPUSet {
	cpus, err := unit.ParseCPUMask(strings.TrimSpace(h.File(p).Text))
	if err != nil {
		return unit.CPUSet{}
	}
	return cpus
}

// nodeOf returns the NUMA node of a device or of its nearest parent, because a virtio device has no
// node of its own. It is nil if unknown.
func nodeOf(h *host.Host, device string) *int {
	real, err := h.Files.Resolve(device)
	if err != nil {
		return nil
	}
	for ; strings.HasPrefix(real, "/sys/devices/"); real = path.Dir(real) {
		text, err := h.Files.ReadFile(real + "/numa_node")
		if err != nil {
			continue
		}
		if node, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && node >= 0 {
			return &node
		}
		return nil
	}
	return nil
}
