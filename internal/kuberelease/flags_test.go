package kuberelease

import (
	"strings"
	"testing"
)

// TestJudgeFlags: the flags that left or came with a release, and gates as the programs read them.
func TestJudgeFlags(t *testing.T) {
	for _, tt := range []struct {
		program, flags string // NAME=VALUE, separated by spaces
		kubelet        Kubelet
		want           string // refused | unknown
	}{
		{"kube-apiserver", "event-ttl=2h audit-log-maxage=7 v=2", Kubelet{Release: 37}, "|"},
		{"kube-apiserver", "cloud-provider=aws", Kubelet{Release: 32}, "|"},
		{"kube-apiserver", "cloud-provider=aws", Kubelet{Release: 33}, "--cloud-provider|"},
		{"kube-apiserver", "cloud-provider=aws", Kubelet{Release: 38}, "--cloud-provider|"},
		{"kube-apiserver", "event-ttll=2h", Kubelet{Release: 37}, "--event-ttll|"},
		{"kube-apiserver", "event-ttll=2h", Kubelet{Release: 38}, "|--event-ttll"},
		{"kube-apiserver", "event-ttll=2h", Kubelet{Release: 37, OpenShift: true}, "|--event-ttll"},
		{"kube-apiserver", "event-ttll=2h", Kubelet{Release: 28}, "|"},
		{"kube-apiserver", "audit_log_maxage=7", Kubelet{Release: 37}, "|"},
		{"kube-apiserver", "disable-http2-serving=true", Kubelet{Release: 30}, "--disable-http2-serving|"},
		{"kube-apiserver", "audit-log-mode=batch audit-webhook-batch-max-wait=5s", Kubelet{Release: 29}, "|"},
		{"kube-apiserver", "default-not-ready-toleration-seconds=60", Kubelet{Release: 35}, "|"},
		{"kube-apiserver", "feature-gates=MemoryManager=true", Kubelet{Release: 35}, "|"},
		{"kube-apiserver", "feature-gates=MemoryManager=true,KubeletPSI=true", Kubelet{Release: 37}, "--feature-gates MemoryManager|"},
		{"kube-apiserver", "feature-gates=MemoryManager=true", Kubelet{Release: 37, OpenShift: true}, "|"},
		{"kube-apiserver", "feature-gates=kube:MemoryManager=true,wardle:Own=true", Kubelet{Release: 37}, "--feature-gates MemoryManager|"},
		{"kube-apiserver", "feature-gates=MemoryManager=true feature-gates=KubeletPSI=false", Kubelet{Release: 37}, "--feature-gates KubeletPSI --feature-gates MemoryManager|"},
		{"kube-apiserver", "feature-gates=MemoryManager=true emulated-version=1.35", Kubelet{Release: 37}, "|--feature-gates"},
		{"kube-apiserver", "feature-gates=", Kubelet{Release: 37}, "|"},
		{"kube-controller-manager", "concurrent_rc_syncs=5 node-monitor-grace-period=40s", Kubelet{Release: 37}, "|"},
		{"kube-controller-manager", "volume-host-cidr-denylist=10.0.0.0/8", Kubelet{Release: 31}, "--volume-host-cidr-denylist|"},
		{"kube-scheduler", "config=/etc/kubernetes/scheduler.yaml leader-elect=true", Kubelet{Release: 37}, "|"},
		{"kube-scheduler", "event-ttl=2h", Kubelet{Release: 37}, "--event-ttl|"},
	} {
		var flags []Flag
		for word := range strings.FieldsSeq(tt.flags) {
			name, value, _ := strings.Cut(word, "=")
			flags = append(flags, Flag{name, value})
		}
		v := JudgeFlags(tt.program, flags, tt.kubelet)
		names := func(all []Finding) string {
			var out []string
			for _, f := range all {
				if f.Why == "" {
					t.Errorf("%s: %s has no reason", tt.flags, f.Field)
				}
				out = append(out, f.Field)
			}
			return strings.Join(out, " ")
		}
		if got := names(v.Refused) + "|" + names(v.Unknown); got != tt.want {
			t.Errorf("%s %s in %v: %s, want %s", tt.program, tt.flags, tt.kubelet, got, tt.want)
		}
	}
}

func TestGoneFlags(t *testing.T) {
	for _, tt := range []struct {
		of, before Release
		want       string
	}{
		{36, 35, ""}, {35, 35, ""}, {35, 34, "pod-infra-container-image"}, {35, 33, "cloud-config pod-infra-container-image register-schedulable"}, {99, 37, ""},
	} {
		if got := strings.Join(Known().GoneFlags("kubelet", tt.of, tt.before), " "); got != tt.want {
			t.Errorf("%s after %s: %q", tt.of, tt.before, got)
		}
	}
}
