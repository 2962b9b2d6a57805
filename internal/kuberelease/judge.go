package kuberelease

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
)

// Kubelet describes the kubelet that would run a configuration.
type Kubelet struct {
	Release Release
	// OpenShift reports whether it is OpenShift's kubelet, which warns about unknown feature gates
	// and starts anyway.
	OpenShift bool
	// Cgroup is the machine's control group version, 1 or 2, or 0 if unknown.
	Cgroup int
}

// KubeletOf returns the kubelet with a version such as v1.31.4+b49f9d1. For an invalid version
// the release is 0, and nothing is judged.
func KubeletOf(version string) Kubelet {
	r, _ := Parse(version)
	return Kubelet{Release: r, OpenShift: openshiftBuild(version)}
}

// Finding is one field that a release rejects, ignores or reads differently. Field is its name in
// the file, such as memorySwap.swapBehavior or featureGates.MemoryQoS.
type Finding struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

func (f Finding) String() string { return f.Field + ": " + f.Why }

// Verdict lists the effects of a configuration in one release.
type Verdict struct {
	// Refused are values with which the kubelet does not start.
	Refused []Finding `json:"refused,omitempty"`
	// Ignored are fields that the release ignores, because it does not have them.
	Ignored []Finding `json:"ignored,omitempty"`
	// Changed are values that had no effect in earlier releases.
	Changed []Finding `json:"changed,omitempty"`
	// Unknown are fields and gates that cannot be judged because the release is newer than all
	// known ones.
	Unknown []Finding `json:"unknown,omitempty"`
}

// Judge checks a KubeletConfiguration, or some of its fields, for a kubelet; config is decoded
// JSON. It checks only the fields, feature gates and values whose meaning depends on the release.
// For releases older than the known ones the verdict is empty.
func Judge(config map[string]any, k Kubelet) Verdict {
	table := Known()
	j := &checker{table: table, kubelet: k, config: config, gates: map[string]bool{}}
	if k.Release < table.Oldest {
		return Verdict{}
	}
	j.fields()
	j.featureGates()
	for _, v := range valueChecks {
		top, _, _ := strings.Cut(v.field, ".")
		if k.Release < v.first || v.last != 0 && k.Release > v.last || !table.HasField(top, k.Release) {
			continue
		}
		if why := v.check(j, strings.Split(v.field, ".")); why != "" {
			j.out.Refused = append(j.out.Refused, Finding{v.field, why})
		}
	}
	if k.Release >= 37 && j.set("memoryThrottlingFactor") && j.on("MemoryQoS") {
		j.out.Changed = append(j.out.Changed, Finding{"memoryThrottlingFactor", "from Kubernetes 1.37 on, with MemoryQoS, this sets memory.high of Burstable and BestEffort containers and slows them near their limit; remove it unless intended"})
	}
	for _, all := range [][]Finding{j.out.Refused, j.out.Ignored} {
		slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Field, b.Field) })
	}
	return j.out
}

// checker collects the findings of one configuration.
type checker struct {
	table   *Releases
	kubelet Kubelet
	config  map[string]any
	gates   map[string]bool // explicitly set gates
	out     Verdict
}

// fields finds fields that the release does not have.
func (j *checker) fields() {
	r := j.kubelet.Release
	for _, name := range slices.Sorted(maps.Keys(j.config)) {
		switch span := j.table.FieldSpan(name); {
		case j.table.HasField(name, r):
		case r > j.table.Newest && span == "":
			j.out.Unknown = append(j.out.Unknown, Finding{name, fmt.Sprintf("unknown for Kubernetes %s: the newest known release is %s", r, j.table.Newest)})
		case span != "":
			j.out.Ignored = append(j.out.Ignored, Finding{name, fmt.Sprintf("Kubernetes %s does not have this field (%s); the kubelet ignores it", r, span)})
		default:
			j.out.Ignored = append(j.out.Ignored, Finding{name, fmt.Sprintf("Kubernetes has no such field; the kubelet ignores it%s", text.Suggest(name, j.table.Fields(r)))})
		}
	}
}

// featureGates finds gates that the release does not have or has locked, and gates whose
// required gates are off.
func (j *checker) featureGates() {
	r := j.kubelet.Release
	set, _ := j.config["featureGates"].(map[string]any)
	reject := func(name, format string, args ...any) {
		j.out.Refused = append(j.out.Refused, Finding{"featureGates." + name, fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] == nil {
			continue
		}
		on, err := strconv.ParseBool(fmt.Sprint(set[name]))
		if err != nil {
			reject(name, "want true or false, found %.40v", set[name])
			continue
		}
		g, known := j.table.Gate(name, r)
		span := j.table.GateSpan(name)
		switch {
		case known && g.Locked && on != g.Default:
			reject(name, "locked to %t in Kubernetes %s; remove it", g.Default, r)
		case known:
			j.gates[name] = on
		case j.kubelet.OpenShift: // OpenShift's kubelet ignores it
		case r > j.table.Newest && span == "":
			j.out.Unknown = append(j.out.Unknown, Finding{"featureGates." + name, fmt.Sprintf("unknown for Kubernetes %s: the newest known release is %s", r, j.table.Newest)})
		case span != "":
			reject(name, "Kubernetes %s does not have this feature gate (%s); remove it", r, span)
		default:
			reject(name, "Kubernetes has no such feature gate%s", text.Suggest(name, j.table.Gates(r)))
		}
	}
	for _, name := range j.table.Gates(r) {
		if !j.on(name) {
			continue
		}
		for _, needed := range j.table.Needs(name, r) {
			if _, known := j.table.Gate(needed, r); known && !j.on(needed) {
				reject(name, "needs the feature gate %s, which is off", needed)
			}
		}
	}
}

// on reports whether a feature gate is on. AllAlpha and AllBeta set the gates of their stage that
// the configuration does not set.
func (j *checker) on(name string) bool {
	g, known := j.table.Gate(name, j.kubelet.Release)
	if on, ok := j.gates[name]; ok || !known {
		return on
	}
	if on, ok := j.gates[map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[g.Stage]]; ok && !g.Locked {
		return on
	}
	return g.Default
}

// at returns the value at a path, or nil if the configuration lacks it.
func (j *checker) at(path ...string) any {
	var v any = j.config
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (j *checker) set(path ...string) bool { return j.at(path...) != nil }

// text returns a scalar as text, a list joined with commas, and "" for anything else.
func (j *checker) text(path ...string) string {
	switch v := j.at(path...).(type) {
	case nil, map[string]any:
		return ""
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, fmt.Sprint(item))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// span returns a duration, or 0 if it is missing or invalid.
func (j *checker) span(path ...string) time.Duration {
	d, _ := time.ParseDuration(j.text(path...))
	return d
}

// number returns a number; ok is false if it is missing or not a number.
func (j *checker) number(path ...string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(j.text(path...), 64)
	return n, err == nil
}

// isTrue reports whether a field is true; standard is its default.
func (j *checker) isTrue(standard bool, path ...string) bool {
	on, err := strconv.ParseBool(j.text(path...))
	if err != nil {
		return standard
	}
	return on
}

// needs returns the reason that a value is rejected while its feature gate is off, or "" if the
// gate is on.
func (j *checker) needs(gate string) string {
	if j.on(gate) {
		return ""
	}
	g, known := j.table.Gate(gate, j.kubelet.Release)
	if !known {
		return fmt.Sprintf("needs the feature gate %s, which Kubernetes %s does not have", gate, j.kubelet.Release)
	}
	return fmt.Sprintf("needs the feature gate %s, which is off (%s in Kubernetes %s): set it to true in featureGates, or remove the value", gate, g.Stage, j.kubelet.Release)
}
