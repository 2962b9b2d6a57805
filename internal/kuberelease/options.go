package kuberelease

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Option returns the stage of an option of a manager's policy in a release: alpha, beta or ga. It
// reports false if the release does not have it. The field is cpuManagerPolicyOptions or
// topologyManagerPolicyOptions.
func (r *Releases) Option(field, name string, of Release) (stage string, ok bool) {
	return r.at(r.options[field+" "+name], of)
}

// Options returns the names of the options that a field has in a release.
func (r *Releases) Options(field string, of Release) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(r.options)) {
		if name, ok := strings.CutPrefix(key, field+" "); ok {
			if _, ok := r.Option(field, name, of); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// OptionGate returns the feature gate that an option of a field needs in a stage.
func OptionGate(field, stage string) string {
	manager := map[string]string{"cpuManagerPolicyOptions": "CPUManagerPolicy", "topologyManagerPolicyOptions": "TopologyManagerPolicy"}[field]
	return map[string]string{"alpha": manager + "AlphaOptions", "beta": manager + "BetaOptions", "ga": ""}[stage]
}

// JudgeOptions returns the options of the CPU and topology managers with which a kubelet does not
// start: those that its release does not have, or whose feature gate is off. The CPU manager
// without the policy static takes none; the topology manager without a policy reads none. For
// releases older than the known ones it returns nothing.
// Source: k8s.io/kubernetes v1.29.14 to v1.37.2, pkg/kubelet/cm, policy_options.go and
// policy_none.go of cpumanager, topology_manager.go and policy_options.go of topologymanager.
func JudgeOptions(config map[string]any, k Kubelet) (out []Finding) {
	table := Known()
	if k.Release < table.Oldest {
		return nil
	}
	j := &checker{table: table, kubelet: k, config: config, gates: map[string]bool{}}
	j.featureGates()
	for _, field := range []string{"cpuManagerPolicyOptions", "topologyManagerPolicyOptions"} {
		set, _ := j.at(field).(map[string]any)
		policy := j.text(strings.TrimSuffix(field, "Options"))
		switch {
		case len(set) == 0, strings.HasPrefix(field, "topology") && (policy == "" || policy == "none"):
			continue
		case strings.HasPrefix(field, "cpu") && policy != "static":
			out = append(out, Finding{field, "the policy none does not accept options; set cpuManagerPolicy to static, or remove the options"})
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			stage, ok := table.Option(field, name, k.Release)
			gate, why := OptionGate(field, stage), ""
			switch {
			case !ok && k.Release > table.Newest && table.options[field+" "+name] == nil:
			case !ok:
				why = fmt.Sprintf("Kubernetes %s has no such option%s", k.Release, text.Suggest(name, table.Options(field, k.Release)))
				if span := table.spanText(table.options[field+" "+name]); span != "" {
					why = fmt.Sprintf("Kubernetes %s does not have this option (%s)", k.Release, span)
				}
			case gate != "":
				why = j.needs(gate)
			}
			if why != "" {
				out = append(out, Finding{field + "." + name, why})
			}
		}
	}
	return out
}
