// manifest holds the documents that sizing writes for a cluster, as
// structs: those keys of each that it uses, and no others. Tests hold them against
// the types of openshift/api and Kubernetes, which fettle itself does not link.

package sizing

import "strconv"

// Meta is what every object of a cluster has.
type Meta struct {
	Name         string            `yaml:"name,omitempty"`
	GenerateName string            `yaml:"generateName,omitempty"`
	Namespace    string            `yaml:"namespace,omitempty"`
	Labels       map[string]string `yaml:"labels,omitempty"`
	Annotations  map[string]string `yaml:"annotations,omitempty"`
}

// Selector is the labels of the objects that are meant.
type Selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// KubeletConfig changes the kubelet of a pool of machines
// (machineconfiguration.openshift.io/v1).
type KubeletConfig struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   Meta              `yaml:"metadata"`
	Spec       KubeletConfigSpec `yaml:"spec"`
}

// KubeletConfigSpec says which pool and what.
type KubeletConfigSpec struct {
	MachineConfigPoolSelector Selector `yaml:"machineConfigPoolSelector"`
	KubeletConfig             Kubelet  `yaml:"kubeletConfig"`
}

// Kubelet is the part of kubelet.config.k8s.io/v1beta1 that sizing sets.
type Kubelet struct {
	MaxPods                   int    `yaml:"maxPods,omitempty"`
	PodsPerCore               int    `yaml:"podsPerCore,omitempty"`
	KubeAPIQPS                int    `yaml:"kubeAPIQPS,omitempty"`
	KubeAPIBurst              int    `yaml:"kubeAPIBurst,omitempty"`
	CPUManagerPolicy          string `yaml:"cpuManagerPolicy,omitempty"`
	CPUManagerReconcilePeriod string `yaml:"cpuManagerReconcilePeriod,omitempty"`
	TopologyManagerPolicy     string `yaml:"topologyManagerPolicy,omitempty"`
}

// NewKubeletConfig is a KubeletConfig for the pools with a label.
func NewKubeletConfig(name string, pool map[string]string, k Kubelet) KubeletConfig {
	return KubeletConfig{
		APIVersion: "machineconfiguration.openshift.io/v1", Kind: "KubeletConfig", Metadata: Meta{Name: name},
		Spec: KubeletConfigSpec{MachineConfigPoolSelector: Selector{pool}, KubeletConfig: k},
	}
}

// FeatureGate switches a set of features of the whole cluster on
// (config.openshift.io/v1).
type FeatureGate struct {
	APIVersion string          `yaml:"apiVersion"`
	Kind       string          `yaml:"kind"`
	Metadata   Meta            `yaml:"metadata"`
	Spec       FeatureGateSpec `yaml:"spec"`
}

// FeatureGateSpec is the set.
type FeatureGateSpec struct {
	FeatureSet string `yaml:"featureSet"`
}

// NewFeatureGate is the one object of its kind that a cluster looks at.
func NewFeatureGate(set string) FeatureGate {
	return FeatureGate{APIVersion: "config.openshift.io/v1", Kind: "FeatureGate", Metadata: Meta{Name: "cluster"}, Spec: FeatureGateSpec{set}}
}

// MachineHealthCheck replaces machines that are broken
// (machine.openshift.io/v1beta1).
type MachineHealthCheck struct {
	APIVersion string          `yaml:"apiVersion"`
	Kind       string          `yaml:"kind"`
	Metadata   Meta            `yaml:"metadata"`
	Spec       HealthCheckSpec `yaml:"spec"`
}

// HealthCheckSpec says which machines, and when they are broken.
type HealthCheckSpec struct {
	Selector            Selector             `yaml:"selector"`
	UnhealthyConditions []UnhealthyCondition `yaml:"unhealthyConditions"`
	MaxUnhealthy        string               `yaml:"maxUnhealthy"`
	NodeStartupTimeout  string               `yaml:"nodeStartupTimeout"`
}

// UnhealthyCondition is a state of a node that lasts too long.
type UnhealthyCondition struct {
	Type    string `yaml:"type"`
	Timeout string `yaml:"timeout"`
	Status  string `yaml:"status"`
}

// NewMachineHealthCheck is a health check of the machines of a role.
func NewMachineHealthCheck(name, role, maxUnhealthy, after, startup string) MachineHealthCheck {
	return MachineHealthCheck{
		APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineHealthCheck",
		Metadata: Meta{Name: name, Namespace: "openshift-machine-api"},
		Spec: HealthCheckSpec{
			Selector: Selector{map[string]string{
				"machine.openshift.io/cluster-api-machine-role": role,
				"machine.openshift.io/cluster-api-machine-type": role,
			}},
			UnhealthyConditions: []UnhealthyCondition{{"Ready", after, "False"}, {"Ready", after, "Unknown"}},
			MaxUnhealthy:        maxUnhealthy, NodeStartupTimeout: startup,
		},
	}
}

// Tuned is node tuning by the Node Tuning Operator (tuned.openshift.io/v1).
type Tuned struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Metadata   Meta      `yaml:"metadata"`
	Spec       TunedSpec `yaml:"spec"`
}

// TunedSpec is profiles, and which nodes get which.
type TunedSpec struct {
	Profile   []TunedProfile   `yaml:"profile"`
	Recommend []TunedRecommend `yaml:"recommend"`
}

// TunedProfile is a profile in TuneD's language.
type TunedProfile struct {
	Name string `yaml:"name"`
	Data string `yaml:"data"`
}

// TunedRecommend gives a profile to the nodes with a label; a lower priority number
// wins.
type TunedRecommend struct {
	Match    []TunedMatch `yaml:"match"`
	Priority int          `yaml:"priority"`
	Profile  string       `yaml:"profile"`
}

// TunedMatch is a label of a node.
type TunedMatch struct {
	Label string `yaml:"label"`
}

// NewTuned is one profile for the nodes with a label.
func NewTuned(object, profile, label string, priority int, data string) Tuned {
	return Tuned{
		APIVersion: "tuned.openshift.io/v1", Kind: "Tuned",
		Metadata: Meta{Name: object, Namespace: "openshift-cluster-node-tuning-operator"},
		Spec: TunedSpec{
			Profile:   []TunedProfile{{profile, data}},
			Recommend: []TunedRecommend{{[]TunedMatch{{label}}, priority, profile}},
		},
	}
}

// MachineConfig sets kernel arguments of a pool of machines
// (machineconfiguration.openshift.io/v1).
type MachineConfig struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   Meta              `yaml:"metadata"`
	Spec       MachineConfigSpec `yaml:"spec"`
}

// MachineConfigSpec is the kernel arguments.
type MachineConfigSpec struct {
	KernelArguments []string `yaml:"kernelArguments"`
}

// NewMachineConfig is a MachineConfig of kernel arguments for a role.
func NewMachineConfig(name, role string, arguments []string) MachineConfig {
	return MachineConfig{
		APIVersion: "machineconfiguration.openshift.io/v1", Kind: "MachineConfig",
		Metadata: Meta{Name: name, Labels: map[string]string{"machineconfiguration.openshift.io/role": role}},
		Spec:     MachineConfigSpec{arguments},
	}
}

// Network is the cluster network operator's (operator.openshift.io/v1).
type Network struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Metadata   Meta        `yaml:"metadata"`
	Spec       NetworkSpec `yaml:"spec"`
}

// NetworkSpec has the part that sizing sets.
type NetworkSpec struct {
	DefaultNetwork DefaultNetwork `yaml:"defaultNetwork"`
}

// DefaultNetwork is the plug-in's.
type DefaultNetwork struct {
	Type                string      `yaml:"type"`
	OpenShiftSDNConfig  *OverlayMTU `yaml:"openshiftSDNConfig,omitempty"`
	OVNKubernetesConfig *OVNOverlay `yaml:"ovnKubernetesConfig,omitempty"`
}

// OverlayMTU is the MTU inside the overlay, in bytes.
type OverlayMTU struct {
	MTU int `yaml:"mtu"`
}

// OVNOverlay is OVN-Kubernetes's overlay.
type OVNOverlay struct {
	MTU         int    `yaml:"mtu"`
	IPsecConfig *IPsec `yaml:"ipsecConfig,omitempty"`
}

// IPsec is whether the traffic between nodes is encrypted. Versions before 4.14
// have no mode: that the key is there is the switch.
type IPsec struct {
	Mode string `yaml:"mode,omitempty"`
}

// DeviceMTU is the annotation of a Network that says for devices of which MTU its
// own is: no field of the object does, and the documents are audited by it.
const DeviceMTU = "fettle.dev/device-mtu"

// NewNetwork sets the MTU of an overlay on devices with one; ipsec is nil for none.
func NewNetwork(plugin string, device, mtu int, ipsec *IPsec) Network {
	n := Network{
		APIVersion: "operator.openshift.io/v1", Kind: "Network", Metadata: Meta{Name: "cluster", Annotations: map[string]string{DeviceMTU: strconv.Itoa(device)}},
		Spec: NetworkSpec{DefaultNetwork{Type: plugin}},
	}
	if plugin == "OVNKubernetes" {
		n.Spec.DefaultNetwork.OVNKubernetesConfig = &OVNOverlay{mtu, ipsec}
	} else {
		n.Spec.DefaultNetwork.OpenShiftSDNConfig = &OverlayMTU{mtu}
	}
	return n
}
