package admission

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/test/admission/upstream"
)

// refusable are values that some release takes and another does not, or not with some
// feature gate.
var refusable = map[string][]string{
	"containerLogMaxFiles": {"1", "2", "5"}, "containerLogMaxWorkers": {"0", "1", "4"}, "containerLogMonitorInterval": {"2s", "3s"},
	"cpuCFSQuotaPeriod": {"100ms", "50ms", "2s"}, "crashLoopBackOff": {"{maxContainerRestartPeriod: 60s}", "{maxContainerRestartPeriod: 301s}", "{}"},
	"defaultPodSysctls":    {"{net.core.somaxconn: \"1024\"}", "{vm.swappiness: \"1\"}", "{kernel.shmmax: \"1\", kernel/shmmax: \"2\"}", "{\"Net.a\": \"1\"}", "{}"},
	"enableSystemLogQuery": {"true", "false"}, "enableSystemLogHandler": {"true", "false"},
	"enforceNodeAllocatable": {"[pods]", "[none]", "[none, pods]", "[pods, pods]", "[system-reserved]", "[system-reserved-compressible, system-reserved]", "[all]", "[]"},
	"systemReservedCgroup":   {"/system.slice"}, "cgroupsPerQOS": {"true", "false"}, "failCgroupV1": {"true", "false"},
	"imageMaximumGCAge": {"0s", "1m", "1h", "-1s"}, "imageMinimumGCAge": {"2m", "-1s", "2h"},
	"imagePullCredentialsVerificationPolicy": {"AlwaysVerify", "Never", "NeverVerifyAllowlistedImages"}, "preloadedImagesVerificationAllowlist": {"[registry.example/a]", "[]"},
	"maxParallelImagePulls": {"0", "1", "5"}, "serializeImagePulls": {"true", "false"}, "memoryReservationPolicy": {"None", "TieredReservation", "Some"},
	"memorySwap": {"{swapBehavior: NoSwap}", "{swapBehavior: LimitedSwap}", "{swapBehavior: UnlimitedSwap}", "{}"}, "memoryThrottlingFactor": {"0.9", "0.8", "1.5", "0"},
	"runOnce": {"true", "false"}, "serverTLSBootstrap": {"true", "false"},
	"shutdownGracePeriod": {"30s", "0s", "500ms"}, "shutdownGracePeriodCriticalPods": {"10s", "40s", "0s"},
	"shutdownGracePeriodByPodPriority": {"[{priority: 1, shutdownGracePeriodSeconds: 10}]", "[]"}, "singleProcessOOMKill": {"true", "false"},
	"tracing": {"{samplingRatePerMillion: 1}"}, "userNamespaces": {"{idsPerPod: 65536}", "{idsPerPod: 65537}", "{idsPerPod: 1}"},
}

// refusableGates are those that decide about these values, some that need others, some that
// are locked or gone, and one that never was.
var refusableGates = []string{
	"CustomCPUCFSQuotaPeriod", "KubeletCrashLoopBackOffMax", "DefaultPodSysctls", "NodeLogQuery", "ImageMaximumGCAge", "KubeletEnsureSecretPulledImages",
	"MemoryQoS", "NodeSwap", "RotateKubeletServerCertificate", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "KubeletTracing",
	"UserNamespacesSupport", "ProcMountType", "MemoryManager", "InPlacePodVerticalScaling", "DynamicResourceAllocation", "DRAExtendedResource", "WhatComesThen", "AllAlpha", "AllBeta",
}

// TestConfigValidation asks the kubelet's own validation about configurations made at
// random, and holds the judgement of kuberelease against it.
func TestConfigValidation(t *testing.T) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	r := rand.New(rand.NewPCG(21, 4))
	names := make([]string, 0, len(refusable))
	for name := range refusable {
		names = append(names, name)
	}
	slices.Sort(names)
	cgroup := 2
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		cgroup = 1
	}
	all, starts, wrong := 600, 0, 0
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		all = 3000
	}
	for range all {
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/c.sock\n"
		for _, name := range names {
			if r.IntN(100) < 4 {
				text += name + ": " + refusable[name][r.IntN(len(refusable[name]))] + "\n"
			}
		}
		if cgroup == 1 && !strings.Contains(text, "failCgroupV1") && r.IntN(10) > 0 {
			text += "failCgroupV1: false\n"
		}
		var gates []string
		for _, name := range refusableGates {
			if r.IntN(100) < 4 {
				gates = append(gates, fmt.Sprintf("%s: %t", name, r.IntN(2) == 0))
			}
		}
		text += "featureGates: {" + strings.Join(gates, ", ") + "}\n"
		var config map[string]any
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		got := kuberelease.Judge(config, kuberelease.Kubelet{Release: kuberelease.Release(upstream.Release), Cgroup: cgroup})
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := upstream.ValidateConfig(file)
		if err == nil {
			starts++
		}
		if (err == nil) != (len(got.Refused) == 0) {
			if wrong++; wrong < 6 {
				t.Errorf("%s\nkubelet: %v\njudged: %v", text, err, got.Refused)
			}
		}
	}
	t.Logf("%d of %d start, %d judged otherwise", starts, all, wrong)
	if starts < all/6 || starts > all*5/6 {
		t.Error("too few of one kind")
	}
}
