package cli

import (
	"context"
	"io"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// maxArchivedProfiles and maxArchivedBytes bound what an archive holds for the
// sake of plans: profiles are anybody's, and one may name half of /sys.
const (
	maxArchivedProfiles = 512
	maxArchivedBytes    = 64 << 20 // beyond it no further profile is planned
)

// readForPlans reads, through a host that records, what the plan of each profile
// asks the machine for, and who else sets the values: the archive has then what
// diff, show, recommend and why need. It is as if diff had been asked for each
// profile; nothing is written and no profile function executed. What goes wrong
// is of no consequence: on the archive it goes wrong again, and is told there.
func (a *app) readForPlans(ctx context.Context, h *host.Host, rec *host.Recording) {
	quiet := *a
	quiet.screen = ui.NewScreen(io.Discard, io.Discard)
	m, err := quiet.machineOn(ctx, h, func(error) error { return nil })
	if err != nil {
		return
	}
	upTo := rec.Size() + maxArchivedBytes
	m.claimsOf(ctx)
	_, _ = m.loader.Recommend(ctx)
	list, err := m.loader.List()
	if err != nil {
		return
	}
	for i, s := range list {
		if i == maxArchivedProfiles || rec.Size() > upTo || ctx.Err() != nil {
			return
		}
		// The values of the machine, not those of fettle's journal: a copy has
		// no journal.
		if p, err := m.load(ctx, false, tune.WithPostLoaded([]string{s.Name}, m.postLoaded())...); err == nil {
			_, _ = m.engine.PlanProfile(ctx, p, &journal.State{})
		}
	}
}

// readForChecks reads, through a host that records, what every rule asks the
// machine for, whatever it is: the archive is audited as the machine would be.
// A mistake in the rules of its administrator is of no consequence: it is told
// where somebody checks.
func (a *app) readForChecks(ctx context.Context, h *host.Host) {
	c, err := catalogue(h, nil)
	if err != nil {
		return
	}
	subject := platform.NewSubject(ctx, h, table.Kinds(h), sources())
	subject.Of(products())
	c.Check(ctx, subject, platformNames(), nil)
}
