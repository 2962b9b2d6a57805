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

// find looks up where the members of a cluster's etcd hear clients, as far as the
// cluster itself shows that. It reads pods and the metadata of nodes, and no secret.

// Found is what a cluster shows of its etcd.
type Found struct {
	// Endpoints are where members hear clients, as https://10.0.0.1:2379; none where the
	// cluster shows none that another machine could use.
	Endpoints []string
	// From says what has shown them.
	From string
	// Without are pods of members of which no such address is shown.
	Without []string
	// Files says where the certificates are with which the API server asks the members;
	// "" where that is not known.
	Files string
	// Unread is why a place could not be looked at, nil if all could.
	Unread error
}

// Guarded reports whether the members tell only who shows a certificate.
func (f *Found) Guarded() bool {
	return slices.ContainsFunc(f.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https:") })
}

// Unasked tells a user without a certificate why no member was asked and what
// to do. option is the one with which they name addresses.
func (f *Found) Unasked(option string) string {
	const certificates = "--etcd-cacert, --etcd-cert and --etcd-key"
	if len(f.Endpoints) == 0 {
		why := ""
		switch {
		case f.Unread != nil:
			why = fmt.Sprintf(" (%v)", f.Unread)
		case len(f.Without) > 0:
			why = " (" + strings.Join(f.Without, ", ") + ": no address that another machine could use)"
		}
		return "where its members are is not seen in this cluster" + why + ": " + option + " with their addresses, and " + certificates + " of a client"
	}
	text := "its members are at " + strings.Join(f.Endpoints, ", ") + " (" + f.From + ") and tell only who has a certificate: " + certificates
	if f.Files != "" {
		text += "; " + f.Files
	}
	return text
}

// Members looks where clusters show their members, until one place has some. The error is
// that of an API server which does not answer; what it refuses is in Found.
func Members(ctx context.Context, s *cluster.Server) (*Found, error) {
	f := &Found{}
	var without []string // of places that show none
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

// URLsOf is the annotation where kubeadm notes the addresses of a member (kubeadm, constants.go,
// EtcdAdvertiseClientUrlsAnnotationKey).
const URLsOf = "kubeadm.kubernetes.io/etcd.advertise-client-urls"

// pods looks at the static pods of kubeadm and of those that follow it.
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
		// What the API server is started with is a help, and no more.
		servers, _ := list(ctx, s, "kube-system", "component=kube-apiserver")
		f.Files = filesOf(servers)
	}
	return nil
}

// openShift looks at the static pods of OpenShift, which are in the network of their
// nodes and hear clients at port 2379 (cluster-etcd-operator, pod.gotpl.yaml).
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
	f.Files = "the config map etcd-ca-bundle and the secret etcd-client of openshift-etcd have them"
	return nil
}

// apiServer looks at what the API server is started with: with an etcd outside of the
// cluster, it names it.
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

// nodes looks at the notes of k3s and RKE2, whose etcd is in their own process or has its
// addresses in a file (k3s, pkg/etcd, NodeAddressAnnotation).
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
				f.From = "nodes, as " + program + " notes it"
				f.Files = fmt.Sprintf("on a server they are server-ca.crt, client.crt and client.key in /var/lib/rancher/%s/server/tls/etcd", program)
			}
		}
	}
	return nil
}

// filesOf says with which files the API server asks etcd.
func filesOf(servers []Pod) string {
	for _, p := range servers {
		ca, cert, key := p.Option("etcd-cafile"), p.Option("etcd-certfile"), p.Option("etcd-keyfile")
		if ca != "" && cert != "" && key != "" {
			return fmt.Sprintf("on a node of the control plane they are %s, %s and %s", ca, cert, key)
		}
	}
	return ""
}

// add adds the addresses of a pod.
func (f *Found) add(pod, urls string) {
	if f.addAll(urls) == 0 {
		f.Without = append(f.Without, pod)
	}
}

// addAll adds those of a list that another machine can use, and says how many these are.
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

// endpoint is an address as members are asked at, "" for one that only their own machine
// has: here it would be another etcd.
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

// Place is where a sort of cluster has the pods of its etcd.
type Place struct{ Namespace, selector string }

// The places: those of kubeadm, of which many are made, and of OpenShift.
var (
	KubeSystem = Place{"kube-system", "component=etcd"}
	OpenShift  = Place{"openshift-etcd", "app=etcd"}
)

// Pod is what is read of one.
type Pod struct {
	Namespace, Name string
	Annotations     map[string]string
	// IP is its address; "" as long as it has none.
	IP string
	// words are the command lines of its containers.
	words [][]string
}

// Pods lists the pods of etcd of a place, but those that have ended.
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

// Option is what an option is on the command line of the pod's first container that has
// it, as --NAME=TEXT or --NAME TEXT; "" for none. The lines of a script are not read.
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
