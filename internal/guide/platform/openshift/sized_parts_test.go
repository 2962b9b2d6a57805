package openshift

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
)

// What size hugepages writes for pods is clean under check openshift, and each value
// of it that is broken is found.
func TestSizedHugePages(t *testing.T) {
	passed := holds(t, catalogue(t), 40, 40, func(rnd *rand.Rand) []string {
		said := []string{"for", "pod", "size", fmt.Sprintf("%dMiB", 1+rnd.IntN(64<<10)), "page", []string{"2M", "1G"}[rnd.IntN(2)]}
		if rnd.IntN(2) == 0 {
			said = append(said, "group", strconv.Itoa(1+rnd.IntN(65000)))
		}
		if rnd.IntN(2) == 0 {
			said = append(said, "nodes-numa", strconv.Itoa(1+rnd.IntN(8)))
		}
		return said
	}, func() sizing.Request { return server.NewHugePages() }, []breakage{
		{"hugepages-pod.yaml.spec.containers[].resources.requests.hugepages-2Mi", ".* => 900Gi", "O38.pod"},
		{"hugepages-pod.yaml.spec.containers[].resources.requests.hugepages-1Gi", ".* => 900Gi", "O38.pod"},
		{"hugepages-pod.yaml.spec.containers[].resources.requests.hugepages-2Mi", "1024", "O38.limit"},
		{"hugepages-pod.yaml.spec.containers[].resources.requests.hugepages-1Gi", "1", "O38.limit"},
		{"hugepages-pod.yaml.spec.containers[].resources.limits.hugepages-2Mi", "3Mi", "O38.limit"},
		{"hugepages-pod.yaml.spec.containers[].resources.limits.hugepages-1Gi", "3Mi", "O38.limit"},
		{"hugepages-pod.yaml.spec.volumes[].emptyDir.medium", "Hugepages", "O38.medium"},
		{"hugepages-pod.yaml.apiVersion", "v2", "O14.api"},
		{"hugepages-pod.yaml.spec.volumes[].name", "hugepages", "O38.mount"},
		{"hugepages-pod.yaml.spec.containers[].volumeMounts[].name", "hugepages", "O38.mount"},
		{"hugepages-pod.yaml.spec.securityContext.supplementalGroups[]", "65001", "O38.group"},
		{"hugepages_tuning.yaml.apiVersion", "tuned.openshift.io/v2", "O14.api"},
		{"hugepages_tuning.yaml.metadata.namespace", "default", "O14.namespace"},
		{"hugepages_tuning.yaml.spec.profile[].name", "nobody-asks-for-it", "O15.profile"},
		{"hugepages_tuning.yaml.spec.profile[].data", "nr_hugepages=.* => nr_hugepages=0", "O38.pod"},
		{"hugepages_tuning.yaml.spec.profile[].data", "hugetlb_shm_group=.* => hugetlb_shm_group=65001", "O38.group"},
		{"hugepages_tuning.yaml.spec.profile[].data", "hugepages=never => hugepages=always", "O39.documents"},
		{"hugepages_tuning.yaml.spec.recommend[].priority", "99", "O15.priority"},
		{"hugepages_tuning.yaml.spec.recommend[].profile", "nobody-has-it", "O15.profile"},
		{"50-worker-hugepages.yaml.apiVersion", "machineconfiguration.openshift.io/v2", "O14.api"},
		{"50-worker-hugepages.yaml.spec.kernelArguments[]", "hugepagesz=1G => hugepagesz=3M", "O38.arguments"},
		{"50-worker-hugepages.yaml.spec.kernelArguments[]", "^hugepagesz=1G => hugepagesz=2M", "O38.pod"},
		{"50-worker-hugepages.yaml.spec.kernelArguments[]", "^hugepages=.* => hugepages=0", "O38.pod"},
		{"50-worker-hugepages.yaml.spec.kernelArguments[]", "hugepage=never => hugepage=always", "O39.documents"},
	})
	for _, id := range append([]string{"O38.arguments", "O39.documents"}, ofPods...) {
		if !passed[id] {
			t.Errorf("%s has not passed", id)
		}
	}
}

// The same of size network.
func TestSizedNetwork(t *testing.T) {
	const spec = "manifests/cluster-network-03-config.yml.spec.defaultNetwork."
	passed := holds(t, catalogue(t), 50, 40, func(rnd *rand.Rand) []string {
		said := []string{"overlay", []string{"vxlan", "geneve"}[rnd.IntN(2)], "mtu", strconv.Itoa([]int{1500, 9000, 8951, 9216, 700 + rnd.IntN(64000)}[rnd.IntN(5)]), "rate", strconv.Itoa(1 + rnd.IntN(400))}
		if rnd.IntN(2) == 0 {
			said = append(said, "ipsec", "true")
		}
		return said
	}, func() sizing.Request { return server.NewNetwork() }, []breakage{
		{"manifests/cluster-network-03-config.yml.apiVersion", "operator.openshift.io/v1beta1", "O14.api"},
		{"manifests/cluster-network-03-config.yml.metadata.annotations.fettle.dev/device-mtu", "600", "O36.documents"},
		{spec + "type", "OVN", "O01.plug-in"},
		{spec + "openshiftSDNConfig.mtu", "65499", "O36.documents"},
		{spec + "ovnKubernetesConfig.mtu", "65499", "O36.documents"},
		{spec + "ovnKubernetesConfig.mtu", "^[89]... => 1400", "O60.documents"},
		{spec + "openshiftSDNConfig.mtu", "^[89]... => 1450", "O60.documents"},
		{spec + "ovnKubernetesConfig.mtu", "1354 => 1400", "O36.documents"}, // IPsec takes its part
		{spec + "ovnKubernetesConfig.ipsecConfig.mode", "Ful", "O37.ipsec"},
	})
	for _, id := range []string{"O36.documents", "O60.documents", "O37.ipsec"} {
		if !passed[id] {
			t.Errorf("%s has not passed", id)
		}
	}
}
