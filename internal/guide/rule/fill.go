package rule

import (
	"fmt"
	"slices"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// remedy returns a fix that refers to this finding, for a finding that it explains.
func (f Finding) remedy() *Repair {
	text := "see " + f.ID
	if f.Fix != nil && len(f.Fix.Changes) > 0 {
		text += ": fettle fix " + f.ID
	}
	return &Repair{Text: text}
}

// fill evaluates the values of a fix. It omits values that are nil on this machine.
func (x *Fix) fill(env map[string]any, f *Finding) (*Repair, error) {
	if x == nil {
		return nil, nil
	}
	words := []string{"{want}", internaltext.Quote(Print(f.Want)), "{instance}", internaltext.Quote(f.Instance)}
	r := &Repair{Artefact: x.Artefact, Command: strings.NewReplacer(words...).Replace(x.Command)}
	for name, value := range env {
		if text, ok := value.(string); ok {
			words = append(words, "{"+name+"}", text)
		}
	}
	r.Text = strings.NewReplacer(words...).Replace(x.Text)
	for _, list := range []struct {
		from []Want
		to   *[]Entry
	}{{x.Changes, &r.Changes}, {x.Entries, &r.Entries}} {
		for _, w := range list.from {
			unit, _ := env["unit"].(string)
			if unit == "" && strings.Contains(w.Name, "{unit}") {
				continue // no service runs it
			}
			value := f.Want
			if w.Value != nil {
				var err error
				if value, err = w.Value.run(env); err != nil {
					return nil, err
				}
				if value == nil {
					continue // not on this machine
				}
			}
			*list.to = append(*list.to, Entry{Name: strings.NewReplacer("{instance}", f.Instance, "{unit}", unit).Replace(w.Name), Value: Print(value)})
		}
	}
	if r.Artefact == Installer && len(r.Entries) > 0 {
		call := InstallerCall(r.Entries)
		if r.Command != "" {
			call += " && " + r.Command
		}
		r.Command = call
	}
	return r, nil
}

// same reports whether two values are equal; the order of lists is ignored.
func same(a, b any) bool {
	x, ok := a.([]string)
	y, both := b.([]string)
	if ok && both {
		return slices.Equal(slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y)))
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}
