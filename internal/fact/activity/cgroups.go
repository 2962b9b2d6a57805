package activity

import (
	"errors"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

const cgroupRoot = "/sys/fs/cgroup"

// maxCgroups is the maximum number of cgroups read in each hierarchy.
const maxCgroups = 4000

// hierarchy is a mounted tree of cgroups, with the files to read in each cgroup.
type hierarchy struct {
	root  string
	files func(dir, item string) []source
}

// hierarchies returns the mounted trees of version 2 (Documentation/admin-guide/cgroup-v2.rst)
// and of version 1 (Documentation/admin-guide/cgroup-v1), in the layout of systemd. If last is
// true, they have also the files of gauges, which only count at the end of a sample.
func hierarchies(h *host.Host, last bool) []hierarchy {
	pids := func(dir, item string) []source {
		if !last {
			return nil
		}
		return []source{
			{dir + "/pids.current", parseFirst("cgroup.pids", item)},
			{dir + "/pids.max", parseLimit("cgroup.pids_limit", item)},
		}
	}
	var out []hierarchy
	for _, root := range []string{cgroupRoot, cgroupRoot + "/unified"} {
		if _, err := h.Files.Lstat(root + "/cgroup.controllers"); err == nil {
			out = append(out, hierarchy{root, func(dir, item string) []source {
				return append([]source{
					{dir + "/cpu.stat", parseThrottling(item)},
					{dir + "/memory.events", parseKeyed(map[string]string{"oom_kill": "cgroup.oom_kills"}, item, 1)},
					{dir + "/memory.events.local", parseKeyed(map[string]string{"max": "cgroup.memory_limit_hits", "high": "cgroup.memory_limit_hits"}, item, 1)},
					{dir + "/cpu.pressure", parsePressure("cpu", item)},
					{dir + "/memory.pressure", parsePressure("memory", item)},
					{dir + "/io.pressure", parsePressure("io", item)},
				}, pids(dir, item)...)
			}})
		}
	}
	if last {
		out = append(out, hierarchy{cgroupRoot + "/pids", pids})
	}
	return append(out,
		hierarchy{cgroupRoot + "/cpu", func(dir, item string) []source {
			return []source{{dir + "/cpu.stat", parseThrottling(item)}}
		}},
		hierarchy{cgroupRoot + "/memory", func(dir, item string) []source {
			return []source{
				{dir + "/memory.oom_control", parseKeyed(map[string]string{"oom_kill": "cgroup.oom_kills"}, item, 1)},
				{dir + "/memory.failcnt", parseFirst("cgroup.memory_limit_hits", item)},
			}
		}})
}

// parseThrottling returns a parser for cpu.stat. Version 1 has nanoseconds, and version 2
// microseconds with different names.
func parseThrottling(item string) func(string, counters) error {
	return func(text string, c counters) error {
		return errors.Join(
			parseKeyed(map[string]string{"nr_periods": "cgroup.periods", "nr_throttled": "cgroup.throttled"}, item, 1)(text, c),
			parseKeyed(map[string]string{"throttled_time": "cgroup.throttled_s"}, item, 1e-9)(text, c),
			parseKeyed(map[string]string{"throttled_usec": "cgroup.throttled_s"}, item, 1e-6)(text, c))
	}
}

// parseLimit returns a parser for a limit, which may be "max".
func parseLimit(name, item string) func(string, counters) error {
	return func(text string, c counters) error {
		if strings.TrimSpace(text) == "max" {
			return nil
		}
		return parseFirst(name, item)(text, c)
	}
}

// readCgroups reads the counters of all cgroups below the root, and at the end of a sample the
// gauges.
func readCgroups(h *host.Host, last bool) *snapshot {
	s := newSnapshot(h)
	for _, tree := range hierarchies(h, last) {
		left := maxCgroups
		s.readTree(h, tree, "", &left)
		if left < 0 {
			s.unknown[cgroupRoot] = "too many cgroups; the rest was not read"
		}
	}
	return s
}

func (s *snapshot) readTree(h *host.Host, tree hierarchy, item string, left *int) {
	list, err := h.Files.ReadDir(tree.root + item)
	if err != nil {
		return
	}
	for _, d := range list {
		if !d.IsDir() || path.Join(tree.root, item, d.Name()) == cgroupRoot+"/unified" {
			continue
		}
		if *left--; *left < 0 {
			return
		}
		below := item + "/" + d.Name()
		for _, from := range tree.files(tree.root+below, below) {
			s.read(h, from)
		}
		s.readTree(h, tree, below, left)
	}
}

var (
	containerID = internaltext.LazyRegexp(`[0-9a-f]{64}`)
	libpodID    = internaltext.LazyRegexp(`libpod-[0-9a-f]{64}`)
	unitName    = internaltext.LazyRegexp(`^[^/]+\.(service|scope|socket|mount|swap|slice)$`)
)

// Container returns the first 12 digits of the container id in a cgroup's path, or "". It
// knows the names of Docker, Podman, containerd and CRI-O.
func Container(cgroup string) string {
	id := ContainerID(cgroup)
	return id[:min(12, len(id))]
}

// ContainerID returns the container id in a cgroup's path, or "". Of nested containers it is the
// outermost one. The id of Podman's pod, which is above its containers, and the monitor of a
// container (conmon) do not count.
func ContainerID(cgroup string) string {
	if strings.Contains(cgroup, "conmon") {
		return ""
	}
	if id := libpodID().FindString(cgroup); id != "" {
		return strings.TrimPrefix(id, "libpod-")
	}
	return containerID().FindString(cgroup)
}

// Unit returns the innermost systemd unit in a cgroup's path, or "".
func Unit(cgroup string) string {
	words := strings.Split(cgroup, "/")
	for i := len(words) - 1; i >= 0; i-- {
		if unitName().MatchString(words[i]) {
			return words[i]
		}
	}
	return ""
}

// CgroupOf returns a process's cgroup from /proc/PID/cgroup: from systemd's hierarchy, or else the
// version 2 hierarchy, or else the first hierarchy in which the process is not in the root. On
// machines with both versions, container runtimes before runc 1.1 use only version 1; in the
// version 2 hierarchy their containers are in the daemon's group.
func CgroupOf(text string) string {
	paths := map[string]string{}
	first := ""
	for line := range strings.Lines(text) {
		w := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(w) != 3 || !strings.HasPrefix(w[2], "/") {
			continue
		}
		paths[w[1]] = w[2]
		if first == "" && w[2] != "/" {
			first = w[2]
		}
	}
	for _, name := range []string{"name=systemd", "", "cpu,cpuacct", "cpu", "memory"} {
		if p := paths[name]; p != "" && p != "/" {
			return p
		}
	}
	return first
}
