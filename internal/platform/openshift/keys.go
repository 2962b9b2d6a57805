package openshift

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/spell"
)

// The keys of a KubeletConfig (machineconfiguration.openshift.io/v1) and of its spec.
var (
	configKeys = []string{"apiVersion", "kind", "metadata", "spec", "status"}
	specKeys   = []string{"autoSizingReserved", "kubeletConfig", "logLevel", "machineConfigPoolSelector", "tlsSecurityProfile"}
)

// kubeletKeys are the keys of kubelet.config.k8s.io/v1beta1, KubeletConfiguration, as
// Kubernetes 1.34 has them. Older versions have fewer of them and no others:
// test/openshift-api holds them against the type.
var kubeletKeys = strings.Fields(`
	address allowedUnsafeSysctls apiVersion authentication authorization cgroupDriver cgroupRoot
	cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy
	containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval
	containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy
	cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff enableContentionProfiling
	enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
	enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
	enforceNodeAllocatable eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod
	evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod
	failCgroupV1 failSwapOn featureGates fileCheckFrequency hairpinMode healthzBindAddress
	healthzPort httpCheckFrequency imageGCHighThresholdPercent imageGCLowThresholdPercent
	imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy imageServiceEndpoint
	iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification kind kubeAPIBurst kubeAPIQPS
	kubeReserved kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging
	makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy
	memorySwap memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds
	nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR
	podLogsDir podPidsLimit podsPerCore port preloadedImagesVerificationAllowlist
	protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints
	registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf rotateCertificates
	runOnce runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap
	showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
	shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL
	staticPodURLHeader streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved
	systemReservedCgroup tlsCertFile tlsCipherSuites tlsMinVersion tlsPrivateKeyFile
	topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces
	volumePluginDir volumeStatsAggPeriod
`)

// unknownKeys are the keys of a KubeletConfig that nobody knows, each with the one
// that may be meant: the kubelet passes over what it does not know, or does not start.
func (t *told) unknownKeys(d document, item string) {
	unknown, at := []string{}, d.at(d.get("spec", "kubeletConfig"))
	look := func(n *yaml.Node, known []string) {
		n = follow(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if slices.Contains(known, key.Value) {
				continue
			}
			if len(unknown) == 0 {
				at = d.at(key)
			}
			unknown = append(unknown, fmt.Sprintf("%s, line %d%s", key.Value, key.Line, spell.Suggest(key.Value, known)))
		}
	}
	look(d.Node, configKeys)
	look(d.get("spec"), specKeys)
	look(d.get("spec", "kubeletConfig"), kubeletKeys)
	t.give(item+".unknown_keys", unknown, at)
}
