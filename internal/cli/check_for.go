package cli

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

// upgrade is an audit of a node as if one of its programs were of another release.
type upgrade struct {
	program   string          // kubelet or etcd
	platforms []string        // whose rules are asked, where they are about the program
	to, rules string          // the release as asked, and the one whose rules are applied
	here      string          // version of the program that is here; "" where it is not known
	other     product.Product // the program, of the other release
	about     func(input string) bool
}

// forRelease reads --for and says which platforms are asked; nil where it is not given. A
// release 3.x is etcd's, and every other one the kubelet's.
func forRelease(text string, names *[]string) (*upgrade, error) {
	if text == "" {
		return nil, nil
	}
	u, err := upgradeTo(text, slices.Contains(*names, etcd.Product.Name) || len(*names) == 0 && strings.HasPrefix(strings.TrimPrefix(text, "v"), "3."))
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--for %w", err))
	}
	for _, name := range *names {
		if !slices.Contains(u.platforms, name) {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--for is about the kubelet or about etcd, and not %s", name), "fettle check kubelet --for 1.37; fettle check etcd --for 3.7")
		}
	}
	*names = u.platforms
	return u, nil
}

func upgradeTo(text string, ofEtcd bool) (*upgrade, error) {
	if ofEtcd {
		to, rules, err := etcd.Known().Target(text)
		return &upgrade{program: etcd.Product.Name, platforms: []string{etcd.Product.Name}, to: to.String(), rules: rules.String(), other: etcd.As(to), about: etcd.AsksRelease}, err
	}
	to, rules, err := kuberelease.Known().Target(text)
	asks := func(input string) bool {
		return strings.HasPrefix(input, kubelet.Product.Name+".") && !kubelet.OfNow(input)
	}
	return &upgrade{program: kubelet.Product.Name, platforms: []string{"kubernetes-node", kubelet.Product.Name}, to: to.String(), rules: rules.String(), other: kubelet.As(rules), about: asks}, err
}

// from notes which version of the program the machine has.
func (u *upgrade) from(s *platform.Subject) {
	u.here, _ = s.Answer(u.program + ".version").Value.(string)
}

// sources are those of every check, with the program of the other release.
func (u *upgrade) sources() []platform.Source {
	other := platform.Product(u.other)
	all := sources()
	for i := range all {
		if all[i].Prefix == other.Prefix {
			all[i] = other
		}
	}
	return all
}

// only keeps the findings of rules that ask the program for what goes by its release; all of
// them where no other release is asked for.
func (u *upgrade) only(findings []rule.Finding) []rule.Finding {
	if u == nil {
		return findings
	}
	return slices.DeleteFunc(findings, func(f rule.Finding) bool {
		return !slices.ContainsFunc(f.Rule.Inputs, func(b rule.Binding) bool { return u.about(b.Input) })
	})
}

// audit is what the audit says of it.
func (u *upgrade) audit() *findings.OtherRelease {
	if u == nil {
		return nil
	}
	return &findings.OtherRelease{Program: u.program, Release: u.to, Rules: u.rules, Here: u.here}
}
