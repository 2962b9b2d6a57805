package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/linux"
	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/internal/guide/platform/puppet"
	"fettle.dev/fettle/internal/guide/platform/satellite"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/disk"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Sources returns the sources of all rule inputs.
func Sources() []platform.Source {
	all := slices.Concat(platform.Facts(), linux.Sources(), []platform.Source{satellite.Source(), puppet.Source(), puppet.FrontSource(), openshift.Source(), platform.ClusterSource(), disk.Source()})
	for _, p := range components.All {
		all = append(all, platform.Product(p))
	}
	return all
}

// Products returns the names of all products.
func Products() []string {
	var names []string
	for _, p := range components.All {
		names = append(names, p.Name)
	}
	return names
}

// Platforms returns the names of all platforms, products included.
func Platforms() []string {
	var names []string
	for _, p := range platform.All {
		names = append(names, p.Name)
	}
	return append(names, Products()...)
}

// otherNames maps common names of platforms to fettle's.
var otherNames = map[string]string{"foreman": "satellite"}

// Known translates platform names to fettle's own. It returns an error for an unknown name.
func Known(names []string) (known []string, err error) {
	for _, n := range names {
		n = cmp.Or(otherNames[n], n)
		if all := Platforms(); !slices.Contains(all, n) {
			return nil, unknownPlatform(n, all)
		}
		known = append(known, n)
	}
	return known, nil
}

// unknownPlatform returns the error for an unknown platform. It suggests a platform with a
// similar name, or the platform to which the product belongs.
func unknownPlatform(name string, all []string) error {
	err := fmt.Errorf("unknown platform %q%s; platforms are %s", name, text.Suggest(name, all), strings.Join(all, ", "))
	near := text.Nearest(name, all)
	if of := partOf[strings.ToLower(name)]; slices.Contains(all, of) && !strings.EqualFold(near, name) {
		near = of
	}
	if near != "" {
		return ui.OtherWord(err, name, near)
	}
	return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Word: name, Become: []string{"linux"}, Example: true}}
}

// partOf maps other names of products to the platform that has their rules.
var partOf = map[string]string{
	"katello": "satellite", "pulp": "satellite", "candlepin": "satellite", "capsule": "satellite", "foreman-proxy": "satellite", "smart-proxy": "satellite", "dynflow": "satellite", "qpid": "satellite", "qdrouterd": "satellite",
	"k8s": "kubernetes-node", "kubernetes": "kubernetes-node", "node": "kubernetes-node", "kube-apiserver": "cluster",
	"apache": "httpd", "apache2": "httpd", "postgres": "postgresql", "pgsql": "postgresql", "kernel": "linux", "rhel": "linux", "ocp": "openshift", "haproxy": "router",
}

// Aliases returns the other names of a platform, or nil.
func Aliases(platform string) (out []string) {
	for name, of := range otherNames {
		if of == platform {
			out = append(out, name)
		}
	}
	return out
}

// Parts returns the products that partOf maps to a platform.
func Parts(platform string) (out []string) {
	for name, of := range partOf {
		if of == platform {
			out = append(out, name)
		}
	}
	return out
}

// Kinds returns the setting kinds of plug-ins, products and other tuners.
func Kinds(h *host.Host) setting.Kinds {
	kinds := table.Kinds(h)
	maps.Copy(kinds, components.Kinds(h))
	kinds[tune.TunerKind] = tune.NewTunerKind(h, kinds["unit"])
	return kinds
}
