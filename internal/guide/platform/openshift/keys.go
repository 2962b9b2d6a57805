package openshift

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// The keys of a KubeletConfig (machineconfiguration.openshift.io/v1) and of its spec.
var (
	configKeys = []string{"apiVersion", "kind", "metadata", "spec", "status"}
	specKeys   = []string{"autoSizingReserved", "kubeletConfig", "logLevel", "machineConfigPoolSelector", "tlsSecurityProfile"}
)

// finishKubelets answers with the keys of each KubeletConfig that the cluster's version lacks. It
// runs last, because the version is in another document.
func (t *collector) finishKubelets() {
	version, _ := t.given("version").Value.(string)
	release, known := kuberelease.OfOpenShift(version)
	for _, k := range t.kubelets {
		if n := k.get("spec", "kubeletConfig"); n != nil && n.Kind != yaml.MappingNode {
			t.unclear(k.item+".unknown_keys", k.at(n), errors.New("spec.kubeletConfig is not a mapping; the API server rejects it"))
			continue
		}
		unknown, at := unknownKeys(k.document, version, release)
		if len(unknown) > 0 && version != "" && !known {
			t.unclear(k.item+".unknown_keys", at, fmt.Errorf("this version of fettle does not know the keys of OpenShift %s: %s", version, strings.Join(unknown, ", ")))
			continue
		}
		t.give(k.item+".unknown_keys", unknown, at)
	}
	for _, k := range t.kubelets {
		t.refusedValues(k, release)
	}
}

// notApplied maps fields of a kubeletConfig, which make the Machine Config Operator ignore the whole
// object, to where the value belongs. Source: github.com/openshift/machine-config-operator,
// pkg/controller/kubelet-config, kubelet_config_controller.go, blacklistKubeletConfigurationFields.
var notApplied = map[string]string{
	"featureGates": "set them in the object FeatureGate", "cgroupDriver": "CRI-O determines it", "clusterDNS": "a setting of the whole cluster", "clusterDomain": "a setting of the whole cluster",
	"staticPodPath": "the control plane starts from this path", "runtimeRequestTimeout": "remove it",
}

// refusedValues answers with values of a KubeletConfig that keep it from being applied, or the
// cluster's kubelets from starting.
func (t *collector) refusedValues(k kubeletConfig, release kuberelease.Release) {
	n := conf.Aliased(k.get("spec", "kubeletConfig"))
	config := map[string]any{}
	if n != nil && n.Kind == yaml.MappingNode {
		if err := n.Decode(&config); err != nil {
			t.unclear(k.item+".refused_values", k.at(n), err)
			return
		}
	}
	refused, at := []string{}, k.at(n)
	add := func(field, why string) {
		top, _, _ := strings.Cut(field, ".")
		key := n // a default has no key
		for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == top {
				key = n.Content[i]
			}
		}
		if key == nil {
			key = k.Node
		}
		if len(refused) == 0 {
			at = k.at(key)
		}
		refused = append(refused, fmt.Sprintf("%s, line %d (%s)", field, key.Line, why))
	}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if why, ok := notApplied[name]; ok && config[name] != nil {
			add(name, "OpenShift rejects a KubeletConfig with this key: "+why)
		}
	}
	for _, f := range kuberelease.Judge(config, kuberelease.Kubelet{Release: release}).Refused {
		add(f.Field, f.Why)
	}
	t.give(k.item+".refused_values", refused, at)
}

// kubeletConfig is a KubeletConfig and its item.
type kubeletConfig struct {
	document
	item string
}

// unknownKeys returns, with suggestions, the keys that neither a KubeletConfig nor the kubelet of an
// OpenShift version has. release is that version's Kubernetes; 0 accepts the keys of any release.
func unknownKeys(d document, version string, release kuberelease.Release) (unknown []string, at string) {
	unknown, at = []string{}, d.at(d.get("spec", "kubeletConfig"))
	look := func(n *yaml.Node, known []string) {
		n = conf.Aliased(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if slices.Contains(known, key.Value) {
				continue
			}
			if len(unknown) == 0 {
				at = d.at(key)
			}
			why := text.Suggest(key.Value, known)
			if span := kuberelease.Known().FieldSpan(key.Value); span != "" && release != 0 {
				why = fmt.Sprintf(" (of Kubernetes %s; OpenShift %s has %s)", span, version, release)
			}
			unknown = append(unknown, fmt.Sprintf("%s, line %d%s", key.Value, key.Line, why))
		}
	}
	look(d.Node, configKeys)
	look(d.get("spec"), specKeys)
	look(d.get("spec", "kubeletConfig"), kuberelease.Known().Fields(release))
	return unknown, at
}
