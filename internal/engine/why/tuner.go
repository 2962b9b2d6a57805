package why

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

// Tuner is another tuner in force, and its relation to the setting.
type Tuner struct {
	override.Tuner
	// Effect is "sets" if a line of the tuner's files sets the setting (one of the claims), "may"
	// if the tuner may set it without a line, or "no".
	Effect string `json:"effect"`
	Why    string `json:"why"`
	// Chosen is the tuned-ppd line that chose TuneD's profile.
	Chosen *override.PowerMapping `json:"chosen,omitempty"`
}

// The effects of a tuner.
const (
	tunerSets = "sets"
	tunerMay  = "may"
	tunerNo   = "no"
)

// Coupled is a claim on another setting whose write also changes this one.
type Coupled struct {
	override.Claim
	// Zeroes is true if both settings are spellings of one limit: this one reads 0 while the other
	// is set.
	Zeroes bool `json:"zeroes,omitempty"`
}

// tunedProfile is TuneD's profile according to its files.
type tunedProfile struct {
	names   []string
	claimed map[setting.Setting]bool
	// unsure is the reason why it may set more than its claims, or "".
	unsure string
	// unknown lists the profile's lines whose settings are unknown.
	unknown []tune.Step
}

// tuners returns the other tuners in force, and adds the values of TuneD's profile to the claims.
// It returns an error if the running programs are unknown.
func tuners(ctx context.Context, m *tune.Machine, claims *override.Claims) (all []override.Tuner, tuned *tunedProfile, err error) {
	all, err = override.Tuners(ctx, m.Host)
	for _, t := range all {
		if t.Unit == tune.TuneDUnit {
			tuned = tunedClaims(ctx, m, claims)
		}
	}
	return all, tuned, err
}

// tunedClaims loads TuneD's profile with TuneD's search path, includes and variables, and adds a
// claim for each value. It executes nothing.
func tunedClaims(ctx context.Context, m *tune.Machine, claims *override.Claims) *tunedProfile {
	state, err := profile.ReadState(m.Host)
	if err != nil {
		return &tunedProfile{unsure: err.Error()}
	}
	t := &tunedProfile{names: state.Active, claimed: map[setting.Setting]bool{}}
	condition := ""
	if len(t.names) == 0 && state.Mode == profile.Auto {
		l := tunedLoader(m)
		r, err := l.Recommend(ctx)
		if err != nil || r.Profile == "" {
			t.unsure = profile.ActiveProfileFile + " is empty and TuneD is in automatic mode; its profile is unknown"
			return t
		}
		t.names = strings.Fields(r.Profile)
		condition = "TuneD uses the profile that it recommends for this machine, because " + profile.ActiveProfileFile + " is empty"
	}
	names := t.names
	if state.PostLoaded != "" {
		names = append(slices.Clone(names), state.PostLoaded)
	}
	if len(names) == 0 {
		return t
	}
	l := tunedLoader(m)
	p, err := l.Load(ctx, names...)
	if err != nil {
		t.unsure = "its profile could not be read: " + err.Error()
		return t
	}
	e := *m.Engine
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
				c.Condition = "its values are known only on the machine where TuneD runs: " + st.Why
			}
		case plugin.Dynamic:
			c.Condition = "it follows the load"
		}
		admin, sure, again := reapplied(m, claims, st.Setting)
		switch {
		case again && sure:
			c.Void = "TuneD applies " + admin.Place() + " after its profile (reapply_sysctl in tuned-main.conf)"
		case again && c.Condition == "":
			c.Condition = "TuneD does not apply " + admin.Place() + " after its profile, which depends on the version of TuneD"
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

// unknownFor returns the profile's first line that may apply to a setting although its devices, or
// the files of its pattern, could not be listed. It returns nil if none exists.
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

// tunedLoader returns a loader that reads profiles as TuneD does, without fettle's own and without
// --profile-dir.
func tunedLoader(m *tune.Machine) *profile.Loader {
	return &profile.Loader{Host: m.Host, Dirs: profile.SearchPath(m.Main), Main: m.Main}
}

// reapplied returns the administrator's line that TuneD writes after its profile, for the setting
// or its counterpart. TuneD reads the files of /run and /etc line by line, by name, then
// /etc/sysctl.conf. It ignores patterns, lines with a leading - and exclusions (2.20 and 2.28,
// tested). 2.20 writes a key with slashes and 2.28 skips it: sure is false for such a key.
func reapplied(m *tune.Machine, claims *override.Claims, s setting.Setting) (last override.Claim, sure, ok bool) {
	if s.Kind != "sysctl" || !m.Main.ReapplySysctl {
		return last, false, false
	}
	lines := claims.For(s)
	if twin, has := m.Kinds.Counterpart(s); has {
		lines = append(lines, slices.DeleteFunc(claims.For(twin), func(c override.Claim) bool { return setting.Zero(c.Value) })...)
	}
	key := func(c override.Claim) string { k, _, _ := strings.Cut(c.Text, "="); return strings.TrimSpace(k) }
	lines = slices.DeleteFunc(lines, func(c override.Claim) bool {
		at := cmp.Or(c.Via, c.File)
		return c.Source != override.Sysctl || c.Shadowed != "" || c.Value.Absent || strings.HasPrefix(key(c), "-") || strings.ContainsAny(key(c), "*?[") ||
			!strings.HasPrefix(at, "/etc/sysctl.") && !strings.HasPrefix(at, "/run/sysctl.d/") ||
			slices.ContainsFunc(m.Main.ReapplySysctlExclude, func(p string) bool { return profile.Fnmatch(p, key(c)) })
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

// whyTuners returns the relation of each tuner in force to a setting.
func whyTuners(m *tune.Machine, id setting.Setting, all []override.Tuner, tuned *tunedProfile, claims []override.Claim, coupled []Coupled) []Tuner {
	files := m.Kinds.KernelFiles(id)
	var out []Tuner
	for _, t := range all {
		w := Tuner{Tuner: t, Effect: tunerNo, Why: "its files do not name this setting, and it sets only other settings (" + t.Sets + ")"}
		if t.Profile == "" {
			w.Why = "it sets only " + t.Sets
		}
		if t.Unit == tune.TuneDUnit && len(tuned.names) > 0 {
			w.Profile = strings.Join(tuned.names, " ")
		}
		switch {
		case slices.ContainsFunc(claims, func(c override.Claim) bool { return string(c.Source) == t.Name && c.Void == "" }):
			w.Effect, w.Why = tunerSets, "a line in its files sets this setting"
		case slices.ContainsFunc(claims, func(c override.Claim) bool { return string(c.Source) == t.Name }):
			w.Why = "its line for this setting has no effect"
		case slices.ContainsFunc(coupled, func(c Coupled) bool { return string(c.Source) == t.Name }):
			w.Effect, w.Why = tunerSets, "a line in its files sets another setting, and writing that one changes this setting too"
		case t.Unit == tune.TuneDUnit && tuned.unsure != "":
			w.Effect, w.Why = tunerMay, tuned.unsure
		case t.Unit == tune.TuneDUnit && len(tuned.names) == 0:
			w.Why = "it has no active profile"
		case t.Unit == tune.TuneDUnit:
			w.Why = "no line of its profile sets this setting"
			if st := tuned.unknownFor(id); st != nil {
				w.Effect, w.Why = tunerMay, fmt.Sprintf("cannot determine which files or devices %s applies to: %s (%s)", tune.SettingWords(st.Setting), st.Why, st.Reason)
			}
		case t.MaySet(files):
			w.Effect, w.Why = tunerMay, "it sets "+t.Sets
		}
		if t.Unit == tune.TuneDUnit && tuned != nil && len(tuned.names) == 1 && slices.ContainsFunc(all, func(o override.Tuner) bool { return o.Unit == "tuned-ppd.service" }) {
			if by, ok := override.PowerProfile(m.Host, tuned.names[0]); ok {
				w.Chosen = &by
			}
		}
		out = append(out, w)
	}
	return out
}

// coupledClaims returns claims on other settings whose writes also change this one. It omits those
// that a claim on this setting follows.
func coupledClaims(m *tune.Machine, id setting.Setting, claims *override.Claims, own []override.Claim) []Coupled {
	winner, certain := override.Winner(own)
	twin, hasTwin := m.Kinds.Counterpart(id)
	candidates := append(claims.Settings(), claims.Sysctls(m.Host.Files)...)
	seen := map[setting.Setting]bool{id: true}
	var out []Coupled
	for _, s := range candidates {
		if seen[s] {
			continue
		}
		seen[s] = true
		k, err := m.Kinds.For(s)
		if err != nil || !slices.ContainsFunc(k.Coupled(s), func(d setting.Setting) bool { r, err := m.Kinds.Resolve(d); return err == nil && r == id }) {
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
		out = append(out, Coupled{c, zeroes})
	}
	slices.SortStableFunc(out, func(a, b Coupled) int {
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

// kernelReasons returns the kernel's reasons for a value: the counterpart of a limit is in force,
// or the kernel resets a written value.
func kernelReasons(ctx context.Context, m *tune.Machine, w *Why) []string {
	if twin, ok := m.Kinds.Counterpart(w.Setting); ok && setting.Zero(w.Now) && !slices.ContainsFunc(w.Coupled, func(c Coupled) bool { return c.Zeroes }) {
		if other, err := m.Kinds.Read(ctx, twin); err == nil && !other.Absent && !other.Unknown && !setting.Zero(other) {
			return []string{fmt.Sprintf("%s = %s is the limit in force; both settings are one limit, and the kernel shows 0 for the unused one", tune.SettingWords(twin), other)}
		}
	}
	by := setting.ResetBy(w.Setting)
	if last, certain := override.Winner(w.Claims); by != "" && certain && m.Kinds.Compare(w.Setting, last.Value, w.Now) == setting.Different {
		return []string{fmt.Sprintf("its value is %s, not %s from %s: %s", w.Now, last.Value, last.Place(), by)}
	}
	return nil
}

// describe describes the tuner in one sentence.
func (t Tuner) describe(known bool) string {
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
		return text + ": see its line above"
	case tunerMay:
		return text + " and may set this: " + t.Why
	}
	return text + ": " + t.Why
}

// tunersUnknown returns the reason why a copy's running tuners are unknown, or "".
func tunersUnknown(m *tune.Machine, err error) string {
	if err == nil || m.Host.Live || errors.Is(err, context.Canceled) {
		return ""
	}
	return err.Error()
}
