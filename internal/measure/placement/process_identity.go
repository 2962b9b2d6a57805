package placement

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
)

// Identity is the name of a process, the unit it belongs to, and the CPUs and nodes it may use.
type Identity struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	Cgroup string `json:"cgroup"`
	// Unit is the innermost systemd unit, Container the first 12 digits of the container's id,
	// Pod the UID of the pod, Guest the name that QEMU gives the virtual machine; or "".
	Unit      string `json:"unit"`
	Container string `json:"container"`
	Pod       string `json:"pod"`
	Guest     string `json:"guest"`
	// CPUs and MemoryNodes are those that affinity and cpuset allow the main thread.
	CPUs        string `json:"cpus"`
	MemoryNodes string `json:"memory_nodes"`
	// ResidentBytes includes huge pages of hugetlbfs, which the kernel's RSS omits.
	ResidentBytes int64 `json:"resident_bytes"`
	// command is the first word of the command line.
	command string
	// vcpus are the CPUs of the virtual machine (-smp), or 0.
	vcpus int
}

var podUID = regexp.MustCompile(`[-/]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`)

// readIdentity reads the status, cgroup and command line of a process. ok is false if the
// process has ended.
func readIdentity(h *host.Host, pid int) (p Identity, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	status := h.File(dir + "status")
	if !status.Exists {
		return p, false
	}
	fields := host.StatusFields(status.Text)
	kib := func(key string) int64 {
		n, _ := strconv.ParseInt(strings.TrimSuffix(fields[key], " kB"), 10, 54)
		return n << 10
	}
	p = Identity{
		PID: pid, Name: fields["Name"], Cgroup: activity.CgroupOf(h.File(dir + "cgroup").Text),
		CPUs: fields["Cpus_allowed_list"], MemoryNodes: fields["Mems_allowed_list"], ResidentBytes: kib("VmRSS") + kib("HugetlbPages"),
	}
	p.Unit, p.Container = activity.Unit(p.Cgroup), activity.Container(p.Cgroup)
	if strings.Contains(p.Cgroup, "pod") {
		if m := podUID.FindStringSubmatch(p.Cgroup); m != nil {
			p.Pod = strings.ReplaceAll(m[1], "_", "-")
		}
	}
	p.readCommand(strings.Split(h.File(dir+"cmdline").Text, "\x00"))
	return p, true
}

// readCommand reads the command line; QEMU's has -name guest=NAME,... and -smp [cpus=]N,...
func (p *Identity) readCommand(words []string) {
	p.command = words[0]
	for i, word := range words {
		first, _, _ := strings.Cut(word, ",")
		if name, ok := strings.CutPrefix(first, "guest="); ok {
			p.Guest = name
		}
		if i > 0 && words[i-1] == "-smp" {
			p.vcpus, _ = strconv.Atoi(strings.TrimPrefix(first, "cpus="))
		}
	}
}

// matching returns the processes that match a word.
func matching(h *host.Host, word string, self int) (found []Identity, err error) {
	pids, err := h.PIDs()
	number, notNumber := strconv.Atoi(word)
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == self || notNumber == nil && pid != number })
	for _, pid := range pids {
		if p, ok := readIdentity(h, pid); ok && (pid == number || p.Matches(word)) {
			found = append(found, p)
		}
	}
	return found, err
}

// Matches reports whether a word is the name of the process, or names its unit, container, pod or
// guest.
func (p *Identity) Matches(word string) bool {
	const leastID = 6 // digits of an id
	switch {
	case word == "":
		return false
	case p.Name == word || path.Base(p.command) == word || p.Guest == word || p.Pod == word:
		return true
	case p.Unit != "" && (p.Unit == word || p.Unit == word+".service"):
		return true
	}
	return len(word) >= leastID && p.Container != "" && strings.HasPrefix(p.Container, word[:min(len(word), len(p.Container))])
}
