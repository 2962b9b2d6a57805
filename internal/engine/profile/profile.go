package profile

import (
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// Profile is one or more loaded profiles, merged. It is a specification with the position of each
// option, and depends on the machine only through results of functions.
type Profile struct {
	// Names are the requested profiles, in order; later ones win.
	Names       []string `json:"names"`
	Summary     string   `json:"summary,omitempty"`
	Description string   `json:"description,omitempty"`
	// Units are in order of first appearance and include disabled ones. InOrder returns the order
	// of application.
	Units []Unit `json:"units"`
	// Variables are in the order of definition.
	Variables []Variable `json:"variables"`
	// Sources are the files that were read, in order of reading.
	Sources []Source `json:"sources"`
	// Answers are the results of functions that ran programs, by call text. With them a
	// later Loader loads the same profile again.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Deferred lists, once each, the calls whose result is known only when the profile is applied.
	Deferred []Call    `json:"deferred,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Unresolved lists the include= lines whose profiles are known only when the profile is
	// applied. Their content is missing here.
	Unresolved []Option `json:"unresolved_includes,omitempty"`

	loader *Loader
	dirs   []string // directories of the loaded profiles, for Snapshot
	absent []string // optional profiles and variables files that do not exist
}

// Unit is one section of a merged profile: an instance of a plug-in.
type Unit struct {
	// Name is the section's name. Type is the plug-in: the value of type=, or else the name.
	Name    string `json:"name"`
	Type    string `json:"type"`
	Enabled bool   `json:"enabled"`
	// Devices is the expanded value of devices= (see DeviceMatcher), "*" by default.
	Devices string `json:"devices"`
	// DevicesUdevRegex, CPUInfoRegex and UnameRegex are "" if the section does not set them.
	DevicesUdevRegex string `json:"devices_udev_regex,omitempty"`
	CPUInfoRegex     string `json:"cpuinfo_regex,omitempty"`
	UnameRegex       string `json:"uname_regex,omitempty"`
	// Priority is the unit's own, or tuned-main.conf's default_instance_priority. Units with a
	// lower priority are applied first.
	Priority int `json:"priority"`
	// ScriptPre and ScriptPost are paths of scripts, called for each device before and after the
	// unit's tuning.
	ScriptPre  string   `json:"script_pre,omitempty"`
	ScriptPost string   `json:"script_post,omitempty"`
	Options    []Option `json:"options"`
	// Pos is the header of the section in which the unit first appears, or of the section that
	// replaced it.
	Pos Pos `json:"pos"`
	// Where maps each attribute that a file sets to its position: "type", "enabled", "devices",
	// "devices_udev_regex", "cpuinfo_regex", "uname_regex", "priority", "script_pre",
	// "script_post".
	Where map[string]Pos `json:"where,omitempty"`
	// Deferred lists the calls in devices, cpuinfo_regex and uname_regex whose result is known
	// only when the profile is applied.
	Deferred []Call `json:"deferred,omitempty"`
}

// At returns the position of an attribute of the unit, or the section's position if no file sets
// the attribute.
func (u *Unit) At(attribute string) Pos {
	if p, ok := u.Where[attribute]; ok {
		return p
	}
	return u.Pos
}

// Option returns the option with that name, or nil.
func (u *Unit) Option(name string) *Option {
	for i := range u.Options {
		if u.Options[i].Name == name {
			return &u.Options[i]
		}
	}
	return nil
}

// Option is one line of a unit.
type Option struct {
	Name string `json:"name"`
	// ExpandedName is Name with variables and functions expanded; only the modules plug-in uses
	// it.
	ExpandedName string `json:"expanded_name,omitempty"`
	// Value is the expanded value, which the plug-in uses. Raw is the value as written, except
	// that ${i:PROFILE_DIR} is replaced.
	Value string `json:"value"`
	Raw   string `json:"raw"`
	Pos   Pos    `json:"pos"`
	// Scripts is set only for the option "script". It lists every script to run, parents first, as
	// cleaned absolute paths that are never expanded.
	Scripts []Script `json:"scripts,omitempty"`
	// Deferred lists the calls in Value whose result is known only when the profile is applied.
	Deferred []Call `json:"deferred,omitempty"`
}

// Script is one script of a unit.
type Script struct {
	Path string `json:"path"`
	Pos  Pos    `json:"pos"`
}

// Variable is one variable of [variables] or of a variables file.
type Variable struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Raw      string `json:"raw"`
	Pos      Pos    `json:"pos"`
	Deferred []Call `json:"deferred,omitempty"`
}

// Source is a file that a load read.
type Source struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hexadecimal digest of Data
	Data   []byte `json:"-"`
	// Kind is "profile" or "variables".
	Kind string `json:"kind"`
}

// Call is a function call with a result that is not known yet.
type Call struct {
	// Text is the call with expanded arguments, such as "${f:virt_check:a:b}".
	Text string `json:"text"`
	// Reason is why the result is not known.
	Reason string `json:"reason"`
	Pos    Pos    `json:"pos"`
}

// Answer is the result of a function that ran a program.
type Answer struct {
	Text string `json:"text"`
	// None is true if the function returned no result; the call's text then stays unexpanded.
	None bool `json:"none,omitempty"`
}

// Name returns the names in one line, as TuneD writes them into active_profile.
func (p *Profile) Name() string { return strings.Join(p.Names, " ") }

// Unit returns the unit with that name, or nil.
func (p *Profile) Unit(name string) *Unit {
	for i := range p.Units {
		if p.Units[i].Name == name {
			return &p.Units[i]
		}
	}
	return nil
}

// InOrder returns the enabled units by priority, lower first. Units with equal priority keep the
// profile's order.
func (p *Profile) InOrder() []*Unit {
	var units []*Unit
	for i := range p.Units {
		if p.Units[i].Enabled {
			units = append(units, &p.Units[i])
		}
	}
	sort.SliceStable(units, func(i, j int) bool { return units[i].Priority < units[j].Priority })
	return units
}

// Environ returns the variables for the environment of scripts, as TUNED_<name>=<value>.
func (p *Profile) Environ() []string {
	at := map[string]int{}
	var env []string
	for _, v := range p.Variables {
		name := v.Name
		if !strings.HasPrefix(name, "TUNED_") {
			name = "TUNED_" + name
		}
		pair := name + "=" + v.Value
		if i, ok := at[name]; ok {
			env[i] = pair // redefined: the last value counts
			continue
		}
		at[name] = len(env)
		env = append(env, pair)
	}
	return env
}

// Pos is a position in a file. Line counts from 1; 0 means the whole file.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is an error with its position. It prints as "file:line: what".
type Error struct {
	Pos Pos
	Err error
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func errAt(pos Pos, format string, args ...any) error {
	return &Error{pos, fmt.Errorf(format, args...)}
}

// Errors is a list of errors in one file or profile, printed one per line.
type Errors []error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) Unwrap() []error { return e }

// orNil returns nil for an empty list, and the error itself if the list has only one.
func (e Errors) orNil() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Warning is a warning of the loader with its position.
type Warning struct {
	Pos  Pos    `json:"pos"`
	Text string `json:"text"`
}

func (w Warning) String() string { return w.Pos.String() + ": " + w.Text }

// Headline summarizes a profile: its name, summary, options and files. leftOut names guidance that
// the profile does not follow.
func (p *Profile) Headline(leftOut []string) (h ui.Headline) {
	options := 0
	for _, u := range p.Units {
		options += len(u.Options)
	}
	h.Line("%s: %s", p.Name(), p.Summary)
	line := h.Count("options", options, "option") + " from " + h.Count("files", len(p.Sources), "file")
	if len(leftOut) > 0 {
		line += fmt.Sprintf(", %s left out: %s (--details)", h.Count("left_out", len(leftOut), ""), strings.Join(leftOut, ", "))
	}
	h.Line("%s", line)
	return h
}

// Print prints a merged profile, each option with its position.
func Print(s *ui.Screen, p *Profile) {
	for _, u := range p.Units {
		head := "[" + u.Name + "]"
		if u.Type != u.Name {
			head += " type=" + u.Type
		}
		if u.Devices != "" && u.Devices != "*" {
			head += " devices=" + u.Devices
		}
		for _, c := range [][2]string{{"devices_udev_regex", u.DevicesUdevRegex}, {"cpuinfo_regex", u.CPUInfoRegex}, {"uname_regex", u.UnameRegex}} {
			if c[1] != "" {
				head += " " + c[0] + "=" + c[1]
			}
		}
		if !u.Enabled {
			head += " (disabled)"
		}
		fmt.Fprintf(s.Out, "\n%s\n", ui.Printable(head))
		g := ui.Grid{}
		for _, o := range u.Options {
			v := o.Value
			if len(o.Deferred) > 0 {
				v = "known only when applied: " + o.Deferred[0].Text
			}
			pos := o.Pos.String()
			if s.Width > 0 && !s.Wide { // the files are listed below
				pos = o.Pos.short()
			}
			g.Rows = append(g.Rows, []string{"  " + o.Name, v, pos})
		}
		if len(g.Rows) > 0 {
			g.Write(s)
		}
	}
	if s.Width > 0 && !s.Wide {
		ui.Heading(s, "from")
		for _, src := range p.Sources {
			fmt.Fprintf(s.Out, "  %s\n", ui.Printable(src.Path))
		}
	}
}

// place returns the position for people, without a path for fettle's own files.
func (p Pos) place() string {
	if name, ok := builtinName(p.File); ok {
		return fmt.Sprintf("fettle's own %s:%d", name, p.Line)
	}
	return p.String()
}

// short returns profile name and line for a position in a profile, else the whole position.
func (p Pos) short() string {
	if path.Base(p.File) != "tuned.conf" {
		return p.String()
	}
	return path.Base(path.Dir(p.File)) + ":" + strconv.Itoa(p.Line)
}

// Headline names the recommended profile, and counts the conditions with unknown results.
func (r Recommendation) Headline() (h ui.Headline) {
	line := "recommended: " + r.Profile
	if len(r.Unknown) > 0 {
		line += "; not determined: " + h.Count("unknown", len(r.Unknown), "condition")
	}
	h.Line("%s", line)
	return h
}

// PrintRecommendation prints a recommendation with its reasons.
func PrintRecommendation(s *ui.Screen, r Recommendation, h *ui.Headline) {
	ui.PrintHeadline(s, h)
	for _, c := range r.Why {
		ui.PrintLine(s, "  because %s", c.because())
	}
	switch {
	case r.Pos.File == "":
		ui.PrintLine(s, "  because no section of the recommendation files applies")
	case len(r.Why) == 0:
		ui.PrintLine(s, "  because no section before %s applies", r.Pos.place())
	default:
		ui.PrintLine(s, "  rule: %s", r.Pos.place())
	}
	for _, c := range r.Unknown {
		ui.PrintLine(s, "  not determined: %s", c)
	}
}
