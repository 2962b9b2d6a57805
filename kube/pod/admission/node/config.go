package node

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

// configuration has the fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that affect
// admission. Other fields, which vary by version, are ignored.
type configuration struct {
	CPUManagerPolicy             string            `json:"cpuManagerPolicy"`
	CPUManagerPolicyOptions      map[string]string `json:"cpuManagerPolicyOptions"`
	ReservedSystemCPUs           string            `json:"reservedSystemCPUs"`
	TopologyManagerPolicy        string            `json:"topologyManagerPolicy"`
	TopologyManagerScope         string            `json:"topologyManagerScope"`
	TopologyManagerPolicyOptions map[string]string `json:"topologyManagerPolicyOptions"`
	MemoryManagerPolicy          string            `json:"memoryManagerPolicy"`
	ReservedMemory               []struct {
		NUMANode int               `json:"numaNode"`
		Limits   map[string]string `json:"limits"`
	} `json:"reservedMemory"`
	KubeReserved                 map[string]string `json:"kubeReserved"`
	SystemReserved               map[string]string `json:"systemReserved"`
	EvictionHard                 map[string]string `json:"evictionHard"`
	MergeDefaultEvictionSettings bool              `json:"mergeDefaultEvictionSettings"`
	FeatureGates                 map[string]bool   `json:"featureGates"`
}

// ConfigOf converts a kubelet's configuration file to the form of /configz, with the defaults of
// the fields that fettle reads.
func ConfigOf(file []byte) ([]byte, error) {
	c := configuration{CPUManagerPolicy: "none", TopologyManagerPolicy: "none", TopologyManagerScope: "container", MemoryManagerPolicy: "None"}
	if err := yaml.Unmarshal(file, &c); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"kubeletconfig": c})
}

// defaultEviction is the default of memory.available in evictionHard.
const defaultEviction = 100 << 20

// Settings parses a kubelet's response to /configz. memoryBytes is the machine's memory, for
// thresholds in percent.
func Settings(configz []byte, memoryBytes uint64) (admission.Settings, error) {
	var z struct {
		Config *configuration `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(configz, &z); err != nil {
		return admission.Settings{}, fmt.Errorf("configz: %w", err)
	}
	if z.Config == nil {
		return admission.Settings{}, fmt.Errorf(`configz: no "kubeletconfig"; want the answer of /configz, found %.60q`, configz)
	}
	c := z.Config
	s := admission.Settings{
		CPUManagerPolicy: c.CPUManagerPolicy, CPUManagerPolicyOptions: c.CPUManagerPolicyOptions,
		TopologyManagerPolicy: c.TopologyManagerPolicy, TopologyManagerScope: c.TopologyManagerScope,
		TopologyManagerPolicyOptions: c.TopologyManagerPolicyOptions,
		MemoryManagerPolicy:          c.MemoryManagerPolicy, FeatureGates: c.FeatureGates,
	}
	var err error
	if s.ReservedSystemCPUs, err = unit.ParseCPUList(c.ReservedSystemCPUs); err != nil {
		return s, fmt.Errorf("configz: reservedSystemCPUs: %w", err)
	}
	if s.KubeReserved, err = amounts("kubeReserved", c.KubeReserved); err != nil {
		return s, err
	}
	if s.SystemReserved, err = amounts("systemReserved", c.SystemReserved); err != nil {
		return s, err
	}
	for i, m := range c.ReservedMemory {
		limits, err := amounts(fmt.Sprintf("reservedMemory[%d].limits", i), m.Limits)
		if err != nil {
			return s, err
		}
		s.ReservedMemory = append(s.ReservedMemory, admission.MemoryReservation{NUMANode: m.NUMANode, Limits: limits})
	}
	s.EvictionHardMemoryBytes, err = eviction(c, memoryBytes)
	return s, err
}

// amounts parses quantities. It omits "pid", which is not a resource of pods.
func amounts(field string, list map[string]string) (admission.Resources, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := admission.Resources{}
	for name, text := range list {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("configz: %s.%s is %.40q: %w", field, name, text, err)
		}
		out[name] = q
	}
	return out, nil
}

// eviction returns memory.available of evictionHard in bytes. 0% and 100% mean no threshold.
// Percentages are 32-bit floats, as in the kubelet (k8s.io/kubernetes v1.34.4,
// pkg/kubelet/eviction/helpers.go, parseThresholdStatement, and apis/config, GetThresholdQuantity).
func eviction(c *configuration, memoryBytes uint64) (uint64, error) {
	const signal = "memory.available"
	text, ok := c.EvictionHard[signal]
	switch {
	case !ok && (c.EvictionHard == nil || c.MergeDefaultEvictionSettings):
		return defaultEviction, nil
	case !ok, text == "0%", text == "100%":
		return 0, nil
	}
	bad := func(err error) (uint64, error) {
		return 0, fmt.Errorf("configz: evictionHard %s is %.40q: %w", signal, text, err)
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(percent, 32)
		if err != nil || p < 0 || p > 100 {
			return bad(fmt.Errorf("want 0%% to 100%%"))
		}
		return uint64(float64(memoryBytes) * float64(float32(p)/100)), nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return bad(err)
	}
	return uint64(max(q.Value(), 0)), nil
}
