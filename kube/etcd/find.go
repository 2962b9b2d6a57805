package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fettle.dev/fettle/kube/cluster"
)

// find discovers the client URLs of a cluster's etcd members from pods and node metadata. It reads
// no secrets.

// Found is the result of the discovery.
type Found struct {
	// Endpoints are the members' client URLs, such as https://10.0.0.1:2379; nil if other machines
	// cannot use any.
	Endpoints []string
	// From is the source of the URLs.
	From string
	// Without are the members' pods without a usable URL.
	Without []string
	// Files describes the paths of the API server's certificates for etcd; "" if unknown.
	Files string
	// Unread is why a source could not be read; nil if all could.
	Unread error
}

// Guarded reports whether the members require a client certificate.
func (f *Found) Guarded() bool {
	return slices.ContainsFunc(f.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https:") })
}

// Unasked explains why no member was queried without a certificate, and what to do. option is the
// flag that names members.
func (f *Found) Unasked(option string) string {
	const certificates = "--etcd-cacert, --etcd-cert and --etcd-key"
	if len(f.Endpoints) == 0 {
		why := ""
		switch {
		case f.Unread != nil:
			why = fmt.Sprintf(" (%v)", f.Unread)
		case len(f.Without) > 0:
			why = " (" + strings.Join(f.Without, ", ") + ": no address that other machines can use)"
		}
		return "no etcd members found in this cluster" + why + "; name their addresses with " + option + ", and the files of a client certificate with " + certificates
	}
	text := "the etcd members " + strings.Join(f.Endpoints, ", ") + " (found in " + f.From + ") require a client certificate; name its files with " + certificates
	if f.Files != "" {
		text += "; " + f.Files
	}
	return text
}

// Members tries each source of member addresses until one has some. It returns an error only if the
// API server does not answer; refusals are in Found.
func Members(ctx context.Context, s *cluster.Server) (*Found, error) {
	f := &Found{}
	var without []string // pods without a usable URL
	for _, look := range []func(context.Context, *cluster.Server) error{f.pods, f.openShift, f.apiServer, f.nodes} {
		err := look(ctx, s)
		var refused *cluster.Error
		switch {
		case err == nil:
		case errors.As(err, &refused):
			if f.Unread == nil && refused.Status != http.StatusNotFound {
				f.Unread = err
			}
		default:
			return nil, err
		}
		if len(f.Endpoints) > 0 {
			return f, nil
		}
		without, f.Without = append(without, f.Without...), nil
	}
	return &Found{Without: without, Unread: f.Unread}, nil
}

// URLsOf is kubeadm's annotation with a member's client URLs (kubeadm, constants.go,
// EtcdAdvertiseClientUrlsAnnotationKey).
const URLsOf = "kubeadm.kubernetes.io/etcd.advertise-client-urls"

// pods reads static etcd pods of kubeadm and compatible installers.
func (f *Found) pods(ctx context.Context, s *cluster.Server) error {
	all, err := Pods(ctx, s, KubeSystem)
	if err != nil {
		return err
	}
	for _, p := range all {
		f.add(p.Name, cmp.Or(p.Annotations[URLsOf], p.Option("advertise-client-urls")))
	}
	f.From = "pods of kube-system"
	if len(f.Endpoints) > 0 {
		// The API server's arguments are optional, so errors are ignored.
		servers, _ := list(ctx, s, "kube-system", "component=kube-apiserver")
		f.Files = filesOf(servers)
	}
	return nil
}

// openShift reads OpenShift's static etcd pods. They use the node's network and listen for clients
// on port 2379 (cluster-etcd-operator, pod.gotpl.yaml).
func (f *Found) openShift(ctx context.Context, s *cluster.Server) error {
	all, err := Pods(ctx, s, OpenShift)
	if err != nil {
		return err
	}
	for _, p := range all {
		address := ""
		if p.IP != "" {
			address = "https://" + net.JoinHostPort(p.IP, "2379")
		}
		f.add(p.Name, address)
	}
	f.From = "pods of openshift-etcd"
	f.Files = "see the config map etcd-ca-bundle and the secret etcd-client in openshift-etcd"
	return nil
}

// apiServer reads the API server's arguments, which name an external etcd.
func (f *Found) apiServer(ctx context.Context, s *cluster.Server) error {
	all, err := list(ctx, s, "kube-system", "component=kube-apiserver")
	if err != nil {
		return err
	}
	for _, p := range all {
		f.addAll(p.Option("etcd-servers"))
	}
	f.From, f.Files = "--etcd-servers of the API server", filesOf(all)
	return nil
}

// nodes reads the nodes' annotations by k3s and RKE2. Their etcd runs in their own process or has
// its addresses in a file (k3s, pkg/etcd, NodeAddressAnnotation).
func (f *Found) nodes(ctx context.Context, s *cluster.Server) error {
	var l struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	if err := s.GetMetadata(ctx, "/api/v1/nodes?labelSelector="+url.QueryEscape("node-role.kubernetes.io/etcd"), &l); err != nil {
		return err
	}
	for _, n := range l.Items {
		for _, program := range []string{"k3s", "rke2"} {
			if address := n.Metadata.Annotations["etcd."+program+".cattle.io/node-address"]; address != "" {
				f.addAll("https://" + net.JoinHostPort(address, "2379"))
				f.From = "node annotations of " + program
				f.Files = fmt.Sprintf("on a server they are server-ca.crt, client.crt and client.key in /var/lib/rancher/%s/server/tls/etcd", program)
			}
		}
	}
	return nil
}

// filesOf returns the API server's certificate files for etcd.
func filesOf(servers []Pod) string {
	for _, p := range servers {
		ca, cert, key := p.Option("etcd-cafile"), p.Option("etcd-certfile"), p.Option("etcd-keyfile")
		if ca != "" && cert != "" && key != "" {
			return fmt.Sprintf("on a node of the control plane they are %s, %s and %s", ca, cert, key)
		}
	}
	return ""
}

// add adds a pod's client URLs, or records the pod in Without.
func (f *Found) add(pod, urls string) {
	if f.addAll(urls) == 0 {
		f.Without = append(f.Without, pod)
	}
}

// addAll adds the usable URLs of a comma-separated list, and returns their number.
func (f *Found) addAll(urls string) (n int) {
	for text := range strings.SplitSeq(urls, ",") {
		if e := endpoint(text); e != "" {
			n++
			if !slices.Contains(f.Endpoints, e) {
				f.Endpoints = append(f.Endpoints, e)
			}
		}
	}
	return n
}

// endpoint returns a member's URL in the form for queries; "" for a loopback address, which would
// be another etcd on this machine.
func endpoint(text string) string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	name := u.Hostname()
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return ""
	}
	return u.Scheme + "://" + net.JoinHostPort(name, cmp.Or(u.Port(), "2379"))
}

// Place is where a kind of cluster has its etcd pods: namespace and label selector.
type Place struct{ Namespace, selector string }

// Places of kubeadm and compatible installers, and of OpenShift.
var (
	KubeSystem = Place{"kube-system", "component=etcd"}
	OpenShift  = Place{"openshift-etcd", "app=etcd"}
)

// Pod is the part of a pod that fettle reads.
type Pod struct {
	Namespace, Name string
	Annotations     map[string]string
	// IP is the pod's address; "" if it has none yet.
	IP string
	// words are the command lines of the containers.
	words [][]string
}

// Pods lists the etcd pods at a place that have not ended.
func Pods(ctx context.Context, s *cluster.Server, at Place) ([]Pod, error) {
	return list(ctx, s, at.Namespace, at.selector)
}

func list(ctx context.Context, s *cluster.Server, namespace, selector string) ([]Pod, error) {
	var l struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
			Spec struct {
				Containers []struct{ Command, Args []string }
			}
			Status struct{ Phase, PodIP string }
		}
	}
	if err := s.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(selector), &l); err != nil {
		return nil, err
	}
	var out []Pod
	for _, p := range l.Items {
		if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			continue
		}
		x := Pod{Namespace: namespace, Name: p.Metadata.Name, Annotations: p.Metadata.Annotations, IP: p.Status.PodIP}
		for _, c := range p.Spec.Containers {
			x.words = append(x.words, slices.Concat(c.Command, c.Args))
		}
		out = append(out, x)
	}
	return out, nil
}

// Option returns the value of --NAME=TEXT or --NAME TEXT in the first container that has the
// option; "" if none has it. It does not search scripts.
func (p *Pod) Option(name string) string {
	for _, words := range p.words {
		for i, w := range words {
			value, is := strings.CutPrefix(w, "--"+name)
			switch {
			case !is:
			case strings.HasPrefix(value, "="):
				return value[1:]
			case value == "" && i+1 < len(words):
				return words[i+1]
			}
		}
	}
	return ""
}
