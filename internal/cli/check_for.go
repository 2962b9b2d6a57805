package cli

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/component/kubelet"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/ui"
)

// upgrade is an audit of a node as if its kubelet were of another release.
type upgrade struct {
	to    kubelet.Release // as asked
	rules kubelet.Release // whose rules are applied
	here  string          // version of the kubelet that is here; "" where it is not known
}

// forRelease reads --for and says which platforms are asked; nil where it is not given.
func forRelease(text string, names *[]string) (*upgrade, error) {
	if text == "" {
		return nil, nil
	}
	to, rules, err := kubelet.Known().Target(text)
	if err != nil {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("--for %w", err))
	}
	u := &upgrade{to: to, rules: rules}
	for _, name := range *names {
		if !slices.Contains(u.platforms(), name) {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--for is about the kubelet, and not %s", name), "fettle check kubelet --for "+text)
		}
	}
	*names = u.platforms()
	return u, nil
}

// platforms are those whose rules are asked, where they are about the kubelet.
func (*upgrade) platforms() []string { return []string{"kubernetes-node", kubelet.Product.Name} }

// from notes which kubelet the machine has.
func (u *upgrade) from(s *platform.Subject) { u.here, _ = s.Answer("kubelet.version").Value.(string) }

// sources are those of every check, with the kubelet of the other release.
func (u *upgrade) sources() []platform.Source {
	other := platform.Product(kubelet.As(u.rules))
	all := sources()
	for i := range all {
		if all[i].Prefix == other.Prefix {
			all[i] = other
		}
	}
	return all
}

// only keeps the findings of rules that ask the kubelet; all of them where no other release
// is asked for.
func (u *upgrade) only(findings []rule.Finding) []rule.Finding {
	if u == nil {
		return findings
	}
	return slices.DeleteFunc(findings, func(f rule.Finding) bool {
		return !slices.ContainsFunc(f.Rule.Inputs, func(b rule.Binding) bool { return strings.HasPrefix(b.Input, kubelet.Product.Name+".") })
	})
}

// audit is what the audit says of it.
func (u *upgrade) audit() *report.OtherRelease {
	if u == nil {
		return nil
	}
	return &report.OtherRelease{Program: kubelet.Product.Name, Release: u.to.String(), Rules: u.rules.String(), Here: u.here}
}
