// Package node reads a node's data for a prediction: machine topology, kubelet configuration,
// managers' state, and pods. The data comes from the machine and the API, or from a directory with
// a copy.
package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

const (
	cpuDir  = "/sys/devices/system/cpu"
	nodeDir = "/sys/devices/system/node"
)

// Topology reads a machine's processors and memory as the kubelet sees them, like cAdvisor v0.52.1
// (utils/sysinfo, GetNodesInfo).
func Topology(files host.Files) (admission.Node, error) {
	r := sysfs{files: files}
	if err := r.readOnline(); err != nil {
		return admission.Node{}, err
	}
	ids, err := r.numbered(nodeDir, "node")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return admission.Node{}, err
	}
	if len(ids) == 0 {
		return r.withoutNodes()
	}
	var n admission.Node
	for _, id := range ids {
		dir := path.Join(nodeDir, "node"+strconv.Itoa(id))
		list, err := r.text(path.Join(dir, "cpulist"))
		if err != nil {
			return n, err
		}
		cpus, err := unit.ParseCPUList(list)
		if err != nil {
			return n, fmt.Errorf("%s/cpulist: %w", dir, err)
		}
		of, err := r.processors(id, cpus.Numbers())
		if err != nil {
			return n, err
		}
		n.CPUs = append(n.CPUs, of...)
		m := admission.NUMANode{ID: id}
		if m.MemoryBytes, err = r.memory(dir); err != nil {
			return n, err
		}
		if m.HugePages, err = r.pools(path.Join(dir, "hugepages")); err != nil {
			return n, err
		}
		if m.Distances, err = r.distances(dir); err != nil {
			return n, err
		}
		n.NUMA = append(n.NUMA, m)
	}
	return n, nil
}

// missing reports whether err means that a file does not exist, in any form.
func missing(err error) bool { return host.NotFound(err) }

// sysfs reads the kernel's directories of processors and nodes.
type sysfs struct {
	files host.Files
	// online are the online CPUs. known is false if the kernel does not report them, because it
	// cannot turn CPUs off.
	online unit.CPUSet
	known  bool
}

func (r *sysfs) text(name string) (string, error) {
	b, err := r.files.ReadFile(name)
	return strings.TrimSpace(string(b)), err
}

func (r *sysfs) number(name string) (int, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %.40q is not a number", name, text)
	}
	return n, nil
}

func (r *sysfs) readOnline() error {
	text, err := r.text(cpuDir + "/online")
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r.known = true
	if r.online, err = unit.ParseCPUList(text); err != nil {
		return fmt.Errorf("%s/online: %w", cpuDir, err)
	}
	return nil
}

// numbered returns the numbers of directory entries that consist of word and a number.
func (r *sysfs) numbered(dir, word string) ([]int, error) {
	entries, err := r.files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), word)
		if n, err := strconv.Atoi(rest); ok && err == nil && n >= 0 && strconv.Itoa(n) == rest {
			out = append(out, n)
		}
	}
	return out, nil
}

// physicalCore is a core of a NUMA node, with its caches beyond level 2 that only a part of the
// node shares, in the kernel's order.
type physicalCore struct {
	id, socket int
	threads    []int
	uncore     []int
}

// processors reads the online CPUs of a NUMA node.
func (r *sysfs) processors(node int, cpus []int) ([]admission.Processor, error) {
	var cores []*physicalCore
	for _, cpu := range cpus {
		if r.known && !r.online.Has(cpu) {
			continue
		}
		dir := fmt.Sprintf("%s/cpu%d/topology", cpuDir, cpu)
		id, err := r.number(dir + "/core_id")
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		socket, err := r.number(dir + "/physical_package_id")
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var of *physicalCore
		for _, c := range cores {
			if c.id == id && c.socket == socket {
				of = c
			}
		}
		if of == nil {
			of = &physicalCore{id: id, socket: socket}
			cores = append(cores, of)
		}
		of.threads = append(of.threads, cpu)
	}
	r.caches(cores)
	var out []admission.Processor
	for _, c := range cores {
		uncore := -1
		if len(c.uncore) > 0 {
			uncore = c.uncore[0]
		}
		for _, cpu := range c.threads {
			out = append(out, admission.Processor{ID: cpu, Core: c.id, Socket: c.socket, NUMA: node, Uncore: uncore})
		}
	}
	return out, nil
}

// caches determines the caches that only some cores of their NUMA node share. Like cAdvisor, it
// stops at an unreadable cache; guests often have none.
func (r *sysfs) caches(cores []*physicalCore) {
	for _, c := range cores {
		dir := fmt.Sprintf("%s/cpu%d/cache", cpuDir, c.threads[0])
		indexes, err := r.numbered(dir, "index")
		if err != nil {
			return
		}
		for _, i := range indexes {
			at := fmt.Sprintf("%s/index%d/", dir, i)
			id, err := r.number(at + "id")
			if err != nil {
				return
			}
			level, err := r.number(at + "level")
			if err != nil {
				return
			}
			mask, err := r.text(at + "shared_cpu_map")
			if err != nil {
				return
			}
			shared, err := unit.ParseCPUMask(mask)
			if err != nil {
				return
			}
			if level > 2 && shared.Len() != len(cores)*len(c.threads) {
				c.uncore = append(c.uncore, id)
			}
		}
	}
}

// memory returns the MemTotal of a node's meminfo, 0 if it has none.
func (r *sysfs) memory(dir string) (uint64, error) {
	text, err := r.text(dir + "/meminfo")
	if missing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	total, err := memTotal(text)
	if err != nil {
		return 0, fmt.Errorf("%s/meminfo: %w", dir, err)
	}
	return total, nil
}

// memTotal parses MemTotal of /proc/meminfo, or of a node's, in bytes.
func memTotal(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, "MemTotal:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53)
		if err != nil {
			return 0, fmt.Errorf("MemTotal: %.40q is not a number of kB", strings.TrimSpace(rest))
		}
		return kib << 10, nil
	}
	return 0, errors.New("no MemTotal line")
}

// pools reads the pools of huge pages of a node.
func (r *sysfs) pools(dir string) ([]admission.HugePages, error) {
	entries, err := r.files.ReadDir(dir)
	if missing(err) {
		return nil, nil // a kernel without them
	}
	if err != nil {
		return nil, err
	}
	var out []admission.HugePages
	for _, e := range entries {
		kib, ok := strings.CutPrefix(e.Name(), "hugepages-")
		size, err := strconv.ParseUint(strings.TrimSuffix(kib, "kB"), 10, 40)
		if !ok || err != nil {
			continue
		}
		pages, err := r.number(path.Join(dir, e.Name(), "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		out = append(out, admission.HugePages{SizeBytes: size << 10, Pages: uint64(max(pages, 0))})
	}
	return out, nil
}

func (r *sysfs) distances(dir string) ([]uint64, error) {
	text, err := r.text(dir + "/distance")
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, word := range strings.Fields(text) {
		d, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s/distance: %.40q is not a number", dir, word)
		}
		out = append(out, d)
	}
	return out, nil
}

// withoutNodes returns a machine whose kernel has no NUMA support: each socket counts as a node,
// with unknown memory.
func (r *sysfs) withoutNodes() (admission.Node, error) {
	var n admission.Node
	cpus, err := r.numbered(cpuDir, "cpu")
	if err != nil {
		return n, err
	}
	sockets := map[int][]int{}
	var order []int
	for _, cpu := range cpus {
		socket, err := r.number(fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, cpu))
		if missing(err) {
			continue
		}
		if err != nil {
			return n, err
		}
		if sockets[socket] == nil {
			order = append(order, socket)
		}
		sockets[socket] = append(sockets[socket], cpu)
	}
	for _, id := range order {
		of, err := r.processors(id, sockets[id])
		if err != nil {
			return n, err
		}
		n.CPUs = append(n.CPUs, of...)
		n.NUMA = append(n.NUMA, admission.NUMANode{ID: id})
	}
	return n, nil
}
