package placement

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// nodeParser reads lists of nodes and CPUs as numactl(8) does.
type nodeParser struct {
	host        *host.Host
	nodes, cpus list
}

// list reads lists of numbers: 0-3,8; +0-1, relative to the allowed ones; !N, all but N; all; same.
type list struct {
	what         string // "node" or "CPU"
	all, allowed unit.CPUSet
	last         unit.CPUSet
	// why names what excludes members that are online, or "".
	why func(outside unit.CPUSet) string
	// device returns the node of a device (netdev:eth0); nil for CPUs.
	device func(kind, name string) (int, error)
}

func newNodeParser(h *host.Host) (*nodeParser, error) {
	p := &nodeParser{host: h, nodes: list{what: "node"}, cpus: list{what: "CPU"}}
	p.nodes.device, p.nodes.why = p.device, p.noMemory
	p.cpus.why = func(unit.CPUSet) string { return confined(h, "cpuset.cpus") }
	status, err := h.Files.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for file, to := range map[string]*unit.CPUSet{nodesDir + "online": &p.nodes.all, "/sys/devices/system/cpu/online": &p.cpus.all} {
		if *to, err = readList(h, file); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*list{"Mems_allowed_list": &p.nodes, "Cpus_allowed_list": &p.cpus}[name]
		if to == nil {
			continue
		}
		if to.allowed, err = unit.ParseCPUList(strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("/proc/self/status: %s: %w", name, err)
		}
		to.allowed = to.allowed.Intersect(to.all)
	}
	return p, nil
}

// noMemory names the nodes without memory, which no process may use for memory, or else the control
// group.
func (p *nodeParser) noMemory(outside unit.CPUSet) string {
	if some, err := readList(p.host, nodesDir+"has_memory"); err == nil {
		if empty := outside.Minus(some); !empty.IsEmpty() {
			return fmt.Sprintf(" (node %s has no memory)", empty)
		}
	}
	return confined(p.host, "cpuset.mems")
}

const nodesDir = "/sys/devices/system/node/"

func readList(h *host.Host, file string) (unit.CPUSet, error) {
	text, err := h.Files.ReadFile(file)
	if err != nil {
		return unit.CPUSet{}, err
	}
	set, err := unit.ParseCPUList(strings.TrimSpace(string(text)))
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return set, err
}

// parse reads a list. Its members must be allowed.
func (l *list) parse(word string) (unit.CPUSet, error) {
	set, err := l.members(word)
	if err == nil {
		if outside := set.Minus(l.allowed); !outside.IsEmpty() {
			err = fmt.Errorf("%s %s is not among the %ss that this process may use: %s", l.what, outside, l.what, l.allowed)
			if online := outside.Intersect(l.all); !online.IsEmpty() {
				err = fmt.Errorf("%w%s", err, l.why(online))
			}
		} else if set.IsEmpty() {
			err = errors.New("names no " + l.what)
		}
	}
	if err != nil {
		return set, fmt.Errorf("%q: %w", word, err)
	}
	l.last = set
	return set, nil
}

func (l *list) members(word string) (unit.CPUSet, error) {
	if rest, not := strings.CutPrefix(word, "!"); not {
		set, err := l.members(rest)
		return l.allowed.Minus(set), err
	}
	switch kind, name, device := strings.Cut(word, ":"); {
	case word == "all":
		return l.allowed, nil
	case word == "same" && l.what == "node":
		return l.last, nil
	case device && l.device != nil:
		n, err := l.device(kind, name)
		if err != nil {
			return unit.CPUSet{}, err
		}
		return unit.CPUs(n), nil
	}
	rest, relative := strings.CutPrefix(word, "+")
	set, err := unit.ParseCPUList(rest)
	if err != nil || !relative {
		return set, err
	}
	members := l.allowed.Numbers()
	var out []int
	for _, n := range set.Numbers() {
		if n >= len(members) {
			return set, internaltext.Errorf("+%d: this process may use %d %ss", n, len(members), l.what)
		}
		out = append(out, members[n])
	}
	return unit.CPUs(out...), nil
}

// cpusOf returns the allowed CPUs of nodes.
func (p *nodeParser) cpusOf(nodes unit.CPUSet) unit.CPUSet {
	var all unit.CPUSet
	for _, n := range nodes.Numbers() {
		if cpus, err := readList(p.host, nodesDir+"node"+strconv.Itoa(n)+"/cpulist"); err == nil {
			all = all.Union(cpus)
		}
	}
	return all.Intersect(p.cpus.allowed)
}

// device returns the node of a device: netdev:NAME, block:NAME, file:PATH, ip:HOST, pci:ADDRESS.
func (p *nodeParser) device(kind, name string) (int, error) {
	switch kind {
	case "netdev":
		return p.nodeBelow(path.Join("/sys/class/net", path.Base(name)))
	case "block":
		return p.nodeBelow(path.Join("/sys/class/block", path.Base(name)))
	case "pci":
		if strings.Count(name, ":") == 1 {
			name = "0000:" + name
		}
		return p.nodeBelow(path.Join("/sys/bus/pci/devices", path.Base(name)))
	case "file":
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		dev := st.Dev
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			dev = st.Rdev
		}
		return p.nodeBelow(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
	case "ip":
		addresses, err := net.LookupIP(name)
		if err != nil {
			return 0, err
		}
		routes, err := netlink.RouteGet(addresses[0])
		if err != nil {
			return 0, fmt.Errorf("no route to %s: %w", name, err)
		}
		link, err := net.InterfaceByIndex(routes[0].LinkIndex)
		if err != nil {
			return 0, err
		}
		return p.nodeBelow(path.Join("/sys/class/net", link.Name))
	}
	return 0, fmt.Errorf("%s: want netdev:, block:, file:, ip: or pci:", kind)
}

// nodeBelow returns the node of a device from the nearest parent that has a numa_node. The path is
// the device's directory or link in sysfs.
func (p *nodeParser) nodeBelow(link string) (int, error) {
	dir, err := p.host.Files.Resolve(link)
	if err != nil {
		return 0, err
	}
	for ; dir != "/" && dir != "/sys"; dir = path.Dir(dir) {
		text, err := p.host.Files.ReadFile(dir + "/numa_node")
		if err != nil {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("%s/numa_node: %w", dir, err)
		}
		if n < 0 {
			return 0, fmt.Errorf("the firmware reports no node for %s", path.Base(dir))
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s belongs to no hardware device", path.Base(link))
}
