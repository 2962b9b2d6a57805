package compliance

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Requirement is a setting that a rule requires.
type Requirement struct {
	Rule    string          `json:"rule"`
	Result  string          `json:"result"`
	Setting setting.Setting `json:"setting"`
	// Allowed are the values that fulfill the rule: "0", or with a comparison ">=1". It is empty if
	// the document does not have them: then the setting must stay as it is.
	Allowed []string `json:"allowed,omitempty"`
}

// Short returns the rule's id without the prefix of its benchmark.
func (r *Requirement) Short() string {
	if _, short, ok := strings.Cut(r.Rule, "_rule_"); ok {
		return short
	}
	return r.Rule
}

// Requirements returns what the selected rules require of settings, and the number of selected
// rules that name no setting which fettle could change. h is the machine; it is needed only for a
// document without checks, whose rules name a kernel variable with underscores.
func (d *Document) Requirements(h *host.Host) (all []Requirement, others int) {
	for i := range d.Rules {
		r := &d.Rules[i]
		if !r.required() {
			continue
		}
		var found []Requirement
		if d.Checks {
			seen := map[string]bool{}
			for _, c := range r.checks {
				found = append(found, d.ofDefinition(r, c, false, seen)...)
			}
		} else if q, ok := d.byName(h, r); ok {
			found = append(found, q)
		}
		if len(found) == 0 {
			others++
		}
		for _, q := range found {
			if !slices.ContainsFunc(all, func(o Requirement) bool { return o.Rule == q.Rule && o.Setting == q.Setting }) {
				all = append(all, q)
			}
		}
	}
	return all, others
}

// ofDefinition follows a definition to its tests. Alternatives (OR) count like conditions: a value
// that one of them requires fulfills the rule.
func (d *Document) ofDefinition(r *RuleResult, id string, negated bool, seen map[string]bool) (out []Requirement) {
	if seen[id] || len(seen) > maxExtends {
		return nil
	}
	seen[id] = true
	for _, c := range d.defs[id] {
		negated := negated != c.negated
		if c.extends != "" {
			out = append(out, d.ofDefinition(r, c.extends, negated, seen)...)
			continue
		}
		t, ok := d.tests[c.test]
		if !ok {
			continue
		}
		o := d.objects[t.object]
		if o.unsure {
			continue
		}
		allowed := d.allowed(r, t)
		if negated || t.negative {
			allowed = nil
		}
		switch {
		case o.sysctl != "":
			if p, err := setting.SysctlPath(o.sysctl); err == nil && !strings.ContainsAny(o.sysctl, "*?[ \t\n") {
				out = append(out, Requirement{r.ID, r.Result, setting.Setting{Kind: "sysctl", Name: setting.SysctlName(p)}, allowed})
			}
		case o.unit != "":
			for _, name := range unitNames(o.unit) {
				out = append(out, unitRequirements(r, name, o.property, allowed)...)
			}
		}
	}
	return out
}

// unitRequirements returns the settings of a unit that its property depends on.
func unitRequirements(r *RuleResult, name, property string, allowed []string) []Requirement {
	aspect, known := "enabled", []string(nil)
	switch property {
	case "ActiveState":
		aspect = "active"
		if slices.Contains(allowed, "active") {
			known = []string{"active"}
		} else if slices.Contains(allowed, "inactive") {
			known = []string{"inactive"}
		}
	case "UnitFileState":
		known = allowed
	case "LoadState": // masked: neither enabled nor active is right
	default:
		return nil
	}
	return []Requirement{{r.ID, r.Result, setting.Setting{Kind: "unit", Name: name + "/" + aspect}, known}}
}

var (
	unitName    = text.LazyRegexp(`^[A-Za-z0-9:_.@-]+\.(service|socket|timer)$`)
	unitPattern = text.LazyRegexp(`^\^?([A-Za-z0-9:_@-]+)\\\.(?:\(([a-z|]+)\)|([a-z]+))\$?$`)
)

// unitNames returns the units of a name or of a pattern like ^autofs\.(service|socket)$. Other
// patterns name no unit.
func unitNames(name string) (out []string) {
	const most = 255 // characters of a unit's name (systemd.unit(5))
	if len(name) > most {
		return nil
	}
	if unitName().MatchString(name) {
		return []string{name}
	}
	m := unitPattern().FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	for _, suffix := range strings.Split(m[2]+m[3], "|") {
		if n := m[1] + "." + suffix; unitName().MatchString(n) {
			out = append(out, n)
		}
	}
	return out
}

// comparisons maps the operations of OVAL to the form of Requirement.Allowed.
var comparisons = map[string]string{"equals": "", "greater than or equal": ">=", "less than or equal": "<="}

// allowed returns the values of a test's states. It returns nil if one of them is unknown.
func (d *Document) allowed(r *RuleResult, t test) (out []string) {
	if len(t.states) > 1 && !t.any {
		return nil // all of several states at once
	}
	for _, id := range t.states {
		s, ok := d.states[id]
		compare, known := comparisons[s.op]
		if !ok || !known {
			return nil
		}
		if s.variable != "" {
			if s.value, ok = d.values[r.exports[s.variable]]; !ok {
				return nil
			}
		}
		if s.value = strings.Join(strings.Fields(s.value), " "); s.value == "" || strings.ContainsAny(s.value, "[]|=<>") {
			return nil
		}
		out = append(out, compare+s.value)
	}
	return out
}

// byName returns the requirement of a rule without checks. Its id has the name of the variable, with
// an underscore for each separator; the name counts if exactly one variable of the machine fits. The
// value is that of the only exported XCCDF value, if the document compares it with equals.
func (d *Document) byName(h *host.Host, r *RuleResult) (Requirement, bool) {
	_, name, ok := strings.Cut(r.ID, "_rule_sysctl_")
	if !ok || len(name) > 200 {
		return Requirement{}, false
	}
	found := variables(h, "/proc/sys", name, 0)
	if len(found) != 1 {
		return Requirement{}, false
	}
	q := Requirement{Rule: r.ID, Result: r.Result, Setting: setting.Setting{Kind: "sysctl", Name: setting.SysctlName(found[0])}}
	if len(r.exports) == 1 {
		for _, id := range r.exports {
			if v, ok := d.values[id]; ok && d.operator[id] == "equals" && v != "" && !strings.ContainsAny(v, "[]|=<>\n") {
				q.Allowed = []string{v}
			}
		}
	}
	return q, true
}

// variables returns the files below dir whose path is name with underscores as separators.
func variables(h *host.Host, dir, name string, depth int) (out []string) {
	entries, err := h.Files.ReadDir(dir)
	if err != nil || depth > 8 {
		return nil
	}
	for _, e := range entries {
		plain := strings.NewReplacer(".", "_", "-", "_").Replace(e.Name())
		if rest, ok := strings.CutPrefix(name, plain+"_"); ok && e.IsDir() {
			out = append(out, variables(h, dir+"/"+e.Name(), rest, depth+1)...)
		} else if plain == name && !e.IsDir() {
			out = append(out, dir+"/"+e.Name())
		}
	}
	return out
}
