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

// Kubelet is the kubelet that a configuration is judged for.
type Kubelet struct {
	Release Release
	// OpenShift is set for the kubelets of OpenShift, which warn of feature gates that they
	// do not know and start.
	OpenShift bool
	// Cgroup is the version of the machine's control groups, 1 or 2; 0 where it is not known.
	Cgroup int
}

// KubeletOf is the kubelet of a version, v1.31.4+b49f9d1; a version that cannot be read has
// the release 0, and nothing is judged.
func KubeletOf(version string) Kubelet {
	r, _ := Parse(version)
	return Kubelet{Release: r, OpenShift: openshiftBuild(version)}
}

// Finding is what a release makes of a field, named as in the file: memorySwap.swapBehavior,
// featureGates.MemoryQoS.
type Finding struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

func (f Finding) String() string { return f.Field + ": " + f.Why }

// Verdict is what a release makes of a configuration.
type Verdict struct {
	// Refused keeps the kubelet from starting.
	Refused []Finding `json:"refused,omitempty"`
	// Ignored are fields that the release does not have, and passes over.
	Ignored []Finding `json:"ignored,omitempty"`
	// Changed are values that did nothing in earlier releases.
	Changed []Finding `json:"changed,omitempty"`
	// Unknown is what cannot be said of a release that is newer than those known here.
	Unknown []Finding `json:"unknown,omitempty"`
}

// Judge says what a kubelet makes of a configuration: a KubeletConfiguration, or fields of
// one, as JSON has them. It knows the fields, feature gates and values whose meaning
// depends on the release; other values are not looked at. Nothing is said of releases older
// than those known here.
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
		j.out.Changed = append(j.out.Changed, Finding{"memoryThrottlingFactor", "it sets memory.high of Burstable and BestEffort containers from Kubernetes 1.37 on, where MemoryQoS is on, and slows them down near their limit: remove it, unless that is meant"})
	}
	for _, all := range [][]Finding{j.out.Refused, j.out.Ignored} {
		slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Field, b.Field) })
	}
	return j.out
}

// checker is a judgement in the making.
type checker struct {
	table   *Releases
	kubelet Kubelet
	config  map[string]any
	gates   map[string]bool // as they are set
	out     Verdict
}

// fields finds those that the release does not have.
func (j *checker) fields() {
	r := j.kubelet.Release
	for _, name := range slices.Sorted(maps.Keys(j.config)) {
		switch span := j.table.FieldSpan(name); {
		case j.table.HasField(name, r):
		case r > j.table.Newest && span == "":
			j.out.Unknown = append(j.out.Unknown, Finding{name, fmt.Sprintf("whether Kubernetes %s has this field is not known: the newest release known here is %s", r, j.table.Newest)})
		case span != "":
			j.out.Ignored = append(j.out.Ignored, Finding{name, fmt.Sprintf("Kubernetes %s does not have this field (%s): the kubelet passes over it", r, span)})
		default:
			j.out.Ignored = append(j.out.Ignored, Finding{name, fmt.Sprintf("Kubernetes has no such field: the kubelet passes over it%s", text.Suggest(name, j.table.Fields(r)))})
		}
	}
}

// featureGates finds those that the release does not know, has locked, or has on without
// what they need.
func (j *checker) featureGates() {
	r := j.kubelet.Release
	set, _ := j.config["featureGates"].(map[string]any)
	refuse := func(name, format string, args ...any) {
		j.out.Refused = append(j.out.Refused, Finding{"featureGates." + name, fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] == nil {
			continue
		}
		on, err := strconv.ParseBool(fmt.Sprint(set[name]))
		if err != nil {
			refuse(name, "want true or false, found %.40v", set[name])
			continue
		}
		g, known := j.table.Gate(name, r)
		span := j.table.GateSpan(name)
		switch {
		case known && g.Locked && on != g.Default:
			refuse(name, "it is locked to %t in Kubernetes %s: remove it", g.Default, r)
		case known:
			j.gates[name] = on
		case j.kubelet.OpenShift: // which passes over it
		case r > j.table.Newest && span == "":
			j.out.Unknown = append(j.out.Unknown, Finding{"featureGates." + name, fmt.Sprintf("whether Kubernetes %s has this feature gate is not known: the newest release known here is %s", r, j.table.Newest)})
		case span != "":
			refuse(name, "Kubernetes %s does not know this feature gate (%s): remove it", r, span)
		default:
			refuse(name, "Kubernetes has no such feature gate%s", text.Suggest(name, j.table.Gates(r)))
		}
	}
	for _, name := range j.table.Gates(r) {
		if !j.on(name) {
			continue
		}
		for _, needed := range j.table.Needs(name, r) {
			if _, known := j.table.Gate(needed, r); known && !j.on(needed) {
				refuse(name, "it needs the feature gate %s, which is off", needed)
			}
		}
	}
}

// on reports whether a feature gate is on. AllAlpha and AllBeta set those of their stage
// that are not set themselves.
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

// at is the value at a path; nil where there is none.
func (j *checker) at(path ...string) any {
	var v any = j.config
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (j *checker) set(path ...string) bool { return j.at(path...) != nil }

// text is a scalar as text, a list with commas; "" where there is neither.
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

// span is a time; 0 where there is none.
func (j *checker) span(path ...string) time.Duration {
	d, _ := time.ParseDuration(j.text(path...))
	return d
}

// number is a number; false where there is none.
func (j *checker) number(path ...string) (float64, bool) {
	n, err := strconv.ParseFloat(j.text(path...), 64)
	return n, err == nil
}

// isTrue reports whether a field is true, or not set and true by default.
func (j *checker) isTrue(standard bool, path ...string) bool {
	on, err := strconv.ParseBool(j.text(path...))
	if err != nil {
		return standard
	}
	return on
}

// needs is the refusal of a value whose feature gate is off; "" where it is on.
func (j *checker) needs(gate string) string {
	if j.on(gate) {
		return ""
	}
	g, known := j.table.Gate(gate, j.kubelet.Release)
	if !known {
		return fmt.Sprintf("it needs the feature gate %s, which Kubernetes %s does not know", gate, j.kubelet.Release)
	}
	return fmt.Sprintf("it needs the feature gate %s, which is off (%s in Kubernetes %s): set it to true in featureGates, or remove the value", gate, g.Stage, j.kubelet.Release)
}
