package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/ui"
)

// TuneResult is the JSON form of fettle tune.
type TuneResult struct {
	Schema   string      `json:"schema"` // fettle/tune/v1
	Headline ui.Headline `json:"headline"`
	*tune.Applied
	// PostLoaded is the profile merged over the selected profiles.
	PostLoaded string  `json:"post_loaded,omitempty"`
	DurationS  float64 `json:"duration_s"`
}

// savedOptions are the options of tune and diff about saved settings.
type savedOptions struct {
	tune.Saving
	on bool
}

func savedFlags(c *cobra.Command, set *[]string) *savedOptions {
	var o savedOptions
	f := c.Flags()
	f.StringArrayVar(set, "set", nil, "set SETTING=VALUE in addition to the active profiles; repeatable")
	f.BoolVar(&o.on, "save", false, "save the settings of --set in the profile kernel_settings, which overrides all other profiles")
	f.StringArrayVar(&o.Unset, "unset", nil, "with --save: remove this saved SETTING and restore its value; repeatable")
	f.StringSliceVar(&o.Replace, "replace", nil, "with --save: remove all other saved settings of these plug-ins, such as sysctl (all: of every plug-in)")
	cliutil.Reads(f, "set", "vm.swappiness=10", readsChange)
	cliutil.Reads(f, "unset", "vm.swappiness", tune.ReadsUnset)
	cliutil.Reads(f, "replace", "sysctl", func(name string) error {
		if !profile.ValidName(name) {
			return errors.New("want the name of a plug-in, or all")
		}
		return nil
	})
	cliutil.Requires(c, "--save", "unset", "replace")
	return &o
}

// request returns the change of the saved settings, or nil, and the settings of --set that are not
// to be saved.
func (o *savedOptions) request(set []string) (*tune.Saving, []string) {
	if !o.on {
		return nil, set
	}
	s := o.Saving
	s.Set = set
	return &s, nil
}

type tuneOptions struct {
	tune.Request
	persist  bool // also enable fettle's unit
	takeOver bool // stop another tuner
	try      time.Duration
	// compliance is the result of a scan whose requirements are kept.
	compliance string
}

func tuneCommand(a *app) *cobra.Command {
	var o tuneOptions
	var saving *savedOptions
	c := &cobra.Command{
		Use: "tune [PROFILE...]", Short: "Apply a profile; everything can be undone",
		Long: `Applies profiles and records them as active; later profiles override earlier ones. Only
values that differ are written. Values that the old and the new profiles have in
common are not reset in between. Without arguments it changes nothing, names the
recommended profile and exits with 2; --auto applies that profile.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.endsInWindow(a.live().Clock.Now().Local(), o.try); err != nil {
				return err
			}
			o.Profiles = args
			o.Save, o.Set = saving.request(o.Set)
			return a.tune(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Plan, "plan", "", "apply the plan in this file, from fettle diff --output json; - for standard input")
	saving = savedFlags(c, &o.Set)
	f.BoolVar(&o.Auto, "auto", false, "apply the recommended profile")
	f.BoolVar(&o.Update, "update", false, "apply the newer definition of the active profiles")
	f.BoolVar(&o.Atomic, "atomic", false, "undo everything if one value is rejected")
	f.BoolVar(&o.persist, "persist", false, "enable fettle's unit, so that the active profiles are applied at boot")
	f.BoolVar(&o.takeOver, "take-over", false, "stop another active tuner, such as TuneD; undo restores it")
	f.DurationVar(&o.try, "try", 0, "undo automatically after this time, such as 10m, unless fettle confirm is run")
	complianceFlag(c, &o.compliance)
	cliutil.Between(f, "try", time.Second, 24*time.Hour, 10*time.Minute)
	cliutil.Exclusive(c, "plan", "set", "auto", "update")
	cliutil.Exclusive(c, "plan", "save", "auto", "update")
	cliutil.Check(c, func(args []string) error {
		err := errors.New("want exactly one of PROFILE, --auto, --update, --plan FILE, --set SETTING=VALUE, --save")
		switch other := o.Plan != "" || len(o.Set) > 0 && !saving.on || o.Auto || o.Update; {
		case len(args) > 0 && other:
			return ui.Without(err, "--plan", "--set", "--auto", "--update")
		case len(args) == 0 && !other && !saving.on:
			return ui.Retry(ui.Usage, err, "nothing changed", a.recommended(c)...)
		}
		return nil
	})
	cliutil.Excludes(c, "try", "a trial ends before the next boot", "persist", "take-over")
	cliutil.Excludes(c, "save", "saved settings are kept", "try")
	cliutil.PreviewedBy(c, "fettle diff shows what fettle tune would do, and changes nothing")
	return c
}

// recommended returns the recommended profiles as arguments for tune. If they cannot be
// determined, it returns --auto, so that tune reports the reason.
func (a *app) recommended(c *cobra.Command) []string {
	ctx := cmp.Or(c.Context(), context.Background())
	m, err := a.machine(ctx)
	if err != nil {
		return []string{"--auto"}
	}
	names, err := m.Recommended(ctx)
	if err != nil {
		return []string{"--auto"}
	}
	return names
}

func (a *app) tune(ctx context.Context, o tuneOptions) error {
	began := time.Now()
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if o.persist {
		if _, err := daemon.PersistChanges(m.Host); err != nil {
			return err // before anything is changed
		}
	}
	if err := a.keepRequired(m, o.compliance); err != nil {
		return err
	}
	planner, apply, err := m.Planner(ctx, o.Request)
	if err != nil {
		return err
	}
	recovered, err := m.Recover(ctx)
	if err == nil && len(recovered) > 0 && o.Plan == "" {
		planner, apply, err = m.Planner(ctx, o.Request) // the recovery may have restored the saved settings
	}
	if err != nil {
		return err
	}
	taken, err := m.OneTuner(ctx, o.takeOver, a.command+" --take-over", m.WritesOf(ctx, planner))
	if err != nil {
		return m.RestoreTuners(ctx, taken, err)
	}
	if o.try > 0 {
		if why := daemon.TrialUnguarded(m.Host); why != "" {
			a.screen.Say("%s", why)
		}
		if apply.Try, err = m.StartTrial(o.try, a.watchdog()); err != nil {
			return err
		}
	}
	res, err := m.Apply(ctx, planner, apply)
	if res == nil {
		if errors.Is(err, context.Canceled) {
			err = ui.Exit(ui.Interrupted, errors.New("interrupted before anything was written"))
		}
		return m.RestoreTuners(ctx, taken, err)
	}
	for _, id := range append(recovered, res.Recovered...) {
		a.screen.Say("transaction %d was interrupted or not confirmed; undone first", id)
	}
	selected := apply.Selection != nil
	if err == nil && selected && res.Tx > 0 {
		applied := time.Now()
		daemon.AwaitHeld(ctx, m.Engine, res, daemon.HeldWithin)
		began = began.Add(time.Since(applied)) // waiting does not count as tuning
	}
	for _, p := range res.Plan.Problems {
		a.screen.Say("%s", p)
	}
	doc := TuneResult{Schema: "fettle/tune/v1", Applied: res}
	if selected && apply.Selection.PostLoaded != "" {
		doc.PostLoaded = apply.Selection.PostLoaded
		a.screen.Say("also applied: the post-loaded profile %s, which %s names", doc.PostLoaded, profile.PostLoadedProfileFile)
	}
	if err = res.Err(err); len(o.Set) > 0 {
		err = m.AddMissing(ctx, res, err)
	}
	err = m.RestoreTuners(ctx, taken, err)
	switch {
	case apply.Try != nil && res.Tx > 0 && (err == nil || ui.Code(err) == ui.Partial):
		a.screen.Say("on trial until %s, then undone; to keep it: %s", apply.Try.Until.Local().Format("15:04:05"), a.next("confirm"))
	case err == nil && selected && !o.persist && !daemon.Persisted(m.Host) && slices.ContainsFunc(res.Plan.Steps, lostAtReboot):
		a.screen.Say("the values will be lost at reboot, because fettle's unit is not enabled (fettle tune PROFILE --persist enables it)")
	}
	if o.persist && (err == nil || ui.Code(err) == ui.Partial) {
		err = errors.Join(err, a.persist(ctx, m))
	}
	took := time.Since(began)
	doc.DurationS, doc.Headline = took.Seconds(), res.Summarize(took)
	if a.data() {
		err = a.result(doc, err)
	} else {
		tune.PrintApplied(a.screen, res, &doc.Headline)
	}
	a.sayUnread(res.Tx, res.Result)
	return err
}

func (a *app) persist(ctx context.Context, m *tune.Machine) error {
	changes, err := daemon.PersistChanges(m.Host)
	if err != nil {
		return err
	}
	res, err := daemon.Persist(ctx, m.Engine, changes)
	if err == nil {
		err = res.Err(nil)
	}
	if err == nil {
		a.screen.Say("fettle's unit is enabled and started: transaction %d, reverted by fettle undo", res.Tx)
	}
	return err
}

// watchTrialCommand returns the watchdog of tune --try.
func watchTrialCommand(a *app) *cobra.Command {
	var deadline time.Duration
	var parent int
	var ready bool
	c := &cobra.Command{
		Use: "watch-trial", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := context.WithoutCancel(c.Context()) // outlives the terminal
			signal.Ignore(syscall.SIGHUP, os.Interrupt)
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM)
			m, err := a.machineAsIs(ctx)
			if err != nil {
				return err
			}
			if ready {
				if err := tune.ReportReady(); err != nil {
					return err
				}
			}
			return m.WatchTrial(ctx, deadline, parent, stop)
		},
	}
	c.Flags().IntVar(&parent, "parent", 0, "ID of the process that begins the trial")
	c.Flags().BoolVar(&ready, "ready", false, "write to file descriptor 3 once signals no longer end this process")
	c.Flags().DurationVar(&deadline, "deadline", 0, "end of the trial, as time since boot")
	return c
}

// ConfirmResult is the JSON form of fettle confirm.
type ConfirmResult struct {
	Schema       string      `json:"schema"` // fettle/confirm/v1
	Headline     ui.Headline `json:"headline"`
	Transactions []int       `json:"transactions"`
}

func confirmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "confirm", Short: "Keep the changes of fettle tune --try", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.machineAsIs(c.Context())
			if err != nil {
				return err
			}
			ids, err := m.Confirm(c.Context())
			if err != nil {
				return err
			}
			doc := ConfirmResult{Schema: "fettle/confirm/v1", Transactions: ids}
			stay := " stay"
			if len(ids) == 1 {
				stay = " stays"
			}
			doc.Headline.Count("transactions", len(ids), "")
			doc.Headline.Line("✓ %s%s", tune.TransactionWords(ids), stay)
			if a.data() {
				return a.result(doc, nil)
			}
			ui.PrintHeadline(a.screen, &doc.Headline)
			return nil
		},
	}
}

// recoverCommand returns the command of the early boot unit. It undoes transactions that were
// cut off or on trial, before anything else tunes.
func recoverCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "recover", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.machineAsIs(c.Context())
			if err != nil {
				return err
			}
			ids, err := m.Recover(context.WithoutCancel(c.Context()))
			for _, id := range ids {
				a.screen.Say("transaction %d undone", id)
			}
			return err
		},
	}
}

// lostAtReboot reports whether a step's value is only in the running kernel.
func lostAtReboot(st tune.Step) bool {
	return st.Action != tune.None && !st.Lifetime.SurvivesBoot()
}
