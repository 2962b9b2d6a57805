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

// etcdByRelease checks the etcd rules that depend on its release: for the pods of its members
// or, without such pods, for the members that were queried, or that kubeadm's configuration names.
func (c *Cluster) etcdByRelease(ctx context.Context, rules *rule.Catalogue, disabled map[string]string) []rule.Finding {
	p := etcd.Product
	p.Find = func(context.Context, *host.Host) ([]product.Installed, error) {
		var out []product.Installed
		for _, r := range c.reportedEtcd() {
			out = append(out, etcd.Of(r))
		}
		if len(out) == 0 {
			return nil, errors.New(cmp.Or(c.Unread[OfEtcd], "members not queried"))
		}
		return out, nil
	}
	of := func(r *rule.Rule) bool { return !notOfRelease(r) }
	return rules.Filter(of).Check(ctx, productOf{platform.Product(p).Open(ctx, &platform.Subject{})}, []string{platform.Name}, disabled)
}

// notOfRelease reports whether a rule has no input that depends on etcd's release.
func notOfRelease(r *rule.Rule) bool {
	return !slices.ContainsFunc(r.Inputs, func(b rule.Binding) bool { return etcd.AsksRelease(b.Input) })
}

// reportedEtcd returns what the cluster shows about its etcd members.
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
			out = append(out, etcd.Reported{Name: m.URL, At: m.URL, Version: m.Version, OpenShift: c.OpenShift != ""})
		}
	}
	if c.Kubeadm != nil && len(out) == 0 {
		for _, url := range c.Kubeadm.External {
			out = append(out, etcd.Reported{Name: url, At: "ConfigMap " + kubeadmMap + ", etcd.external"})
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
		if out[i].Kubeadm && out[i].Upgrade {
			c.rewritten(&out[i])
		}
	}
	return out
}

// rewritten gives a member the flags with which kubeadm starts it in an upgrade: its own, which
// are right for the version that it installs, and those of its configuration.
func (c *Cluster) rewritten(r *etcd.Reported) {
	r.Words, r.Env = nil, nil
	if c.Kubeadm == nil {
		r.Unread = "unknown what kubeadm writes: " + cmp.Or(c.Unread[OfKubeadm], "no ConfigMap "+kubeadmMap)
		return
	}
	r.At = "ConfigMap " + kubeadmMap + ", etcd.local.extraArgs"
	r.Words, r.Env = []string{ofEtcd}, c.Kubeadm.EtcdEnv
	for _, f := range c.Kubeadm.Flags[ofEtcd] {
		r.Words = append(r.Words, "--"+f.Name+"="+f.Value)
	}
}

// EtcdVersions returns the distinct etcd versions in the cluster, and the version that kubeadm
// installs with Kubernetes release as; "" if no member was installed by kubeadm.
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
