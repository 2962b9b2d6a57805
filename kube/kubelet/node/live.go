package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/kube/kubelet"
)

// live controls the kubelet of a running node. A service manager starts and stops it. Its
// configuration and health are read directly or through the API server.

// Service starts and stops a kubelet. Its methods are those of Kubelet.
type Service interface {
	Stop(context.Context) error
	Start(context.Context) error
	// Steady returns nil if the kubelet runs and has not been restarted recently.
	Steady(context.Context) error
	// Ended returns an error that wraps ErrEnded if the kubelet has ended since its start.
	Ended(context.Context) error
	LastWords(context.Context) string
}

// RunningKubelet is the kubelet of a node. The client needs the rights to get nodes and the leases
// in kube-node-lease, and nodes/proxy if Direct is nil.
type RunningKubelet struct {
	Service
	Client kubernetes.Interface
	Node   string
	// Direct queries this machine's kubelet; if nil, queries go through the API server.
	Direct *Direct
}

// timeout limits a request to the API server, or through it to the kubelet.
const timeout = 5 * time.Second

// Well returns an error unless the kubelet is healthy now and has not been restarted recently.
func (k *RunningKubelet) Well(ctx context.Context) error {
	if err := k.Steady(ctx); err != nil {
		return err
	}
	_, err := k.get(ctx, "healthz")
	return err
}

// Healthy requests /healthz of the kubelet.
func (k *RunningKubelet) Healthy(ctx context.Context) error {
	if err := k.Ended(ctx); err != nil {
		return err
	}
	_, err := k.get(ctx, "healthz")
	return err
}

// Configz requests /configz of the kubelet.
func (k *RunningKubelet) Configz(ctx context.Context) (kubelet.Fields, error) {
	text, err := k.get(ctx, "configz")
	if err != nil {
		return nil, err
	}
	all, err := kubelet.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("/configz: %w", err)
	}
	f, ok := all["kubeletconfig"].(map[string]any)
	if !ok {
		return nil, errors.New("/configz has no kubeletconfig")
	}
	return f, nil
}

func (k *RunningKubelet) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := k.ask(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read /%s of the kubelet: %w", path, err)
	}
	return text, nil
}

func (k *RunningKubelet) ask(ctx context.Context, path string) ([]byte, error) {
	if k.Direct == nil {
		return k.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(k.Node).SubResource("proxy").Suffix(path).DoRaw(ctx)
	}
	n, err := k.Client.CoreV1().Nodes().Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return k.Direct.get(ctx, n, path)
}

// Heartbeat reads the node and its lease from the API server.
func (k *RunningKubelet) Heartbeat(ctx context.Context) (Heartbeat, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var h Heartbeat
	n, err := k.Client.CoreV1().Nodes().Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return h, err
	}
	i := slices.IndexFunc(n.Status.Conditions, func(c core.NodeCondition) bool { return c.Type == core.NodeReady })
	if i < 0 {
		return h, fmt.Errorf("node %s has no Ready condition", k.Node)
	}
	c := n.Status.Conditions[i]
	h.Ready, h.Status, h.Why, h.Version = c.Status == core.ConditionTrue, c.LastHeartbeatTime.Time, c.Message, n.Status.NodeInfo.KubeletVersion
	lease, err := k.Client.CoordinationV1().Leases(core.NamespaceNodeLease).Get(ctx, k.Node, meta.GetOptions{})
	if err != nil {
		return h, err
	}
	if lease.Spec.RenewTime != nil {
		h.Lease = lease.Spec.RenewTime.Time
	}
	return h, nil
}

// Direct queries this machine's kubelet without the API server. Queries through the API server need
// the right nodes/proxy, which permits everything on every kubelet, including commands in pods.
// Kubelets from 1.33 on accept direct queries with only nodes/healthz and nodes/configz (KEP 2862).
type Direct struct {
	client *http.Client
	// addresses returns this machine's own addresses; tests replace it.
	addresses func() ([]net.Addr, error)
}

// mostSaid limits a response, in bytes.
const mostSaid = 4 << 20

// NewDirect returns a client with the token or certificate in config.
func NewDirect(config *rest.Config) (*Direct, error) {
	own := rest.CopyConfig(config)
	// Only this machine answers at its own addresses. Many kubelets have self-signed certificates,
	// which API servers do not verify either.
	own.TLSClientConfig.Insecure, own.TLSClientConfig.CAData, own.TLSClientConfig.CAFile, own.TLSClientConfig.ServerName = true, nil, "", ""
	own.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	return &Direct{client, net.InterfaceAddrs}, nil
}

// at returns the address of this machine's kubelet: an address of the Node object that belongs to
// this machine, or else the loopback address.
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

// get requests a path from the kubelet of a node, which must be this machine.
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
		return nil, fmt.Errorf("the kubelet does not accept this token (%s); set authentication.webhook.enabled in its configuration", said)
	case http.StatusForbidden:
		return nil, fmt.Errorf("the kubelet denies access (%s); grant it with kubectl apply -k kube/deploy/kubelet, or kubelet=true of the Helm chart (before Kubernetes 1.33: get nodes/proxy)", said)
	default:
		return nil, fmt.Errorf("%s: %s", resp.Status, said)
	}
}
