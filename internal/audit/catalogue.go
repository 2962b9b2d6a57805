package audit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/rules"
)

// OwnRules is the directory of the administrator's rules.
const OwnRules = "/etc/fettle/rules.d"

// CatalogueOf loads an administrator's rules in own, and the rules of fettle that need selects. It
// loads all of fettle's rules if need is nil, or if own has mistakes, because messages about
// mistakes suggest other names. Files of an update in own replace fettle's files.
func CatalogueOf(own []rule.File, need *rule.Needed) (*rule.Catalogue, error) {
	inputs, sets := platform.Inputs(Sources())
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	if files, own = updated(files, own); slices.ContainsFunc(files, func(f rule.File) bool { return f.Update }) {
		need = nil // rule.Only is for embedded files
	}
	some := files
	if need != nil {
		some = rule.Only(files, rule.Needed{Platforms: need.Platforms, IDs: need.IDs, Own: own})
	}
	c, err := rule.Load(inputs, sets, append(some, own...))
	if err != nil && need != nil {
		c, err = rule.Load(inputs, sets, append(files, own...))
	}
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, r := range c.Rules() {
		if slices.ContainsFunc(own, func(f rule.File) bool { return f.Name == r.At.File }) {
			problems = append(problems, c.Compile(r)) // tests compile fettle's own rules
			problems = append(problems, unknownWords(r)...)
		}
	}
	return c, errors.Join(problems...)
}

// updated moves the files of an update from the administrator's to fettle's.
func updated(files, own []rule.File) (all, rest []rule.File) {
	for _, f := range own {
		if !f.Update {
			rest = append(rest, f)
			continue
		}
		files = append(slices.DeleteFunc(files, func(old rule.File) bool { return old.Name == f.Name }), f)
	}
	return files, rest
}

// CatalogueWith loads an administrator's rules, and fettle's rules, tables and evidence with the
// given ids. If an id is unknown or a pattern, it loads all.
func CatalogueWith(own []rule.File, ids []string) (*rule.Catalogue, error) {
	c, err := CatalogueOf(own, &rule.Needed{IDs: ids})
	if err != nil {
		return nil, err
	}
	known := IDs(c)
	if slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(known, id) }) {
		return CatalogueOf(own, nil)
	}
	return c, nil
}

// unknownWords returns an error for each unknown platform and setting kind that a rule names.
func unknownWords(r *rule.Rule) []error {
	var problems []error
	for _, p := range r.Platforms {
		if all := Platforms(); !slices.Contains(all, p) {
			problems = append(problems, fmt.Errorf("%s: %s: unknown platform %q%s", r.Key("platforms"), r.ID, p, internaltext.Suggest(p, all)))
		}
	}
	kinds := Kinds(host.Live())
	look := func(name string, at rule.Pos) {
		s, err := setting.Parse(name)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %s: %w", at, r.ID, err))
		case kinds[s.Kind] == nil:
			problems = append(problems, fmt.Errorf("%s: %s: %w", at, r.ID, tune.UnknownKind(name, s.Kind, kinds)))
		case s.Kind == "sysctl" && strings.ContainsAny(s.Name, "= "):
			key, value, _ := strings.Cut(s.Name, "=")
			problems = append(problems, fmt.Errorf("%s: %s: %q is not a sysctl name; want changes: {\"sysctl:%s\": %q}", at, r.ID, name, strings.TrimSpace(key), strings.TrimSpace(value)))
		}
	}
	for _, b := range r.Inputs {
		if b.As != "" {
			look(b.Input, b.Pos)
		}
	}
	if r.Fix != nil {
		for _, w := range r.Fix.Changes {
			look(w.Name, w.Pos)
		}
	}
	return problems
}

// AdministratorsRules reads /etc/fettle/rules.d. On a live machine it rejects files that users
// other than root can write: a rule could hide another or choose what fix writes. A copy may
// contain a pipe or a dangling link there; these are reported and skipped.
func AdministratorsRules(h *host.Host, say Sayer) ([]rule.File, error) {
	entries, err := h.Files.ReadDir(OwnRules)
	if host.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unread(h, say, OwnRules, err)
	}
	if err := onlyRoots(h, OwnRules); err != nil {
		return nil, err
	}
	var files []rule.File
	for _, e := range entries {
		name := path.Join(OwnRules, e.Name())
		switch path.Ext(name) {
		case ".yaml":
		case ".yml", ".json":
			return nil, fmt.Errorf("%s: rule files must end in .yaml; rename or move this file", name)
		default:
			continue // left by editors and packages
		}
		if err := onlyRoots(h, name); err != nil {
			return nil, err
		}
		text, err := h.Files.ReadFile(name)
		if err != nil {
			if err := unread(h, say, name, err); err != nil {
				return nil, err
			}
			continue
		}
		files = append(files, rule.File{Name: name, Text: text, Copied: !h.Live})
	}
	return files, nil
}

// Sayer prints a message.
type Sayer func(format string, args ...any)

// unread handles rules that cannot be read: on a copy it calls say, on a live machine it returns
// an error.
func unread(h *host.Host, say Sayer, name string, err error) error {
	if h.Live {
		return ui.Hinted(ui.Failed, fmt.Errorf("cannot read rules: %w", err), "replace "+name+" by a file, or remove it")
	}
	if say != nil {
		say("cannot read %s of the copy, so its rules were not checked: %v; put the file into the copy, or remove the entry", name, err)
	}
	return nil
}

// onlyRoots returns an error if a user other than root can change a rules file of a live machine.
func onlyRoots(h *host.Host, name string) error {
	if !h.Live {
		return nil
	}
	if err := profile.Trusted(h, name); err != nil {
		return ui.Hinted(ui.Refused, fmt.Errorf("rules not read: %w", err), "if you trust this file: sudo chown root "+internaltext.Quote(name)+" && sudo chmod go-w "+internaltext.Quote(name))
	}
	return nil
}
