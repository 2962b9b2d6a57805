package plugin

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Find returns the plug-in of a section type.
func Find(table []Plugin, name string) (*Plugin, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

// Option returns what the plug-in knows of an option.
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

// OptionKind is the kind of what is no place of a machine: an option of a
// section, of which it is not known, or does not matter, what it would set.
const OptionKind = "option"

// OptionPlace names an option of a unit, for a device where it has one.
func OptionPlace(unit, option, device string) setting.Setting {
	if device != "" {
		option += " for " + device
	}
	return setting.Setting{Kind: OptionKind, Name: unit + "/" + option}
}

// ShowOption is the inverse of OptionPlace for a person: "[vm] dirty_bytes".
func ShowOption(s setting.Setting) string {
	unit, option, _ := strings.Cut(s.Name, "/")
	return "[" + unit + "] " + option
}

// InvalidError says that a value is not valid, whatever the machine.
type InvalidError struct{ Text string }

func (e *InvalidError) Error() string { return e.Text }

// Invalid is the error of a Plan or Check function for a value that the option
// does not take. The option is rejected and the others apply.
func Invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// Failed is the item of an option that could not be planned: rejected where its
// value is not valid, unknown where the machine did not answer.
func Failed(unit string, o profile.Option, device string, err error) Item {
	place, v := OptionPlace(unit, o.Name, device), Unknown
	if errors.As(err, new(*InvalidError)) {
		v = Rejected
	}
	it := Refuse(place, o, v, "%v", err)
	if v == Unknown && host.Unknown(err) {
		it = NotRecorded(place, o) // the same sentence for all of a copy
	}
	it.Device = device
	return it
}

// Later is the item of an option that is known when the profile is applied.
func Later(unit string, o profile.Option, why string) Item {
	return Refuse(OptionPlace(unit, o.Name, ""), o, Deferred, "%s", why)
}

// UnknownType says that no plug-in has the unit's type. The unit is rejected
// and the others apply, as in TuneD.
func UnknownType(table []Plugin, u *profile.Unit) Problem {
	names := make([]string, len(table))
	for i, p := range table {
		names[i] = p.Name
	}
	return Problem{u.At("type"), fmt.Sprintf("unknown plug-in %q%s", u.Type, text.Suggest(u.Type, names))}
}

// UnknownOption says that the plug-in has no such option. It is rejected and the
// other options apply, as in TuneD.
func (p *Plugin) UnknownOption(o profile.Option) Problem {
	names := make([]string, len(p.Options))
	for i, known := range p.Options {
		names[i] = known.Name
	}
	return Problem{o.Pos, fmt.Sprintf("unknown option %q of [%s]%s", o.Name, p.Name, text.Suggest(o.Name, names))}
}
