package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Policies of the managers, as a kubelet's configuration has them.
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
}

// topologyOptions are the options of the topology manager.
type topologyOptions struct {
	closest  bool // prefer-closest-numa-nodes
	maxNodes int  // max-allowable-numa-nodes
}

// defaultMaxNodes is the number of NUMA nodes up to which the topology manager starts
// without an option.
const defaultMaxNodes = 8

// A stage is how ripe an option is; the gate of its stage has to be open.
type stage struct {
	gate string
	open bool // by default
}

var (
	stable       = stage{"", true}
	cpuBeta      = stage{"CPUManagerPolicyBetaOptions", true}
	cpuAlpha     = stage{"CPUManagerPolicyAlphaOptions", false}
	topologyBeta = stage{"TopologyManagerPolicyBetaOptions", true}
)

type cpuOption struct {
	stage
	set func(*cpuOptions) *bool
}

var cpuOptionTable = map[string]cpuOption{
	"full-pcpus-only":                  {stable, func(o *cpuOptions) *bool { return &o.fullCores }},
	"strict-cpu-reservation":           {cpuBeta, func(o *cpuOptions) *bool { return &o.strictlyReserve }},
	"distribute-cpus-across-numa":      {cpuBeta, func(o *cpuOptions) *bool { return &o.acrossNUMA }},
	"prefer-align-cpus-by-uncorecache": {cpuBeta, func(o *cpuOptions) *bool { return &o.byUncoreCache }},
	"align-by-socket":                  {cpuAlpha, func(o *cpuOptions) *bool { return &o.bySocket }},
	"distribute-cpus-across-cores":     {cpuAlpha, func(o *cpuOptions) *bool { return &o.acrossCores }},
}

// exclusiveOptions are pairs that the kubelet refuses together.
var exclusiveOptions = [][2]string{
	{"full-pcpus-only", "distribute-cpus-across-cores"},
	{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
}

// withDefaults fills in the kubelet's defaults.
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

// available says what is wrong with using an option of a stage.
func (s Settings) available(option string, of stage) error {
	open := of.open
	if set, ok := s.FeatureGates[of.gate]; ok {
		open = set
	}
	if !open {
		return fmt.Errorf("the option %s needs the feature gate %s", option, of.gate)
	}
	return nil
}

func (s Settings) cpuOptions() (cpuOptions, error) {
	var o cpuOptions
	for _, name := range slices.Sorted(maps.Keys(s.CPUManagerPolicyOptions)) {
		known, ok := cpuOptionTable[name]
		if !ok {
			return o, fmt.Errorf("cpuManagerPolicyOptions: the static policy has no option %q (want one of %s)", name, strings.Join(slices.Sorted(maps.Keys(cpuOptionTable)), ", "))
		}
		if err := s.available(name, known.stage); err != nil {
			return o, fmt.Errorf("cpuManagerPolicyOptions: %w", err)
		}
		on, err := strconv.ParseBool(s.CPUManagerPolicyOptions[name])
		if err != nil {
			return o, fmt.Errorf("cpuManagerPolicyOptions: %s is %q, which is neither true nor false", name, s.CPUManagerPolicyOptions[name])
		}
		*known.set(&o) = on
	}
	for _, pair := range exclusiveOptions {
		if *cpuOptionTable[pair[0]].set(&o) && *cpuOptionTable[pair[1]].set(&o) {
			return o, fmt.Errorf("cpuManagerPolicyOptions: %s and %s exclude each other", pair[0], pair[1])
		}
	}
	return o, nil
}

func (s Settings) topologyOptions() (topologyOptions, error) {
	o := topologyOptions{maxNodes: defaultMaxNodes}
	for _, name := range slices.Sorted(maps.Keys(s.TopologyManagerPolicyOptions)) {
		value := s.TopologyManagerPolicyOptions[name]
		switch name {
		case "prefer-closest-numa-nodes":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return o, fmt.Errorf("topologyManagerPolicyOptions: %s is %q, which is neither true nor false", name, value)
			}
			o.closest = on
		case "max-allowable-numa-nodes":
			if err := s.available(name, topologyBeta); err != nil {
				return o, fmt.Errorf("topologyManagerPolicyOptions: %w", err)
			}
			n, err := strconv.Atoi(value)
			if err != nil || n < defaultMaxNodes {
				return o, fmt.Errorf("topologyManagerPolicyOptions: %s is %q: want a number from %d", name, value, defaultMaxNodes)
			}
			o.maxNodes = n
		default:
			return o, fmt.Errorf("topologyManagerPolicyOptions: the topology manager has no option %q (want prefer-closest-numa-nodes or max-allowable-numa-nodes)", name)
		}
	}
	return o, nil
}

// reserved is what is kept from pods of a resource: kube and system reserved, and for
// memory hard eviction.
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
