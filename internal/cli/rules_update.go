package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
	internalupdate "fettle.dev/fettle/internal/update"
	"fettle.dev/fettle/profiles"
)

func rulesUpdateCommands(a *app) []*cobra.Command {
	var key string
	var older bool
	stage := &cobra.Command{
		Use: "stage FILE", Short: "Show what a signed update of rules and profiles changes",
		Long: `Reads an update of fettle's rules and profiles (a ZIP file), and checks its signature in
FILE.sig with the public keys in ` + internalupdate.KeyDir + `/*.pem. It then shows which verdicts and
profiles would change on this machine. The update takes effect with
fettle rules release.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.rulesStage(c.Context(), args[0], key, older) },
	}
	stage.Flags().StringVar(&key, "key", "", "public key in PEM that signed the update, instead of those in "+internalupdate.KeyDir)
	stage.Flags().BoolVar(&older, "older", false, "accept an update with a lower number than the one in force")
	cliutil.Reads(stage.Flags(), "key", "release.pem", func(string) error { return nil })
	return []*cobra.Command{
		stage,
		{
			Use: "staged", Short: "Show what the staged update changes on this machine", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.rulesStaged(c.Context()) },
		},
		{
			Use: "release", Short: "Apply the staged update of rules and profiles", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.rulesRelease(c.Context()) },
		},
		{
			Use: "withdraw", Short: "Remove updates; use fettle's own rules and profiles", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.rulesWithdraw() },
		},
	}
}

// updates returns the store of updates. An update belongs to this program, also when it reads a copy.
func (a *app) updates() internalupdate.Store {
	dir := a.stateDir
	if a.stateFlag != "" {
		dir = a.stateFlag
	}
	return internalupdate.Store{Dir: dir}
}

// released returns the update in force, or nil. Without permission to read it, the program's own
// rules and profiles apply.
func (a *app) released() (*internalupdate.Update, error) {
	u, err := a.updates().Released()
	switch {
	case errors.Is(err, fs.ErrPermission):
		if _, serr := os.Stat(a.updates().Dir); serr == nil {
			a.screen.SayOnce("only root can read updates of rules and profiles; the built-in rules and profiles are used")
		}
		return nil, nil
	case err != nil:
		return nil, ui.Hinted(ui.Failed, err, "to return to the rules and profiles of the program: fettle rules withdraw")
	}
	return u, nil
}

// ownRules returns the rules of the update in force and those of the administrator.
func (a *app) ownRules(h *host.Host) ([]rule.File, error) {
	u, err := a.released()
	if err != nil {
		return nil, err
	}
	return a.rulesWith(h, u)
}

func (a *app) rulesWith(h *host.Host, u *internalupdate.Update) ([]rule.File, error) {
	files, err := u.Rules()
	if err != nil {
		return nil, err
	}
	own, err := audit.AdministratorsRules(h, a.screen.Say)
	return append(files, own...), err
}

const noUpdate = "an update has two files: FILE and its signature FILE.sig"

func (a *app) rulesStage(ctx context.Context, file, key string, older bool) error {
	if _, err := os.Stat(file); err != nil {
		return ui.Hinted(ui.Usage, err, noUpdate)
	}
	keys, err := a.updateKeys(key)
	if err != nil {
		return err
	}
	data, by, err := internalupdate.Read(file, keys)
	switch {
	case errors.Is(err, internalupdate.ErrSignature):
		return ui.Hinted(ui.Refused, fmt.Errorf("%s: %w", file, err), "if you trust another publisher, give its key: fettle rules stage FILE --key PUBLIC.pem")
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hinted(ui.Usage, err, noUpdate)
	case err != nil:
		return err
	}
	u, err := internalupdate.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	now, err := a.released()
	if err != nil {
		return err
	}
	if now != nil && u.Number < now.Number && !older {
		return ui.Hinted(ui.Refused, fmt.Errorf("%s: number %d is older than number %d, which is in force", file, u.Number, now.Number), "fettle rules stage FILE --older stages it anyway")
	}
	return a.showUpdate(ctx, now, u, by.File, "staged", func() error { return a.updates().Stage(data) })
}

func (a *app) updateKeys(file string) ([]internalupdate.Key, error) {
	if file == "" {
		keys, err := internalupdate.Keys(a.live())
		if err == nil && len(keys) == 0 {
			err = ui.Hinted(ui.Refused, fmt.Errorf("%s has no key, so no signature can be checked", internalupdate.KeyDir), "put the public key of the publisher there as NAME.pem, or name it: fettle rules stage FILE --key PUBLIC.pem")
		}
		if errors.Is(err, profile.ErrUntrusted) {
			err = ui.Hinted(ui.Refused, err, "if you trust the keys: sudo chown -R root "+internalupdate.KeyDir+" && sudo chmod -R go-w "+internalupdate.KeyDir)
		}
		return keys, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	key, err := internalupdate.ParseKey(file, text)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return []internalupdate.Key{key}, nil
}

// stagedUpdate returns the staged update, and the one in force.
func (a *app) stagedUpdate() (now, next *internalupdate.Update, err error) {
	next, err = a.updates().Staged()
	if err == nil && next == nil {
		err = ui.Hinted(ui.Failed, errors.New("no update is staged"), "fettle rules stage FILE stages one")
	}
	if err != nil {
		return nil, nil, err
	}
	now, err = a.released()
	return now, next, err
}

func (a *app) rulesStaged(ctx context.Context) error {
	now, next, err := a.stagedUpdate()
	if err != nil {
		return err
	}
	return a.showUpdate(ctx, now, next, "", "staged", func() error { return nil })
}

func (a *app) rulesRelease(ctx context.Context) error {
	now, next, err := a.stagedUpdate()
	if err != nil {
		return err
	}
	return a.showUpdate(ctx, now, next, "", "released", a.updates().Release)
}

func (a *app) rulesWithdraw() error {
	if err := a.updates().Withdraw(); err != nil {
		return err
	}
	ui.PrintLine(a.screen, "the rules and profiles of the program are in force")
	return nil
}

// showUpdate compares the machine, or the copy, with one update and with another, then calls do, and shows
// what changes.
func (a *app) showUpdate(ctx context.Context, now, next *internalupdate.Update, by, state string, do func() error) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	subject := a.subject(ctx, h, audit.Kinds(h), nil)
	var all [2][]rule.Finding
	var platforms []string
	for i, u := range []*internalupdate.Update{now, next} {
		own, err := a.rulesWith(h, u)
		if err != nil {
			return err
		}
		c, err := audit.CatalogueOf(own, nil)
		if err == nil {
			err = u.Compile(c)
		}
		if err != nil {
			return err
		}
		r := audit.Request{Screen: ui.NewScreen(io.Discard, io.Discard), Subject: subject, Root: a.root, Platforms: platforms, Own: own, Catalogue: c}
		result, err := r.Run(ctx)
		if err != nil {
			return err
		}
		all[i], platforms = result.Findings, result.Platforms
	}
	out, err := internalupdate.NewChanges(ctx, h, now, next, all[0], all[1], profiles.FS)
	if err != nil {
		return err
	}
	var active []string
	if a.root == "" {
		if active, err = a.profilesInForce(h); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	out.SignedBy = by
	out.Conclude(state, active)
	if a.data() {
		return ui.Data(a.screen, out, ui.Done)
	}
	out.Print(a.screen)
	return nil
}

// builtin returns the profiles of the program, with those of the update in force. bad is called if the
// update cannot be read.
func (a *app) builtin(bad func(error) error) (fs.FS, error) {
	u, err := a.released()
	if err != nil {
		if err := bad(err); err != nil {
			return nil, err
		}
	}
	return u.Profiles(profiles.FS), nil
}
