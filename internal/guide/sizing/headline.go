package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// First sets the values that a person decides or sets first, as group/name, or group/* for a
// whole group. Without --details only these are printed, in this order.
func (r *Result) First(keys ...string) { r.first = append(r.first, keys...) }

// firstValues returns the values set by First, or all values without First.
func (r *Result) firstValues() []*Value {
	var out []*Value
	for _, key := range r.first {
		group, name, _ := strings.Cut(key, "/")
		for i := range r.Values {
			v := &r.Values[i]
			if v.Group == group && (name == "*" || v.Name == name) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	if len(r.first) == 0 {
		for i := range r.Values {
			out = append(out, &r.Values[i])
		}
	}
	return out
}

// InHeadline records a value's number in the headline's figures, as group_name_unit. It returns
// the value with its unit, or "" if it does not exist.
func (r *Result) InHeadline(group, name string) string {
	v := r.Value(group, name)
	if v == nil {
		return ""
	}
	words := Amount(v.Value, v.Unit)
	key, replacer := group+"_"+name, strings.NewReplacer(" ", "_", "-", "_", ".", "_")
	if unit := headlineUnits[v.Unit]; unit != "" && !strings.HasSuffix(name, unit) {
		key += "_" + unit
	}
	if n, ok := asNumber(v.Value); ok {
		r.Headline.Value(strings.ToLower(replacer.Replace(key)), n, words)
	}
	return words
}

// headlineUnits maps units to their form in the names of the headline's figures.
var headlineUnits = map[string]string{"bytes": "bytes", "GB": "gb", "GiB": "gib", "MiB": "mib", "s": "s", "1/s": "per_s", "%": "percent"}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case uint64:
		return float64(n), true
	}
	return 0, false
}

// bounds returns the limits and the budgets, tightest first. It omits a budget that is exactly
// used up: its parts determined its size.
func (r *Result) bounds() []Limit {
	out := slices.Clone(r.Limits)
	for _, b := range r.Budgets {
		if b.Left > 0 && b.Used > 0 {
			out = append(out, Limit{Name: b.Name, Unit: b.Unit, Maximum: b.Total, Wanted: b.Used, UsedPercent: Round(100 * b.Used / b.Total)})
		}
	}
	slices.SortStableFunc(out, func(a, b Limit) int { return cmp.Compare(b.UsedPercent, a.UsedPercent) })
	return out
}

// TightestInHeadline adds the tightest limit to the headline, or an exceeded one.
func (r *Result) TightestInHeadline() {
	all := r.bounds()
	if len(all) == 0 {
		return
	}
	l, h := all[0], &r.Headline
	over := 0
	for _, l := range all {
		if l.Over {
			over++
		}
	}
	what := "Tightest limit"
	switch {
	case over == 1:
		what = "Limit exceeded"
	case over > 1:
		what = h.Count("limits_exceeded", over, "limit") + " exceeded, the worst"
	}
	unit := ""
	if u := headlineUnits[l.Unit]; u != "" {
		unit = "_" + u
	}
	h.Line("%s: %s, %s of %s (%s)", what, l.Name,
		h.Value("tightest_limit_needed"+unit, l.Wanted, formatLimit(l.Wanted, l.Unit)), h.Value("tightest_limit_maximum"+unit, l.Maximum, formatLimit(l.Maximum, l.Unit)),
		h.Value("tightest_limit_used_percent", l.UsedPercent, percent(l)))
}

// InterruptionsInHeadline adds the number of steps that restart a program.
func (r *Result) InterruptionsInHeadline() {
	n := 0
	for _, st := range r.Steps {
		if st.Restarts != "" && !strings.HasPrefix(st.Restarts, "nothing") {
			n++
		}
	}
	if n > 0 {
		verb := map[bool]string{true: "restarts", false: "restart"}[n == 1]
		r.Headline.Line("%s of %s %s programs or machines: plan a maintenance window", r.Headline.Count("steps_that_restart", n, ""), r.Headline.Count("steps", len(r.Steps), "step"), verb)
	}
}

// title names the platform, its version and the inputs as understood.
func title(r *Result) string {
	words := r.Platform
	switch {
	case r.NewerVersion != "":
		words += fmt.Sprintf(" %s (figures of %s)", r.NewerVersion, r.Version)
	case r.Version != "":
		words += " " + r.Version
	}
	var asked, assumed, here []string
	for _, in := range r.Inputs {
		of := &asked
		switch in.From {
		case "default":
			of = &assumed
		case "this machine":
			of = &here
		}
		switch in.Value { // in the form of the command line
		case "true":
			*of = append(*of, "--"+in.Name)
		case "false":
			*of = append(*of, "--"+in.Name+"=false")
		default:
			word := "--" + in.Name
			if in.Value != "" {
				word += " " + text.Quote(in.Value)
			}
			*of = append(*of, word)
		}
	}
	if len(asked)+len(here) == 0 {
		return words + " for " + strings.Join(assumed, " ") + ", all by default"
	}
	var parts []string
	if len(asked) > 0 {
		parts = append(parts, strings.Join(asked, " "))
	}
	if len(here) > 0 {
		parts = append(parts, "of this machine "+strings.Join(here, " "))
	}
	return words + " for " + strings.Join(parts, "; ")
}
