package platform

import (
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/rule"
)

// Platform is one thing that a machine can be audited as.
type Platform struct {
	Name string // as rules and the command line call it
	Doc  string
	// Input is what only a machine of this platform has: it is audited as one, if
	// nothing else is asked for, where the input has a value. "" for every machine.
	Input string
	// Health is the command that looks whether the platform is well after a change;
	// nil where it has none. It changes nothing.
	Health []string
}

// All is the table of the platforms. A product is one as well.
var All = []Platform{
	{"linux", "every Linux machine", "", nil},
	// Without --assumeyes: what it offers to do about what it finds is the person's.
	{"satellite", "Red Hat Satellite and Foreman with Katello, Capsules included", "satellite.version", []string{"satellite-maintain", "health", "check"}}, // source 000, 5.1
	{"puppet", "Puppet Server", "puppetserver.version", nil},
	{"openshift", "an OpenShift cluster, by the documents that it is installed and set up with", "openshift.documents", nil},
	{"cluster", "a running cluster of Kubernetes, which kubectl fettle check asks", "cluster.version", nil},
	{"kubernetes-node", "a node of OpenShift or Kubernetes", "kubelet.installed", nil},
}

// Of lists the platforms that a machine is, those of its products included.
// unknown says for which that cannot be told, and why.
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

// machineDirs are directories of which every copy of a machine has one.
var machineDirs = []string{"/proc", "/sys", "/etc", "/usr", "/var", "/sos_commands", "/installed-rpms"}

// HasMachine reports whether anything of a machine is there: a must-gather, or a
// directory of one's own documents, has nothing of one.
func (s *Subject) HasMachine() bool {
	return !s.Host.IsCopiedTree() || slices.ContainsFunc(machineDirs, func(dir string) bool {
		_, err := s.Host.Files.Stat(dir)
		return err == nil
	})
}

// Undetermined are findings for the platforms of which Of cannot tell whether the
// machine is one: their rules were not asked, so nothing of them is well.
func Undetermined(unknown map[string]string) []rule.Finding {
	var out []rule.Finding
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		out = append(out, rule.Finding{
			ID: "platform", Title: "What the machine is can be told", Instance: name, State: rule.Unknown,
			Reason:  fmt.Sprintf("whether this is %s is not known: %s", name, unknown[name]),
			Why:     "The rules of a platform are asked where the machine is one, and of this one that cannot be told.",
			Sources: []rule.Source{},
		})
	}
	return out
}

// Absent lists those of some platforms that the machine is certainly not.
func (s *Subject) Absent(asked, products []string) []string {
	here, unknown := s.Of(products)
	return slices.DeleteFunc(slices.Clone(asked), func(p string) bool {
		_, perhaps := unknown[p]
		return perhaps || slices.Contains(here, p)
	})
}

// has is true where a source answers the input.
func (s *Subject) has(input string) bool {
	a, ok := s.source(input)
	return ok && a != nil
}

var _ fact.MachineTree = (*Subject)(nil)
