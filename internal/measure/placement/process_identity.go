package placement

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
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
	// ContainerName is the name of a container of Docker or Podman, or of a machine of
	// systemd-nspawn or LXC. PodName is the pod as NAMESPACE/NAME. "" if it is unknown.
	ContainerName string `json:"container_name"`
	PodName       string `json:"pod_name"`
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

var (
	// podUID finds the UID of a pod, which for a static pod is a hash without dashes.
	podUID = internaltext.LazyRegexp(`[-/]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)`)
	// machineGroup finds the name of a machine in a part of a cgroup's path: systemd-machined's,
	// systemd-nspawn's, LXC's, and those of runc and crun called by hand.
	machineGroup = internaltext.LazyRegexp(`^(?:machine-(.+)\.scope|systemd-nspawn@(.+)\.service|lxc\.payload\.(.+)|(?:runc|crun)-(.+)\.scope)$`)
)

// identities reads the identities of processes.
type identities struct {
	h *host.Host
	// pods are the names of the machine's pods by UID, and containers those of containers by id.
	pods, containers map[string]string
}

func newIdentities(h *host.Host) *identities {
	return &identities{h: h, containers: map[string]string{}}
}

// read reads the status, cgroup and command line of a process. ok is false if the process has
// ended.
func (r *identities) read(pid int) (p Identity, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	status := r.h.File(dir + "status")
	if !status.Exists {
		return p, false
	}
	p = Identity{PID: pid, Cgroup: activity.CgroupOf(r.h.File(dir + "cgroup").Text)}
	parent := p.readStatus(status.Text)
	p.Unit, p.Container = activity.Unit(p.Cgroup), activity.Container(p.Cgroup)
	if strings.Contains(p.Cgroup, "pod") {
		if m := podUID().FindStringSubmatch(p.Cgroup); m != nil {
			p.Pod = strings.ReplaceAll(m[1], "_", "-")
			p.PodName = r.podName(p.Pod)
		}
	}
	p.readCommand(strings.Split(r.h.File(dir+"cmdline").Text, "\x00"))
	if p.Guest == "" && p.Pod == "" {
		p.ContainerName = r.containerName(p.Cgroup, parent)
	}
	return p, true
}

// readStatus reads the fields of /proc/PID/status (proc_pid_status(5)), and returns the parent.
func (p *Identity) readStatus(text string) (parent string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			p.Name = value
		case "PPid":
			parent = value
		case "VmRSS", "HugetlbPages":
			kib, _ := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 54)
			p.ResidentBytes += kib << 10
		case "Cpus_allowed_list":
			p.CPUs = value
		case "Mems_allowed_list":
			p.MemoryNodes = value
		}
	}
	return parent
}

// podName returns the name of a pod, or "": the kubelet keeps the logs of each pod in
// /var/log/pods/NAMESPACE_NAME_UID.
func (r *identities) podName(uid string) string {
	if r.pods == nil {
		r.pods = map[string]string{}
		list, _ := r.h.Files.ReadDir("/var/log/pods")
		for _, d := range list {
			if w := strings.Split(d.Name(), "_"); len(w) == 3 {
				r.pods[w[2]] = w[0] + "/" + w[1]
			}
		}
	}
	return r.pods[uid]
}

// containerName returns the name of a container, or "". A machine has it in its cgroup, Docker in
// the file of the container's configuration, and Podman in the arguments of the monitor (conmon),
// an ancestor of all processes of the container.
func (r *identities) containerName(cgroup, parent string) string {
	id := activity.ContainerID(cgroup)
	if id == "" {
		for part := range strings.SplitSeq(cgroup, "/") {
			if m := machineGroup().FindStringSubmatch(part); m != nil {
				return strings.ReplaceAll(strings.Join(m[1:], ""), `\x2d`, "-")
			}
		}
		return ""
	}
	name, known := r.containers[id]
	switch {
	case known:
		return name
	case strings.Contains(cgroup, "libpod"):
		name = r.monitored(id, parent)
	case strings.Contains(cgroup, "docker"):
		var config struct{ Name string }
		if json.Unmarshal([]byte(r.h.File("/var/lib/docker/containers/"+id+"/config.v2.json").Text), &config) == nil {
			name = strings.TrimPrefix(config.Name, "/")
		}
	}
	r.containers[id] = name
	return name
}

// monitored returns the name that the monitor of a container has for it (conmon -c ID -n NAME).
func (r *identities) monitored(id, parent string) string {
	const deepest = 64 // ancestors
	for range deepest {
		if parent == "" || parent == "0" || parent == "1" {
			break
		}
		dir := "/proc/" + parent + "/"
		words := strings.Split(r.h.File(dir+"cmdline").Text, "\x00")
		if at := slices.Index(words, "-n"); path.Base(words[0]) == "conmon" && slices.Contains(words, id) && at > 0 && at+1 < len(words) {
			return words[at+1]
		}
		parent = host.StatusFields(r.h.File(dir + "status").Text)["PPid"]
	}
	return ""
}

// readCommand reads the command line; QEMU's has -name [guest=]NAME,... and -smp [cpus=]N,...
func (p *Identity) readCommand(words []string) {
	p.command = words[0]
	if command := path.Base(p.command); !strings.HasPrefix(command, "qemu") && command != "kvm" {
		return
	}
	for i, word := range words[1:] {
		switch first, _, _ := strings.Cut(word, ","); words[i] {
		case "-name":
			p.Guest = strings.TrimPrefix(first, "guest=")
		case "-smp":
			p.vcpus, _ = strconv.Atoi(strings.TrimPrefix(first, "cpus="))
		}
	}
}

// mostPID is the maximum number of a process (PID_MAX_LIMIT); the start of a container's id may
// consist of digits only as well.
const mostPID = 1 << 22

// matching returns the processes that match a word.
func matching(h *host.Host, word string, self int) (found []Identity, err error) {
	number, notNumber := strconv.Atoi(word)
	pids := []int{number}
	if notNumber != nil || number > mostPID {
		pids, err = h.PIDs()
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == self })
	all := newIdentities(h)
	for _, pid := range pids {
		if p, ok := all.read(pid); ok && (pid == number || p.Matches(word)) {
			found = append(found, p)
		}
	}
	return found, err
}

// Matches reports whether a word is the name of the process, or names a unit, container, pod or
// guest that it belongs to. Each part of the cgroup's path counts, because units and containers may
// be nested, and some runtimes use the name of a container as its group.
func (p *Identity) Matches(word string) bool {
	const leastID = 6 // digits of an id
	if word == "" {
		return false
	}
	names := []string{p.Name, p.Guest, p.Pod, p.ContainerName, p.PodName}
	if p.command != "" {
		names = append(names, path.Base(p.command))
	}
	if _, pod, ok := strings.Cut(p.PodName, "/"); ok {
		names = append(names, pod)
	}
	if slices.Contains(names, word) || len(word) >= leastID && strings.HasPrefix(activity.ContainerID(p.Cgroup), word) {
		return true
	}
	for part := range strings.SplitSeq(p.Cgroup, "/") {
		// crictl shows the id of the innermost container.
		id := activity.ContainerID(part)
		if part == word || part == word+".service" || len(word) >= leastID && strings.HasPrefix(id, word) {
			return true
		}
	}
	return false
}
