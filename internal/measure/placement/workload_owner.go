package placement

import (
	"slices"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Owner is the program that already places a process. Kind is "" if none is known.
type Owner struct {
	Kind string `json:"kind"`
	// Why names the evidence.
	Why string `json:"why"`
}

// Kinds of owners.
const (
	OwnedByKubelet  = "kubelet"
	OwnedByLibvirt  = "libvirt"
	OwnedByAdmin    = "administrator"
	OwnedByPolicy   = "memory policy"
	OwnedByDatabase = "database"
)

// leastOwnPolicy is the share of the memory under policies of its own above which a process places
// its memory itself, in percent. A library may bind a few pages without the program's intent.
const leastOwnPolicy = 10

// databases are the processes of databases that place their memory themselves: SAP HANA's services
// and Oracle's background and server processes. It is a guess by name.
var databases = internaltext.LazyRegexp(`^(hdb(indexserver|nameserver|xsengine|compileserver|preprocessor|scriptserver|dpserver|esserver)|ora_[a-z0-9]+_.+|oracle_[0-9]+_.*)$`)

// libvirtGroup matches the cgroups of libvirt's guests and LXC containers, with and without systemd.
var libvirtGroup = internaltext.LazyRegexp(`/machine-(qemu|lxc)\\x2d|\.libvirt-(qemu|lxc)(/|$)`)

// owner returns who places a process.
func (w *Workload) owner(p *WorkloadProcess) Owner {
	switch {
	case strings.Contains(p.Cgroup, "kubepods"):
		return Owner{OwnedByKubelet, "in a pod: " + p.Cgroup}
	case libvirtGroup().MatchString(p.Cgroup):
		return Owner{OwnedByLibvirt, "a virtual machine: " + p.Cgroup}
	}
	// Before the CPUs: those may be fettle's own, which does not allow another move of a database.
	if databases().MatchString(p.Name) {
		return Owner{OwnedByDatabase, "a guess by its name: " + p.Name + " places its memory itself"}
	}
	if policies := p.ownPolicies(); len(policies) > 0 {
		return Owner{OwnedByPolicy, strings.Join(policies, ", ")}
	}
	if why := w.pinned(p); why != "" {
		return Owner{OwnedByAdmin, why}
	}
	return Owner{}
}

// pinned names the restriction that excludes a process from some nodes or CPUs, or returns "". By
// default a process may use all CPUs except isolated ones.
func (w *Workload) pinned(p *WorkloadProcess) string {
	cpus, err := unit.ParseCPUList(p.CPUs)
	nodes, err2 := unit.ParseCPUList(p.MemoryNodes)
	for _, n := range w.View.Nodes {
		own, _ := unit.ParseCPUList(n.CPUs.Or(""))
		switch {
		case err2 == nil && n.MemoryBytes.Or(0) > 0 && !nodes.Has(n.Number):
			return "its cpuset allows memory of nodes " + p.MemoryNodes
		case err == nil && !own.Minus(w.isolated).Minus(cpus).IsEmpty():
			return "it may use CPUs " + p.CPUs
		}
	}
	return ""
}

// ownPolicies returns the memory policies that a process has set, unless they cover little of its
// memory.
func (p *WorkloadProcess) ownPolicies() (policies []string) {
	if p.Memory == nil {
		return nil
	}
	under := int64(0)
	for policy, bytes := range p.Memory.Policies {
		if policy != "default" && policy != "local" && bytes > 0 {
			under += bytes
			policies = append(policies, policy)
		}
	}
	if under*100 <= p.Memory.Bytes*leastOwnPolicy {
		return nil
	}
	slices.Sort(policies)
	return policies
}
