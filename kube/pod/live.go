// Package pod prints admission predictions, and verifies that a running pod runs on the CPUs
// assigned to it. Its subpackages read the input and predict; kubectl fettle pod uses them.
package pod

import (
	"fmt"
	"path"
	"strings"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/pod/admission/node"
	"fettle.dev/fettle/kube/pod/admission/podfile"
)

// live reads the input for Verify on a node: what the API promises, what the kubelet holds, and on
// which CPUs processes may run.

// ReadPinningFacts collects the facts about a pod. s is the snapshot of its node. files are the
// node's own files, which must show all its processes.
func ReadPinningFacts(files host.Files, s *node.Snapshot, pod *core.Pod) (*PinningFacts, error) {
	in, err := s.Input()
	if err != nil {
		return nil, err
	}
	f := &PinningFacts{
		Node: s.Node.Name, Namespace: pod.Namespace, Name: pod.Name, UID: node.KubeletUID(pod),
		Class: string(pod.Status.QOSClass), Pod: podfile.Of(&pod.Spec), Containers: containersOf(pod),
		HeldFrom: path.Join(s.KubeletDir, "cpu_manager_state"), Capacity: in.Capacity,
		Groups: map[string]Group{}, Unread: map[string]string{},
	}
	f.Pod.Release, f.Gate = in.Settings.Release, in.Settings.UnknownGate()
	if f.Pool, err = in.Pool(); err != nil {
		return nil, fmt.Errorf("cannot determine the CPUs of the kubelet's CPU manager: %w", err)
	}
	f.Default = f.Pool.Shared
	if in.State.CPU != nil && f.Pool.Static {
		f.Default, f.Held = in.State.CPU.Default, in.State.CPU.Entries
	}
	for i := range s.Pods.Items {
		p := &s.Pods.Items[i]
		if p.UID == pod.UID {
			continue
		}
		for _, c := range containersOf(p) {
			if c.Running {
				f.Others = append(f.Others, Other{Pod: p.Namespace + "/" + p.Name, Container: c.Name, ID: c.ID})
			}
		}
	}
	if f.Processes, err = Processes(files); err != nil {
		return nil, err
	}
	tree, err := Find(files)
	if err != nil {
		return nil, fmt.Errorf("cannot find the control groups: %w", err)
	}
	f.Version = tree.Version
	for _, p := range f.Processes {
		mine := false
		for _, c := range f.Containers {
			mine = mine || ContainerCgroup(p.Group, c.ID)
		}
		if _, seen := f.Groups[p.Group]; !mine || seen {
			continue
		}
		if cpus, file, err := tree.CPUs(p.Group); err != nil {
			f.Unread[p.Group] = err.Error()
		} else {
			f.Groups[p.Group] = Group{CPUs: cpus, File: file}
		}
	}
	f.Weights = weights(tree, f)
	return f, nil
}

// weights reads the CPU weights of the pod's groups.
func weights(tree *Hierarchy, f *PinningFacts) Weights {
	w := Weights{Containers: map[string]Weight{}}
	if tree.Version != 2 {
		return w
	}
	for _, c := range f.Containers {
		group := ""
		for i := range f.Processes {
			if group = ContainerGroup(f.Processes[i].Group, c.ID); group != "" {
				break
			}
		}
		if !c.Running || group == "" || !CgroupOf(group, f.UID) {
			continue
		}
		all, err := tree.Weights(group)
		if err == nil && len(all) < 2 {
			err = fmt.Errorf("control group %s is not below a pod's group", group)
		}
		if err != nil {
			w.Unread = err.Error()
			return w
		}
		w.Containers[c.Name], w.Pod = all[0], all[1:]
	}
	return w
}

// containersOf returns the containers of a pod with their status.
func containersOf(p *core.Pod) []PinnedContainer {
	var out []PinnedContainer
	add := func(c *core.Container, kind string, statuses []core.ContainerStatus) {
		x := PinnedContainer{Name: c.Name, Kind: kind}
		for _, st := range statuses {
			if st.Name != c.Name {
				continue
			}
			if _, id, ok := strings.Cut(st.ContainerID, "://"); ok {
				x.ID = id
			}
			x.Running = st.State.Running != nil
		}
		out = append(out, x)
	}
	for i := range p.Spec.InitContainers {
		c, kind := &p.Spec.InitContainers[i], "init"
		if c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			kind = "sidecar"
		}
		add(c, kind, p.Status.InitContainerStatuses)
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i], "container", p.Status.ContainerStatuses)
	}
	return out
}
