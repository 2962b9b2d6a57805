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

// etcdByRelease checks the etcd rules that depend on the release. It uses the members' pods, or
// else the queried members, or else those in kubeadm's configuration.
func (c *Cluster) etcdByRelease(ctx context.Context, rules *rule.Catalogue, disabled map[string]string) []rule.Finding {
	p := etcd.Product
	p.Find = func(context.Context, *host.Host) ([]product.Installed, error) {
		var out []product.Installed
		for _, r := range c.reportedEtcd() {
			out = append(out, etcd.Of(r))
		}
		if len(out) == 0 {
			return nil, errors.New(cmp.Or(c.Unread[OfEtcd], "the etcd members were not queried"))
		}
		return out, nil
	}
	of := func(r *rule.Rule) bool { return !notOfRelease(r) }
	return rules.Filter(of).Check(ctx, productOf{platform.Product(p).Open(ctx, &platform.Subject{})}, []string{platform.Name}, disabled)
}

// notOfRelease reports whether a rule needs no input that depends on etcd's release.
func notOfRelease(r *rule.Rule) bool {
	return !slices.ContainsFunc(r.Inputs, func(b rule.Binding) bool { return etcd.AsksRelease(b.Input) })
}

// reportedEtcd returns the etcd members as the cluster's API shows them.
func (c *Cluster) reportedEtcd() []etcd.Reported {
	out := slices.Clone(c.EtcdPods)
	pods := len(out) > 0
	reported := map[string]int{} // number of members by reported version
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
			if n == len(out) { // a version that all members report is more reliable than image tags
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

// rewritten gives a member the flags that kubeadm would write in an upgrade: kubeadm's own, which
// suit the new version, and those of the ClusterConfiguration.
func (c *Cluster) rewritten(r *etcd.Reported) {
	r.Words, r.Env = nil, nil
	if c.Kubeadm == nil {
		r.Unread = "unknown which flags kubeadm writes: " + cmp.Or(c.Unread[OfKubeadm], "no ConfigMap "+kubeadmMap)
		return
	}
	r.At = "ConfigMap " + kubeadmMap + ", etcd.local.extraArgs"
	r.Words, r.Env = []string{ofEtcd}, c.Kubeadm.EtcdEnv
	for _, f := range c.Kubeadm.Flags[ofEtcd] {
		r.Words = append(r.Words, "--"+f.Name+"="+f.Value)
	}
}

// EtcdVersions returns the distinct etcd versions in the cluster. installed is the version that
// kubeadm installs with Kubernetes release as, or "" if kubeadm installed no member.
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
