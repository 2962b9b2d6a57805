// Package kubelet decides about kubelet settings from plain values: which settings are allowed,
// what a pool's KubeletConfig objects request together, whether a kubelet would start with it, and
// what a change requires. Operator, agent and kubectl fettle use it.
//
// The settings have the names of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). The package
// rejects what OpenShift's Machine Config Operator rejects
// (pkg/controller/kubelet-config/helpers.go), and settings that fettle does not support. The
// effects of a configuration are those of Kubernetes 1.34 (cmd/kubelet/app/server.go,
// pkg/kubelet/apis/config/validation).
package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// API version and kind of a kubelet's configuration and drop-ins.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// setting is a kubelet setting that fettle supports.
type setting struct {
	name string
	// class is the class of a change of the setting, unless it depends on more (ClassOf).
	class Class
	// check validates a value without other settings.
	check func(v any) error
	doc   string
}

// settings are all supported settings.
var settings = []setting{
	{"maxPods", Restart, whole(1), "maximum number of pods on the node"},
	{"podsPerCore", Restart, whole(0), "pods for each CPU, up to maxPods; 0 means no such limit"},
	{"kubeAPIQPS", Restart, whole(1), "maximum rate of requests to the API server, per second"},
	{"kubeAPIBurst", Restart, whole(1), "maximum burst of requests to the API server"},
	{"cpuManagerPolicy", Drain, words("none", "static"), "static gives whole CPUs to Guaranteed pods that ask for them"},
	{"cpuManagerPolicyOptions", Drain, texts, "options of the policy static"},
	{"cpuManagerReconcilePeriod", Restart, period, "how often the CPUs of containers are checked"},
	{"topologyManagerPolicy", Drain, words("none", "best-effort", "restricted", "single-numa-node"), "how CPUs, memory and devices of a pod are aligned"},
	{"topologyManagerScope", Drain, words("container", "pod"), "whether resources are aligned per container or per pod"},
	{"topologyManagerPolicyOptions", Drain, texts, "options of the topology manager"},
	{"memoryManagerPolicy", Drain, words("None", "Static"), "Static keeps the memory of Guaranteed pods on NUMA nodes"},
	{"reservedSystemCPUs", Drain, cpuList, "CPUs that no Guaranteed pod gets for exclusive use"},
	{"kubeReserved", Drain, amounts, "resources reserved for the kubelet and the container runtime"},
	{"systemReserved", Drain, amounts, "resources reserved for the rest of the system"},
	{"reservedMemory", Drain, reservations, "memory reserved on each NUMA node, for the memory manager"},
}

// Names returns the supported settings.
func Names() []string {
	var out []string
	for _, s := range settings {
		out = append(out, s.name)
	}
	return out
}

func find(name string) *setting {
	if i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name }); i >= 0 {
		return &settings[i]
	}
	return nil
}

// refused maps settings that no object may set to the reason.
var refused = map[string]string{
	"cgroupDriver":           "must match the container runtime, or no pod starts; change both by hand",
	"clusterDNS":             "a setting of the whole cluster (name resolution of pods)",
	"clusterDomain":          "a setting of the whole cluster (name resolution of pods)",
	"featureGates":           "a setting of the whole cluster (on OpenShift: the object FeatureGate)",
	"failSwapOn":             "swap is set up with the node",
	"memorySwap":             "swapBehavior is set up with the node",
	"staticPodPath":          "the control plane is started from this path; a wrong one stops it",
	"systemReservedCgroup":   "must match systemCgroups and the machine's groups, and excludes reservedSystemCPUs; set it up with the node",
	"kubeReservedCgroup":     "must match the machine's groups, and excludes reservedSystemCPUs; set it up with the node",
	"systemCgroups":          "must match the machine's groups; set it up with the node",
	"protectKernelDefaults":  "the kubelet may not start if kernel settings differ; set it up with the node",
	"evictionHard":           "eviction thresholds are set up with the node",
	"enforceNodeAllocatable": "must match the machine's groups; set it up with the node",
}

// Check returns an error for the invalid fields of one KubeletConfig, sorted by name. where begins
// each message, such as "KubeletConfig set-max-pods: spec.kubeletConfig".
func Check(where string, f Fields) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := checkField(name, f[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s.%s: %w", where, name, err))
		}
	}
	return errors.Join(problems...)
}

func checkField(name string, v any) error {
	switch name {
	case "apiVersion":
		return words(APIVersion)(v)
	case "kind":
		return words(Kind)(v)
	}
	if why, ok := refused[name]; ok {
		return fmt.Errorf("cannot be set in a KubeletConfig: %s", why)
	}
	s := find(name)
	switch {
	case s == nil:
		return fmt.Errorf("not supported by fettle%s; set it in the node's own kubelet configuration", text.Suggest(name, Names()))
	case v == nil:
		return errors.New("null would remove the node's own value; give a value, or leave the field out")
	}
	return s.check(v)
}

// whole returns a check for whole numbers of at least least; the kubelet stores 32 bits.
func whole(least int64) func(any) error {
	return func(v any) error {
		n, ok := v.(int64)
		if !ok || n < least || n > math.MaxInt32 {
			return text.Errorf("want a whole number from %d to %d, found %s", least, math.MaxInt32, show(v))
		}
		return nil
	}
}

func words(all ...string) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); !ok || !slices.Contains(all, s) {
			return fmt.Errorf("want %s, found %s", strings.Join(all, " or "), show(v))
		}
		return nil
	}
}

// texts checks a map of names to texts: the value true must be written "true".
func texts(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("want a map of strings, found %s", show(v))
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, ok := m[name].(string); !ok {
			return fmt.Errorf("%s: want a string, found %s; put it in quotes", name, show(m[name]))
		}
	}
	return nil
}

func period(v any) error {
	s, ok := v.(string)
	if d, err := time.ParseDuration(s); !ok || err != nil || d <= 0 {
		return fmt.Errorf("want a time such as 5s, found %s", show(v))
	}
	return nil
}

// cpuList checks a CPU list like the kubelet: only numbers and ranges.
func cpuList(v any) error {
	s, ok := v.(string)
	if !ok || strings.Trim(s, "0123456789,-") != "" {
		return fmt.Errorf("want a list of CPUs such as 0-1,8, found %s", show(v))
	}
	_, err := unit.ParseCPUList(s)
	return err
}

// amounts checks resources reserved on a node (cmd/kubelet/app/server.go, parseResourceList).
func amounts(v any) error {
	if err := texts(v); err != nil {
		return err
	}
	m := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch {
		case name == "cpu", name == "memory", name == "ephemeral-storage", name == "pid":
		default:
			return fmt.Errorf("%s: want cpu, memory, ephemeral-storage or pid%s", name, text.Suggest(name, []string{"cpu", "memory", "ephemeral-storage", "pid"}))
		}
		if _, err := parseAmount(m[name].(string)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// amountForm matches an amount of a resource. It limits exponents to two digits, because evaluating
// a short Kubernetes Quantity with a huge exponent can take minutes.
var amountForm = text.LazyRegexp(`^[0-9]{1,19}(\.[0-9]{0,9})?(n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][0-9]{1,2})?$`)

// parseAmount parses an amount of at least 0.
func parseAmount(text string) (resource.Quantity, error) {
	if amountForm().MatchString(text) {
		if q, err := resource.ParseQuantity(text); err == nil {
			return q, nil
		}
	}
	return resource.Quantity{}, fmt.Errorf("want an amount such as 500m or 1Gi, found %s", show(text))
}

// reservations checks each item of reservedMemory; Problems checks their sum.
func reservations(v any) error {
	_, err := memoryReservations(v)
	return err
}

// show describes a value in a few words.
func show(v any) string {
	var text string
	switch v := v.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "fields"
	case []any:
		return "a list"
	case string:
		text = fmt.Sprintf("%q", v)
	default:
		text = fmt.Sprint(v)
	}
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:57], "") + "..."
	}
	return text
}
