package openshift

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/rule"
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
