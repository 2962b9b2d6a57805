package admission

import (
	"errors"
	"fmt"
	"strconv"

	"fettle.dev/fettle/internal/text"
)

// Policies of the managers, as in a kubelet's configuration.
const (
	PolicyNone           = "none"
	PolicyStatic         = "static"
	PolicyBestEffort     = "best-effort"
	PolicyRestricted     = "restricted"
	PolicySingleNUMANode = "single-numa-node"
	ScopeContainer       = "container"
	ScopePod             = "pod"
	MemoryPolicyNone     = "None"
	MemoryPolicyStatic   = "Static"
)

// cpuOptions are the options of the static policy of the CPU manager.
type cpuOptions struct {
	fullCores       bool // full-pcpus-only
	acrossNUMA      bool // distribute-cpus-across-numa
	acrossCores     bool // distribute-cpus-across-cores
	bySocket        bool // align-by-socket
	byUncoreCache   bool // prefer-align-cpus-by-uncorecache
	strictlyReserve bool // strict-cpu-reservation

	release Release
}

// topologyOptions are the options of the topology manager.
type topologyOptions struct {
	closest  bool // prefer-closest-numa-nodes
	maxNodes int  // max-allowable-numa-nodes
}

// defaultMaxNodes is the maximum number of NUMA nodes with which the topology manager starts by
// default.
const defaultMaxNodes = 8

var cpuOptionTable = optionTable[cpuOptions]{"cpuManagerPolicyOptions", map[string]func(*cpuOptions, string) error{
	"full-pcpus-only":                  switchOf(func(o *cpuOptions) *bool { return &o.fullCores }),
	"strict-cpu-reservation":           switchOf(func(o *cpuOptions) *bool { return &o.strictlyReserve }),
	"distribute-cpus-across-numa":      switchOf(func(o *cpuOptions) *bool { return &o.acrossNUMA }),
	"prefer-align-cpus-by-uncorecache": switchOf(func(o *cpuOptions) *bool { return &o.byUncoreCache }),
	"align-by-socket":                  switchOf(func(o *cpuOptions) *bool { return &o.bySocket }),
	"distribute-cpus-across-cores":     switchOf(func(o *cpuOptions) *bool { return &o.acrossCores }),
}}

var topologyOptionTable = optionTable[topologyOptions]{"topologyManagerPolicyOptions", map[string]func(*topologyOptions, string) error{
	"prefer-closest-numa-nodes": switchOf(func(o *topologyOptions) *bool { return &o.closest }),
	"max-allowable-numa-nodes": func(o *topologyOptions, value string) (err error) {
		if o.maxNodes, err = strconv.Atoi(value); err != nil || o.maxNodes < defaultMaxNodes {
			return text.Errorf("%q: want a whole number of at least %d", value, defaultMaxNodes)
		}
		return nil
	},
}}

// withDefaults sets the kubelet's defaults.
func (s Settings) withDefaults() Settings {
	for value, standard := range map[*string]string{
		&s.CPUManagerPolicy:      PolicyNone,
		&s.TopologyManagerPolicy: PolicyNone,
		&s.TopologyManagerScope:  ScopeContainer,
		&s.MemoryManagerPolicy:   MemoryPolicyNone,
	} {
		if *value == "" {
			*value = standard
		}
	}
	return s
}

func (s Settings) cpuOptions() (cpuOptions, error) {
	o, err := cpuOptionTable.read(s.CPUManagerPolicyOptions, s.FeatureGates, s.Release.orNewest())
	if err != nil {
		return o, err
	}
	for _, pair := range []struct {
		a, b string
		both bool
	}{
		{"full-pcpus-only", "distribute-cpus-across-cores", o.fullCores && o.acrossCores},
		{"distribute-cpus-across-numa", "distribute-cpus-across-cores", o.acrossNUMA && o.acrossCores},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores", o.byUncoreCache && o.acrossCores},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa", o.byUncoreCache && o.acrossNUMA},
	} {
		if pair.both {
			return o, fmt.Errorf("cpuManagerPolicyOptions: %s and %s exclude each other", pair.a, pair.b)
		}
	}
	o.release = s.Release.orNewest()
	return o, nil
}

func (s Settings) topologyOptions() (topologyOptions, error) {
	o, err := topologyOptionTable.read(s.TopologyManagerPolicyOptions, s.FeatureGates, s.Release.orNewest())
	if o.maxNodes == 0 {
		o.maxNodes = defaultMaxNodes
	}
	return o, err
}

// reserved returns how much of a resource pods cannot use: the kube and system reservations, and
// for memory also hard eviction.
func (s Settings) reserved(resource string) amount {
	var sum amount
	if resource == CPU && !s.ReservedSystemCPUs.IsEmpty() {
		sum.addInt(int64(s.ReservedSystemCPUs.Len()))
		return sum
	}
	sum.add(s.SystemReserved[resource])
	sum.add(s.KubeReserved[resource])
	if resource == Memory {
		sum.addInt(int64(s.EvictionHardMemoryBytes))
	}
	return sum
}

// StartProblems returns why a kubelet's managers would not start with settings on a node without
// assignments. The node must pass Check.
func StartProblems(n Node, s Settings) []string {
	_, problems := start(&Input{Node: n, Settings: s})
	return problems
}

// Problems returns the settings with which a kubelet starts on no node.
func (s Settings) Problems() []string {
	var problems []string
	wrong := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	s = s.withDefaults()
	if s.TopologyManagerPolicy != PolicyNone { // policy none ignores them
		_, err := s.topologyOptions()
		wrong(err)
	}
	switch s.CPUManagerPolicy {
	case PolicyStatic:
		wrong(s.staticNeeds())
	case PolicyNone:
		wrong(s.noneTakes())
	}
	if s.MemoryManagerPolicy == MemoryPolicyStatic {
		wrong(s.memoryNeeds())
	}
	return problems
}

// noneTakes returns an error for settings that the CPU manager's policy none rejects on any
// machine.
func (s Settings) noneTakes() error {
	if len(s.CPUManagerPolicyOptions) > 0 {
		return errors.New("cpuManagerPolicyOptions need cpuManagerPolicy static; set that, or leave the options out")
	}
	return nil
}

// staticNeeds returns an error for settings that the CPU manager's policy static rejects on any
// machine.
func (s Settings) staticNeeds() error {
	if reserved := s.reserved(CPU); reserved.Sign() <= 0 {
		return errors.New("the static CPU manager needs reserved CPUs; set reservedSystemCPUs, or cpu in kubeReserved or systemReserved")
	}
	options, err := s.cpuOptions()
	if err != nil {
		return err
	}
	if options.bySocket && s.TopologyManagerPolicy == PolicySingleNUMANode {
		return errors.New("cpuManagerPolicyOptions: align-by-socket and topologyManagerPolicy single-numa-node exclude each other")
	}
	return nil
}
