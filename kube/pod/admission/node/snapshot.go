package node

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/kube/pod/admission/state"
)

// KubeletDir is the root directory of a kubelet, unless it is told otherwise.
const KubeletDir = "/var/lib/kubelet"

// The files of a kubelet's managers, below its root directory.
const (
	cpuState    = "cpu_manager_state"
	memoryState = "memory_manager_state"
)

// Snapshot is a node as it was read, before anything is made of it.
type Snapshot struct {
	// From says where it comes from, for people.
	From string
	// Taken is when; zero if unknown.
	Taken time.Time
	// Files are the machine's.
	Files host.Files
	// KubeletDir is the kubelet's root directory on the machine.
	KubeletDir string
	// Config is the kubelet's answer to /configz.
	Config []byte
	// Node is its object; nil if it is not known.
	Node *core.Node
	// Pods are those bound to the node; nil if they are not known.
	Pods *core.PodList
	// Resources is what the kubelet says of devices; nil if it was not asked, and then
	// Unasked is the reason.
	Resources *Answer
	Unasked   string

	recorded bool // Load read what Save wrote, and not the whole Node object
}

// Name is the name of the node; "" if it is not known.
func (s *Snapshot) Name() string {
	if s.Node == nil {
		return ""
	}
	return s.Node.Name
}

// Input makes of a snapshot what a prediction is made of, all but the pod. What is not
// known is either needed, and an error, or taken to be so, and said in Assumed.
func (s *Snapshot) Input() (admission.Input, error) {
	in := admission.Input{State: admission.State{Running: true}}
	from := func(what, where string) { in.Sources = append(in.Sources, admission.Source{What: what, From: where}) }
	assume := func(format string, args ...any) { in.Assumed = append(in.Assumed, fmt.Sprintf(format, args...)) }

	var err error
	if in.Node, err = Topology(s.Files); err != nil {
		return in, fmt.Errorf("the topology of %s: %w", s.From, err)
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
	if s.Node != nil { // 0 where it is not a release
		in.Settings.Release, _ = admission.ParseRelease(s.Node.Status.NodeInfo.KubeletVersion)
	}
	if err := s.managers(&in, from, assume); err != nil {
		return in, err
	}
	s.pods(&in, from, assume)
	s.devices(&in, from, assume)
	s.release(in.Settings.Release, assume)
	return in, nil
}

// memory is all memory of the machine as its kernel says, of which thresholds of the
// kubelet may be parts.
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

// managers reads what the managers hold.
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
			return nil // the manager is off, and would hold nothing
		case host.Unknown(err):
			assume("no container has anything from the manager whose file is %s: it is not in %s", name, s.From)
		default:
			assume("no container has anything from the manager whose file is %s: the node has no %s", name, file)
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

// KubeletUID is the UID under which the kubelet knows a pod: that of a static pod's
// mirror is another one, and the kubelet's own is noted on it.
func KubeletUID(p *core.Pod) string {
	if hash, ok := p.Annotations[core.MirrorPodAnnotationKey]; ok {
		return hash
	}
	return string(p.UID)
}

// pods makes of the pods that have not ended what the kubelet counts.
func (s *Snapshot) pods(in *admission.Input, from func(string, string), assume func(string, ...any)) {
	if s.Pods == nil {
		assume("everything that the managers' files hold is held still: the pods on the node are not known")
	} else {
		in.State.Active = []admission.ActivePod{}
		for i := range s.Pods.Items {
			p := &s.Pods.Items[i]
			if corestate.Ended(p) {
				continue
			}
			a := admission.ActivePod{UID: KubeletUID(p), Name: p.Namespace + "/" + p.Name}
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				a.Containers = append(a.Containers, c.Name)
			}
			in.State.Active = append(in.State.Active, a)
		}
		from("pods", fmt.Sprintf("the API: %d on the node that have not ended", len(in.State.Active)))
	}
	if s.Node != nil && s.Node.Labels != nil { // every node has some; copies from before labels were recorded have none
		in.Place = &admission.Place{Labels: s.Node.Labels, Taints: s.Node.Spec.Taints, Cordoned: s.Node.Spec.Unschedulable, Features: *declaredFeatures(&s.Node.Status)}
		if f := s.Node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil {
			in.Place.StrictGroups = f.SupplementalGroupsPolicy
		} else if !s.recorded { // copies from before features were recorded have none
			in.Place.StrictGroups = new(bool)
		}
		from("labels and taints", "the Node object")
	}
	if s.Node == nil || s.Pods == nil {
		assume("the node has room for the pod: its Node object or its pods are not known")
		return
	}
	var counted []admission.Pod
	for i := range s.Pods.Items {
		if p := &s.Pods.Items[i]; !corestate.Ended(p) {
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
		why = "the kubelet was not asked"
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
	assume("%s: as many devices as the Node object says, on no NUMA node in particular: %s", strings.Join(names, ", "), why)
}

// release says what of the kubelet's release is assumed.
func (s *Snapshot) release(r admission.Release, assume func(string, ...any)) {
	if s.Node == nil {
		assume("the kubelet is one of Kubernetes %s: its Node object is not known", admission.Newest)
		return
	}
	switch version := s.Node.Status.NodeInfo.KubeletVersion; {
	case r == 0:
		assume("the kubelet is one of Kubernetes %s: its version is %q", admission.Newest, version)
	case r > admission.Newest:
		assume("the kubelet %s does as one of Kubernetes %s, the newest whose rules are known", version, admission.Newest)
	}
}
