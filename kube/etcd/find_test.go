package etcd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/cluster"
)

// The requested lists.
const (
	kubeadm   = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Detcd"
	openShift = "/api/v1/namespaces/openshift-etcd/pods?labelSelector=app%3Detcd"
	servers   = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-apiserver"
	nodes     = "/api/v1/nodes?labelSelector=node-role.kubernetes.io%2Fetcd"
)

// findCluster is an API server with these lists. Other lists are empty, and "forbidden" is refused.
func findCluster(t *testing.T, lists map[string]string) *cluster.Server {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Path + "?" + r.URL.RawQuery
		if strings.Contains(at, "secrets") {
			t.Errorf("secrets are asked for: %s", at)
		}
		if lists[at] == "forbidden" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","reason":"Forbidden","message":"pods is forbidden"}`)
			return
		}
		fmt.Fprintf(w, `{"items":[%s]}`, lists[at])
	}))
	t.Cleanup(h.Close)
	base, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.New(base, h.Client().Transport)
}

// pod returns a pod with an annotation of kubeadm, a command and an address.
func pod(name, urls, ip string, words ...string) string {
	if urls != "" {
		urls = fmt.Sprintf(`"annotations":{"kubeadm.kubernetes.io/etcd.advertise-client-urls":%q},`, urls)
	}
	return fmt.Sprintf(`{"metadata":{%s"name":%q},"spec":{"containers":[{"command":["%s"]}]},"status":{"phase":"Running","podIP":%q}}`, urls, name, strings.Join(words, `","`), ip)
}

func node(name, annotation, address string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{%q:%q}}}`, name, annotation, address)
}

// TestMembers tests that the members of each kind of cluster are found. An address that only the
// member's own machine can use is ignored, because on this machine it would be another etcd.
func TestMembers(t *testing.T) {
	const server = `kube-apiserver","--etcd-servers=https://127.0.0.1:2379","--etcd-cafile=/pki/etcd/ca.crt","--etcd-certfile=/pki/c.crt","--etcd-keyfile","/pki/c.key`
	for name, c := range map[string]struct {
		lists map[string]string
		want  Found
	}{
		"kubeadm": {map[string]string{kubeadm: pod("etcd-a", "https://10.0.0.1:2379", "10.0.0.1", "etcd") + "," + pod("etcd-b", "https://10.0.0.2:2379", "10.0.0.2", "etcd"), servers: pod("kube-apiserver-a", "", "", server)},
			Found{Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379"}, From: "pods of kube-system", Files: "on a node of the control plane they are /pki/etcd/ca.crt, /pki/c.crt and /pki/c.key"}},
		"without its note": {map[string]string{kubeadm: pod("etcd-a", "", "", "etcd", "--advertise-client-urls", "https://10.0.0.1:2379,https://127.0.0.1:2379") + "," + pod("etcd-b", "", "", "etcd", "--advertise-client-urls-x=https://10.0.0.2:2379")},
			Found{Endpoints: []string{"https://10.0.0.1:2379"}, From: "pods of kube-system", Without: []string{"etcd-b"}}},
		"one has ended": {map[string]string{kubeadm: pod("etcd-a", "https://[fd00::1]:2379", "", "etcd") + "," + strings.Replace(pod("etcd-b", "https://10.0.0.2:2379", "", "etcd"), "Running", "Failed", 1)},
			Found{Endpoints: []string{"https://[fd00::1]:2379"}, From: "pods of kube-system"}},
		"OpenShift": {map[string]string{openShift: pod("etcd-m0", "", "10.0.0.1", "/bin/sh", "-c", "exec etcd --advertise-client-urls=https://${IP}:2379") + "," + pod("etcd-m1", "", "fd00::2") + "," + pod("etcd-m2", "", "")},
			Found{Endpoints: []string{"https://10.0.0.1:2379", "https://[fd00::2]:2379"}, From: "pods of openshift-etcd", Without: []string{"etcd-m2"}, Files: "see the config map etcd-ca-bundle and the secret etcd-client in openshift-etcd"}},
		"outside": {map[string]string{servers: pod("kube-apiserver-a", "", "", strings.Replace(server, "https://127.0.0.1:2379", "https://10.0.0.9:2379,https://etcd.example.com:4001", 1))},
			Found{Endpoints: []string{"https://10.0.0.9:2379", "https://etcd.example.com:4001"}, From: "--etcd-servers of the API server", Files: "on a node of the control plane they are /pki/etcd/ca.crt, /pki/c.crt and /pki/c.key"}},
		"k3s": {map[string]string{nodes: node("s1", "etcd.k3s.cattle.io/node-address", "10.0.0.1") + "," + node("s2", "etcd.k3s.cattle.io/node-address", "fd00::2") + "," + node("s3", "other", "10.0.0.3")},
			Found{Endpoints: []string{"https://10.0.0.1:2379", "https://[fd00::2]:2379"}, From: "node annotations of k3s", Files: "on a server they are server-ca.crt, client.crt and client.key in /var/lib/rancher/k3s/server/tls/etcd"}},
		"RKE2, whose pods have a file": {map[string]string{kubeadm: pod("etcd-a", "", "10.0.0.1", "etcd", "--config-file=/x"), servers: pod("kube-apiserver-a", "", "", server), nodes: node("s1", "etcd.rke2.cattle.io/node-address", "10.0.0.1")},
			Found{Endpoints: []string{"https://10.0.0.1:2379"}, From: "node annotations of rke2", Files: "on a server they are server-ca.crt, client.crt and client.key in /var/lib/rancher/rke2/server/tls/etcd"}},
		"nowhere":       {nil, Found{}},
		"loopback only": {map[string]string{kubeadm: pod("etcd-a", "http://127.0.0.1:2379,http://localhost:2379,http://[::1]:2379,http://0.0.0.0:2379,unixs://x:0,http://u:p@10.0.0.1:2379", "", "etcd")}, Found{Without: []string{"etcd-a"}}},
	} {
		got, err := Members(t.Context(), findCluster(t, c.lists))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestUnasked tests that the message without queried members describes what was found, and what to
// do.
func TestUnasked(t *testing.T) {
	refused, err := Members(t.Context(), findCluster(t, map[string]string{kubeadm: "forbidden", openShift: "forbidden", servers: "forbidden", nodes: "forbidden"}))
	if err != nil {
		t.Fatal(err)
	}
	const certificates = "--etcd-cacert, --etcd-cert and --etcd-key"
	for want, f := range map[string]*Found{
		"no etcd members found in this cluster; name their addresses with --to, and the files of a client certificate with " + certificates:                                                                     {},
		"no etcd members found in this cluster (the API server answers 403: pods is forbidden); name their addresses with --to, and the files of a client certificate with " + certificates:                     refused,
		"no etcd members found in this cluster (etcd-a: no address that other machines can use); name their addresses with --to, and the files of a client certificate with " + certificates:                    {Without: []string{"etcd-a"}},
		"the etcd members https://a:1, https://b:1 (found in pods of x) require a client certificate; name its files with " + certificates + "; on a node of the control plane they are /ca, /crt and /the.key": {Endpoints: []string{"https://a:1", "https://b:1"}, From: "pods of x", Files: "on a node of the control plane they are /ca, /crt and /the.key"},
	} {
		if got := f.Unasked("--to"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if (&Found{Endpoints: []string{"http://a:1"}}).Guarded() || !(&Found{Endpoints: []string{"http://a:1", "https://b:1"}}).Guarded() {
		t.Error("who is guarded is not known")
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	base, err := url.Parse(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Members(t.Context(), cluster.New(base, http.DefaultTransport)); err == nil {
		t.Error("a server that is not there is a cluster that shows nothing")
	}
}
