package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Direct asks the kubelet of this machine itself. By way of the API server that takes the
// right to get nodes/proxy, and whoever has it can have any kubelet of the cluster do
// anything, commands in pods included: kubelets are reached without the API server too,
// and there no admission policy is asked. For its health and its configuration alone a
// kubelet of Kubernetes 1.33 and later is content with nodes/healthz and nodes/configz
// (KEP 2862).
type Direct struct {
	client *http.Client
	// addresses are this machine's own; tests have others.
	addresses func() ([]net.Addr, error)
}

// mostSaid bounds an answer, in bytes.
const mostSaid = 4 << 20

// NewDirect is who asks: config says it as to the API server, by token or certificate.
func NewDirect(config *rest.Config) (*Direct, error) {
	own := rest.CopyConfig(config)
	// Only this machine answers at its own addresses. Many kubelets have self-signed
	// certificates, which API servers do not verify either.
	own.TLSClientConfig.Insecure, own.TLSClientConfig.CAData, own.TLSClientConfig.CAFile, own.TLSClientConfig.ServerName = true, nil, "", ""
	own.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	return &Direct{client, net.InterfaceAddrs}, nil
}

// at is where the kubelet of a node answers that is this machine: at an address of the
// node's that this machine has, or else at the loopback address.
func (d *Direct) at(n *core.Node) (string, error) {
	port := n.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		port = 10250
	}
	own, err := d.addresses()
	if err != nil {
		return "", err
	}
	host := "127.0.0.1"
	for _, a := range n.Status.Addresses {
		if a.Type != core.NodeInternalIP && a.Type != core.NodeExternalIP {
			continue
		}
		ip := net.ParseIP(a.Address)
		if ip != nil && slices.ContainsFunc(own, func(o net.Addr) bool { p, ok := o.(*net.IPNet); return ok && p.IP.Equal(ip) }) {
			host = ip.String()
			break
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// get asks the kubelet of a node, which has to be this machine.
func (d *Direct) get(ctx context.Context, n *core.Node, path string) ([]byte, error) {
	at, err := d.at(n)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostSaid))
	if err != nil {
		return nil, err
	}
	switch said := strings.TrimSpace(string(text[:min(len(text), 300)])); resp.StatusCode {
	case http.StatusOK:
		return text, nil
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("it does not know who asks (%s): its configuration has to take tokens of the cluster (authentication.webhook.enabled)", said)
	case http.StatusForbidden:
		return nil, fmt.Errorf("it refuses (%s): kubectl apply -k kube/deploy/kubelet gives an agent the right; kubelets before Kubernetes 1.33 require get of nodes/proxy", said)
	default:
		return nil, fmt.Errorf("%s: %s", resp.Status, said)
	}
}
