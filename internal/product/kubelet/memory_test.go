package kubelet

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// TestMemoryFaults compares reservedMemory with the node's reservation as the kubelet's static
// memory manager does.
func TestMemoryFaults(t *testing.T) {
	const kinds = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: Static\n"
	const node0 = "reservedMemory:\n- numaNode: 0\n  limits: "
	for name, c := range map[string]struct{ config, flags, want string }{
		"nothing reserved":          {"kubeReserved: {memory: 1Gi}\n", "", "no memory in reservedMemory"},
		"default threshold":         {"kubeReserved: {memory: 400Mi}\n" + node0 + "{memory: 500Mi}\n", "", ""},
		"the threshold is missing":  {"kubeReserved: {memory: 500Mi}\n" + node0 + "{memory: 500Mi}\n", "", "memory: 500MiB in reservedMemory, 600MiB reserved"},
		"two nodes, both parts":     {"kubeReserved: {memory: 400Mi}\nsystemReserved: {memory: 1Gi, cpu: 500m}\n" + node0 + "{memory: 500Mi}\n- {numaNode: 1, limits: {memory: 1Gi}}\n", "", ""},
		"own threshold":             {"systemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 0%, nodefs.available: 10%}\n" + node0 + "{memory: 1Gi}\n", "", ""},
		"no threshold for memory":   {"systemReserved: {memory: 1Gi}\nevictionHard: {nodefs.available: 10%}\n" + node0 + "{memory: 1Gi}\n", "", ""},
		"huge pages not reserved":   {"systemReserved: {memory: 412Mi}\n" + node0 + "{memory: 512Mi, hugepages-2Mi: 4Mi}\n", "", "hugepages-2Mi: 4MiB in reservedMemory, 0B reserved"},
		"huge pages only in system": {"systemReserved: {memory: 412Mi, hugepages-2Mi: 4Mi}\n" + node0 + "{memory: 512Mi}\n", "", "hugepages-2Mi: 0B in reservedMemory, 4MiB reserved"},
		"decimal units":             {"systemReserved: {memory: \"895142400\"}\n" + node0 + "{memory: 1G}\n", "", ""},
		"share of the machine":      {"evictionHard: {memory.available: 5%}\n" + node0 + "{memory: 1Gi}\n", "", "unknown: evictionHard"},
		"by a flag":                 {"", " --reserved-memory=0:memory=1Gi", "unknown: the flag"},
		"a flag of the rest":        {node0 + "{memory: 1124Mi}\n", " --kube-reserved=memory=1Gi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := find(t.Context(), machine.Mounted(t, map[string]string{
				"usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml" + c.flags + "\n",
				"var/lib/kubelet/config.yaml":            kinds + c.config,
			}))
			if err != nil || len(all) != 1 {
				t.Fatalf("%d found: %v", len(all), err)
			}
			a := all[0].Answer("memory_faults")
			got := "unknown: " + a.Unknown
			if faults, ok := a.Value.([]string); ok {
				got = strings.Join(faults, "; ")
			}
			if want := c.want; got != want && !(strings.HasPrefix(want, "unknown") && strings.HasPrefix(got, want)) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
