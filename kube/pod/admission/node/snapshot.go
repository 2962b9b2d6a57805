package node

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/kube/pod/admission/state"
)

// KubeletDir is the default root directory of a kubelet.
const KubeletDir = "/var/lib/kubelet"

// Files of a kubelet's managers, below its root directory.
const (
	cpuState    = "cpu_manager_state"
	memoryState = "memory_manager_state"
)

// cpuShares exists if the CPU controller uses cgroup v1.
const cpuShares = "/sys/fs/cgroup/cpu/cpu.shares"

// Snapshot is the raw data of a node, the source of a prediction's input.
type Snapshot struct {
	// From is the display name of the data's origin.
	From string
	// Taken is when it was taken; zero if unknown.
	Taken time.Time
	// Files are the files of the machine.
	Files host.Files
	// KubeletDir is the kubelet's root directory on the machine.
	KubeletDir string
	// Config is the kubelet's response to /configz.
	Config []byte
	// Node is the Node object; nil if unknown.
	Node *core.Node
	// Pods are the pods bound to the node; nil if unknown.
	Pods *core.PodList
	// Resources is the kubelet's response about devices. If it is nil, Unasked has the reason.
	Resources *Answer
	Unasked   string

	recorded bool // the snapshot comes from Save's copy, which reduces the Node object
}

// Name returns the name of the node; "" if unknown.
func (s *Snapshot) Name() string {
	if s.Node == nil {
		return ""
	}
	return s.Node.Name
}

// Input converts a snapshot to a prediction's input without the pod. A missing required value is an
// error; other missing values are assumed, and listed in Assumed.
func (s *Snapshot) Input() (admission.Input, error) {
	in := admission.Input{State: admission.State{Running: true}}
	from := func(what, where string) { in.Sources = append(in.Sources, admission.Source{What: what, From: where}) }
	assume := func(format string, args ...any) { in.Assumed = append(in.Assumed, fmt.Sprintf(format, args...)) }

	var err error
	if in.Node, err = Topology(s.Files); err != nil {
		return in, fmt.Errorf("cannot read the topology of %s: %w", s.From, err)
	}
	in.Node.Name = s.Name()
	when := ""
	if !s.Taken.IsZero() {
		when = ", as of " + s.Taken.UTC().Format(time.RFC3339)
	}
	from("topology", s.From+": "+nodeDir+" and "+cpuDir+when)
	if in.Settings, err = Settings(s.Config, s.memory(&in.Node)); err != nil {
		return in, fmt.Errorf("%s: %w", s.From, err)
	}
	from("settings", "the kubelet's answer to /configz")
	if s.Node != nil { // 0 for an invalid version
		in.Settings.Release, _ = admission.ParseRelease(s.Node.Status.NodeInfo.KubeletVersion)
	}
	if err := s.managers(&in, from, assume); err != nil {
		return in, err
	}
	s.pods(&in, from, assume)
	s.devices(&in, from, assume)
	s.release(in.Settings.Release, assume)
	_, err = s.Files.ReadFile(cpuShares)
	in.CgroupV1 = err == nil
	return in, nil
}

// memory returns the machine's memory in bytes as the kernel reports it, for the kubelet's
// thresholds in percent.
func (s *Snapshot) memory(n *admission.Node) uint64 {
	if text, err := s.Files.ReadFile("/proc/meminfo"); err == nil {
		if total, err := memTotal(string(text)); err == nil {
			return total
		}
	}
	var sum uint64
	for _, m := range n.NUMA {
		sum += m.MemoryBytes
	}
	return sum
}

// managers reads the managers' state files.
func (s *Snapshot) managers(in *admission.Input, from func(string, string), assume func(string, ...any)) error {
	read := func(name string, static bool, take func([]byte) error) error {
		file := path.Join(s.KubeletDir, name)
		text, err := s.Files.ReadFile(file)
		switch {
		case err == nil:
			from(name, s.From+": "+file)
			if err := take(text); err != nil {
				return fmt.Errorf("%s: %s: %w", s.From, path.Dir(file), err)
			}
			return nil
		case !missing(err):
			return fmt.Errorf("%s: %w", s.From, err)
		case !static:
			return nil // the manager is off and holds nothing
		case host.Unknown(err):
			assume("no container has exclusive resources, because the file %s is not in %s", name, s.From)
		default:
			assume("no container has exclusive resources according to %s, because the node has no file %s", name, file)
		}
		return nil
	}
	if err := read(cpuState, in.Settings.CPUManagerPolicy == admission.PolicyStatic, func(text []byte) (err error) {
		in.State.CPU, err = state.CPU(text, in.Settings)
		return err
	}); err != nil {
		return err
	}
	return read(memoryState, in.Settings.MemoryManagerPolicy == admission.MemoryPolicyStatic, func(text []byte) (err error) {
		in.State.Memory, err = state.Memory(text, in.Settings)
		return err
	})
}

// KubeletUID returns the UID by which the kubelet knows a pod. A static pod's mirror has another
// UID, with the kubelet's in an annotation.
func KubeletUID(p *core.Pod) string {
	if hash, ok := p.Annotations[core.MirrorPodAnnotationKey]; ok {
		return hash
	}
	return string(p.UID)
}

// pods adds the pods that have not ended, as the kubelet counts them.
func (s *Snapshot) pods(in *admission.Input, from func(string, string), assume func(string, ...any)) {
	if s.Pods == nil {
		assume("all assignments in the managers' files are still held (pods on the node unknown)")
	} else {
		in.State.Active = []admission.ActivePod{}
		for i := range s.Pods.Items {
			p := &s.Pods.Items[i]
			if ended(p) {
				continue
			}
			a := admission.ActivePod{UID: KubeletUID(p), Name: p.Namespace + "/" + p.Name}
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				a.Containers = append(a.Containers, c.Name)
			}
			in.State.Active = append(in.State.Active, a)
		}
		from("pods", text.Sprintf("the API: %d on the node that have not ended", len(in.State.Active)))
	}
	// Every node has labels; copies from before labels were recorded have none, nor features.
	if s.Node != nil && (s.Node.Labels != nil || len(*declaredFeatures(&s.Node.Status)) > 0) {
		in.Place = &admission.Place{Labels: s.Node.Labels, Taints: s.Node.Spec.Taints, Cordoned: s.Node.Spec.Unschedulable, Features: *declaredFeatures(&s.Node.Status)}
		if f := s.Node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil {
			in.Place.StrictGroups = f.SupplementalGroupsPolicy
		} else if !s.recorded { // copies from before features were recorded lack them
			in.Place.StrictGroups = new(bool)
		}
		from("labels and taints", "the Node object")
	}
	if s.Node == nil || s.Pods == nil {
		assume("the node has room for the pod (its Node object or its pods are unknown)")
		return
	}
	var counted []admission.Pod
	for i := range s.Pods.Items {
		if p := &s.Pods.Items[i]; !ended(p) {
			counted = append(counted, podfile.Of(&p.Spec))
		}
	}
	for i := range counted {
		if in.Place != nil {
			in.Place.Ports = append(in.Place.Ports, counted[i].Placement.Ports...)
		}
	}
	in.Capacity = admission.CapacityOf(podfile.Resources(s.Node.Status.Allocatable), counted)
	from("room", "the Node object and the requests of its pods")
}

func (s *Snapshot) devices(in *admission.Input, from func(string, string), assume func(string, ...any)) {
	if s.Resources != nil {
		in.Devices = devices(s.Resources)
		from("devices", "the kubelet's service of pod resources")
		return
	}
	why := s.Unasked
	if why == "" {
		why = "the kubelet was not queried"
	}
	if in.Capacity == nil {
		assume("the node has no devices: %s", why)
		return
	}
	in.Devices = invented(in.Capacity.Allocatable, in.Capacity.Requested)
	if len(in.Devices) == 0 {
		from("devices", "the Node object, which has none")
		return
	}
	var names []string
	for _, d := range in.Devices {
		names = append(names, d.Name)
	}
	assume("%s: number of devices as in the Node object, NUMA nodes unknown: %s", strings.Join(names, ", "), why)
}

// release adds assumptions that follow from the kubelet's release.
func (s *Snapshot) release(r admission.Release, assume func(string, ...any)) {
	if s.Node == nil {
		assume("the kubelet is of Kubernetes %s (Node object unknown)", admission.Newest)
		return
	}
	switch version := s.Node.Status.NodeInfo.KubeletVersion; {
	case r == 0:
		assume("the kubelet is of Kubernetes %s (its version is %q)", admission.Newest, version)
	case r > admission.Newest:
		assume("the kubelet %s behaves like Kubernetes %s, the newest release whose rules are known", version, admission.Newest)
	}
}

// ended reports whether all containers of a pod have ended, so that it holds no resources.
func ended(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}
