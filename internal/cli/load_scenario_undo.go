package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/scenarios"
)

// scenarioDir is the directory of created objects in the state directory.
const scenarioDir = "scenarios"

func loadScenarioUndoCommand(a *app) *cobra.Command {
	var o loadScenarioOptions
	c := &cobra.Command{Use: "undo [RUN]", Short: "Remove what a scenario created, by recorded id",
		Long: `Removes the objects that a run of a scenario created, by their recorded ids only, latest
first. An object that has changed since the run is kept. An object whose id is unknown,
because the run was killed before the answer, is named. Without RUN it undoes the last
run whose objects are not removed. Certificates are those of the run, unless given.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.loadScenarioUndo(c.Context(), o, strings.Join(args, ""))
		},
	}
	o.Identity.Flags(c.Flags())
	o.Identity.Rules(c)
	return c
}

// head returns the first line of the journal of a run.
func (o *loadScenarioOptions) head(p *scenario.Plan, file string) scenario.Head {
	name, text, _, _ := scenarioText(file) // read before
	h := scenario.Head{Began: time.Now(), File: name, Text: text, Options: p.Options, Allow: o.allow, Identity: o.Files, PassFile: absolute(o.PassFile), PassEnv: o.PassEnv}
	h.HostCerts = absolute(h.HostCerts)
	if strings.ContainsRune(file, '/') {
		h.Dir = absolute(filepath.Dir(file))
	} else {
		h.Dir = absolute(".")
	}
	for _, name := range []*string{&h.Identity.Cert, &h.Identity.Key, &h.Identity.CA, &h.Identity.PKCS12, &h.Identity.PuppetSSLDir} {
		*name = absolute(*name)
	}
	return h
}

// absolute returns an absolute file name, or "" for "".
func absolute(name string) string {
	if name == "" {
		return ""
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return at
}

func (a *app) loadScenarioUndo(ctx context.Context, o loadScenarioOptions, run string) error {
	dir := filepath.Join(a.state(), scenarioDir)
	j, objects, err := scenario.Open(dir, run)
	var busy *scenario.BusyError
	switch {
	case errors.Is(err, fs.ErrNotExist) && run == "":
		return ui.Hinted(ui.Failed, fmt.Errorf("%s: no run has objects to remove", dir), "fettle runs list shows all runs; --state-dir names another state directory")
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hinted(ui.Usage, fmt.Errorf("%s: no objects of a run %q", dir, run), "without RUN, fettle load scenario undo takes the last run with objects")
	case errors.As(err, &busy):
		return ui.Hinted(ui.Busy, err, "end it with Ctrl-C or wait for its end, then run fettle load scenario undo again")
	case errors.Is(err, fs.ErrPermission):
		return ui.AsRoot(err, "")
	case err != nil:
		return err
	}
	defer j.Close()
	plan, err := o.undoPlan(ctx, objects)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	a.screen.Say("undoing run %s of %s", objects.Run, plan.Name)
	step, stop := a.screen.Steps(0)
	undone, err := scenario.Undo(ctx, plan, j, objects, func(done, all int) { step("removing", done, all) })
	stop()
	if err != nil {
		if ctx.Err() != nil {
			err = ui.Exit(ui.Interrupted, errors.New("interrupted: the removed objects are recorded; run it again to go on"))
		}
		return err
	}
	if left := undone.Left(); left > 0 {
		err = ui.Hinted(ui.Partial, fmt.Errorf("%s of run %s may still exist", internaltext.Count(left, "object"), objects.Run), "the table says why; "+a.next("load", "scenario", "undo", objects.Run)+" tries again")
	}
	if a.data() {
		return a.result(undone, err)
	}
	undone.Print(a.screen)
	return err
}

// undoPlan returns the plan with which the recorded objects are removed.
func (o *loadScenarioOptions) undoPlan(ctx context.Context, x *scenario.Objects) (*scenario.Plan, error) {
	j := &scenario.Job{File: x.File, Text: x.Text, Options: x.Options, Allow: x.Allow, Identity: x.Identity, Files: map[string][]byte{}, Env: map[string]string{}}
	if o.Files != (engine.Files{}) {
		j.Identity = o.Files
	} else {
		o.Files, o.PassFile, o.PassEnv = x.Identity, x.PassFile, x.PassEnv
	}
	if err := o.identities(j); err != nil {
		return nil, err
	}
	j.HostNames = x.HostNames
	read := func(name string) ([]byte, error) {
		text, err := scenarios.FS.ReadFile(name) // undo sends no body: whose file it is does not matter
		if err != nil {
			at := name
			if !filepath.IsAbs(name) {
				at = filepath.Join(x.Dir, name)
			}
			text, err = loadcli.ReadFile(at)
		}
		if err == nil {
			j.Files[name] = text
		}
		return text, err
	}
	s, err := scenario.Parse(x.File, x.Text, read, func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		if ok {
			j.Env[name] = value
		}
		return value, ok
	})
	if err != nil {
		return nil, err
	}
	for _, name := range append(s.CertFiles(j.Options), x.CertFilesOf()...) {
		if _, err := read(name); err != nil {
			return nil, err
		}
	}
	return j.Plan(ctx, net.DefaultResolver)
}
