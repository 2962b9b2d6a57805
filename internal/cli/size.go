package cli

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/sizing"
	"fettle.dev/fettle/internal/sizing/hugepages"
	"fettle.dev/fettle/internal/sizing/network"
	"fettle.dev/fettle/internal/sizing/openshift"
	"fettle.dev/fettle/internal/sizing/postgresql"
	"fettle.dev/fettle/internal/sizing/satellite"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/rules"
)

// sizes is the table of what can be sized.
var sizes = []struct {
	name, short, long string
	wish              func() sizing.Wish
	// here are the inputs that are this machine's where they are left out.
	here map[string]machineFigure
}{
	{
		"satellite", "Size a Satellite: installation size, Puma, httpd, PostgreSQL, Capsules, budgets",
		`Says what a Satellite needs for its hosts, what the installer is told, and what
differs from the installation size. Puma gets no more workers than were measured
to be of use, beside what the installer's formula would take. What it writes is
without a failure or a warning under fettle check satellite.

A Capsule is NAME[,hosts=N][,downloads=N][,rex=N]: the hosts that it serves,
those that download at once, and those of one remote execution job.`,
		func() sizing.Wish { return satellite.New() },
		nil,
	},
	{
		"openshift", "Size an OpenShift cluster: nodes, networks, kubelets, monitoring, routers, storage",
		`Says what a cluster needs for so many pods, or a table of applications, with the
figures of a version's documents: --version 4.4 has those of its own time. Says
too which tested maximum is met first.

The table of applications (--apps) is a list:

  - {name: node.js, quantity: 200, cpu: 1, memory: 1G, storage: 1G}
  - {name: eap, quantity: 100, cpu: 1, memory: 1G, overcommit: false}`,
		func() sizing.Wish { return openshift.New() },
		nil,
	},
	{
		"postgresql", "Size a PostgreSQL server: memory, parallel workers, log, planner",
		`Says what a PostgreSQL server is told for so many connections. --ram and --cpus are
those of this machine where they are left out, and the answer says so.`,
		func() sizing.Wish { return postgresql.New() },
		map[string]machineFigure{"ram": memoryHere, "cpus": cpusHere},
	},
	{
		"hugepages", "Size huge pages: how many, on which NUMA node, and who may use them", "",
		func() sizing.Wish { return hugepages.New() },
		nil,
	},
	{
		"network", "Size the network of a cluster's overlay: the MTU inside it, and what packets cost", "",
		func() sizing.Wish { return network.New() },
		nil,
	},
}

// aboutSizes is what the units of a size are.
const aboutSizes = `The units of a size are powers of 1024, GB as well as GiB: 64GB of memory are
64GiB, as it is sold, and as PostgreSQL and the kernel count. Room on disks alone
(--disk of a Satellite) has GB and TB of powers of 1000, as disks are sold. The
first line of the answer says what was understood.`

type sizeOptions struct {
	write string
	force bool
}

func sizeCommand(a *app) *cobra.Command {
	parent := &cobra.Command{
		Use: "size", Short: "Say what a platform needs for a load, with the files and the steps",
		Long: `Turns a wish into values, each with its reason and source, into the files that
the platform's own tools read, and into the steps in order. It changes no machine,
and looks at none but where its answer says so; --write DIR writes the files below a directory.`,
		Args: knownVerb, SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, s := range sizes {
		wish := s.wish()
		var o sizeOptions
		c := &cobra.Command{
			Use: s.name, Short: s.short, Long: s.long, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				if err := noneEmpty(c); err != nil {
					return err
				}
				return a.size(c.Context(), wish, s.here, o)
			},
		}
		if slices.ContainsFunc(wish.Inputs(), func(in *sizing.Input) bool { return in.Kind == "size" }) {
			c.Long = strings.TrimSpace(cmp.Or(s.long, s.short+".") + "\n\n" + aboutSizes)
		}
		f := c.Flags()
		f.SortFlags = false
		for _, in := range wish.Inputs() {
			if in.File {
				f.Var(&fileFlag{in}, in.Name, in.Doc)
				continue
			}
			flag := f.VarPF(in, in.Name, "", in.Doc)
			if in.IsBoolFlag() {
				flag.NoOptDefVal = "true"
			}
			if len(in.Choices) > 0 {
				_ = c.RegisterFlagCompletionFunc(in.Name, cobra.FixedCompletions(in.Choices, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		f.StringVar(&o.write, "write", "", "write the files below this directory; it is made if it is missing")
		f.BoolVar(&o.force, "force", false, "with --write: also over files that fettle did not write")
		parent.AddCommand(c)
	}
	return parent
}

// fileFlag is an input that is the text of a file.
type fileFlag struct{ *sizing.Input }

// Set reads the file.
func (f *fileFlag) Set(name string) error {
	if name == "" {
		return errors.New("which file?")
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	text, err := host.Live().Files.ReadFile(path)
	if err != nil {
		return err
	}
	return f.Input.Set(string(text))
}

// figures are the tables of the catalogue.
func figures() (sizing.Figures, error) {
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	return rule.Tables(files)
}

func (a *app) size(ctx context.Context, wish sizing.Wish, here map[string]machineFigure, o sizeOptions) error {
	switch {
	case a.root != "":
		return ui.Exit(ui.Usage, errors.New("size is not about a machine and takes no --root"))
	case o.force && o.write == "":
		return ui.Exit(ui.Usage, errors.New("--force goes with --write"))
	}
	f, err := figures()
	if err != nil {
		return err
	}
	assumed, err := assumeHere(wish, here)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	r, err := wish.Size(ctx, f)
	var bad *sizing.InputError
	if errors.As(err, &bad) {
		return ui.Exit(ui.Usage, err)
	}
	if err != nil {
		return err
	}
	if assumed != "" {
		r.Note("%s", assumed)
	}
	if o.write != "" {
		if r.Written, err = writeArtefacts(o.write, r.Platform, r.Files, o.force); err != nil {
			return err
		}
	}
	if a.data() {
		return report.Data(a.screen, r, ui.Done)
	}
	report.Size(a.screen, r)
	return nil
}
