package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// WhyTuner is another tuner that is in force, and what it has to do with the
// setting.
type WhyTuner struct {
	override.Tuner
	// Effect is sets where a line of its files sets it (one of the claims), may
	// where the tuner may set it and no file says so, no where it does not.
	Effect string `json:"effect"`
	Why    string `json:"why"`
	// Chosen is the line by which tuned-ppd chose TuneD's profile.
	Chosen *override.PowerMapping `json:"chosen,omitempty"`
}

// The effects of a tuner.
const (
	tunerSets = "sets"
	tunerMay  = "may"
	tunerNo   = "no"
)

// WhyCoupled is a claim on another setting whose write changes this one too.
type WhyCoupled struct {
	override.Claim
	// Zeroes is true where the two are spellings of one limit: this one reads 0
	// while the other is set.
	Zeroes bool `json:"zeroes,omitempty"`
}

// tunedProfile is TuneD's profile as its files have it.
type tunedProfile struct {
	names   []string
	claimed map[setting.Setting]bool
	// unsure is why it may set more than its claims; "" where it does not.
	unsure string
	// unknown are the lines of which it is not known what places they are for.
	unknown []tune.Step
}

// tuners finds the other tuners in force and adds what TuneD's profile sets to the
// claims. It returns an error where it is not known which programs run.
func (m *machine) tuners(ctx context.Context, claims *override.Claims) (all []override.Tuner, tuned *tunedProfile, err error) {
	all, err = override.Tuners(ctx, m.host)
	for _, t := range all {
		if t.Unit == tunedUnit {
			tuned = m.tunedClaims(ctx, claims)
		}
	}
	return all, tuned, err
}

// tunedClaims reads TuneD's profile through its own search path, includes and
// variables, without executing anything, and adds a claim for each value.
func (m *machine) tunedClaims(ctx context.Context, claims *override.Claims) *tunedProfile {
	state, err := profile.ReadState(m.host)
	if err != nil {
		return &tunedProfile{unsure: err.Error()}
	}
	t := &tunedProfile{names: state.Active, claimed: map[setting.Setting]bool{}}
	condition := ""
	if len(t.names) == 0 && state.Mode == profile.Auto {
		l := m.tunedLoader()
		r, err := l.Recommend(ctx)
		if err != nil || r.Profile == "" {
			t.unsure = profile.ActiveProfileFile + " is empty, and TuneD is in automatic mode: which profile it takes is not known"
			return t
		}
		t.names = strings.Fields(r.Profile)
		condition = "TuneD takes the profile that it recommends here, as " + profile.ActiveProfileFile + " is empty"
	}
	names := t.names
	if state.PostLoaded != "" {
		names = append(slices.Clone(names), state.PostLoaded)
	}
	if len(names) == 0 {
		return t
	}
	l := m.tunedLoader()
	p, err := l.Load(ctx, names...)
	if err != nil {
		t.unsure = "its profile could not be read: " + err.Error()
		return t
	}
	e := *m.engine
	e.Overridden, e.Keep, e.ProfileDirs = nil, tune.Keep{}, l.Dirs
	plan, err := e.PlanProfile(ctx, p, &journal.State{})
	if err != nil {
		t.unsure = "its profile could not be read: " + err.Error()
		return t
	}
	for _, u := range p.Units {
		if u.Type == "script" {
			t.unsure = "its profile runs a script (" + u.Pos.String() + "), which is not read"
		}
	}
	for _, st := range plan.Steps {
		if st.Verdict == plugin.Unknown && (st.Setting.Kind == plugin.OptionKind || strings.Contains(st.Setting.Name, "*")) {
			t.unknown = append(t.unknown, st)
		}
		if st.Reason.File == "" || st.Setting.Kind == plugin.OptionKind {
			continue
		}
		if st.Verdict == plugin.Unsupported || st.Verdict == plugin.Rejected && !st.Changed {
			continue
		}
		c := override.Claim{
			Setting: st.Setting, Value: st.Want, Source: override.TuneD, File: st.Reason.File, Line: st.Reason.Line, Text: st.Reason.Text,
			Administrator: strings.HasPrefix(st.Reason.File, "/etc/"), When: "when TuneD starts and when it changes its profile (" + strings.Join(names, " ") + ")",
			Condition: condition,
		}
		switch st.Verdict {
		case plugin.Deferred, plugin.Unknown:
			if st.Want.Absent || st.Verdict == plugin.Deferred {
				c.Condition = "what it writes is known only where TuneD runs: " + st.Why
			}
		case plugin.Dynamic:
			c.Condition = "it follows the load"
		}
		admin, sure, again := m.reapplied(claims, st.Setting)
		switch {
		case again && sure:
			c.Void = "TuneD applies " + admin.Place() + " after it (reapply_sysctl of tuned-main.conf)"
		case again && c.Condition == "":
			c.Condition = "TuneD does not apply " + admin.Place() + " after it, which versions of TuneD do or do not"
		}
		winner, certain := override.Winner(claims.For(admin.Setting))
		claims.Add(c)
		if again && sure && admin.Setting == st.Setting && (!certain || winner.Place() != admin.Place()) {
			admin.Source, admin.Void, admin.When = override.TuneD, "", "by TuneD after its profile (reapply_sysctl)"
			claims.Add(admin)
		}
		t.claimed[st.Setting] = true
	}
	return t
}

// unknownFor is the first line of the profile of which it is not known whether it is for
// a setting: its devices, or the files that fit its pattern, could not be listed.
func (t *tunedProfile) unknownFor(s setting.Setting) *tune.Step {
	for i, st := range t.unknown {
		if st.Setting.Kind == s.Kind {
			if ok, err := path.Match(st.Setting.Name, s.Name); ok && err == nil {
				return &t.unknown[i]
			}
		} else if st.Setting.Kind == plugin.OptionKind && s.Kind != "sysctl" && s.Kind != "file" {
			return &t.unknown[i]
		}
	}
	return nil
}

// tunedLoader reads profiles as TuneD does: neither fettle's own nor those of
// --profile-dir.
func (m *machine) tunedLoader() *profile.Loader {
	return &profile.Loader{Host: m.host, Dirs: profile.SearchPath(m.main), Main: m.main}
}

// reapplied is the administrator's line that TuneD writes after its profile, on the
// setting or its twin. It reads the files of /run and /etc line by line, by name, then
// /etc/sysctl.conf; patterns, lines with a leading - and exclusions mean nothing to it
// (2.20 and 2.28, run). A key with slashes it writes in 2.20 and passes over in 2.28:
// then sure is false.
func (m *machine) reapplied(claims *override.Claims, s setting.Setting) (last override.Claim, sure, ok bool) {
	if s.Kind != "sysctl" || !m.main.ReapplySysctl {
		return last, false, false
	}
	lines := claims.For(s)
	if twin, has := m.kinds.Counterpart(s); has {
		lines = append(lines, slices.DeleteFunc(claims.For(twin), func(c override.Claim) bool { return setting.Zero(c.Value) })...)
	}
	key := func(c override.Claim) string { k, _, _ := strings.Cut(c.Text, "="); return strings.TrimSpace(k) }
	lines = slices.DeleteFunc(lines, func(c override.Claim) bool {
		at := cmp.Or(c.Via, c.File)
		return c.Source != override.Sysctl || c.Shadowed != "" || c.Value.Absent || strings.HasPrefix(key(c), "-") || strings.ContainsAny(key(c), "*?[") ||
			!strings.HasPrefix(at, "/etc/sysctl.") && !strings.HasPrefix(at, "/run/sysctl.d/") ||
			slices.ContainsFunc(m.main.ReapplySysctlExclude, func(p string) bool { return profile.Fnmatch(p, key(c)) })
	})
	if len(lines) == 0 {
		return last, false, false
	}
	slices.SortStableFunc(lines, func(a, b override.Claim) int {
		const conf = "/etc/sysctl.conf"
		rank := func(c override.Claim) int {
			if c.File == conf {
				return 1
			}
			return 0
		}
		return cmp.Or(rank(a)-rank(b), strings.Compare(path.Base(cmp.Or(a.Via, a.File)), path.Base(cmp.Or(b.Via, b.File))), a.Line-b.Line)
	})
	last = lines[len(lines)-1]
	return last, !strings.Contains(key(last), "/"), true
}

// whyTuners reports for each tuner in force how it relates to a setting.
func (m *machine) whyTuners(id setting.Setting, all []override.Tuner, tuned *tunedProfile, claims []override.Claim, coupled []WhyCoupled) []WhyTuner {
	files := m.kinds.KernelFiles(id)
	var out []WhyTuner
	for _, t := range all {
		w := WhyTuner{Tuner: t, Effect: tunerNo, Why: "its files do not name this, and it is not among what it sets (" + t.Sets + ")"}
		if t.Profile == "" {
			w.Why = "it sets " + t.Sets + ", and this is not among that"
		}
		if t.Unit == tunedUnit && len(tuned.names) > 0 {
			w.Profile = strings.Join(tuned.names, " ")
		}
		switch {
		case slices.ContainsFunc(claims, func(c override.Claim) bool { return string(c.Source) == t.Name && c.Void == "" }):
			w.Effect, w.Why = tunerSets, "a line of its files names this"
		case slices.ContainsFunc(claims, func(c override.Claim) bool { return string(c.Source) == t.Name }):
			w.Why = "its line on this has no effect"
		case slices.ContainsFunc(coupled, func(c WhyCoupled) bool { return string(c.Source) == t.Name }):
			w.Effect, w.Why = tunerSets, "a line of its files sets another one whose write changes this"
		case t.Unit == tunedUnit && tuned.unsure != "":
			w.Effect, w.Why = tunerMay, tuned.unsure
		case t.Unit == tunedUnit && len(tuned.names) == 0:
			w.Why = "it has no profile in force"
		case t.Unit == tunedUnit:
			w.Why = "no line of its profile sets this"
			if st := tuned.unknownFor(id); st != nil {
				w.Effect, w.Why = tunerMay, fmt.Sprintf("which places %s is for is not known: %s (%s)", tune.SettingWords(st.Setting), st.Why, st.Reason)
			}
		case t.MaySet(files):
			w.Effect, w.Why = tunerMay, "it sets "+t.Sets
		}
		if t.Unit == tunedUnit && tuned != nil && len(tuned.names) == 1 && slices.ContainsFunc(all, func(o override.Tuner) bool { return o.Unit == "tuned-ppd.service" }) {
			if by, ok := override.PowerProfile(m.host, tuned.names[0]); ok {
				w.Chosen = &by
			}
		}
		out = append(out, w)
	}
	return out
}

// coupledClaims are the claims on other settings whose writes change this one too,
// and are not followed by a claim on this one.
func (m *machine) coupledClaims(id setting.Setting, claims *override.Claims, own []override.Claim) []WhyCoupled {
	winner, certain := override.Winner(own)
	twin, hasTwin := m.kinds.Counterpart(id)
	candidates := append(claims.Settings(), claims.Sysctls(m.host.Files)...)
	seen := map[setting.Setting]bool{id: true}
	var out []WhyCoupled
	for _, s := range candidates {
		if seen[s] {
			continue
		}
		seen[s] = true
		k, err := m.kinds.For(s)
		if err != nil || !slices.ContainsFunc(k.Coupled(s), func(d setting.Setting) bool { r, err := m.kinds.Resolve(d); return err == nil && r == id }) {
			continue
		}
		theirs := slices.DeleteFunc(claims.For(s), func(c override.Claim) bool { return c.Void != "" || c.Value.Absent })
		if len(theirs) == 0 {
			continue
		}
		c := theirs[len(theirs)-1]
		zeroes := hasTwin && s == twin
		if zeroes && setting.Zero(c.Value) || certain && c.Before(winner) {
			continue
		}
		out = append(out, WhyCoupled{c, zeroes})
	}
	slices.SortStableFunc(out, func(a, b WhyCoupled) int {
		switch {
		case a.Before(b.Claim):
			return -1
		case b.Before(a.Claim):
			return 1
		}
		return 0
	})
	return out
}

// kernelReasons says what the kernel itself has to do with a value: the other spelling of a
// limit is the one in force, or the kernel takes a written value back.
func (m *machine) kernelReasons(ctx context.Context, w Why) []string {
	if twin, ok := m.kinds.Counterpart(w.Setting); ok && setting.Zero(w.Now) && !slices.ContainsFunc(w.Coupled, func(c WhyCoupled) bool { return c.Zeroes }) {
		if other, err := m.kinds.Read(ctx, twin); err == nil && !other.Absent && !other.Unknown && !setting.Zero(other) {
			return []string{fmt.Sprintf("%s = %s is the limit in force: the two are one limit, and the one that is not used reads 0", tune.SettingWords(twin), other)}
		}
	}
	by := setting.ResetBy(w.Setting)
	if last, certain := override.Winner(w.Claims); by != "" && certain && m.kinds.Compare(w.Setting, last.Value, w.Now) == setting.Different {
		return []string{fmt.Sprintf("it reads %s, not the %s of %s: %s", w.Now, last.Value, last.Place(), by)}
	}
	return nil
}

// describe is the tuner in one sentence.
func (t WhyTuner) describe(known bool) string {
	text := t.Name
	if t.Profile != "" {
		text += fmt.Sprintf(" (profile %s)", t.Profile)
	}
	text += " " + t.Phase(known)
	if t.Chosen != nil {
		text += fmt.Sprintf(", chosen by tuned-ppd for %s (%s:%d)", t.Chosen.Power, t.Chosen.File, t.Chosen.Line)
	}
	switch t.Effect {
	case tunerSets:
		return text + ": its line is above"
	case tunerMay:
		return text + " and may set this: " + t.Why
	}
	return text + ": " + t.Why
}

// tunersUnknown is why it is not known which tuners run; empty where it is.
func (m *machine) tunersUnknown(err error) string {
	if err == nil || m.root == "" || errors.Is(err, context.Canceled) {
		return ""
	}
	return err.Error()
}
