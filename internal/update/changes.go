package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// Changes lists the verdicts and profiles that an update changes on a machine: the JSON form of
// fettle rules stage.
type Changes struct {
	Schema   string      `json:"schema"` // fettle/rules-update/v1
	Headline ui.Headline `json:"headline"`
	State    string      `json:"state"` // staged or released
	*Update
	// SignedBy is the file of the key that signed it, "" if it was staged earlier.
	SignedBy string `json:"signed_by,omitempty"`
	// InForce are the changed profiles that are in force: fettle tune writes their new values.
	InForce  []string        `json:"in_force"`
	Verdicts []VerdictChange `json:"verdicts"`
	Profiles []OptionChange  `json:"profiles"`
}

// VerdictChange is a finding that differs with the update.
type VerdictChange struct {
	ID       string `json:"id"`
	Instance string `json:"instance,omitempty"`
	Title    string `json:"title"`
	// Before and After are the states; "" if the rule does not exist.
	Before     rule.State `json:"before"`
	After      rule.State `json:"after"`
	WantBefore any        `json:"want_before,omitempty"`
	WantAfter  any        `json:"want_after,omitempty"`

	wanted [2]string // the wanted values with units
}

// OptionChange is an option of a profile that differs with the update.
type OptionChange struct {
	Profile string `json:"profile"`
	Section string `json:"section"`
	Option  string `json:"option"`
	// Before and After are the values; "" if the profile does not have the option.
	Before string `json:"before"`
	After  string `json:"after"`
}

// NewChanges compares the findings and profiles with one update to those with another. Both lists
// of findings are in the order of an audit. The updates may be nil.
func NewChanges(ctx context.Context, h *host.Host, now, next *Update, old, newer []rule.Finding, builtin fs.FS) (*Changes, error) {
	c := &Changes{Schema: "fettle/rules-update/v1", Update: next, Verdicts: changedVerdicts(old, newer), Profiles: []OptionChange{}, InForce: []string{}}
	for _, name := range next.ProfileNames() {
		options, err := changedOptions(ctx, h, name, now.Profiles(builtin), next.Profiles(builtin))
		if err != nil {
			return nil, err
		}
		c.Profiles = append(c.Profiles, options...)
	}
	return c, nil
}

// changedVerdicts returns the findings of which the state or the shown wanted value differs.
func changedVerdicts(old, newer []rule.Finding) []VerdictChange {
	type key struct{ id, instance string }
	before := map[key]*rule.Finding{}
	for i := range old {
		before[key{old[i].ID, old[i].Instance}] = &old[i]
	}
	out := []VerdictChange{}
	for _, f := range newer {
		c := VerdictChange{ID: f.ID, Instance: f.Instance, Title: f.Heading(), After: f.State, WantAfter: f.Want, wanted: [2]string{"", findings.Wanted(f)}}
		if was := before[key{f.ID, f.Instance}]; was != nil {
			c.Before, c.WantBefore, c.wanted[0] = was.State, was.Want, findings.Wanted(*was)
			delete(before, key{f.ID, f.Instance})
		}
		if c.Before != c.After || c.wanted[0] != c.wanted[1] {
			out = append(out, c)
		}
	}
	for _, f := range old {
		if before[key{f.ID, f.Instance}] != nil { // no such rule any more
			out = append(out, VerdictChange{ID: f.ID, Instance: f.Instance, Title: f.Heading(), Before: f.State, WantBefore: f.Want})
		}
	}
	return out
}

// changedOptions returns the options of a profile that differ between two sets of built-in profiles.
func changedOptions(ctx context.Context, h *host.Host, name string, old, newer fs.FS) ([]OptionChange, error) {
	type key struct{ section, option string }
	var values [2]map[key]string
	var order []key
	for i, set := range []fs.FS{old, newer} {
		values[i] = map[key]string{}
		if _, err := fs.Stat(set, path.Join(name, "tuned.conf")); err != nil {
			continue // a new profile
		}
		l := profile.Loader{Host: h, Dirs: []string{}, Builtin: set}
		p, err := l.Load(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, u := range p.Units {
			for _, o := range u.Options {
				k := key{u.Name, o.Name}
				if values[i][k] = o.Raw; !slices.Contains(order, k) {
					order = append(order, k)
				}
			}
		}
	}
	var out []OptionChange
	for _, k := range order {
		if before, after := values[0][k], values[1][k]; before != after {
			out = append(out, OptionChange{name, k.section, k.option, before, after})
		}
	}
	return out, nil
}

// Conclude writes the headline. active are the profiles in force.
func (c *Changes) Conclude(state string, active []string) {
	for _, o := range c.Profiles {
		if slices.Contains(active, o.Profile) && !slices.Contains(c.InForce, o.Profile) {
			c.InForce = append(c.InForce, o.Profile)
		}
	}
	line, next := fmt.Sprintf("update %d is staged, not in force", c.Number), "fettle rules release"
	if c.State = state; state == released {
		line, next = fmt.Sprintf("update %d is in force", c.Number), "fettle check"
		if len(c.InForce) > 0 {
			next = "fettle tune " + strings.Join(active, " ")
		}
	}
	if c.SignedBy != "" {
		line += ", signed by " + c.SignedBy
	}
	h := &c.Headline
	verb := "change"
	if len(c.Verdicts)+len(c.Profiles) == 1 {
		verb = "changes"
	}
	h.Line("%s: %s and %s %s on this machine", line, h.Count("verdicts", len(c.Verdicts), "verdict"), h.Count("options", len(c.Profiles), "profile option"), verb)
	if c.Note != "" {
		h.Line("note: %s", c.Note)
	}
	h.Line("next: %s", next)
}

// Print prints the headline, and a row for each verdict and option that changes.
func (c *Changes) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &c.Headline)
	shown := func(state rule.State) string { return cmp.Or(string(state), "-") }
	verdicts := ui.Grid{Columns: ui.Columns("rule", "now", "with it", "wanted", "title")}
	for _, v := range c.Verdicts {
		wanted := ""
		if v.wanted[0] != v.wanted[1] {
			wanted = cmp.Or(v.wanted[0], "-") + " → " + cmp.Or(v.wanted[1], "-")
		}
		verdicts.Rows = append(verdicts.Rows, []string{strings.TrimSpace(v.ID + " " + v.Instance), shown(v.Before), shown(v.After), wanted, v.Title})
	}
	options := ui.Grid{Columns: ui.Columns("profile", "option", "now", "with it")}
	for _, o := range c.Profiles {
		options.Rows = append(options.Rows, []string{o.Profile, o.Section + "/" + o.Option, cmp.Or(o.Before, "-"), cmp.Or(o.After, "-")})
	}
	for _, g := range []*ui.Grid{&verdicts, &options} {
		if len(g.Rows) > 0 {
			fmt.Fprintln(s.Out)
			g.Write(s)
		}
	}
}

// Compile returns the mistakes in the expressions of the update's rules in a catalog. A nil update has none.
func (u *Update) Compile(c *rule.Catalogue) error {
	files, err := u.Rules()
	if err != nil {
		return err
	}
	var problems []error
	for _, r := range c.Rules() {
		if slices.ContainsFunc(files, func(f rule.File) bool { return f.Name == r.At.File }) {
			problems = append(problems, c.Compile(r))
		}
	}
	return errors.Join(problems...)
}
