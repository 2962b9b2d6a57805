package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
)

// As returns the product for another release: the kubelet's configuration is judged as that release
// reads it.
func As(r kuberelease.Release) product.Product {
	p := Product
	p.Find = func(ctx context.Context, h *host.Host) ([]product.Installed, error) { return findAs(ctx, h, r) }
	return p
}

// releaseInputs are the inputs with answers that depend on the kubelet's release.
var releaseInputs = []fact.Input{
	{Name: "kubelet.fail_cgroup_v1", Type: fact.Truth, Doc: "failCgroupV1, or its default in this release; absent before 1.31"},
	{Name: "kubelet.unknown_gates", Type: fact.List, Doc: "feature gates that this release does not know; absent on OpenShift, whose kubelet ignores them"},
	{Name: "kubelet.locked_gates", Type: fact.List, Doc: "feature gates that this release has locked to another value"},
	{Name: "kubelet.unknown_fields", Type: fact.List, Doc: "fields of the configuration that this release does not have"},
	{Name: "kubelet.refused_values", Type: fact.List, Doc: "values with which a kubelet of this release does not start, except unknown or locked feature gates, failCgroupV1 and memoryThrottlingFactor"},
	{Name: "kubelet.unknown_flags", Type: fact.List, Doc: "flags of the kubelet's command line that other releases have and this release does not; absent on OpenShift, which writes the flags for each release"},
	{Name: "kubelet.skipped_files", Type: fact.List, Doc: "files in the directory of drop-ins that the kubelet does not read, since their names do not end in .conf; absent without such a directory"},
	{Name: "kubelet.memory_throttling_factor", Type: fact.Number, Doc: "memoryThrottlingFactor of the configuration; absent if not set"},
	{Name: "kubelet.memory_qos", Type: fact.Truth, Doc: "whether the feature gate MemoryQoS is on"},
	{Name: "kubelet.hugepage_aware_eviction", Type: fact.Truth, Doc: "whether the feature gate HugepageAwareEviction is on"},
}

// byRelease answers one of releaseInputs; ok is false for other inputs.
func (i *installed) byRelease(input string) (a fact.Answer, ok bool) {
	if !slices.ContainsFunc(releaseInputs, func(in fact.Input) bool { return in.Name == "kubelet."+input }) {
		return fact.Answer{}, false
	}
	switch _, factor := i.document.members["memoryThrottlingFactor"]; {
	case input == "memory_throttling_factor" && !factor:
		return fact.Answer{}, true
	case input == "unknown_flags" && (i.reported || i.openshift):
		return fact.Answer{}, true
	case strings.HasSuffix(input, "_gates") && len(i.gates()) == 0:
		return fact.Answer{Value: []string{}, At: i.config.at}, true // the field's release does not matter
	}
	if input == "skipped_files" {
		if d, ok := i.flag("config-dir"); ok {
			return fact.Answer{Value: append([]string{}, i.skipped...), At: d.value}, true
		}
		return fact.Answer{}, true
	}
	version, _ := i.version.Value.(string)
	r, known := kuberelease.Parse(version)
	if !known {
		return fact.Answer{Unknown: cmp.Or(i.version.Unknown, fmt.Sprintf("%q is not a version of Kubernetes; see kubelet --version", version))}, true
	}
	switch input {
	case "fail_cgroup_v1":
		return i.failCgroupV1(r), true
	case "memory_throttling_factor":
		return i.throttlingFactor(r), true
	case "memory_qos":
		return i.gate("MemoryQoS", r), true
	case "hugepage_aware_eviction":
		return i.gate("HugepageAwareEviction", r), true
	}
	if r < kuberelease.Known().Oldest {
		return fact.Answer{Unknown: fmt.Sprintf("Kubernetes %s is older than the releases that fettle knows, %s to %s", r, kuberelease.Known().Oldest, kuberelease.Known().Newest)}, true
	}
	switch input {
	case "unknown_gates":
		if i.openshift {
			return fact.Answer{}, true
		}
		return i.unknownGates(r), true
	case "unknown_flags":
		return i.unknownFlags(r), true
	case "locked_gates":
		return i.lockedGates(r), true
	case "refused_values":
		return i.refusedValues(r), true
	}
	return i.unknownFields(r), true
}

// gates returns the feature gates that are set, each with its value and position. The command line
// takes precedence over the configuration.
func (i *installed) gates() map[string]told {
	out := map[string]told{}
	if set := i.document.members["featureGates"].fields; set != nil {
		for _, name := range set.names {
			if v := set.members[name]; !v.null {
				out[name] = i.place(v.told)
			}
		}
	}
	for _, from := range []map[string]told{i.flags, i.running} {
		flag, ok := from["--feature-gates"]
		for pair := range strings.SplitSeq(flag.value, ",") {
			if name, value, assigned := strings.Cut(strings.TrimSpace(pair), "="); ok && assigned {
				out[name] = told{value, flag.at}
			}
		}
	}
	return out
}

// place replaces the position of a document's value with its source: FILE:LINE, or the reporting
// node, whose JSON has one line.
func (i *installed) place(v told) told {
	if i.reported {
		v.at = i.config.at
	}
	return v
}

// gate answers whether a feature gate is on in a release. AllAlpha and AllBeta set the gates of
// their stage that are not set individually.
func (i *installed) gate(name string, r kuberelease.Release) fact.Answer {
	known, ok := kuberelease.Known().Gate(name, r)
	if !ok {
		return fact.Answer{Value: false, At: "the default of Kubernetes " + r.String()}
	}
	set := i.gates()
	of, ok := set[name]
	if all := map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[known.Stage]; !ok && all != "" {
		of, ok = set[all]
	}
	if on, err := strconv.ParseBool(of.value); ok && err == nil && !known.Locked {
		return fact.Answer{Value: on, At: of.at}
	}
	return fact.Answer{Value: known.Default, At: "the default of Kubernetes " + r.String()}
}

func (i *installed) unknownGates(r kuberelease.Release) fact.Answer {
	set, gates := i.gates(), kuberelease.Known().Gates(r)
	var out, at []string
	later := ""
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if slices.Contains(gates, name) {
			continue
		}
		why := text.Suggest(name, gates)
		if span := kuberelease.Known().GateSpan(name); span != "" {
			why = " (" + span + ")"
		} else if why == "" {
			later = name
		}
		out = append(out, fmt.Sprintf("%s, %s%s", name, set[name].at, why))
		at = append(at, set[name].at)
	}
	if r > kuberelease.Known().Newest && later != "" {
		return fact.Answer{Unknown: fmt.Sprintf("unknown whether Kubernetes %s has the feature gate %s; this version of fettle knows releases up to %s", r, later, kuberelease.Known().Newest), At: set[later].at}
	}
	return listed(out, at, i.config.at)
}

// unknownFlags answers with the flags that keep a kubelet of this release from starting: those of
// the unit's files, or of the process if it has no unit. A flag that no release has is left out,
// because it may belong to another program of the unit. kubeadm's upgrade to 1.35 removes the
// image of the sandbox from its own file (kubernetes v1.35.4,
// cmd/kubeadm/app/cmd/phases/upgrade/postupgrade.go).
func (i *installed) unknownFlags(r kuberelease.Release) fact.Answer {
	flags := i.flags
	if len(flags) == 0 {
		flags = i.running
	}
	var out, at []string
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		name, isFlag := strings.CutPrefix(key, "--")
		span, has := kuberelease.Known().FlagSpan("kubelet", name, r)
		place := flags[key].at
		kubeadms := i.as != 0 && name == "pod-infra-container-image" && strings.HasPrefix(place, kubeadmFlags)
		if isFlag && !has && span != "" && !kubeadms {
			out, at = append(out, fmt.Sprintf("%s, %s (%s)", key, place, span)), append(at, place)
		}
	}
	return listed(out, at, i.config.at)
}

func (i *installed) lockedGates(r kuberelease.Release) fact.Answer {
	set := i.gates()
	var out, at []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		g, ok := kuberelease.Known().Gate(name, r)
		if on, err := strconv.ParseBool(set[name].value); ok && g.Locked && err == nil && on != g.Default {
			out = append(out, fmt.Sprintf("%s, %s (locked to %t)", name, set[name].at, g.Default))
			at = append(at, set[name].at)
		}
	}
	return listed(out, at, i.config.at)
}

func (i *installed) unknownFields(r kuberelease.Release) fact.Answer {
	var out, at []string
	for _, name := range i.document.names {
		if kuberelease.Known().HasField(name, r) {
			continue
		}
		why := text.Suggest(name, kuberelease.Known().Fields(r))
		if span := kuberelease.Known().FieldSpan(name); span != "" {
			why = " (" + span + ")"
		}
		place := i.place(i.document.members[name].told).at
		out, at = append(out, fmt.Sprintf("%s, %s%s", name, place, why)), append(at, place)
	}
	if r > kuberelease.Known().Newest && len(out) > 0 {
		return fact.Answer{Unknown: fmt.Sprintf("unknown whether Kubernetes %s has the field %s; this version of fettle knows releases up to %s", r, out[0], kuberelease.Known().Newest), At: at[0]}
	}
	return listed(out, at, i.config.at)
}

// refusedValues answers with the values with which the kubelet does not start, except those that
// other inputs cover.
func (i *installed) refusedValues(r kuberelease.Release) fact.Answer {
	config, set := i.document.plain(), i.gates()
	gates := map[string]any{}
	for name, v := range set {
		gates[name] = v.value
	}
	config["featureGates"] = gates
	var out, at []string
	if dir, ok := i.flags["--config-dir"]; ok && !i.dropInGate && i.running["--config-dir"].value == "" && kuberelease.Known().Loads(kuberelease.LoaderGate, r) {
		out, at = append(out, fmt.Sprintf("--config-dir, %s (Kubernetes %s needs %s=on in the kubelet's environment)", dir.at, r, dropInVariable)), append(at, dir.at)
	}
	for _, name := range []string{"cpuManagerPolicy", "topologyManagerPolicy"} {
		if v, ok := i.Option(name).Effective().Get(); ok {
			config[name] = v
		}
	}
	k := kuberelease.Kubelet{Release: r, OpenShift: i.openshift}
	for _, f := range append(kuberelease.Judge(config, k).Refused, kuberelease.JudgeOptions(config, k)...) {
		top, rest, _ := strings.Cut(f.Field, ".")
		place := i.place(i.document.members[top].told).at
		switch known, ok := kuberelease.Known().Gate(rest, r); {
		case top == "memoryThrottlingFactor":
			continue
		case top == "featureGates" && (!ok || known.Locked):
			continue
		case top == "featureGates":
			place = cmp.Or(set[rest].at, i.config.at)
		}
		out, at = append(out, fmt.Sprintf("%s, %s (%s)", f.Field, place, f.Why)), append(at, place)
	}
	return listed(out, at, i.config.at)
}

// listed returns a list answer at the position of its first item, or at config if the list is
// empty.
func listed(out, at []string, config string) fact.Answer {
	return fact.Answer{Value: append([]string{}, out...), At: append(at, config)[0]}
}

// failCgroupV1 answers whether the kubelet refuses to start with cgroup v1.
func (i *installed) failCgroupV1(r kuberelease.Release) fact.Answer {
	if !kuberelease.Known().HasField("failCgroupV1", r) {
		return fact.Answer{}
	}
	for _, from := range []map[string]told{i.running, i.flags} {
		if flag, ok := from["--fail-cgroupv1"]; ok {
			on, err := strconv.ParseBool(flag.value)
			if err != nil {
				return fact.Answer{Unknown: "--fail-cgroupv1 is neither true nor false", At: flag.at}
			}
			return fact.Answer{Value: on, At: flag.at}
		}
	}
	if v, ok := i.document.members["failCgroupV1"]; ok && !v.null {
		v.told = i.place(v.told)
		if a, perhaps := i.perhapsDefault("failCgroupV1", v.told, r); perhaps && a.Unknown != "" {
			return a
		}
		on, err := strconv.ParseBool(v.value)
		if err != nil {
			return fact.Answer{Unknown: "failCgroupV1 is neither true nor false", At: v.at}
		}
		return fact.Answer{Value: on, At: v.at}
	}
	text, _ := kuberelease.Known().Default("failCgroupV1", r)
	return fact.Answer{Value: text == "true", At: "the default of Kubernetes " + r.String()}
}

// throttlingFactor answers with memoryThrottlingFactor as set in a file.
func (i *installed) throttlingFactor(r kuberelease.Release) fact.Answer {
	v, ok := i.document.members["memoryThrottlingFactor"]
	if !ok || v.null {
		return fact.Answer{}
	}
	v.told = i.place(v.told)
	if a, perhaps := i.perhapsDefault("memoryThrottlingFactor", v.told, r); perhaps {
		return a
	}
	n, err := strconv.ParseFloat(v.value, 64)
	if err != nil {
		return fact.Answer{Unknown: fmt.Sprintf("memoryThrottlingFactor: %q is not a number", v.value), At: v.at}
	}
	return fact.Answer{Value: n, At: v.at}
}

// perhapsDefault handles a reported value that equals the default of the kubelet's release, because
// nothing may set it. The answer is absent, or unknown if another release is judged. ok is false
// for other values.
func (i *installed) perhapsDefault(field string, v told, r kuberelease.Release) (fact.Answer, bool) {
	version, _ := i.own.Value.(string)
	own, ok := kuberelease.Parse(version)
	if text, _ := kuberelease.Known().Default(field, own); !i.reported || ok && v.value != text {
		return fact.Answer{}, false
	}
	if own == r {
		return fact.Answer{}, true
	}
	return fact.Answer{Unknown: fmt.Sprintf("%s of %s may be the kubelet's default, which /configz reports like a set value; run fettle check --for %s on the node", field, v.value, r), At: v.at}, true
}

// defaultEvictionHard are the thresholds of a kubelet that configures none. Source:
// k8s.io/kubernetes v1.33.13 and v1.37.2, pkg/kubelet/eviction/defaults_linux.go.
var defaultEvictionHard = []struct{ signal, threshold string }{
	{"memory.available", "100Mi"}, {"nodefs.available", "10%"}, {"nodefs.inodesFree", "5%"}, {"imagefs.available", "15%"}, {"imagefs.inodesFree", "5%"},
}

// fillEviction adds missing thresholds to evictionHard of the main file if
// mergeDefaultEvictionSettings is true; a drop-in's value of that field has no effect. Source:
// k8s.io/kubernetes v1.33.13 to v1.37.2, cmd/kubelet/app/server.go, loadConfigFile.
func (d *document) fillEviction() {
	hard := d.members["evictionHard"].fields
	if merge := d.members["mergeDefaultEvictionSettings"]; hard == nil || merge.value != "true" {
		return
	}
	for _, def := range defaultEvictionHard {
		if _, ok := hard.members[def.signal]; !ok {
			hard.set(def.signal, value{told: told{def.threshold, "the kubelet's default (mergeDefaultEvictionSettings)"}})
		}
	}
}
