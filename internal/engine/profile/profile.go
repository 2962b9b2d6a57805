package profile

import (
	"sort"
	"strings"
)

// Profile is one or more loaded profiles, merged: a specification that says
// what is wanted and where each wish is written. It does not depend on what the
// machine has now, except through the answers of its functions.
type Profile struct {
	// Names are the profiles as they were asked for, in order; later ones win.
	Names       []string `json:"names"`
	Summary     string   `json:"summary,omitempty"`
	Description string   `json:"description,omitempty"`
	// Units are in order of first appearance, disabled ones included.
	// InOrder gives the order in which they are applied.
	Units []Unit `json:"units"`
	// Variables are in the order in which they are defined.
	Variables []Variable `json:"variables"`
	// Sources are the files that were read, in order of reading.
	Sources []Source `json:"sources"`
	// Answers are the answers of functions that ran programs, by call text.
	// Given to a later Loader they make it load the same profile again.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Deferred are the calls whose answer is known only when the profile is
	// applied, each once.
	Deferred []Call    `json:"deferred,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Unresolved are the lines include= of which it is not known what they name
	// before the profile is applied: what they add is missing here.
	Unresolved []Option `json:"unresolved_includes,omitempty"`

	loader *Loader
	dirs   []string // of the profiles read, for Snapshot
	absent []string // optional profiles and variables files that were not there
}

// Unit is one section of a merged profile: an instance of a plug-in.
type Unit struct {
	// Name is the section's name, Type the plug-in: type=, else the name.
	Name    string `json:"name"`
	Type    string `json:"type"`
	Enabled bool   `json:"enabled"`
	// Devices is the expanded devices= text; see DeviceMatcher. "*" by default.
	Devices string `json:"devices"`
	// DevicesUdevRegex, CPUInfoRegex and UnameRegex are empty when not given.
	DevicesUdevRegex string `json:"devices_udev_regex,omitempty"`
	CPUInfoRegex     string `json:"cpuinfo_regex,omitempty"`
	UnameRegex       string `json:"uname_regex,omitempty"`
	// Priority is the unit's own or tuned-main.conf's default_instance_priority;
	// lower ones come first.
	Priority int `json:"priority"`
	// ScriptPre and ScriptPost are paths to call for each device around the
	// unit's tuning.
	ScriptPre  string   `json:"script_pre,omitempty"`
	ScriptPost string   `json:"script_post,omitempty"`
	Options    []Option `json:"options"`
	// Pos is the section header where the unit first appears, or that of the
	// section that replaced it.
	Pos Pos `json:"pos"`
	// Where says where each attribute that a file sets is written: "type",
	// "enabled", "devices", "devices_udev_regex", "cpuinfo_regex",
	// "uname_regex", "priority", "script_pre", "script_post".
	Where map[string]Pos `json:"where,omitempty"`
	// Deferred are calls in devices, cpuinfo_regex and uname_regex that are
	// known only when the profile is applied.
	Deferred []Call `json:"deferred,omitempty"`
}

// At says where an attribute of the unit is written; the section if nowhere.
func (u *Unit) At(attribute string) Pos {
	if p, ok := u.Where[attribute]; ok {
		return p
	}
	return u.Pos
}

// Option returns the option of that name, or nil.
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
	// ExpandedName is Name with variables and functions expanded, where the
	// plug-in wants that (modules does, no other).
	ExpandedName string `json:"expanded_name,omitempty"`
	// Value is expanded: what the plug-in acts on. Raw is as written, with only
	// ${i:PROFILE_DIR} replaced.
	Value string `json:"value"`
	Raw   string `json:"raw"`
	Pos   Pos    `json:"pos"`
	// Scripts is set for the option "script" alone: every script to run, parents
	// first. They are cleaned absolute paths and are never expanded.
	Scripts []Script `json:"scripts,omitempty"`
	// Deferred says that Value still holds calls that are known only when the
	// profile is applied.
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

// Source is a file that was read.
type Source struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // of Data, in hexadecimal
	Data   []byte `json:"-"`
	// Kind says why it was read: "profile" or "variables".
	Kind string `json:"kind"`
}

// Call is a function call whose answer is not known yet.
type Call struct {
	// Text is the call as written after expansion of its arguments:
	// "${f:virt_check:a:b}".
	Text string `json:"text"`
	// Reason says what would make it known.
	Reason string `json:"reason"`
	Pos    Pos    `json:"pos"`
}

// Answer is what a function that executes said.
type Answer struct {
	Text string `json:"text"`
	// None says that the function gave no result, so that its call stays in the
	// text unexpanded.
	None bool `json:"none,omitempty"`
}

// Name is the names in one line, as TuneD writes them into active_profile.
func (p *Profile) Name() string { return strings.Join(p.Names, " ") }

// Unit returns the unit of that name, or nil.
func (p *Profile) Unit(name string) *Unit {
	for i := range p.Units {
		if p.Units[i].Name == name {
			return &p.Units[i]
		}
	}
	return nil
}

// InOrder returns the enabled units by priority, lower first; units of equal
// priority keep the order of the profile.
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

// Environ returns the variables as scripts get them: TUNED_<name>=<value>.
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
			env[i] = pair // defined again: the last definition is the value
			continue
		}
		at[name] = len(env)
		env = append(env, pair)
	}
	return env
}
