package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Find returns the plug-in for a section type, and false if none exists.
func Find(table []Plugin, name string) (*Plugin, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

// Option returns the plug-in's description of an option, and false if it has no such option.
func (p *Plugin) Option(name string) (Option, bool) {
	for _, o := range p.Options {
		if o.Name == name {
			return o, true
		}
	}
	if p.Free != nil {
		return p.Free(name)
	}
	return Option{}, false
}

// OptionKind is the kind of pseudo-settings: options whose settings are unknown or irrelevant.
const OptionKind = "option"

// OptionPlace returns the pseudo-setting of a unit's option. device may be "".
func OptionPlace(unit, option, device string) setting.Setting {
	if device != "" {
		option += " for " + device
	}
	return setting.Setting{Kind: OptionKind, Name: unit + "/" + option}
}

// ShowOption formats a pseudo-setting for messages: "[vm] dirty_bytes".
func ShowOption(s setting.Setting) string {
	unit, option, _ := strings.Cut(s.Name, "/")
	return "[" + unit + "] " + option
}

// InvalidError is returned for a value that no machine accepts.
type InvalidError struct{ Text string }

func (e *InvalidError) Error() string { return e.Text }

// Invalid returns the error for a value that an option does not accept. Plan and Check functions
// return it. The option is then rejected and the others apply.
func Invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// Failed returns the item of an option whose planning failed with err: rejected for an
// InvalidError, otherwise unknown.
func Failed(unit string, o profile.Option, device string, err error) Item {
	place, v := OptionPlace(unit, o.Name, device), Unknown
	if errors.As(err, new(*InvalidError)) {
		v = Rejected
	}
	it := Refuse(place, o, v, "%v", err)
	if v == Unknown && host.Unknown(err) {
		it = NotRecorded(place, o) // same text for all settings of the copy
	}
	it.Device = device
	return it
}

// Later returns the item of an option whose value is known only when the profile is applied.
func Later(unit string, o profile.Option, why string) Item {
	return Refuse(OptionPlace(unit, o.Name, ""), o, Deferred, "%s", why)
}

// UnknownType returns the problem of a unit whose type no plug-in has. That unit is rejected; the
// others apply, as in TuneD.
func UnknownType(table []Plugin, u *profile.Unit) Problem {
	names := make([]string, len(table))
	for i, p := range table {
		names[i] = p.Name
	}
	return Problem{u.At("type"), fmt.Sprintf("unknown plug-in %q%s", u.Type, text.Suggest(u.Type, names))}
}

// UnknownOption returns the problem of an option that the plug-in lacks. That option is rejected;
// the others apply, as in TuneD.
func (p *Plugin) UnknownOption(o profile.Option) Problem {
	names := make([]string, len(p.Options))
	for i, known := range p.Options {
		names[i] = known.Name
	}
	return Problem{o.Pos, fmt.Sprintf("unknown option %q of [%s]%s", o.Name, p.Name, text.Suggest(o.Name, names))}
}

// Words are the lower-case words that TuneD reads as yes, or those that it reads as no. It
// silently reads every other word as the opposite.
type Words struct{ Yes, No []string }

// TuneD 2.20's booleans: plugins/base.py _option_bool, and utils/commands.py get_bool compared
// with "1" or with "0".
var (
	OnlyTrue = Words{Yes: []string{"1", "true"}}
	YesWords = Words{Yes: []string{"1", "y", "yes", "t", "true"}}
	NoWords  = Words{No: []string{"0", "n", "no", "f", "false"}}
)

// Read sets a boolean option to the value that TuneD reads, 1 or 0, if its word suggests the
// opposite. warning then explains the change.
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
	warning = fmt.Sprintf("%s=%s does not mean %t: as in TuneD, only %s and %s do", o.Name, o.Value, meant, strings.Join(list[:last], ", "), list[last])
	if o.Value = "0"; read {
		o.Value = "1"
	}
	return o, warning
}

// ReadUnit returns the unit with boolean options set to the values that TuneD reads. It calls warn
// for each changed one.
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
