package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/kube/etcd"
)

// beta3 and beta4 are ClusterConfigurations as kubeadm writes them, up to 1.30 and from 1.31 on.
const (
	beta3 = `apiServer:
  extraArgs:
    authorization-mode: Node,RBAC
    cloud-provider: external
    feature-gates: MemoryManager=true
  timeoutForControlPlane: 4m0s
apiVersion: kubeadm.k8s.io/v1beta3
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controllerManager:
  extraArgs:
    volume-host-cidr-denylist: 10.0.0.0/8
dns: {}
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
      quota-backend-bytes: "8589934592"
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.30.14
networking:
  dnsDomain: cluster.local
  serviceSubnet: 10.96.0.0/12
scheduler: {}
`
	beta4 = `apiServer:
  extraArgs:
  - name: service-account-issuer
    value: https://new.example.com
  - name: service-account-issuer
    value: https://old.example.com
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
controllerManager: {}
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
    - name: experimental-compaction-batch-limit
      value: "500"
    extraEnvs:
    - name: ETCD_AUTO_COMPACTION_RETENTION
      value: "8"
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
proxy: {}
scheduler:
  extraArgs: null
`
	external = `apiVersion: kubeadm.k8s.io/v1beta4
etcd:
  external:
    caFile: /etc/kubernetes/pki/etcd/ca.crt
    certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt
    endpoints:
    - https://10.0.0.21:2379
    - https://10.0.0.22:2379
    keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
`
)

// withKubeadm adds kubeadm's configuration to a cluster.
func withKubeadm(s *server, text string) *server {
	data, _ := json.Marshal(map[string]string{"ClusterConfiguration": text})
	s.objects["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"kubeadm-config","namespace":"kube-system"},"data":%s}`, data)
	return s
}

// staticPod returns a pod of the control plane with its command and arguments.
func staticPod(namespace, name, labels, container, image string, command, args []string) string {
	words := func(list []string) string { text, _ := json.Marshal(list); return string(text) }
	return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"labels":{%s}},"spec":{"nodeName":"a","containers":[{"name":"other","image":"i","command":["sleep"]},{"name":%q,"image":%q,"command":%s,"args":%s}]},"status":{"phase":"Running"}}`,
		namespace, name, labels, container, image, words(command), words(args))
}

func TestReadKubeadm(t *testing.T) {
	for text, want := range map[string]*Kubeadm{
		beta3: {EtcdEnv: map[string]string{}, Flags: map[string][]kuberelease.Flag{
			"kube-apiserver":          {{Name: "authorization-mode", Value: "Node,RBAC"}, {Name: "cloud-provider", Value: "external"}, {Name: "feature-gates", Value: "MemoryManager=true"}},
			"kube-controller-manager": {{Name: "volume-host-cidr-denylist", Value: "10.0.0.0/8"}},
			"kube-scheduler":          nil, "etcd": {{Name: "quota-backend-bytes", Value: "8589934592"}},
		}},
		beta4: {EtcdEnv: map[string]string{"ETCD_AUTO_COMPACTION_RETENTION": "8"}, Flags: map[string][]kuberelease.Flag{
			"kube-apiserver":          {{Name: "service-account-issuer", Value: "https://new.example.com"}, {Name: "service-account-issuer", Value: "https://old.example.com"}},
			"kube-controller-manager": nil, "kube-scheduler": nil, "etcd": {{Name: "experimental-compaction-batch-limit", Value: "500"}},
		}},
		external: {EtcdEnv: map[string]string{}, External: []string{"https://10.0.0.21:2379", "https://10.0.0.22:2379"}, Flags: map[string][]kuberelease.Flag{
			"kube-apiserver": nil, "kube-controller-manager": nil, "kube-scheduler": nil, "etcd": nil,
		}},
		"": nil, "kind: InitConfiguration\n": nil, "kind: [": nil, "kind: ClusterConfiguration\netcd: 1\n": nil,
		"kind: ClusterConfiguration\napiServer: {extraArgs: v=2}\n":         nil,
		"kind: ClusterConfiguration\napiServer: {extraArgs: [v=2]}\n":       nil,
		"kind: ClusterConfiguration\napiServer: {extraArgs: {v: {a: 1}}}\n": nil,
	} {
		got, err := readKubeadm(text)
		if d := cmp.Diff(want, got); d != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v: %s", text, err, d)
		}
	}
}

func FuzzKubeadm(f *testing.F) {
	for _, text := range []string{beta3, beta4, external, "kind: ClusterConfiguration\napiServer: {extraArgs: &a [*a]}\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := readKubeadm(text); (k == nil) == (err == nil) {
			t.Errorf("%v, %v", k, err)
		}
	})
}

// asked returns the findings about flags of a cluster, for a release or for its own.
func asked(t *testing.T, s *server, as kuberelease.Release) (*Cluster, map[string]rule.Finding) {
	t.Helper()
	c, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if as == 0 {
		return c, judged(t, c, nil)
	}
	rules, _ := catalogue(t)
	all, err := c.As(t.Context(), as, rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]rule.Finding{}
	for _, f := range all {
		out[strings.TrimSpace(f.ID+" "+f.Instance)] = f
	}
	return c, out
}

// TestKubeadmFlags tests that extraArgs in kubeadm's configuration are judged by the cluster's
// release and by another one, and that flags that no object shows are unknown.
func TestKubeadmFlags(t *testing.T) {
	etcdPod := `{"metadata":{"namespace":"kube-system","name":"etcd-a","labels":{"component":"etcd"},"annotations":{"kubeadm.kubernetes.io/etcd.advertise-client-urls":"https://10.0.0.1:2379"}},"spec":{"containers":[{"name":"etcd","image":"registry.k8s.io/etcd:3.6.5-0","command":["etcd","--experimental-initial-corrupt-check=true"]}]},"status":{"phase":"Running"}}`
	pods := []string{
		etcdPod, staticPod("kube-system", "kube-apiserver-a", `"component":"kube-apiserver","tier":"control-plane"`, "kube-apiserver", "registry.k8s.io/kube-apiserver:v1.34.4", []string{"kube-apiserver", "--event-ttl=2h", "--allow-privileged"}, nil),
		staticPod("kube-system", "kube-scheduler-a", `"component":"kube-scheduler"`, "kube-scheduler", "registry.k8s.io/kube-scheduler:v1.34.4", []string{"kube-scheduler", "--event-ttl", "2h"}, nil),
		staticPod("other", "kube-apiserver-b", `"component":"kube-apiserver"`, "kube-apiserver", "x", []string{"kube-apiserver", "--none"}, nil),
		staticPod("kube-system", "kube-apiserver-c", `"component":"kube-apiserver"`, "kube-apiserver", "x", []string{"sleep"}, nil),
	}
	of := func(config string) *server {
		s := small()
		s.lists["/api/v1/pods"] = pods
		if config != "" {
			withKubeadm(s, config)
		}
		return s
	}
	_, got := asked(t, of(beta3), 0)
	want(t, got, map[string]rule.State{
		"O76 kube-apiserver-a": rule.Passed, "O76 kube-scheduler-a": rule.Failed,
		"O76 kubeadm apiServer": rule.Failed, "O76 kubeadm controllerManager": rule.Failed, "O76 kubeadm scheduler": rule.Passed,
	})
	if m := fmt.Sprint(got["O76 kubeadm apiServer"].Measured); !strings.Contains(m, "--cloud-provider") || strings.Contains(m, "MemoryManager") {
		t.Errorf("1.34: %s", m)
	}
	for id := range got {
		if strings.HasPrefix(id, "O76 kube-apiserver-") && id != "O76 kube-apiserver-a" {
			t.Errorf("%s is not a program of the control plane", id)
		}
	}
	_, got = asked(t, of(beta3), 37)
	want(t, got, map[string]rule.State{
		"O76 kubeadm apiServer": rule.Failed, "O76 kubelet": rule.Unknown,
		"E15 etcd-a": rule.Passed, // kubeadm writes its own flags anew
	})
	if m := fmt.Sprint(got["O76 kubeadm apiServer"].Measured); !strings.Contains(m, "--cloud-provider") || !strings.Contains(m, "MemoryManager") {
		t.Errorf("1.37: %s", m)
	}
	if _, there := got["O76 kube-apiserver-a"]; there {
		t.Error("a pod that kubeadm writes anew was judged for another release")
	}
	if reason := got["O76 kubelet"].Reason; !strings.Contains(reason, "no longer has the flags --application-metrics-count-limit") || !strings.Contains(reason, "of Kubernetes 1.34.") || !strings.Contains(reason, "--for 1.37 on the node") {
		t.Errorf("%q", reason)
	}
	_, got = asked(t, of(beta4), 34) // the kubelets' own
	want(t, got, map[string]rule.State{"O76 kubelet": rule.Passed})
	_, got = asked(t, of(beta4), 37)
	want(t, got, map[string]rule.State{"O76 kubeadm apiServer": rule.Passed, "E15 etcd-a": rule.Failed, "E16 etcd-a": rule.Passed})

	_, got = asked(t, of(""), 37)
	want(t, got, map[string]rule.State{"O76 kube-apiserver-a": rule.Unknown, "E15 etcd-a": rule.Unknown})
	for name, break_ := range map[string]func(*server){
		"forbidden": func(s *server) {
			s.status["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = http.StatusForbidden
		},
		"not YAML": func(s *server) { withKubeadm(s, "kind: [") },
		"without ClusterConfiguration": func(s *server) {
			s.objects["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = `{"data":{}}`
		},
	} {
		s := of(beta3)
		break_(s)
		c, got := asked(t, s, 37)
		want(t, got, map[string]rule.State{"O76": rule.Unknown, "E15 etcd-a": rule.Unknown})
		if why := c.Unread[OfKubeadm]; !strings.Contains(why, "kubeadm-config") {
			t.Errorf("%s: %q", name, why)
		}
	}

	c, got := asked(t, withKubeadm(small(), external), 37)
	want(t, got, map[string]rule.State{"E15 https://10.0.0.21:2379": rule.Unknown, "E16 https://10.0.0.22:2379": rule.Unknown, "E17 https://10.0.0.21:2379": rule.Unknown})
	if reason := got["E15 https://10.0.0.21:2379"].Reason; len(c.Kubeadm.External) != 2 || !strings.Contains(reason, "on its node") {
		t.Errorf("%q", reason)
	}
}

// TestOpenShiftFlags tests OpenShift's static pods. They start etcd and the API server from a
// script, the API server with the configuration of its revision. The flags that its operators write
// for another release are unknown.
func TestOpenShiftFlags(t *testing.T) {
	const servers = "/api/v1/namespaces/openshift-kube-apiserver/configmaps/config-"
	script := func(words string) []string {
		return []string{"LOCK=/var/log/kube-apiserver/.lock\nexec " + words + "\n"}
	}
	apiserver := func(name, revision string) string {
		return staticPod("openshift-kube-apiserver", name, `"app":"openshift-kube-apiserver","apiserver":"true","revision":"`+revision+`"`, "kube-apiserver", "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123", []string{"/bin/bash", "-ec"},
			script("watch-termination --kubeconfig=/k/kubeconfig -- hyperkube kube-apiserver --openshift-config=/etc/kubernetes/config.yaml --advertise-address=${HOST_IP} -v=2 --permit-address-sharing"))
	}
	s := small()
	s.objects["/version"] = `{"gitVersion":"v1.31.14+b49f9d1"}`
	s.objects["/apis/config.openshift.io/v1/clusterversions/version"] = `{"status":{"desired":{"version":"4.18.3"}}}`
	config := func(arguments string) string {
		text, _ := json.Marshal(map[string]string{"config.yaml": `{"apiVersion":"kubecontrolplane.config.openshift.io/v1","kind":"KubeAPIServerConfig","apiServerArguments":` + arguments + `}`})
		return fmt.Sprintf(`{"data":%s}`, text)
	}
	s.objects[servers+"12"] = config(`{"event-ttl":["3h"],"feature-gates":["AdminNetworkPolicy=true","ValidatingAdmissionPolicy=true"]}`)
	s.objects[servers+"13"] = config(`{"event-ttl":["3h"],"insecure-port":["0"]}`)
	s.objects[servers+"14"] = config(`["event-ttl"]`)
	s.objects[servers+"15"] = `{"data":{"config.yaml":"{\"kind\":\"Other\"}"}}`
	s.lists["/api/v1/pods"] = []string{
		apiserver("kube-apiserver-a", "12"), apiserver("kube-apiserver-b", "13"), apiserver("kube-apiserver-c", "14"), apiserver("kube-apiserver-d", "15"), apiserver("kube-apiserver-e", "16"),
		staticPod("openshift-kube-apiserver", "installer-12-a", `"app":"installer"`, "installer", "x", []string{"cluster-kube-apiserver-operator", "installer"}, nil),
		staticPod("openshift-etcd", "etcd-a", `"app":"etcd","etcd":"true","k8s-app":"etcd"`, "etcd", "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:4567", []string{"/bin/sh", "-c"},
			script("nice -n -19 ionice -c2 -n0 etcd \\\n  --logger=zap \\\n  --experimental-initial-corrupt-check=true \\\n  --snapshot-count=10000 || mv /a /b")),
		staticPod("openshift-etcd", "etcd-b", `"app":"etcd"`, "etcd", "quay.io/x@sha256:4567", []string{"/bin/sh", "-c"}, script("etcd --logger=zap --snapshot-count=10000")),
	}
	c, got := asked(t, s, 0)
	want(t, got, map[string]rule.State{
		"O76 kube-apiserver-a": rule.Passed, "O76 kube-apiserver-b": rule.Failed, "O76 kube-apiserver-c": rule.Unknown, "O76 kube-apiserver-d": rule.Unknown, "O76 kube-apiserver-e": rule.Unknown,
		"E15 etcd-a": rule.Unknown /* the version is in a digest */, "E15 etcd-b": rule.Passed, "E17 etcd-a": rule.NotApplicable,
	})
	if len(c.Programs) != 5 || len(c.EtcdPods) != 2 {
		t.Errorf("%d programs, %d members", len(c.Programs), len(c.EtcdPods))
	}
	if d := cmp.Diff([]kuberelease.Flag{{Name: "advertise-address", Value: "${HOST_IP}"}, {Name: "v", Value: "2"}, {Name: "permit-address-sharing"}, {Name: "event-ttl", Value: "3h"}, {Name: "feature-gates", Value: "AdminNetworkPolicy=true"}, {Name: "feature-gates", Value: "ValidatingAdmissionPolicy=true"}}, c.Programs[0].Flags); d != "" {
		t.Error(d)
	}
	for i := range c.EtcdPods {
		c.EtcdPods[i].Version = "3.5.21"
	}
	want(t, judged(t, c, nil), map[string]rule.State{"E15 etcd-a": rule.Passed})
	c.EtcdPods, c.Members = nil, []etcd.Look{{URL: "https://10.0.0.9:2379", Version: "3.4.27"}} // pods may not be listed
	want(t, judged(t, c, nil), map[string]rule.State{"E15 https://10.0.0.9:2379": rule.Unknown, "E17 https://10.0.0.9:2379": rule.NotApplicable})
	_, got = asked(t, s, 35)
	want(t, got, map[string]rule.State{"O76 kube-apiserver-a": rule.Unknown, "E15 etcd-a": rule.Unknown, "E15 etcd-b": rule.Passed, "E18 etcd-a": rule.NotApplicable})
	if reason := got["O76 kube-apiserver-a"].Reason; !strings.Contains(reason, "OpenShift's operator") {
		t.Errorf("%q", reason)
	}
}
