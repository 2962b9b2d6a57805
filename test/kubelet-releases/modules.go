package main

import "fettle.dev/fettle/test/kubelet-releases/modules"

// kubeletModules are the modules with a kubelet's fields, defaults and feature gates, and with the
// flags of a control plane.
var kubeletModules = []string{
	"k8s.io/kubernetes", "k8s.io/kubelet", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver",
	"k8s.io/component-base", "k8s.io/client-go", "k8s.io/controller-manager", "k8s.io/cloud-provider",
}

// of returns the module in the version of a release: k8s.io/apiserver@v0.29.14.
func (r release) of(module string) string {
	if module == "k8s.io/kubernetes" {
		return module + "@v1." + r.version
	}
	return module + "@v0." + r.version
}

// download returns the directory of each module of all releases, as MODULE@VERSION.
func download(network bool) (map[string]string, error) {
	var all []string
	for _, r := range releases {
		for _, m := range kubeletModules {
			all = append(all, r.of(m))
		}
	}
	return modules.Download(all, network)
}
