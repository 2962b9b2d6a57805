package audit

import (
	"context"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/profiles"
)

// Subject returns a machine in the form that rules read. open opens the machine for planning its
// profiles.
func Subject(ctx context.Context, h *host.Host, kinds setting.Kinds, to *Upgrade, open func() (*tune.Machine, error)) *platform.Subject {
	s := platform.NewSubject(ctx, h, kinds, Sources())
	if to != nil {
		to.from(s)
		s = platform.NewSubject(ctx, h, kinds, to.sources())
	}
	s.Planned = func(ctx context.Context, profiles []string) ([]string, error) {
		m, err := open()
		if err != nil {
			return nil, err
		}
		return planned(ctx, m, profiles)
	}
	return s
}

// planned returns the kernel files that profiles would change on a machine.
func planned(ctx context.Context, m *tune.Machine, profiles []string) ([]string, error) {
	p, err := m.Load(ctx, false, profiles...)
	if err != nil {
		return nil, err
	}
	plan, err := m.Engine.PlanProfile(ctx, p, &journal.State{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range plan.Writing() {
		out = append(out, m.Kinds.KernelFiles(s)...)
	}
	return out, nil
}

// Recorded returns the audit of a recorded machine or cluster that was opened from root. release
// is the release after an upgrade, or "" to audit the installed one.
func Recorded(ctx context.Context, s *ui.Screen, h *host.Host, root, release string) (*Request, error) {
	r := &Request{Screen: s, Root: root, WholeLogs: "fettle check --logs all --root " + text.Quote(root)}
	var err error
	if r.Upgrade, err = ForRelease(release, &r.Platforms); err != nil {
		return nil, err
	}
	if r.Own, err = AdministratorsRules(h, s.Say); err != nil {
		return nil, err
	}
	r.Subject = Subject(ctx, h, table.Kinds(h), r.Upgrade, func() (*tune.Machine, error) {
		e := &tune.Engine{Host: h, Kinds: Kinds(h), Plugins: table.All, StateDir: "/nonexistent", Tell: func(text string) { s.Say("%s", text) }}
		return tune.Open(ctx, e, profiles.FS, nil, func(error) error { return nil })
	})
	return r, nil
}
