// Package eject converts values to native files of the machine (sysctl.d, tmpfiles.d, udev rules,
// unit drop-ins, modprobe.d, kernel arguments), so that they stay without fettle. The input is a
// plan of package tune: of the profile in force, or of one that is not applied. The output is
// files and commands as text; nothing is written. internal/cli uses it.
package eject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Schema names the JSON form of a result.
const Schema = "fettle/eject/v1"

// ErrNotExpressible is wrapped by the reason why no native file can keep a value.
var ErrNotExpressible = errors.New("cannot be kept by a native file")

// inexpressible is an ErrNotExpressible with the reason for one value.
type inexpressible string

func (e inexpressible) Error() string { return string(e) }
func (inexpressible) Unwrap() error   { return ErrNotExpressible }

func refuse(format string, args ...any) error { return inexpressible(fmt.Sprintf(format, args...)) }

// Result holds the files and commands that keep the values of a machine without fettle.
type Result struct {
	Schema   string      `json:"schema"` // fettle/eject/v1
	Headline ui.Headline `json:"headline"`
	Machine  string      `json:"machine"`
	Profiles []string    `json:"profiles"`
	// InForce is true for the values in force, and false for the values that a named profile would
	// set.
	InForce bool `json:"in_force"`
	// Format is files, ansible or machineconfig.
	Format string  `json:"format"`
	Values []Value `json:"values"`
	// Refused lists the values that no native file can keep, each with the reason.
	Refused []Refused `json:"refused"`
	Files   []File    `json:"files"`
	// Commands must run once after the files are in place.
	Commands []Command `json:"commands"`
	// Notes are conditions under which a value may differ after a boot.
	Notes []string `json:"notes"`

	kernelArguments []string
	units           []unitState
	subsystems      []string // of the udev rules
}

// Value is one value, and what keeps it.
type Value struct {
	Setting setting.Setting `json:"setting"`
	Want    setting.Value   `json:"want"`
	Reason  setting.Reason  `json:"reason"`
	// By lists the files and commands that keep the value.
	By []string `json:"by"`

	orig setting.Value // the value without fettle; Unknown if it is not recorded
	unit string        // section of the profile
}

// Refused is a value that is not kept.
type Refused struct {
	Setting setting.Setting `json:"setting"`
	Want    setting.Value   `json:"want"`
	Why     string          `json:"why"`
}

// File is a native file, by its path on the machine.
type File struct {
	Path    string `json:"path"`
	What    string `json:"what"`
	Content string `json:"content"`
	// Settings is the number of values that the file keeps.
	Settings int `json:"settings"`
}

// Command is a command that must be run once, because no file has the same effect.
type Command struct {
	Argv []string `json:"argv"`
	Why  string   `json:"why"`
}

// unitState is whether a unit is started at boot.
type unitState struct {
	name    string
	enabled bool
}

// Input is the origin of the values.
type Input struct {
	Plan    *tune.Plan
	Profile *profile.Profile // of the plan; nil for single changes alone
	// Asked are values that were set individually on top of the plan.
	Asked []tune.Checked
	// InForce is true if the plan is for the active profile. A value that the plan would write has
	// then drifted.
	InForce bool
	// Original returns the value that a setting had before fettle, or Unknown.
	Original func(setting.Setting) setting.Value
}

// Of returns the files and commands that keep the values of a plan. It also reads the machine's
// existing files in the same directories, because a later file overrides an earlier one. It returns
// an error only if ctx has ended.
func Of(ctx context.Context, h *host.Host, kinds setting.Kinds, in Input) (*Result, error) {
	b := &builder{host: h, kinds: kinds, names: firstNames(), sections: sections(in.Profile), again: map[setting.Setting]bool{}}
	values, refused := in.values()
	b.inOrder(values)
	var lost []Refused
	var r *Result
	// The names of the files decide about precedence, so the machine's other files are compared
	// with each choice of names. Each round takes a later name or removes a value, and the last one
	// has only values that win.
	for {
		r = b.build(values)
		losers, notes := b.losers(ctx, r)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.Notes = append(r.Notes, notes...)
		if len(losers) == 0 {
			break
		}
		if b.rename(losers) {
			continue
		}
		for _, l := range losers {
			values = slices.DeleteFunc(values, func(v Value) bool { return v.Setting == l.Setting })
		}
		lost = append(lost, losers...)
	}
	r.Schema, r.Machine, r.InForce, r.Format = Schema, h.Name, in.InForce, Files
	r.Profiles = []string{}
	if in.Profile != nil {
		r.Profiles = in.Profile.Names
	}
	r.Refused = append(append(refused, r.Refused...), lost...)
	return r, nil
}

// values returns the values to keep, in the order of writing, and those that cannot be kept
// because they are not in force or not fixed.
func (in *Input) values() (keep []Value, refused []Refused) {
	refused = []Refused{}
	steps := slices.SortedStableFunc(slices.Values(in.Plan.Steps), func(a, b tune.Step) int { return a.Stage - b.Stage })
	for _, st := range steps {
		why := ""
		switch st.Action {
		case tune.Same:
		case tune.Write:
			if in.InForce {
				why = "not in force: it is " + showValue(st.Before) + " now; fettle verify says why"
			}
		case tune.Release:
			continue
		case tune.None:
			switch {
			case st.With != nil, st.Lifetime != setting.Held && !open(st.Verdict):
				continue // another file or setting keeps it, or it is not in force either
			case st.Lifetime == setting.Held:
				why = "lasts only while a program keeps a file open"
			case st.Verdict == plugin.Dynamic:
				why = "follows the load; it has no fixed value"
			default:
				why = "not known: " + st.Why
			}
		}
		if why != "" {
			refused = append(refused, Refused{st.Setting, st.Want, why})
			continue
		}
		keep = append(keep, Value{Setting: st.Setting, Want: st.Want, Reason: st.Reason, unit: st.Unit, orig: in.Original(st.Setting)})
	}
	for _, c := range in.Asked {
		keep = slices.DeleteFunc(keep, func(v Value) bool { return v.Setting == c.Setting })
		refused = slices.DeleteFunc(refused, func(v Refused) bool { return v.Setting == c.Setting })
		switch c.Verdict {
		case plugin.OK, plugin.NeedsReboot, plugin.NeedsRestart:
			keep = append(keep, Value{Setting: c.Setting, Want: c.Want, Reason: c.Reason, orig: in.Original(c.Setting)})
		case plugin.Unsupported:
		default:
			refused = append(refused, Refused{c.Setting, c.Want, "not in force: " + string(c.Verdict) + "; fettle verify says why"})
		}
	}
	return keep, refused
}

// inOrder sorts values so that each comes after those whose write changes it too. A plan does this
// only for values that it writes; a boot writes all of them.
func (b *builder) inOrder(values []Value) {
	changes, rank := map[setting.Setting][]setting.Setting{}, map[setting.Setting]int{}
	for _, v := range values {
		changes[v.Setting] = b.kinds.Coupled(v.Setting)
	}
	for range 4 { // as tune does: a moved value may have others after it
		for _, v := range values {
			for _, s := range changes[v.Setting] {
				if _, also := changes[s]; also && !slices.Contains(changes[s], v.Setting) {
					rank[s] = max(rank[s], rank[v.Setting]+1)
					if s.Kind == "sysctl" && v.Setting.Kind == "sysfs" {
						b.again[s] = true
					}
				}
			}
		}
	}
	slices.SortStableFunc(values, func(x, y Value) int { return rank[x.Setting] - rank[y.Setting] })
}

// open reports whether a value without a write may be in force after tune.
func open(v plugin.Verdict) bool {
	return v == plugin.Deferred || v == plugin.Unknown || v == plugin.Dynamic || v == plugin.NeedsDaemon
}

// sections returns the device patterns of the sections of a profile that select devices by name
// only. A rule for these patterns also covers devices that appear later.
func sections(p *profile.Profile) map[string]profile.DeviceMatcher {
	out := map[string]profile.DeviceMatcher{}
	if p == nil {
		return out
	}
	for _, u := range p.InOrder() {
		if u.DevicesUdevRegex == "" && u.CPUInfoRegex == "" && u.UnameRegex == "" && len(u.Deferred) == 0 {
			out[u.Name] = profile.NewDeviceMatcher(u.Devices)
		}
	}
	return out
}

func showValue(v setting.Value) string {
	switch {
	case v.Unknown:
		return "unknown"
	case v.Absent:
		return "absent"
	case strings.Contains(v.Text, "\n") || len(v.Text) > 40:
		return "another text"
	case v.Text == "":
		return `""`
	}
	return v.Text
}
