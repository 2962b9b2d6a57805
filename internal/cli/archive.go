package cli

import (
	"context"
	"io"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// maxArchivedProfiles and maxArchivedBytes limit what an archive contains for plans: a profile
// may name half of /sys.
const (
	maxArchivedProfiles = 512
	maxArchivedBytes    = 64 << 20 // beyond it no more profiles are planned
)

// readForPlans reads everything that the plans of the profiles and the search for other
// sources of values need, through a recording host. So diff, show, recommend and why work on
// the archive. It writes nothing and executes no profile function. It ignores errors: the
// verbs report them again on the archive.
func (a *app) readForPlans(ctx context.Context, h *host.Host, rec *host.Recording) {
	quiet := *a
	quiet.screen = ui.NewScreen(io.Discard, io.Discard)
	m, err := quiet.machineOn(ctx, h, func(error) error { return nil })
	if err != nil {
		return
	}
	upTo := rec.Size() + maxArchivedBytes
	m.Claims(ctx)
	_, _ = m.Loader.Recommend(ctx)
	list, err := m.Loader.List()
	if err != nil {
		return
	}
	for i, s := range list {
		if i == maxArchivedProfiles || rec.Size() > upTo || ctx.Err() != nil {
			return
		}
		// Plan without fettle's journal, which a copy does not have.
		if p, err := m.Load(ctx, false, tune.WithPostLoaded([]string{s.Name}, m.PostLoaded())...); err == nil {
			_, _ = m.Engine.PlanProfile(ctx, p, &journal.State{})
		}
	}
}

// readForChecks reads the inputs of every rule through a recording host, so that an audit of
// the archive gives the machine's results. It ignores errors in the administrator's rules,
// which check reports.
func (a *app) readForChecks(ctx context.Context, h *host.Host) {
	own, err := a.ownRules(h)
	if err != nil {
		return
	}
	c, err := audit.CatalogueOf(own, &rule.Needed{Platforms: audit.Platforms()})
	if err != nil {
		return
	}
	subject := platform.NewSubject(ctx, h, table.Kinds(h), audit.Sources())
	subject.Of(audit.Products())
	c.Check(ctx, subject, audit.Platforms(), nil)
}
