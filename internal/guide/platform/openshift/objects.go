package openshift

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/unit"
)

// version reads the cluster's version.
func (t *collector) version(d document) {
	for _, keys := range [][]string{{"status", "desired", "version"}, {"spec", "desiredUpdate", "version"}} {
		if n := d.get(keys...); n != nil && n.Kind == yaml.ScalarNode && n.Value != "" {
			t.give("version", n.Value, d.at(n))
			return
		}
	}
}

// featureGate reads the features that the cluster's FeatureGate enables. The cluster ignores
// FeatureGates with other names.
func (t *collector) featureGate(d document) {
	if d.text("metadata", "name") != "cluster" {
		return
	}
	t.give("feature_set", "", d.at(d.get("spec")))
	t.words(d, "feature_set", "spec", "featureSet")
	on := d.get("spec", "customNoUpgrade", "enabled")
	features := []string{}
	for _, f := range list(on) {
		features = append(features, f.Value)
	}
	t.give("features", features, d.at(on))
}

// kubelet reads a KubeletConfig.
func (t *collector) kubelet(d document) {
	item := t.item(kubelets, d)
	for input, key := range map[string]string{"max_pods": "maxPods", "pods_per_core": "podsPerCore", "qps": "kubeAPIQPS", "burst": "kubeAPIBurst"} {
		t.number(d, item+"."+input, "spec", "kubeletConfig", key)
	}
	if d.get("spec", "kubeletConfig", "maxPods") != nil {
		t.limits++
	}
	t.words(d, item+".cpu_manager", "spec", "kubeletConfig", "cpuManagerPolicy")
	t.duration(d, item+".reconcile_s", "spec", "kubeletConfig", "cpuManagerReconcilePeriod")
	t.words(d, item+".topology", "spec", "kubeletConfig", "topologyManagerPolicy")
	t.kubelets = append(t.kubelets, kubeletConfig{d, item})
}

// allMachines is the role and type in a health check without a selector: it covers every machine,
// including the control plane.
const allMachines = "*"

// empty reports whether a mapping has no entries.
func empty(n *yaml.Node) bool { return n == nil || n.Kind == yaml.MappingNode && len(n.Content) == 0 }

// healthCheck reads a MachineHealthCheck.
func (t *collector) healthCheck(d document) {
	item := t.item(checks, d)
	var whole int32
	if n := d.get("spec", "maxUnhealthy"); n != nil && n.Tag == "!!int" && n.Decode(&whole) == nil { // 0x3, 010
		t.give(item+".max_unhealthy", strconv.Itoa(int(whole)), d.at(n))
	} else {
		t.words(d, item+".max_unhealthy", "spec", "maxUnhealthy")
	}
	t.number(d, item+".machines", "status", "expectedMachines")
	t.words(d, item+".role", "spec", "selector", "matchLabels", "machine.openshift.io/cluster-api-machine-role")
	t.words(d, item+".type", "spec", "selector", "matchLabels", "machine.openshift.io/cluster-api-machine-type")
	if selector := d.get("spec", "selector"); len(list(get(selector, "matchExpressions"))) == 0 && empty(get(selector, "matchLabels")) {
		t.give(item+".role", allMachines, d.at(selector))
		t.give(item+".type", allMachines, d.at(selector))
	}
	t.duration(d, item+".startup_s", "spec", "nodeStartupTimeout")
	conditions := []string{}
	where := d.get("spec", "unhealthyConditions")
	shortest, longest := -1.0, -1.0
	var wrong error
	for _, c := range list(where) {
		if status := get(c, "status"); status != nil && status.Tag != "!!str" { // status: False
			wrong = fmt.Errorf("spec.unhealthyConditions: status: %w", notText(status))
		}
		conditions = append(conditions, openshiftText(c, "type")+"="+openshiftText(c, "status"))
		timeout := get(c, "timeout")
		seconds, err := 0.0, error(nil) // without a timeout the controller acts at once
		if timeout != nil {
			if seconds, err = goDuration(openshiftText(c, "timeout")); err == nil && timeout.Tag != "!!str" {
				err = notText(timeout)
			}
		}
		if err != nil {
			t.unclear(item+".shortest_s", d.at(timeout), err)
			t.unclear(item+".longest_s", d.at(timeout), err)
			shortest = -1
			break
		}
		if shortest < 0 || seconds < shortest {
			shortest = seconds
		}
		longest = max(longest, seconds)
	}
	if wrong != nil {
		t.unclear(item+".conditions", d.at(where), wrong)
	} else {
		t.give(item+".conditions", conditions, d.at(where))
	}
	if shortest >= 0 {
		t.give(item+".shortest_s", shortest, d.at(where))
		t.give(item+".longest_s", longest, d.at(where))
	}
}

// profiles holds the profiles that Tuned objects define and recommend.
type profiles struct {
	defined   map[string]bool
	recommend map[string][]string // by item
	at        map[string]string
}

func newProfiles() profiles {
	return profiles{map[string]bool{}, map[string][]string{}, map[string]string{}}
}

// supplied are the operator's own profiles; TuneD's are not listed.
var supplied = []string{"openshift", "openshift-node", "openshift-control-plane"}

// tuned reads a Tuned object. The operator's own objects, default and rendered, must not be changed.
func (t *collector) tuned(d document) {
	name := d.text("metadata", "name")
	for _, p := range list(d.get("spec", "profile")) {
		t.profiles.defined[openshiftText(p, "name")] = true
	}
	if name == "default" || name == "rendered" {
		return
	}
	item := t.item(tuneds, d)
	used := []string{}
	for _, p := range list(d.get("spec", "profile")) {
		t.profileOf(openshiftText(p, "data"), d.at(get(p, "data")))
		for _, plugin := range plugins(openshiftText(p, "data")) {
			if !slices.Contains(used, plugin) {
				used = append(used, plugin)
			}
		}
	}
	slices.Sort(used)
	t.give(item+".plugins", used, d.at(d.get("spec", "profile")))
	where := d.get("spec", "recommend")
	if where == nil {
		return
	}
	highest, pods := -1.0, false
	for _, r := range list(where) {
		n, err := strconv.Atoi(openshiftText(r, "priority"))
		if err != nil {
			t.unclear(item+".priority", d.at(r), fmt.Errorf("a recommendation lacks a priority"))
			return
		}
		highest = max(highest, float64(n))
		pods = pods || matchesPods(get(r, "match"), 0)
		if p := openshiftText(r, "profile"); p != "" && len(list(d.get("spec", "profile"))) > 0 {
			t.profiles.recommend[item] = append(t.profiles.recommend[item], p)
			t.profiles.at[item] = d.at(get(r, "profile"))
		}
	}
	if highest >= 0 {
		t.give(item+".priority", highest, d.at(where))
		t.give(item+".pod_labels", pods, d.at(where))
	}
}

// matchesPods reports whether a list of matches, including nested ones, has pod labels.
func matchesPods(n *yaml.Node, depth int) bool {
	return depth < 16 && slices.ContainsFunc(list(n), func(m *yaml.Node) bool {
		return openshiftText(m, "type") == "pod" || matchesPods(get(m, "match"), depth+1)
	})
}

// plugins returns the plug-ins in a TuneD profile: each section's type, or its name.
func plugins(profile string) []string {
	var out []string
	section := func() *string { return &out[len(out)-1] }
	for line := range strings.Lines(profile) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok && strings.HasSuffix(name, "]") {
			out = append(out, strings.TrimSpace(strings.TrimSuffix(name, "]")))
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "type" && len(out) > 0 {
			*section() = strings.TrimSpace(value)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool {
		return s == "main" || s == "variables" || s == "" || strings.ContainsFunc(s, unicode.IsControl)
	})
}

// finishProfiles answers with the undefined profiles that an object recommends, for objects that
// define profiles. Other objects refer to TuneD's own.
func (t *collector) finishProfiles() {
	for item, wanted := range t.profiles.recommend {
		missing := []string{}
		for _, p := range wanted {
			if !t.profiles.defined[p] && !slices.Contains(supplied, p) {
				missing = append(missing, p)
			}
		}
		t.give(item+".missing", missing, t.profiles.at[item])
	}
}

// monitoring reads retention, volumes and memory of cluster monitoring.
func (t *collector) monitoring(d document) {
	at := d.at(d.get("data", "config.yaml"))
	t.give("monitoring.document", true, at)
	t.sized = sized{d.sizedFor("nodes"), d.sizedFor("pods")}
	inner, err := d.within("data", "config.yaml")
	if err != nil {
		for _, input := range []string{"retention_days", "prometheus_bytes", "prometheus_memory_bytes", "alertmanager_bytes"} {
			t.unclear("monitoring."+input, at, fmt.Errorf("config.yaml: %w", err))
		}
		return
	}
	days := func(text string) (float64, error) {
		s, err := duration(text)
		return s / 86400, err
	}
	t.measure(inner, "monitoring.retention_days", days, "prometheusK8s", "retention")
	t.measure(inner, "monitoring.prometheus_memory_bytes", unit.ParseQuantity, "prometheusK8s", "resources", "limits", "memory")
	for input, part := range map[string]string{"prometheus_bytes": "prometheusK8s", "alertmanager_bytes": "alertmanagerMain"} {
		t.give("monitoring."+input, 0.0, at)
		t.measure(inner, "monitoring."+input, unit.ParseQuantity, part, "volumeClaimTemplate", "spec", "resources", "requests", "storage")
	}
}
