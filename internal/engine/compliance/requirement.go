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

// Requirements returns the values of settings that the selected rules require. others is the number
// of selected rules that name no setting which fettle can change. The values on the machine h
// decide between alternatives. h also resolves setting names of documents without checks, in which
// underscores replace other characters.
func (d *Document) Requirements(h *host.Host) (all []Requirement, others int) {
	seen := map[string]bool{} // rules with several results are merged
	for i := range d.Rules {
		r := &d.Rules[i]
		if !r.required() {
			continue
		}
		w := walk{Document: d, host: h, rule: r}
		var found []Requirement
		for _, c := range r.checks {
			if root, ok := d.defs[c]; ok {
				for _, q := range w.requirements(root, false) {
					found = join(found, q, false)
				}
			}
		}
		if !w.named {
			found = d.byName(h, r)
		}
		if len(found) == 0 {
			others++
		}
		for _, q := range found {
			if seen[r.ID] {
				all = join(all, q, false)
			} else {
				all = append(all, q)
			}
		}
		seen[r.ID] = true
	}
	return all, others
}

// ofTest returns the requirements of a test.
func (w *walk) ofTest(id string, negated bool) (out []Requirement) {
	t, ok := w.tests[id]
	if w.visits++; !ok || w.visits > maxVisits {
		return nil
	}
	opposite := negated || t.negative
	switch t.kind {
	case "sysctl":
		if name, ok := w.sysctlOf(t); ok {
			p, err := setting.SysctlPath(name)
			if err != nil {
				return nil
			}
			out = []Requirement{w.requirement("sysctl", setting.SysctlName(p), w.allowed(t, "value"))}
		}
	case "systemdunitproperty":
		out = w.ofUnit(t)
	case "systemdunitdependency":
		out = w.ofDependency(t)
	case "textfilecontent54":
		out = w.ofText(t)
	}
	for i := range out {
		w.named = true
		if opposite {
			out[i].Allowed = nil
		}
	}
	return out
}

func (w *walk) requirement(kind, name string, allowed []string) Requirement {
	return Requirement{w.rule.ID, w.rule.Result, setting.Setting{Kind: kind, Name: name}, allowed}
}

// sysctlOf returns the kernel variable that a test names exactly.
func (w *walk) sysctlOf(t test) (string, bool) {
	name, ok := w.exact(w.objects[t.object], "name")
	return name, ok && !strings.ContainsAny(name, "*?[= \t\n")
}

// exact returns a part of an object that is compared with equals.
func (w *walk) exact(e entities, name string) (string, bool) {
	_, unsure := e[""]
	part := e[name]
	return part.value, !unsure && part.op == "equals" && part.variable == "" && part.value != ""
}

// ofUnit returns the settings of units whose property a test compares.
func (w *walk) ofUnit(t test) (out []Requirement) {
	o := w.objects[t.object]
	property, ok := w.exact(o, "property")
	unit := o["unit"]
	if !ok || unit.variable != "" || unit.op != "equals" && unit.op != "pattern match" {
		return nil
	}
	allowed := w.allowed(t, "value")
	for _, name := range unitNames(unit.value) {
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
		out = append(out, w.requirement("unit", name+"/"+aspect, known))
	}
	return out
}

// ofDependency returns the units that a target must start, so they must be enabled.
func (w *walk) ofDependency(t test) (out []Requirement) {
	if target, ok := w.exact(w.objects[t.object], "unit"); !ok || !strings.HasSuffix(target, ".target") {
		return nil
	}
	for _, name := range w.allowed(t, "dependency") {
		if unitName().MatchString(name) {
			out = append(out, w.requirement("unit", name+"/enabled", []string{"enabled"}))
		}
	}
	return out
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

// allowed returns the values of a part of a test's states. It returns nil if one of them is
// unknown.
func (w *walk) allowed(t test, part string) (out []string) {
	if len(t.states) > 1 && !t.any {
		return nil // all of several states at once
	}
	for _, id := range t.states {
		e, ok := w.states[id][part]
		compare, known := comparisons[e.op]
		if !ok || !known {
			return nil
		}
		value, ok := w.valueOf(e)
		if value = strings.Join(strings.Fields(value), " "); !ok || !plain(value) {
			return nil
		}
		out = append(out, compare+value)
	}
	return out
}

// plain reports whether a value can stand in a line of keep.d.
func plain(value string) bool { return value != "" && !strings.ContainsAny(value, "[]|=<>\n") }

// valueOf returns the only value of an entity. A variable of OVAL gets it from an XCCDF value, or
// joins other values.
func (w *walk) valueOf(e entity) (string, bool) {
	if e.variable == "" {
		return e.value, true
	}
	if value, ok := w.values[w.rule.exports[e.variable]]; ok {
		return value, true
	}
	v, ok := w.variables[e.variable]
	if w.depth++; !ok || v.unknown || w.depth > maxExtends {
		w.depth--
		return "", false
	}
	defer func() { w.depth-- }()
	switch {
	case len(v.values) == 1 && len(v.parts) == 0:
		return v.values[0].value, true
	case len(v.values) > 0 || len(v.parts) == 0:
		return "", false
	}
	var all strings.Builder
	for _, part := range v.parts {
		value, ok := w.valueOf(part)
		if w.visits++; !ok || w.visits > maxVisits || all.Len()+len(value) > maxText {
			return "", false
		}
		all.WriteString(value)
	}
	return all.String(), true
}

// byName returns the requirements of a rule without checks that name a setting. The rule is
// recognized by its name, as ComplianceAsCode forms it.
func (d *Document) byName(h *host.Host, r *RuleResult) []Requirement {
	_, name, ok := strings.Cut(r.ID, "_rule_")
	if !ok || len(name) > 200 {
		return nil
	}
	w := walk{Document: d, host: h, rule: r}
	if rest, ok := strings.CutPrefix(name, "sysctl_"); ok {
		if found := variables(h, "/proc/sys", rest, 0); len(found) == 1 {
			return []Requirement{w.requirement("sysctl", setting.SysctlName(found[0]), d.onlyValue(r))}
		}
		return nil
	}
	if m := moduleRule().FindStringSubmatch(name); m != nil {
		return w.ofModule(m[1], m[2] != "")
	}
	if m := argumentRule().FindStringSubmatch(name); m != nil {
		return []Requirement{w.requirement(argumentKind, plainArgument(m[1]), d.onlyValue(r))}
	}
	if m := serviceRule().FindStringSubmatch(name); m != nil {
		return []Requirement{w.requirement("unit", m[1]+".service/active", nil), w.requirement("unit", m[1]+".service/enabled", nil)}
	}
	return nil
}

var (
	moduleRule   = text.LazyRegexp(`^kernel_module_([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*?)(_option)?_disabled$`)
	argumentRule = text.LazyRegexp(`^(?:grub2|zipl|coreos)_([A-Za-z0-9_-]+?)(?:_kernel)?_argument(?:_absent)?$`)
	serviceRule  = text.LazyRegexp(`^service_([A-Za-z0-9@-]+(?:_[A-Za-z0-9@-]+)*)_(?:enabled|disabled)$`)
)

// onlyValue returns the value of the only XCCDF value that a rule exports, if the document compares
// it with equals.
func (d *Document) onlyValue(r *RuleResult) []string {
	if len(r.exports) != 1 {
		return nil
	}
	for _, id := range r.exports {
		if v, ok := d.values[id]; ok && d.operator[id] == "equals" && plain(v) {
			return []string{v}
		}
	}
	return nil
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
