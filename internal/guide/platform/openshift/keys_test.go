package openshift

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
)

// A key that no KubeletConfig has is found, with its line and what may be meant.
func TestUnknownKeys(t *testing.T) {
	const good = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: x}\nspec:\n  autoSizingReserved: true\n  kubeletConfig:\n    maxPods: 500\n    systemReserved: {cpu: 500m}\n"
	for _, tt := range []struct{ text, want, at string }{
		{good, "", "/k.yaml:7"},
		{good + "    cpuManagerPolcy: x\n", `cpuManagerPolcy, line 9 (did you mean "cpuManagerPolicy"?)`, "/k.yaml:9"},
		{good + "    maxpods: 1\n", `maxpods, line 9 (did you mean "maxPods"?)`, "/k.yaml:9"},
		{good + "  machineConfigPoolSelctor: {}\n", `machineConfigPoolSelctor, line 9 (did you mean "machineConfigPoolSelector"?)`, "/k.yaml:9"},
		{good + "sepc: {}\n", `sepc, line 9 (did you mean "spec"?)`, "/k.yaml:9"},
		{good + "    zzz: {}\n    qqq: 1\n", "zzz, line 9|qqq, line 10", "/k.yaml:9"},
	} {
		s := directory(t, map[string]string{"k.yaml": tt.text})
		a := s.Answer("openshift.kubelet.k.yaml x.unknown_keys")
		if got, _ := a.Value.([]string); strings.Join(got, "|") != tt.want || a.At != tt.at {
			t.Errorf("%q at %s, want %q at %s", got, a.At, tt.want, tt.at)
		}
		bad, passed := judge(catalogue(t), s)
		if f := bad["O04.keys"]; (f.State == rule.Failed) != (tt.want != "") || passed["O04.keys"] == (tt.want != "") {
			t.Errorf("%q: %+v", tt.want, f)
		}
	}
}

func TestKubeletConfigIsMapping(t *testing.T) {
	for value, unclear := range map[string]bool{"{}": false, "null": false, "": false, "[1]": true, "maxPods": true, "5": true} {
		s := directory(t, map[string]string{"k.yaml": "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: x}\nspec:\n  kubeletConfig: " + value + "\n"})
		if a := s.Answer("openshift.kubelet.k.yaml x.unknown_keys"); (a.Unknown != "") != unclear {
			t.Errorf("%q: %+v", value, a)
		}
	}
}

// The keys are those of the version's Kubernetes: a key that came later, or that a later
// version may have, is told apart from one that no release has.
func TestKeysByVersion(t *testing.T) {
	const config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: x}\nspec:\n  kubeletConfig:\n    maxPods: 500\n"
	for _, tt := range []struct {
		version, key string
		state        rule.State
		want         string
	}{
		{"", "tlsCurvePreferences: []", rule.Passed, ""},
		{"", "defaultPodSysctls: {}", rule.Passed, ""},
		{"", "memoryReservationPolicy: None", rule.Passed, ""},
		{"4.22.3", "memoryReservationPolicy: None", rule.Failed, "memoryReservationPolicy, line 7 (of Kubernetes 1.36 and later; OpenShift 4.22.3 has 1.35)"},
		{"4.22.3", "userNamespaces: {}", rule.Passed, ""},
		{"4.18.0-rc.1", "userNamespaces: {}", rule.Failed, "userNamespaces, line 7 (of Kubernetes 1.33 and later; OpenShift 4.18.0-rc.1 has 1.31)"},
		{"4.16.1", "maxPod: 3", rule.Failed, `maxPod, line 7 (did you mean "maxPods"?)`},
		{"4.12.1", "podLogsDir: /x", rule.Failed, "podLogsDir, line 7 (of Kubernetes 1.30 and later; OpenShift 4.12.1 has 1.25)"},
		{"4.40.1", "defaultPodSysctls: {}", rule.Passed, ""},
		{"4.40.1", "somethingNew: 1", rule.Unknown, ""},
	} {
		files := map[string]string{"k.yaml": config + "    " + tt.key + "\n"}
		if tt.version != "" {
			files["version.yaml"] = "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {desired: {version: " + tt.version + "}}\n"
		}
		s := directory(t, files)
		a := s.Answer("openshift.kubelet.k.yaml x.unknown_keys")
		if got, _ := a.Value.([]string); strings.Join(got, "|") != tt.want || (a.Unknown != "") != (tt.state == rule.Unknown) {
			t.Errorf("%s, %s: %q, %q, want %q", tt.version, tt.key, got, a.Unknown, tt.want)
		}
		bad, passed := judge(catalogue(t), s)
		if bad["O04.keys"].State != tt.state && !(tt.state == rule.Passed && passed["O04.keys"]) {
			t.Errorf("%s, %s: %v, want %v", tt.version, tt.key, bad["O04.keys"].State, tt.state)
		}
	}
}

// TestRefusedValues: values that are not applied, and those with which the kubelets of the
// version do not start.
func TestRefusedValues(t *testing.T) {
	const config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: x}\nspec:\n  kubeletConfig:\n    maxPods: 500\n"
	for _, tt := range []struct {
		version, text string
		want          []string // the beginnings
	}{
		{"4.22.1", "", nil},
		{"4.22.1", "    featureGates:\n      MemoryManager: true\n", []string{"featureGates, line 7 (OpenShift rejects"}},
		{"4.22.1", "    featureGates:\n      KubeletTracing: false\n      NoSuchGate: true\n", []string{"featureGates, line 7 (OpenShift", "featureGates.KubeletTracing, line 7 (locked", "featureGates.NoSuchGate, line 7 (Kubernetes has no"}},
		{"", "    featureGates: {NoSuchGate: true}\n", []string{"featureGates, line 7 (OpenShift rejects"}},
		{"4.16.1", "    memorySwap:\n      swapBehavior: LimitedSwap\n", []string{"memorySwap.swapBehavior, line 7 (needs the feature gate NodeSwap"}},
		{"4.17.1", "    memorySwap:\n      swapBehavior: UnlimitedSwap\n", []string{"memorySwap.swapBehavior, line 7 (want NoSwap"}},
		{"4.21.1", "    memoryThrottlingFactor: 1.5\n    clusterDNS: [10.0.0.10]\n", []string{"clusterDNS, line 8 (OpenShift rejects", "memoryThrottlingFactor, line 7 (1.5: want"}},
		{"4.19.1", "    containerLogMaxFiles: 1\n", nil},
		{"4.20.1", "    containerLogMaxFiles: 1\n", []string{"containerLogMaxFiles, line 7"}},
		{"4.12.1", "    containerLogMaxFiles: 1\n", nil},
	} {
		files := map[string]string{"k.yaml": config + tt.text}
		if tt.version != "" {
			files["v.yaml"] = "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {desired: {version: " + tt.version + "}}\n"
		}
		s := directory(t, files)
		got, ok := s.Answer("openshift.kubelet.k.yaml x.refused_values").Value.([]string)
		if !ok || len(got) != len(tt.want) {
			t.Errorf("%s, %q: %q", tt.version, tt.text, got)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tt.want[i]) {
				t.Errorf("%s, %q: %q, want %q", tt.version, tt.text, got[i], tt.want[i])
			}
		}
		if bad, passed := judge(catalogue(t), s); (bad["O04.values"].State == rule.Failed) != (len(tt.want) > 0) || passed["O04.values"] == (len(tt.want) > 0) {
			t.Errorf("%s, %q: %+v", tt.version, tt.text, bad["O04.values"])
		}
	}
}
