package plugin

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
)

// Words are the words that TuneD takes for yes, or those that it takes for no, in lower
// case; it takes every other word for the opposite, in silence.
type Words struct{ Yes, No []string }

// How TuneD 2.20 reads booleans: plugins/base.py _option_bool, and utils/commands.py
// get_bool compared with "1" or with "0".
var (
	OnlyTrue = Words{Yes: []string{"1", "true"}}
	YesWords = Words{Yes: []string{"1", "y", "yes", "t", "true"}}
	NoWords  = Words{No: []string{"0", "n", "no", "f", "false"}}
)

// Read gives a boolean option the value that TuneD reads, 1 or 0, where the word says the
// opposite to a person; warning says so.
func (w Words) Read(o profile.Option) (_ profile.Option, warning string) {
	meant, isWord := Truth(o.Value)
	if !isWord || len(o.Deferred) > 0 || w.Yes == nil && w.No == nil {
		return o, ""
	}
	word := strings.ToLower(strings.TrimSpace(o.Value))
	list, read := w.Yes, slices.Contains(w.Yes, word)
	if w.Yes == nil {
		list, read = w.No, !slices.Contains(w.No, word)
	}
	if read == meant {
		return o, ""
	}
	last := len(list) - 1
	warning = fmt.Sprintf("%s=%s is not %t: only %s and %s count, as in TuneD", o.Name, o.Value, meant, strings.Join(list[:last], ", "), list[last])
	if o.Value = "0"; read {
		o.Value = "1"
	}
	return o, warning
}

// ReadUnit gives the boolean options of a unit the values that TuneD reads.
func (p *Plugin) ReadUnit(u profile.Unit, warn func(profile.Pos, string)) profile.Unit {
	u.Options = slices.Clone(u.Options)
	for i, o := range u.Options {
		for _, spec := range p.Options {
			if spec.Name != o.Name {
				continue
			}
			var warning string
			if u.Options[i], warning = spec.Words.Read(o); warning != "" {
				warn(o.Pos, fmt.Sprintf("[%s] %s", u.Name, warning))
			}
		}
	}
	return u
}
