package kubelet

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/machine"
)

const config = "/var/lib/kubelet/config.yaml"

// node is a machine with a kubelet of a version, flags and a configuration.
func node(t *testing.T, version, flags, text string, more map[string]string) map[string]string {
	t.Helper()
	files := map[string]string{
		"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=" + config + " " + flags + "\n",
		strings.TrimPrefix(config, "/"):      "kind: KubeletConfiguration\n" + text + "apiVersion: kubelet.config.k8s.io/v1beta1\n",
	}
	if version != "" {
		files["var/lib/dpkg/status"] = "Package: kubelet\nStatus: install ok installed\nVersion: " + version + "-1.1\n"
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// printed is an answer: its value, "absent", or "unknown".
func printed(i product.Installed, input string) string {
	a := i.Answer(input)
	switch list, isList := a.Value.([]string); {
	case a.Unknown != "":
		return "unknown"
	case a.Value == nil:
		return "absent"
	case isList:
		return strings.Join(list, "; ")
	}
	return fmt.Sprint(a.Value)
}

func TestByRelease(t *testing.T) {
	openshift := map[string]string{"etc/os-release": "OPENSHIFT_VERSION=\"4.18\"\n"}
	kubeadm := map[string]string{"var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=registry.k8s.io/pause:3.10 --node-labels=a=b\"\n"}
	dropIn := map[string]string{"etc/k.d/1.conf": "kind: KubeletConfiguration\nfeatureGates: {MemoryManager: null, KubeletPSI: false}\napiVersion: kubelet.config.k8s.io/v1beta1\n"}
	for _, tt := range []struct {
		version, flags, text string
		more                 map[string]string
		input, want          string
	}{
		{"1.30.1", "", "", nil, "fail_cgroup_v1", "absent"},
		{"1.34.4", "", "", nil, "fail_cgroup_v1", "false"},
		{"1.35.4", "", "", nil, "fail_cgroup_v1", "true"},
		{"1.41.0", "", "", nil, "fail_cgroup_v1", "true"},
		{"1.35.4", "", "failCgroupV1: null\n", nil, "fail_cgroup_v1", "true"},
		{"1.35.4", "", "failCgroupV1: false\n", nil, "fail_cgroup_v1", "false"},
		{"1.35.4", "--fail-cgroupv1=true", "failCgroupV1: false\n", nil, "fail_cgroup_v1", "true"},
		{"", "", "failCgroupV1: false\n", nil, "fail_cgroup_v1", "unknown"},

		{"1.35.4", "", "featureGates: {MemoryManager: true}\n", nil, "unknown_gates", ""},
		{"1.36.3", "", "featureGates: {MemoryManager: true}\n", nil, "unknown_gates", "MemoryManager, " + config + ":2 (up to 1.35)"},
		{"1.36.3", "", "featureGates:\n  MemoryManager: true\n", dropIn, "unknown_gates", "MemoryManager, " + config + ":3 (up to 1.35)"},
		{"1.36.3", "--config-dir=/etc/k.d", "featureGates:\n  MemoryManager: true\n", dropIn, "unknown_gates", ""},
		{"1.36.3", "--config-dir=/etc/k.d", "featureGates:\n  MemoryManager: true\n", dropIn, "locked_gates", "KubeletPSI, /etc/k.d/1.conf:2 (locked to true)"},
		{"1.33.1", "--feature-gates=HugepageAwareEviction=true,MemoryQoS=true", "", nil, "unknown_gates", "HugepageAwareEviction, /etc/systemd/system/kubelet.service:2 (1.37 and later)"},
		{"1.33.1", "", "featureGates: {MemoryQos: true}\n", nil, "unknown_gates", "MemoryQos, " + config + `:2 (did you mean "MemoryQoS"?)`},
		{"1.36.3", "", "", nil, "unknown_gates", ""},
		{"", "", "", nil, "unknown_gates", ""},
		{"", "", "featureGates: {MemoryManager: true}\n", nil, "unknown_gates", "unknown"},
		{"1.24.1", "", "featureGates: {MemoryManager: true}\n", nil, "unknown_gates", "unknown"},
		{"1.40.1", "", "featureGates: {MemoryManager: true}\n", nil, "unknown_gates", "MemoryManager, " + config + ":2 (up to 1.35)"},
		{"1.40.1", "", "featureGates: {WhatComesThen: true}\n", nil, "unknown_gates", "unknown"},
		{"", "", "featureGates: {GCPLabelsTags: true}\n", openshift, "unknown_gates", "absent"},
		{"", "", "featureGates: {NodeSwap: true, CPUManager: false}\n", openshift, "locked_gates", "CPUManager, " + config + ":2 (locked to true)"},

		{"1.34.4", "", "featureGates: {MemoryManager: true}\n", nil, "locked_gates", ""},
		{"1.34.4", "", "featureGates: {MemoryManager: false}\n", nil, "locked_gates", "MemoryManager, " + config + ":2 (locked to true)"},
		{"1.31.4", "", "featureGates: {MemoryManager: false}\n", nil, "locked_gates", ""},
		{"1.31.4", "--feature-gates MemoryManager=true", "featureGates: {MemoryManager: false}\n", nil, "locked_gates", ""},

		{"1.34.4", "--pod-infra-container-image=pause", "", kubeadm, "unknown_flags", ""},
		{"1.35.4", "--pod_infra_container_image=pause", "", nil, "unknown_flags", "--pod-infra-container-image, /etc/systemd/system/kubelet.service:2 (up to 1.34)"},
		{"1.35.4", "", "", kubeadm, "unknown_flags", "--pod-infra-container-image, /var/lib/kubelet/kubeadm-flags.env:1 (up to 1.34)"},
		{"1.30.14", "--fail-cgroupv1=false", "", nil, "unknown_flags", "--fail-cgroupv1, /etc/systemd/system/kubelet.service:2 (1.31 and later)"},
		{"1.41.0", "--storage-driver-db=x --housekeeping-interval=10s --of-another-program", "", nil, "unknown_flags", "--storage-driver-db, /etc/systemd/system/kubelet.service:2 (up to 1.36)"},
		{"", "--cloud-config=/a", "", openshift, "unknown_flags", "absent"},
		{"1.28.1", "--cloud-config=/a", "", nil, "unknown_flags", "unknown"},
		{"1.36.3", "--feature_gates=KubeletPSI=false", "", nil, "locked_gates", "KubeletPSI, /etc/systemd/system/kubelet.service:2 (locked to true)"},

		{"1.36.3", "", "memoryReservationPolicy: None\n", nil, "unknown_fields", ""},
		{"1.35.4", "", "maxPods: 3\nmemoryReservationPolicy: None\n", nil, "unknown_fields", "memoryReservationPolicy, " + config + ":3 (1.36 and later)"},
		{"1.35.4", "", "maxPod: 3\n", nil, "unknown_fields", "maxPod, " + config + `:2 (did you mean "maxPods"?)`},
		{"1.39.0", "", "whatComesThen: 3\n", nil, "unknown_fields", "unknown"},

		{"1.36.3", "", "", nil, "memory_qos", "false"},
		{"1.37.2", "", "", nil, "memory_qos", "true"},
		{"1.37.2", "", "featureGates: {AllBeta: false}\n", nil, "memory_qos", "false"},
		{"1.36.3", "", "featureGates: {AllAlpha: true}\n", nil, "memory_qos", "true"},
		{"1.36.3", "", "featureGates: {AllAlpha: true, MemoryQoS: false}\n", nil, "memory_qos", "false"},
		{"1.37.2", "--feature-gates=MemoryQoS=false", "featureGates: {MemoryQoS: true}\n", nil, "memory_qos", "false"},
		{"1.36.3", "", "", nil, "hugepage_aware_eviction", "false"},
		{"1.37.2", "", "", nil, "hugepage_aware_eviction", "true"},
		{"1.37.2", "", "", nil, "memory_throttling_factor", "absent"},
		{"1.37.2", "", "memoryThrottlingFactor: 0.9\n", nil, "memory_throttling_factor", "0.9"},
		{"1.36.2", "", "memoryThrottlingFactor: 0.9\n", nil, "memory_throttling_factor", "0.9"},
		{"", "", "", nil, "memory_throttling_factor", "absent"},
	} {
		found, err := find(t.Context(), machine.Mounted(t, node(t, tt.version, tt.flags, tt.text, tt.more)))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		if got := printed(found[0], tt.input); got != tt.want {
			t.Errorf("%s %q %q: %s is %q, want %q", tt.version, tt.flags, tt.text, tt.input, got, tt.want)
		}
	}
}

// TestAs: the kubelet of another release, on the same files.
func TestAs(t *testing.T) {
	h := machine.Mounted(t, node(t, "1.34.4", "", "featureGates: {MemoryManager: true}\n", nil))
	for r, want := range map[kuberelease.Release]string{35: "", 36: "MemoryManager, " + config + ":2 (up to 1.35)"} {
		found, err := As(r).Find(t.Context(), h)
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		if got := printed(found[0], "unknown_gates"); got != want {
			t.Errorf("%s: %q, want %q", r, got, want)
		}
		if got := printed(found[0], "version"); got != r.String() {
			t.Errorf("the version of %s is %s", r, got)
		}
	}
}

// TestFlagsAs: a kubelet of another release starts with the flags of the unit's files, from which
// kubeadm removes its own, or with those of the process if it has no unit.
func TestFlagsAs(t *testing.T) {
	kubeadm := map[string]string{"var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause\"\n"}
	running := map[string]string{"proc/41/comm": "kubelet\n", "proc/41/cmdline": "/usr/bin/kubelet\x00--boot-id-file=/a\x00--config=" + config + "\x00--pod-infra-container-image=pause\x00"}
	both := maps.Clone(running)
	maps.Copy(both, kubeadm)
	withUnit := func(more map[string]string) map[string]string {
		return node(t, "1.34.4", "--register-schedulable=true", "", more)
	}
	withoutUnit := withUnit(running)
	delete(withoutUnit, "etc/systemd/system/kubelet.service")
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"unit":    {withUnit(both), "--register-schedulable, /etc/systemd/system/kubelet.service:2 (up to 1.33)"},
		"process": {withoutUnit, "--boot-id-file, the command line of process 41 (up to 1.36); --pod-infra-container-image, the command line of process 41 (up to 1.34)"},
	} {
		found, err := As(37).Find(t.Context(), machine.Mounted(t, tt.files))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %d found: %v", name, len(found), err)
		}
		if got := printed(found[0], "unknown_flags"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestReported: what a node reports has its defaults, which may be written nowhere.
func TestReported(t *testing.T) {
	const both = `{"kind":"KubeletConfiguration","memoryThrottlingFactor":0.9,"failCgroupV1":false}`
	for _, tt := range []struct {
		version, config     string
		as                  kuberelease.Release
		factor, fail, gates string
	}{
		{"1.34.3", both, 0, "absent", "false", ""},
		{"1.34.3", both, 37, "unknown", "unknown", ""},
		{"1.35.3", both, 37, "unknown", "false", ""},
		{"1.34.3", `{"kind":"KubeletConfiguration","memoryThrottlingFactor":0.8,"failCgroupV1":true}`, 37, "0.8", "true", ""},
		{"1.37.2", both, 0, "0.9", "false", ""},
		{"1.37.2", `{"kind":"KubeletConfiguration"}`, 0, "absent", "true", ""},
		{"", both, 37, "unknown", "unknown", ""},
		{"1.34.3", `{"kind":"KubeletConfiguration","featureGates":{"MemoryManager":true}}`, 36, "absent", "true", "MemoryManager, /configz of node a (up to 1.35)"},
	} {
		i, err := Of(Reported{Config: []byte(tt.config), At: "/configz of node a", Version: tt.version, As: tt.as})
		if err != nil {
			t.Fatal(err)
		}
		for input, want := range map[string]string{"memory_throttling_factor": tt.factor, "fail_cgroup_v1": tt.fail, "unknown_gates": tt.gates} {
			if got := printed(i, input); got != want {
				t.Errorf("%s as %s, %s: %s is %s, want %s", tt.version, tt.as, tt.config, input, got, want)
			}
		}
	}
	for _, tt := range []struct {
		version   string
		openshift bool
		want      string
	}{
		{"1.31.4", true, "absent"},
		{"1.31.4+b49f9d1", false, "absent"},
		{"1.31.4+k3s1", false, "GCPLabelsTags, /configz of node a"},
	} {
		i, err := Of(Reported{Config: []byte(`{"featureGates":{"GCPLabelsTags":true}}`), At: "/configz of node a", Version: tt.version, OpenShift: tt.openshift})
		if err != nil {
			t.Fatal(err)
		}
		if got := printed(i, "unknown_gates"); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.version, got, tt.want)
		}
	}
}

// TestRefusedValues: values that a release does not start with, each with its place.
func TestRefusedValues(t *testing.T) {
	for _, tt := range []struct{ version, flags, text, want string }{
		{"1.36.3", "", "defaultPodSysctls: {net.core.somaxconn: '1024'}\n", ""},
		{"1.37.2", "", "defaultPodSysctls: {net.core.somaxconn: '1024'}\n", "defaultPodSysctls, " + config + ":2"},
		{"1.37.2", "--feature-gates=DefaultPodSysctls=true", "defaultPodSysctls: {net.core.somaxconn: '1024'}\n", ""},
		{"1.30.4", "", "maxPods: 9\nmemorySwap:\n  swapBehavior: UnlimitedSwap\n", "memorySwap.swapBehavior, " + config + ":3"},
		{"1.33.4", "", "shutdownGracePeriod: 5s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]\n", "shutdownGracePeriodByPodPriority, " + config + ":3"},
		{"1.33.4", "", "shutdownGracePeriod: 5s\nshutdownGracePeriodByPodPriority: []\nenforceNodeAllocatable: []\ncgroupsPerQOS: false\n", ""},
		{"1.33.4", "", "cgroupsPerQOS: false\n", "enforceNodeAllocatable, "},
		{"1.35.4", "", "featureGates: {ProcMountType: true, UserNamespacesSupport: false}\n", "featureGates.ProcMountType, " + config + ":2"},
		{"1.31.4", "--cpu-manager-policy=static", "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n", "cpuManagerPolicyOptions.strict-cpu-reservation, " + config + ":2 (Kubernetes 1.31 does not have this option (1.32 and later))"},
		{"1.35.4", "--cpu-manager-policy=static", "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\nfeatureGates: {CPUManagerPolicyBetaOptions: false}\n", ""},
		{"1.36.3", "", "featureGates: {MemoryManager: true, KubeletPSI: false}\n", ""},        // O70 and O71 say it
		{"1.37.2", "", "memoryThrottlingFactor: 0.8\nfeatureGates: {MemoryQoS: false}\n", ""}, // O73.off says it
	} {
		found, err := find(t.Context(), machine.Mounted(t, node(t, tt.version, tt.flags, tt.text, nil)))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		if got := printed(found[0], "refused_values"); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s, %s: %q, want %q", tt.version, tt.text, got, tt.want)
		}
	}
}
