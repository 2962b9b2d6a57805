package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/etcd"
)

// etcdByRelease asks the rules of etcd whose answer goes by its release: of the pods of its
// members, and where the cluster has none, of the members that were asked. OpenShift's operator
// writes etcd's image and flags together, so that there is nothing to ask.
func (c *Cluster) etcdByRelease(ctx context.Context, rules *rule.Catalogue, disabled map[string]string) []rule.Finding {
	if c.OpenShift != "" {
		return nil
	}
	p := etcd.Product
	p.Find = func(context.Context, *host.Host) ([]product.Installed, error) {
		var out []product.Installed
		for _, r := range c.reportedEtcd() {
			out = append(out, etcd.Of(r))
		}
		if len(out) == 0 {
			return nil, errors.New(cmp.Or(c.Unread[OfEtcd], "its members were not asked"))
		}
		return out, nil
	}
	of := func(r *rule.Rule) bool { return !notOfRelease(r) }
	return rules.Filter(of).Check(ctx, productOf{platform.Product(p).Open(ctx, &platform.Subject{})}, []string{platform.Name}, disabled)
}

// notOfRelease reports whether a rule asks nothing of etcd that goes by its release.
func notOfRelease(r *rule.Rule) bool {
	return !slices.ContainsFunc(r.Inputs, func(b rule.Binding) bool { return etcd.AsksRelease(b.Input) })
}

// reportedEtcd is what the cluster shows of its members.
func (c *Cluster) reportedEtcd() []etcd.Reported {
	out := slices.Clone(c.EtcdPods)
	pods := len(out) > 0
	reported := map[string]int{} // members, by the version that they report
	for _, m := range c.Members {
		if m.Silent != nil {
			continue
		}
		reported[m.Version]++
		if !pods {
			out = append(out, etcd.Reported{Name: m.URL, At: m.URL, Version: m.Version})
		}
	}
	of, _ := kuberelease.Parse(c.Version)
	for i := range out {
		for version, n := range reported {
			if n == len(out) { // what all of them report is surer than the name of an image
				out[i].Version = version
			}
		}
		out[i].Kubernetes, out[i].Upgrade = cmp.Or(c.as, of), c.as != 0
	}
	return out
}

// EtcdVersions are the versions of etcd in the cluster, each once, and the one that kubeadm
// installs with another release of Kubernetes; "" where none of its members is kubeadm's.
func (c *Cluster) EtcdVersions(as kuberelease.Release) (here []string, installed string) {
	for _, r := range c.reportedEtcd() {
		if r.Kubeadm {
			installed, _ = kuberelease.Known().Etcd(as)
		}
		v, _ := etcd.Of(r).Answer("installed_version").Value.(string)
		if v, _, _ = strings.Cut(v, "-"); v != "" && !slices.Contains(here, v) {
			here = append(here, v)
		}
	}
	slices.Sort(here)
	return here, installed
}
