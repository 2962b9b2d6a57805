package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// TuneResult is the JSON form of fettle tune.
type TuneResult struct {
	Schema string `json:"schema"` // fettle/tune/v1
	*tune.Applied
	// PostLoaded is the profile that is merged over those selected.
	PostLoaded string  `json:"post_loaded,omitempty"`
	DurationS  float64 `json:"duration_s"`
}

type tuneOptions struct {
	plan   string
	set    []string
	auto   bool
	atomic bool
	update bool
	// persist enables fettle's unit as well, takeOver stops another tuner.
	persist  bool
	takeOver bool
	try      time.Duration
}

func tuneCommand(a *app) *cobra.Command {
	var o tuneOptions
	c := &cobra.Command{
		Use: "tune PROFILE...", Short: "Apply a profile: only what differs is written, and all of it can be undone",
		Long: `Applies the profiles, later ones over earlier ones, and records them as the
selection in force. A selection that was in force before is left value by value:
what both have is not touched.`,
		ValidArgsFunction: a.completeProfiles,
		RunE: func(c *cobra.Command, args []string) error {
			ways := 0
			for _, given := range []bool{len(args) > 0, o.plan != "", len(o.set) > 0, o.auto, o.update} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return ui.Hinted(ui.Usage, errors.New("want one of: profiles, --auto, --update, --plan FILE, --set SETTING=VALUE"), "fettle recommend names a profile for this machine")
			}
			if (o.persist || o.takeOver) && o.try > 0 {
				return ui.Without(errors.New("--try goes without --persist and --take-over: a trial ends without a trace"), "--persist", "--take-over")
			}
			if err := a.endsInWindow(live().Clock.Now().Local(), o.try); err != nil {
				return err
			}
			return a.tune(c.Context(), args, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.plan, "plan", "", "apply the plan that fettle diff --output json wrote (- for standard input)")
	f.StringArrayVar(&o.set, "set", nil, "apply one setting beside the selection, SETTING=VALUE; repeatable")
	f.BoolVar(&o.auto, "auto", false, "apply the recommended profile")
	f.BoolVar(&o.update, "update", false, "accept the newer definition of the profiles in force")
	f.BoolVar(&o.atomic, "atomic", false, "take everything back if one value is rejected")
	f.BoolVar(&o.persist, "persist", false, "enable and start fettle's unit, so that the selection is applied at boot and kept")
	f.BoolVar(&o.takeOver, "take-over", false, "stop another tuner that is in force; undo gives it back")
	f.DurationVar(&o.try, "try", 0, "undo by itself after this time unless fettle confirm arrives")
	cliutil.Reads(f, "set", "vm.swappiness=10", readsChange)
	cliutil.Between(f, "try", time.Second, 24*time.Hour, 10*time.Minute)
	return c
}

func (a *app) tune(ctx context.Context, names []string, o tuneOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	if err := mustBeRoot(); err != nil {
		return err
	}
	began := time.Now()
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if o.persist {
		if _, err := m.persistChanges(); err != nil {
			return err // before anything is changed
		}
	}
	planner, apply, err := m.planner(ctx, names, o)
	if err != nil {
		return err
	}
	taken, err := m.oneTuner(ctx, o.takeOver, m.writesOf(ctx, planner))
	if err != nil {
		return m.handBack(ctx, taken, err)
	}
	if o.try > 0 {
		if why := unguarded(m.host); why != "" {
			a.screen.Say("%s", why)
		}
		if apply.Try, err = m.startTrial(o.try); err != nil {
			return err
		}
	}
	recovered, err := m.engine.Recover(ctx)
	if err != nil {
		return m.handBack(ctx, taken, err)
	}
	res, err := m.engine.Apply(ctx, planner, apply)
	if res == nil {
		if errors.Is(err, context.Canceled) {
			err = ui.Exit(ui.Interrupted, errors.New("interrupted before anything was written"))
		}
		return m.handBack(ctx, taken, err)
	}
	for _, id := range append(recovered, res.Recovered...) {
		a.screen.Say("transaction %d had been cut off or not confirmed: taken back first", id)
	}
	if err == nil && apply.Selection != nil && res.Tx > 0 {
		applied := time.Now()
		m.awaitDaemon(ctx, res, heldWithin)
		began = began.Add(time.Since(applied)) // to wait for somebody else is no tuning
	}
	for _, p := range res.Plan.Problems {
		a.screen.Say("%s", p)
	}
	post := ""
	if apply.Selection != nil && apply.Selection.PostLoaded != "" {
		post = apply.Selection.PostLoaded
		a.screen.Say("with the post-loaded profile %s, which %s names", post, profile.PostLoadedProfileFile)
	}
	err = m.verdict(res, err)
	if len(o.set) > 0 {
		err = m.absent(ctx, res, err)
	}
	err = m.handBack(ctx, taken, err)
	if apply.Try != nil && err == nil {
		a.screen.Say("on trial until %s: fettle confirm keeps it, otherwise it is undone", apply.Try.Until.Local().Format("15:04:05"))
	} else if ui.Code(err) == ui.Done && apply.Selection != nil && !o.persist && !persisted(m.host) {
		a.screen.Say("this will not survive a reboot: fettle's unit is not enabled")
	}
	if o.persist && (err == nil || ui.Code(err) == ui.Partial) {
		p, perr := m.persist(ctx)
		if perr == nil {
			perr = m.verdict(p, nil)
		}
		if perr == nil {
			a.screen.Say("fettle's unit is enabled and started: transaction %d, which fettle undo takes back", p.Tx)
		}
		err = errors.Join(err, perr)
	}
	if a.data() {
		err = a.result(TuneResult{"fettle/tune/v1", res, post, time.Since(began).Seconds()}, err)
	} else {
		tune.PrintApplied(a.screen, res, time.Since(began))
	}
	a.sayUnread(res.Tx, res.Result)
	return err
}

// verdict turns what came of a transaction into an error with its exit code.
func (m *machine) verdict(res *tune.Applied, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return interrupted(res, err)
	case err != nil && res.Result == journal.ResultRolledBack:
		return ui.Exit(ui.RolledBack, err)
	case err != nil:
		return err
	case res.Result == journal.ResultRolledBack && res.InForce() == 0:
		return ui.Exit(ui.RolledBack, errors.New("no value could be set, so the transaction was taken back"))
	case res.Result == journal.ResultRolledBack:
		return ui.Exit(ui.RolledBack, errors.New("a value was rejected, or is in place without working, so all were taken back"))
	case res.Result == journal.ResultPartial && res.Changed() > 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values are not as wanted, and the kernel has made another of %d", res.Failed(), res.Failed()+res.InForce(), res.Changed()), "the others are in force; fettle undo takes all of them back, --atomic would have")
	case res.Result == journal.ResultPartial && res.Failed() == 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values are in place and do not work", res.Failing(), res.InForce()), "fettle undo takes all of them back, --atomic would have")
	case res.Result == journal.ResultPartial:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values were rejected", res.Failed(), res.Failed()+res.InForce()), "the others are in force; fettle undo takes them back, --atomic would have")
	case res.Result == tune.ResultNothing:
		if res.Failed() > 0 {
			return ui.Exit(ui.Failed, errors.New("no value could be set, so nothing is changed and no transaction recorded"))
		}
		err := errors.New("nothing is changed, and no transaction recorded")
		for _, s := range res.Plan.Steps {
			if s.Verdict == plugin.Refused || s.Verdict == plugin.Kept {
				return ui.Hinted(ui.Refused, err, internaltext.CommandLine([]string{"fettle", "why", s.Setting.String()})+" shows what decides it")
			}
		}
		return ui.Exit(ui.Failed, err)
	}
	return nil
}

// absent adds the places that were asked for by name and are not there.
func (m *machine) absent(ctx context.Context, res *tune.Applied, err error) error {
	var missing []error
	for _, s := range res.Plan.Steps {
		if s.Verdict != plugin.Unsupported || s.Action != tune.None {
			continue
		}
		why := error(nil)
		if s.Before.Absent {
			why = m.missing(ctx, s.Setting)
		}
		if why == nil {
			why = fmt.Errorf("%s: %s", s.Setting, s.Why)
		}
		missing = append(missing, errors.New(why.Error()))
	}
	if len(missing) == 0 {
		return err
	}
	code := ui.Code(err)
	if err == nil {
		code = ui.Partial
	}
	return ui.Exit(code, errors.Join(append(missing, err)...))
}

// interrupted says what Ctrl-C has left of a transaction.
func interrupted(res *tune.Applied, err error) error {
	var rest []error
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the join itself, not what is in it
		rest = slices.DeleteFunc(slices.Clone(all.Unwrap()), func(err error) bool { return errors.Is(err, context.Canceled) })
	}
	if len(rest) > 0 {
		return errors.Join(append([]error{errors.New("interrupted, and not all that was written could be undone: fettle undo tries again")}, rest...)...)
	}
	return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted: all that transaction %d had written is undone", res.Tx))
}

// planner chooses how the plan comes about.
func (m *machine) planner(ctx context.Context, names []string, o tuneOptions) (tune.Planner, tune.ApplyOptions, error) {
	apply := tune.ApplyOptions{Kind: journal.Tune, Atomic: o.atomic, OrNothing: true}
	switch {
	case o.plan != "":
		p, err := readPlan(o.plan)
		if err != nil {
			return nil, apply, err
		}
		apply.Kind, apply.Planned = journal.Apply, p.Planned()
		if len(p.Profiles) > 0 {
			// A plan of profiles is a selection like any other.
			loaded, err := m.load(ctx, false, p.Profiles...)
			if err != nil {
				return nil, apply, err
			}
			if !slices.EqualFunc(loaded.Sources, p.Sources, func(a, b profile.Source) bool { return a.Path == b.Path && a.SHA256 == b.SHA256 }) {
				return nil, apply, o.stale(p, fmt.Errorf("%w: its profiles have another content now", tune.ErrStale))
			}
			apply.Kind = journal.Tune
			names := p.Profiles
			if n := len(names); n > 1 && names[n-1] == m.postLoaded() {
				names = names[:n-1]
			}
			if apply.Selection, err = tune.NewSelection(loaded, names, tune.ModeManual); err != nil {
				return nil, apply, err
			}
		}
		saved := m.engine.ApplySaved(p)
		return func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			p2, err := saved(ctx, s)
			return p2, o.stale(p, err)
		}, apply, nil
	case len(o.set) > 0:
		var changes []setting.Change
		for _, text := range o.set {
			c, err := m.asked(text)
			if err != nil {
				return nil, apply, ui.Exit(ui.Usage, err)
			}
			changes = append(changes, c)
		}
		apply.Kind = journal.Apply
		return func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			return m.engine.PlanAsked(ctx, changes, s)
		}, apply, nil
	case o.auto:
		r, err := m.recommend(ctx)
		if err != nil {
			return nil, apply, err
		}
		names = []string{r}
	case o.update:
		s, err := m.state()
		if err != nil {
			return nil, apply, err
		}
		_, sel, err := m.inForce(ctx, s)
		if err != nil {
			return nil, apply, err
		}
		if sel == nil {
			return nil, apply, ui.Exit(ui.Failed, errors.New("no selection is in force, so there is nothing to update"))
		}
		names = sel.Profiles
	}
	p, err := m.load(ctx, true, tune.WithPostLoaded(names, m.postLoaded())...)
	if err != nil {
		return nil, apply, err
	}
	mode := tune.ModeManual
	if o.auto {
		mode = tune.ModeAuto
	}
	if apply.Selection, err = tune.NewSelection(p, names, mode); err != nil {
		return nil, apply, err
	}
	return func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return m.engine.PlanProfile(ctx, p, s)
	}, apply, nil
}

// stale adds to the refusal of an outdated plan the command that makes a new one.
func (o tuneOptions) stale(p *tune.Plan, err error) error {
	if !errors.Is(err, tune.ErrStale) || len(p.Profiles) == 0 {
		return err
	}
	file := "plan.json"
	if o.plan != "-" {
		file = o.plan
	}
	return ui.Hinted(ui.Refused, err, "make a new plan: "+internaltext.CommandLine(slices.Concat([]string{"sudo", "fettle", "diff"}, p.Profiles, []string{"--output", "json"}))+" > "+internaltext.Quote(file))
}

func readPlan(path string) (*tune.Plan, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := host.OpenRegular(path)
		if err != nil {
			return nil, ui.Exit(ui.Usage, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 64<<20))
	if err != nil {
		return nil, err
	}
	p, err := tune.ReadPlan(text)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s: %w", path, err), "fettle diff throughput-performance --output json > plan.json writes a plan")
	}
	return p, nil
}

// postLoaded is the profile that is merged over every selection; "" for none.
func (m *machine) postLoaded() string {
	b, err := m.host.Files.ReadFile(profile.PostLoadedProfileFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
