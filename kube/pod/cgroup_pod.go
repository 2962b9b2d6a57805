package pod

import (
	"slices"
	"strings"
)

// ContainerCgroup reports whether a control group is that of a container, by its number, or one
// inside of it. A container runtime names it by the number alone (cgroupfs), or as
// cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope (systemd).
func ContainerCgroup(group, id string) bool {
	if id == "" {
		return false
	}
	for part := range strings.SplitSeq(group, "/") {
		part = strings.TrimSuffix(part, ".scope")
		if part == id || strings.HasSuffix(part, "-"+id) {
			return true
		}
	}
	return false
}

// CgroupOf reports whether a control group is that of a pod, by its UID, or one inside of it:
// podUID (cgroupfs), or kubepods-CLASS-podUID.slice with underscores for dashes
// (systemd).
func CgroupOf(group, uid string) bool {
	if uid == "" {
		return false
	}
	slice := "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for part := range strings.SplitSeq(group, "/") {
		if part == "pod"+uid || strings.HasSuffix(part, slice) {
			return true
		}
	}
	return false
}

// OfPods reports whether a control group is in the part of the tree that a kubelet keeps
// its pods in.
func OfPods(group string) bool {
	return slices.ContainsFunc(strings.Split(group, "/"), func(part string) bool {
		return strings.Contains(part, "kubepods") // below a group of its own: fleet-kubepods.slice
	})
}

// Class is the class of quality of service of which a pod's control group is: kubelets
// keep Burstable and BestEffort pods in groups of their own. "" is no pod's.
func Class(group string) string {
	if !OfPods(group) {
		return ""
	}
	for part := range strings.SplitSeq(group, "/") {
		part = strings.TrimSuffix(part, ".slice")
		switch {
		case part == "burstable", strings.HasSuffix(part, "kubepods-burstable"):
			return "Burstable"
		case part == "besteffort", strings.HasSuffix(part, "kubepods-besteffort"):
			return "BestEffort"
		}
	}
	return "Guaranteed"
}
