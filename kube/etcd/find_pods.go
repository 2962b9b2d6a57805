package etcd

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"fettle.dev/fettle/kube/cluster"
)

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
