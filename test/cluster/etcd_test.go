package cluster

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guardedAt is where etcd hears those with a certificate.
const guardedAt = "10.9.0.1"

// guarded are the options of an etcd that hears clients at guardedAt too, by TLS alone, and
// for kubectl fettle the files with which it is asked.
func guarded(t *testing.T) (flags, files, foreign []string) {
	t.Helper()
	must := func(p pair, err error) pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	dir := t.TempDir()
	own, err := newAuthority(filepath.Join(dir, "own"))
	must(pair{}, err)
	other, err := newAuthority(filepath.Join(dir, "other"))
	must(pair{}, err)
	c := certificate("etcd")
	c.IPAddresses = []net.IP{net.ParseIP(guardedAt)}
	// Its gateway asks it by the same certificate.
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	serving := must(own.sign("etcd", c))
	client, stranger := must(own.client("client", "fettle")), must(other.client("client", "fettle"))
	options := func(p pair) []string {
		return []string{"--etcd-cacert=" + own.certFile, "--etcd-cert=" + p.certFile, "--etcd-key=" + p.keyFile}
	}
	run(t, "ip", "address", "add", guardedAt+"/32", "dev", "lo")
	return []string{
		"--listen-client-urls=" + etcdURL + ",https://" + guardedAt + ":2379", "--client-cert-auth=true",
		"--trusted-ca-file=" + own.certFile, "--cert-file=" + serving.certFile, "--key-file=" + serving.keyFile,
	}, options(client), options(stranger)
}

// static makes an object as a kubelet does for a static pod: it is not started here.
func (c *Cluster) static(t *testing.T, component, urls string, command ...string) {
	t.Helper()
	p := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: component + "-m0", Labels: map[string]string{"component": component, "tier": "control-plane"}},
		Spec:       core.PodSpec{NodeSelector: map[string]string{"no": "where"}, Containers: []core.Container{{Name: component, Image: "i", Command: command}}},
	}
	if urls != "" {
		p.Annotations = map[string]string{"kubeadm.kubernetes.io/etcd.advertise-client-urls": urls}
	}
	c.Wait("the pod of "+component, time.Minute, func(ctx context.Context) error { // its account is made a little later
		_, err := c.Client.CoreV1().Pods("kube-system").Create(ctx, p, meta.CreateOptions{})
		return err
	})
}

// TestEtcdShown: the members that kubeadm's pods show are found, and asked with the
// certificates that are given and no others: by check, by its defragmentation, and by the
// brake of a load.
func TestEtcdShown(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	flags, files, foreign := guarded(t)
	c := Start(t, Options{Flags: map[string][]string{"etcd": flags}})
	const at = "https://" + guardedAt + ":2379"
	l := newLoader(t, c)
	l.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"map-${IDENTIFIER}\"}\ndata: {text: x}\n")
	file := l.write("load.yaml", "ClusterLoader: {projects: [{num: 1, basename: watched, objects: [{num: 50, file: map.yaml}]}]}\n")
	load := func(code int, more ...string) (result, string) {
		t.Helper()
		return l.run(code, append([]string{"run", file, "--etcd-quota=8GiB"}, more...)...)
	}
	said := func(code int, want string, args ...string) {
		t.Helper()
		out, got := c.run(t, args...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", strings.Join(args, " "), got, code, want, out)
		}
	}
	check := func(more ...string) []string { return append([]string{"check", "--all", "--output=json"}, more...) }
	const nowhere = "no etcd members found in this cluster; name their addresses with --etcd-"
	said(0, nowhere+"endpoints, and the files of a client certificate", check()...)
	said(0, nowhere+"endpoints, and the files of a client certificate", check(files...)...)
	said(2, "nothing defragmented: "+nowhere+"endpoints", append([]string{"check", "--defragment", "--yes"}, files...)...)
	if _, said := load(2, files...); !strings.Contains(said, nowhere+"metrics") {
		t.Error(said)
	}

	c.static(t, "etcd", at)
	c.static(t, "kube-apiserver", "", "kube-apiserver", "--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile=/pki/etcd/ca.crt", "--etcd-certfile=/pki/client.crt", "--etcd-keyfile=/pki/client.key")
	closed := fmt.Sprintf("the etcd members %s (found in pods of kube-system) require a client certificate; name its files with --etcd-cacert, --etcd-cert and --etcd-key; on a node of the control plane they are /pki/etcd/ca.crt, /pki/client.crt and /pki/client.key", at)
	var all audited
	c.fettle(t, 0, &all, check()...)
	told := false
	for _, f := range all.Findings {
		told = told || f.State == "unknown" && strings.Contains(f.Reason, closed)
	}
	if !told {
		t.Errorf("nobody says that etcd wants a certificate: %+v", all.Findings)
	}
	said(2, "nothing defragmented: the etcd members "+at, "check", "--defragment", "--yes")

	all = audited{}
	c.fettle(t, 0, &all, check(files...)...)
	wantStates(t, all, map[string]string{"E04 " + at: "pass", "E08 " + at: "pass", "E11 " + at: "pass", "E12 " + at: "pass"})
	said(0, "querying etcd at "+at+" (pods of kube-system)", append([]string{"check", "--defragment", "--yes"}, files...)...)
	for want, with := range map[string][]string{
		at + " does not accept this client: give a client certificate of etcd's CA with --etcd-cert and --etcd-key": foreign,
		"the certificate of " + at + " is not trusted: give etcd's CA with --etcd-cacert":                           files[1:],
	} {
		said(0, want, check(with...)...)
		said(4, want, append([]string{"check", "--defragment", "--yes"}, with...)...)
		if _, text := load(4, with...); !strings.Contains(text, "the brake cannot watch etcd; nothing created: "+want) {
			t.Error(text)
		}
	}
	said(2, "--etcd-cert: open /is/not/there", check("--etcd-cert=/is/not/there")...)
	said(2, "want both a client certificate and its key", check(files[:2]...)...)

	for _, more := range [][]string{files, append([]string{"--etcd-metrics=" + at}, files...), {"--etcd-metrics=" + etcdURL}} {
		x, _ := load(0, more...)
		if m := x.Servers.Members; len(m) != 1 || m[0].DatabaseBytes < 100<<10 || m[0].QuotaBytes != 2<<30 {
			t.Errorf("%v: etcd says: %+v", more, m)
		}
		l.run(0, "undo")
	}
}
