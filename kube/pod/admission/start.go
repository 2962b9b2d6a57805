package admission

import "errors"

// StartProblems lists what keeps a kubelet from starting with settings on a node where
// nothing is given away yet: its managers' own checks. The node has to pass Check.
func StartProblems(n Node, s Settings) []string {
	_, problems := start(&Input{Node: n, Settings: s})
	return problems
}

// Problems lists what of the settings keeps a kubelet from starting on any node.
func (s Settings) Problems() []string {
	var problems []string
	wrong := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	s = s.withDefaults()
	if s.TopologyManagerPolicy != PolicyNone { // which does not look at them
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

// noneTakes is what the CPU manager's policy none refuses on any machine.
func (s Settings) noneTakes() error {
	if len(s.CPUManagerPolicyOptions) > 0 {
		return errors.New("cpuManagerPolicyOptions are given, and cpuManagerPolicy none takes none: set it to static or leave the options out")
	}
	return nil
}

// staticNeeds is what the CPU manager's policy static refuses on any machine.
func (s Settings) staticNeeds() error {
	if reserved := s.reserved(CPU); reserved.Sign() <= 0 {
		return errors.New("the static CPU manager needs CPUs that are reserved for the system: set reservedSystemCPUs, or cpu in kubeReserved or systemReserved")
	}
	options, err := s.cpuOptions()
	if err != nil {
		return err
	}
	if options.bySocket && s.TopologyManagerPolicy == PolicySingleNUMANode {
		return errors.New("cpuManagerPolicyOptions: align-by-socket does not go with topologyManagerPolicy single-numa-node")
	}
	return nil
}
