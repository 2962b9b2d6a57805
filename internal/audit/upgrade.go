package audit

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/internal/product/kubelet"
	"fettle.dev/fettle/internal/ui"
)

// Upgrade describes an audit of a node as if one of its programs had a different release.
type Upgrade struct {
	platforms []string // platforms whose rules about the program are checked
	audited   findings.OtherRelease
	other     product.Product // the program in that release
	about     func(input string) bool
}

// ForRelease parses --for and sets the platforms to check. It returns nil without --for.
// Releases 3.x are etcd's, all others are the kubelet's: 1.x of Kubernetes, 4.x of OpenShift.
func ForRelease(text string, names *[]string) (*Upgrade, error) {
	if text == "" {
		return nil, nil
	}
	ofEtcd := slices.Contains(*names, etcd.Product.Name) || len(*names) == 0 && strings.HasPrefix(strings.TrimPrefix(text, "v"), "3.")
	u, err := upgradeTo(text, ofEtcd)
	if err != nil {
		newest := kuberelease.Known().Newest.String()
		if ofEtcd {
			newest = etcd.Known().Newest.String()
		}
		return nil, ui.Instead(ui.Usage, fmt.Errorf("--for %w", err), "", "--for="+newest)
	}
	for _, name := range *names {
		if !slices.Contains(u.platforms, name) {
			return nil, ui.WithoutWord(fmt.Errorf("--for %s does not apply to %s: it takes a release for kubelet (Kubernetes 1.37, OpenShift 4.20) or etcd (3.7)", text, name), name)
		}
	}
	*names = u.platforms
	return u, nil
}

func upgradeTo(text string, ofEtcd bool) (*Upgrade, error) {
	if ofEtcd {
		to, rules, err := etcd.Known().Target(text)
		audited := findings.OtherRelease{Program: etcd.Product.Name, Release: to.String(), Rules: rules.String()}
		return &Upgrade{platforms: []string{etcd.Product.Name}, audited: audited, other: etcd.As(to), about: etcd.AsksRelease}, err
	}
	to, err := kuberelease.Known().Target(text)
	audited := findings.OtherRelease{Program: kubelet.Product.Name, Release: to.Release, Rules: to.Rules.String(), OpenShift: to.OpenShift}
	asks := func(input string) bool {
		return strings.HasPrefix(input, kubelet.Product.Name+".") && !kubelet.OfNow(input)
	}
	return &Upgrade{platforms: []string{"kubernetes-node", kubelet.Product.Name}, audited: audited, other: kubelet.As(to.Rules), about: asks}, err
}

// from records the program's version on the machine.
func (u *Upgrade) from(s *platform.Subject) {
	u.audited.Here, _ = s.Answer(u.audited.Program + ".version").Value.(string)
}

// sources returns the sources of every check, with the program's version replaced by the release.
func (u *Upgrade) sources() []platform.Source {
	other := platform.Product(u.other)
	all := Sources()
	for i := range all {
		if all[i].Prefix == other.Prefix {
			all[i] = other
		}
	}
	return all
}

// only keeps the rules whose inputs depend on the program's release. It keeps all rules if u is
// nil.
func (u *Upgrade) only(c *rule.Catalogue) *rule.Catalogue {
	if u == nil {
		return c
	}
	return c.Filter(func(r *rule.Rule) bool {
		return slices.ContainsFunc(r.Inputs, func(b rule.Binding) bool { return u.about(b.Input) })
	})
}

// audit returns the release data for the audit's record, or nil if u is nil.
func (u *Upgrade) audit() *findings.OtherRelease {
	if u == nil {
		return nil
	}
	return &u.audited
}
