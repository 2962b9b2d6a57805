package platform

import (
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
)

// Platform is a kind of system for which a machine can be audited.
type Platform struct {
	Name string // in rules and on the command line
	// Input is an input that only machines of this platform have; they are audited for it by
	// default. It is "" if every machine belongs to the platform.
	Input string
	// Health is the command that checks the platform after a change, or nil. The command changes
	// nothing.
	Health []string
}

// All lists the platforms. Each product is a platform too.
var All = []Platform{
	{"linux", "", nil}, // every Linux machine
	// Without --assumeyes: the user decides about changes that the command offers.
	{"satellite", "satellite.version", []string{"satellite-maintain", "health", "check"}}, // Red Hat Satellite and Foreman with Katello, Capsules included; Satellite 6.12 Tuning Guide, 5.1
	{"puppet", "puppetserver.version", nil},                                               // Puppet Server
	{"openshift", "openshift.documents", nil},                                             // an OpenShift cluster, from its installation and configuration documents
	{"cluster", "cluster.version", nil},                                                   // a running cluster of Kubernetes, by kubectl fettle check
	{"kubernetes-node", "kubelet.installed", nil},                                         // a node of OpenShift or Kubernetes
}

// Of lists a machine's platforms, including its products. unknown maps each undecided platform to
// the reason.
func (s *Subject) Of(products []string) (names []string, unknown map[string]string) {
	unknown = map[string]string{}
	for _, p := range All {
		if p.Input == "" {
			names = append(names, p.Name)
			continue
		}
		switch a := s.Answer(p.Input); {
		case a.Unknown != "" && s.has(p.Input):
			unknown[p.Name] = a.Unknown
		case a.Value != nil:
			names = append(names, p.Name)
		}
	}
	for _, p := range products {
		switch items, why := s.Items(p); {
		case why != "":
			unknown[p] = why
		case len(items) > 0:
			names = append(names, p)
		}
	}
	return names, unknown
}

// machineDirs are directories; every copy of a machine has at least one.
var machineDirs = []string{"/proc", "/sys", "/etc", "/usr", "/var", "/sos_commands", "/installed-rpms"}

// HasMachine reports whether the host has files of a machine. A must-gather or a directory of
// documents has none.
func (s *Subject) HasMachine() bool {
	return !s.Host.IsCopiedTree() || slices.ContainsFunc(machineDirs, func(dir string) bool {
		_, err := s.Host.Files.Stat(dir)
		return err == nil
	})
}

// Undetermined returns an unknown finding per platform that Of could not decide: its rules were
// not evaluated.
func Undetermined(unknown map[string]string) []rule.Finding {
	var out []rule.Finding
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		out = append(out, rule.Finding{
			ID: "platform", Title: "The platform could be determined", Instance: name, State: rule.Unknown,
			Reason:  fmt.Sprintf("unknown whether this is %s: %s", name, unknown[name]),
			Why:     "The rules of a platform apply only to its machines. Fettle could not find out whether this machine is one of them.",
			Sources: []rule.Source{},
		})
	}
	return out
}

// Absent returns the platforms in asked that the machine certainly lacks.
func (s *Subject) Absent(asked, products []string) []string {
	here, unknown := s.Of(products)
	return slices.DeleteFunc(slices.Clone(asked), func(p string) bool {
		_, perhaps := unknown[p]
		return perhaps || slices.Contains(here, p)
	})
}

// has reports whether a source answers the input.
func (s *Subject) has(input string) bool {
	a, ok := s.source(input)
	return ok && a != nil
}

var _ fact.MachineTree = (*Subject)(nil)
