package sizing

import "strconv"

// ConfigMap carries a document in a key (v1).
type ConfigMap struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   Meta              `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
}

// SizedNodes and SizedPods are annotations of the configuration of cluster
// monitoring that say for how many nodes and pods its volumes are: no other document
// does before the cluster runs, and this one is audited by them.
const (
	SizedNodes = "fettle.dev/nodes"
	SizedPods  = "fettle.dev/pods"
)

// NewMonitoringConfigMap carries the configuration of the monitoring of a cluster of
// so many nodes and pods; 0 for pods that nobody has counted.
func NewMonitoringConfigMap(config string, nodes, pods int) ConfigMap {
	about := map[string]string{SizedNodes: strconv.Itoa(nodes)}
	if pods > 0 {
		about[SizedPods] = strconv.Itoa(pods)
	}
	return ConfigMap{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: Meta{Name: "cluster-monitoring-config", Namespace: "openshift-monitoring", Annotations: about},
		Data:     map[string]string{"config.yaml": config},
	}
}

// Monitoring is config.yaml of cluster monitoring: where its parts run, and the
// volumes of the two that have some.
type Monitoring struct {
	PrometheusOperator   *Placed  `yaml:"prometheusOperator,omitempty"`
	PrometheusK8s        *Storing `yaml:"prometheusK8s,omitempty"`
	AlertmanagerMain     *Storing `yaml:"alertmanagerMain,omitempty"`
	KubeStateMetrics     *Placed  `yaml:"kubeStateMetrics,omitempty"`
	Grafana              *Placed  `yaml:"grafana,omitempty"`
	K8sPrometheusAdapter *Placed  `yaml:"k8sPrometheusAdapter,omitempty"`
	MetricsServer        *Placed  `yaml:"metricsServer,omitempty"`
}

// Placed is a part that runs on nodes with a label.
type Placed struct {
	NodeSelector map[string]string `yaml:"nodeSelector"`
}

// Storing is a part that runs on nodes with a label and has a volume.
type Storing struct {
	Retention           string            `yaml:"retention,omitempty"`
	NodeSelector        map[string]string `yaml:"nodeSelector"`
	VolumeClaimTemplate VolumeClaim       `yaml:"volumeClaimTemplate"`
	Resources           *Resources        `yaml:"resources,omitempty"`
}

// VolumeClaim is a claim of a volume.
type VolumeClaim struct {
	Spec VolumeClaimSpec `yaml:"spec"`
}

// VolumeClaimSpec is its size and, if it is not the default, its class.
type VolumeClaimSpec struct {
	StorageClassName string    `yaml:"storageClassName,omitempty"`
	Resources        Resources `yaml:"resources"`
}

// Resources are amounts as Kubernetes writes them.
type Resources struct {
	Requests map[string]string `yaml:"requests,omitempty"`
	Limits   map[string]string `yaml:"limits,omitempty"`
}

// Pod is one container with huge pages (v1).
type Pod struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Metadata   Meta    `yaml:"metadata"`
	Spec       PodSpec `yaml:"spec"`
}

// PodSpec is the container and its volume.
type PodSpec struct {
	SecurityContext *PodSecurity `yaml:"securityContext,omitempty"`
	Containers      []Container  `yaml:"containers"`
	Volumes         []Volume     `yaml:"volumes"`
}

// PodSecurity gives the processes further groups.
type PodSecurity struct {
	SupplementalGroups []int64 `yaml:"supplementalGroups"`
}

// Container is a program of a pod.
type Container struct {
	Name         string        `yaml:"name"`
	Image        string        `yaml:"image"`
	VolumeMounts []VolumeMount `yaml:"volumeMounts"`
	Resources    Resources     `yaml:"resources"`
}

// VolumeMount is where a volume is seen.
type VolumeMount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
}

// Volume is a directory of memory.
type Volume struct {
	Name     string   `yaml:"name"`
	EmptyDir EmptyDir `yaml:"emptyDir"`
}

// EmptyDir is where its memory comes from.
type EmptyDir struct {
	Medium string `yaml:"medium"`
}

// InstallConfig is install-config.yaml, without what sizing does not know: the
// platform's own keys, the pull secret and the ssh key.
type InstallConfig struct {
	APIVersion   string        `yaml:"apiVersion"`
	BaseDomain   string        `yaml:"baseDomain"`
	Metadata     Meta          `yaml:"metadata"`
	ControlPlane MachinePool   `yaml:"controlPlane"`
	Compute      []MachinePool `yaml:"compute"`
	Networking   Networking    `yaml:"networking"`
}

// MachinePool is machines of one role.
type MachinePool struct {
	Name           string `yaml:"name"`
	Hyperthreading string `yaml:"hyperthreading"`
	Replicas       int    `yaml:"replicas"`
}

// Networking is the networks of the cluster.
type Networking struct {
	NetworkType    string           `yaml:"networkType"`
	ClusterNetwork []ClusterNetwork `yaml:"clusterNetwork"`
	MachineCIDR    string           `yaml:"machineCIDR,omitempty"`
	MachineNetwork []CIDR           `yaml:"machineNetwork,omitempty"`
	ServiceNetwork []string         `yaml:"serviceNetwork"`
}

// ClusterNetwork is the addresses of the pods, and the part of each node.
type ClusterNetwork struct {
	CIDR       string `yaml:"cidr"`
	HostPrefix int    `yaml:"hostPrefix"`
}

// CIDR is a network.
type CIDR struct {
	CIDR string `yaml:"cidr"`
}
