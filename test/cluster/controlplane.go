package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The root has its own network, so all of its ports are free. The API server listens at the address
// and port of the service "kubernetes". So programs in pods can reach it without a kube-proxy.
const (
	etcdURL  = "http://127.0.0.1:2379"
	peerURL  = "http://127.0.0.1:2380"
	server   = "https://127.0.0.1:443"
	services = "10.0.0.0/16"
	service  = "10.0.0.1" // the first address of services
)

// controlPlane starts etcd and the programs that use it.
func (c *Cluster) controlPlane() error {
	loopback := []string{"127.0.0.1", "localhost"}
	serving, err := c.authority.server("kube-apiserver", append(loopback, service,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")...)
	if err != nil {
		return err
	}
	others, err := c.authority.server("control-plane", loopback...)
	if err != nil {
		return err
	}
	// The API server uses this identity for requests to kubelets, such as logs.
	toKubelet, err := c.authority.client("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	// The API server uses this identity for requests to servers of other APIs, which it tells
	// the user of the request.
	front, err := newAuthority(filepath.Join(c.authority.dir, "front-proxy"))
	if err != nil {
		return err
	}
	toOthers, err := front.client("front-proxy-client", "front-proxy-client")
	if err != nil {
		return err
	}
	accounts := filepath.Join(c.authority.dir, "service-accounts.key")
	if _, err := writeKey(accounts); err != nil {
		return err
	}
	get, err := c.getter()
	if err != nil {
		return err
	}
	answers := func(url string) func() error { return func() error { return get(url) } }

	c.Etcd = c.program(answers(etcdURL+"/health"), "etcd", "--name=test", "--data-dir="+filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=test="+peerURL,
		"--unsafe-no-fsync", "--logger=zap", "--log-level=warn")
	c.APIServer = c.program(c.apiReady, "kube-apiserver", "--etcd-servers="+etcdURL,
		"--bind-address=0.0.0.0", "--advertise-address="+service, "--secure-port=443",
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range="+services,
		"--tls-cert-file="+serving.certFile, "--tls-private-key-file="+serving.keyFile, "--client-ca-file="+c.authority.certFile,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+accounts, "--service-account-signing-key-file="+accounts,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--kubelet-certificate-authority="+c.authority.certFile, "--kubelet-client-certificate="+toKubelet.certFile, "--kubelet-client-key="+toKubelet.keyFile,
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+front.certFile, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+toOthers.certFile, "--proxy-client-key-file="+toOthers.keyFile,
		// Without it a stop waits a minute for those who watch.
		"--shutdown-watch-termination-grace-period=5s")
	// With its own user, the controller manager would lack rights unless each controller had
	// its own credentials. So all controllers run as the test's user.
	asTest := []string{
		"--kubeconfig=" + c.Kubeconfig, "--authentication-kubeconfig=" + c.Kubeconfig, "--authorization-kubeconfig=" + c.Kubeconfig,
		"--bind-address=127.0.0.1", "--tls-cert-file=" + others.certFile, "--tls-private-key-file=" + others.keyFile, "--leader-elect=false",
	}
	c.ControllerManager = c.program(answers("https://127.0.0.1:10257/healthz"), append([]string{"kube-controller-manager",
		"--service-account-private-key-file=" + accounts, "--root-ca-file=" + c.authority.certFile}, asTest...)...)
	c.Scheduler = c.program(answers("https://127.0.0.1:10259/healthz"), append([]string{"kube-scheduler"}, asTest...)...)
	for _, p := range []*Program{c.Etcd, c.APIServer, c.ControllerManager, c.Scheduler} {
		if err := p.Start(); err != nil {
			return err
		}
	}
	// A pod needs the service account of its namespace, which a controller creates.
	return wait("the service account of the namespace default", time.Minute, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", meta.GetOptions{})
		return err
	})
}

// apiReady asks the API server whether it is ready.
func (c *Cluster) apiReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// getter returns a function that requests a URL, without a client certificate, from a program with
// a certificate of the cluster's authority. Any status but 200 is an error.
func (c *Cluster) getter() (func(url string) error, error) {
	text, err := os.ReadFile(c.authority.certFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + c.authority.certFile)
	}
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}
	return func(url string) error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
		}
		return nil
	}, nil
}
