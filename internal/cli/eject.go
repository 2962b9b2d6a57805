package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/eject"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// EjectResult is the JSON form of fettle eject.
type EjectResult struct {
	*eject.Result
	// Written lists the files written below the directory of --write.
	Written *sizing.Written `json:"written,omitempty"`
}

type ejectOptions struct {
	format, write string
	force, all    bool
}

func ejectCommand(a *app) *cobra.Command {
	var o ejectOptions
	c := &cobra.Command{
		Use: "eject [PROFILE...]", Short: "Print the tuning as native files, to keep it without fettle",
		Long: `Converts the values in force, or those of PROFILE, to native files: sysctl.d, tmpfiles.d,
udev rules, modprobe.d, unit drop-ins and kernel arguments. With --format it makes an
Ansible playbook or an OpenShift MachineConfig. It changes nothing on the machine.
--write DIR writes the files under the names that they have on the machine. Values
that no native file can keep are listed with the reason.`,
		RunE: func(c *cobra.Command, args []string) error { return a.eject(c.Context(), args, o) },
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", eject.Files, "files, ansible or machineconfig")
	f.StringVar(&o.write, "write", "", "write the files below this directory; created if missing")
	f.BoolVar(&o.force, "force", false, "with --write: also overwrite files that fettle did not write")
	f.BoolVarP(&o.all, "all", "a", false, "print the whole content of all files, and each value that is not kept")
	cliutil.Requires(c, "--write", "force")
	cliutil.OneOf(f, "format", eject.Formats...)
	return c
}

func (a *app) eject(ctx context.Context, names []string, o ejectOptions) error {
	if err := cliutil.WritableDir("--write", o.write); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	in, err := ejected(ctx, m, names)
	if err != nil {
		return err
	}
	for _, p := range in.Plan.Problems {
		a.screen.Say("%s", p)
	}
	r, err := eject.Of(ctx, m.Host, m.Kinds, in)
	if err != nil {
		return err
	}
	if err := r.Convert(o.format); err != nil {
		return err
	}
	doc := EjectResult{Result: r}
	dir := ""
	if o.write != "" {
		if doc.Written, err = sizing.WriteDir(o.write, "eject", artefacts(r), o.force); err != nil {
			return err
		}
		dir = doc.Written.Dir
	}
	r.Summarize(dir)
	if a.root != "" && !in.Plan.Determined() {
		err = a.undetermined()
	}
	if a.data() {
		return a.result(doc, err)
	}
	r.Print(a.screen, o.all)
	if len(r.Files)+len(r.Commands) > 0 && err == nil {
		a.printEjectNext(r, names, o, dir)
	}
	return err
}

// ejected returns the values to eject: those of the named profiles, or without names those in
// force.
func ejected(ctx context.Context, m *tune.Machine, names []string) (eject.Input, error) {
	in := eject.Input{InForce: len(names) == 0}
	read := m.ReadStateIfAllowed
	if in.InForce {
		read = m.ReadState // only the journal records what is in force
	}
	s, err := read()
	if err != nil {
		return in, err
	}
	if in.InForce {
		in.Profile, _, err = m.InForce(ctx, s)
		in.Asked = m.Asked(ctx, s)
	} else {
		in.Profile, err = m.Load(ctx, false, tune.WithPostLoaded(names, m.PostLoaded())...)
	}
	if err != nil {
		return in, err
	}
	switch {
	case in.Profile != nil:
		in.Plan, err = m.PlanProfile(ctx, in.Profile, s)
	case len(in.Asked) == 0:
		err = ui.Hinted(ui.Failed, errors.New("no profile is active, so there is nothing to eject"), "name a profile: fettle eject PROFILE")
	default:
		in.Plan = &tune.Plan{}
	}
	in.Original = original(s, in.Plan)
	return in, err
}

// original returns the values without fettle: the oldest of the journal, or else the current ones.
func original(s *journal.State, p *tune.Plan) func(setting.Setting) setting.Value {
	chains := s.Chains()
	return func(id setting.Setting) setting.Value {
		if chain := chains[id]; len(chain) > 0 {
			return chain[0].Before.Before
		}
		for _, st := range p.Steps {
			if st.Setting == id {
				return st.Before
			}
		}
		return setting.Unknown
	}
}

// artefacts returns the files of a result by their paths below a directory.
func artefacts(r *eject.Result) []sizing.Artefact {
	out := make([]sizing.Artefact, len(r.Files))
	for i, f := range r.Files {
		out[i] = sizing.Artefact{Name: strings.TrimPrefix(f.Path, "/"), What: f.What, Content: f.Content}
	}
	return out
}

// printEjectNext prints the next command: the one that writes the files, or those that put the
// files in place of fettle.
func (a *app) printEjectNext(r *eject.Result, names []string, o ejectOptions, dir string) {
	if dir == "" {
		args := append([]string{"eject"}, names...)
		if o.format != eject.Files {
			args = append(args, "--format", o.format)
		}
		fmt.Fprintln(a.screen.Out, "\nto write the files:")
		ui.PrintCommand(a.screen, a.next(append(args, "--write", "native")...))
		return
	}
	fmt.Fprintln(a.screen.Out, "\nto replace fettle, on the machine:")
	switch r.Format {
	case eject.Ansible:
		ui.PrintCommand(a.screen, text.CommandLine([]string{"ansible-playbook", "-i", "INVENTORY", filepath.Join(dir, r.Files[0].Path)}))
	case eject.MachineConfig:
		ui.PrintCommand(a.screen, text.CommandLine([]string{"oc", "apply", "-f", filepath.Join(dir, r.Files[0].Path)}))
	default:
		if r.InForce {
			ui.PrintCommand(a.screen, "fettle undo")
		}
		for _, f := range r.Files {
			ui.PrintCommand(a.screen, text.CommandLine([]string{"install", "-D", "-m", "644", filepath.Join(dir, f.Path), f.Path}))
		}
		ui.PrintCommand(a.screen, "reboot")
	}
}
