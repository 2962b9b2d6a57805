package product

import (
	"context"
	"sync"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Daemon is a template for products that read options from files at start or reload. Its fields
// hold the differences between products; Product adds the common part. F holds the options in one
// instance's files; A is the report of its running program.
//
// The running value of an option is known in one of two ways. With Runs, the program reports it.
// Otherwise it is the value in the files, if the Processes have read them since the last change;
// Reported, if set, is consulted as well.
type Daemon[F Files, A any] struct {
	Name, Doc  string
	Packages   []string // see product.Product
	Parameters Parameters
	Inputs     []Input[F, A]

	// Conf describes its files. Product fills in Name, Activation, Activate, Effect, and Winner if
	// Place is set.
	Conf conf.Product
	// Instances returns all instances if Conf returns only the settable ones; nil if Conf returns
	// all.
	Instances func(*host.Host) ([]conf.Instance, error)
	// Read returns the options in the files of one instance. With an error, it returns those that
	// it could read.
	Read func(h *host.Host, main string) (F, error)
	// ReadRunning replaces Read if the program's command line decides how it reads its files; argv
	// is nil if it does not run.
	ReadRunning func(h *host.Host, main string, argv []string) (F, error)
	// MainOf returns the main file of the instance that a file belongs to; nil if an instance has
	// only its main file.
	MainOf func(h *host.Host, file string) string
	// Place returns the line that sets an option; nil if Conf finds it.
	Place func(files F, key string) (conf.Place, bool, error)

	// Program is the name of the program's process in messages.
	Program string
	// Processes finds the processes of an instance, or returns ErrStopped; nil if Runs is the
	// only source.
	Processes func(ctx context.Context, h *host.Host, main string) (Group, error)
	// OpenFiles is true if fettle counts the open files of the serving processes.
	OpenFiles bool
	// Control returns the program's Control. Product fills in Name and Mains, and if Processes is
	// set also Running and Reads.
	Control func() *Control
	// Adapt changes Control and Conf after Product has completed them; nil changes nothing.
	Adapt func(c *Control, p *conf.Product)
	// Restart reports whether an option takes effect only at a restart; nil if all take
	// effect at a reload.
	Restart func(key string) bool
	// SilentReload is true if the program's processes do not show reloads. Whether such a program
	// has read its files since its start is then unknown.
	SilentReload bool

	// Ask queries the running program; nil if it reports nothing.
	Ask func(ctx context.Context, i *Instance[F, A]) (A, error)
	// Reported returns an option's value in a report, or "". ReportedBy is the report's name in
	// messages.
	Reported   func(report A, key string) string
	ReportedBy string
	// Running replaces Reported for a program that reports only some instances' options.
	Running func(i *Instance[F, A], key string) (value, at string, ok bool)
	// Runs returns the running value of an option, from the instance's Report.
	Runs func(i *Instance[F, A], name string) fact.Fact[string]
	// Same reports whether two values of an option are equivalent; nil compares their
	// Conf.Canonical.
	Same func(name, a, b string) bool
	// Default returns an option's default in an instance, like Defaulter; nil if the defaults of
	// Parameters apply.
	Default func(i *Instance[F, A], name string) (value, source string)
	// ByHand are the Parameters that only an administrator sets.
	ByHand []string
	// Effect returns the verdict for options that the template would judge wrong; nil if there are
	// none.
	Effect func(ctx context.Context, h *host.Host, file, key, value string) (v plugin.Verdict, why string, ok bool)

	// DryRun lets the program check its files (check --probe); nil if it cannot.
	DryRun func(ctx context.Context, i *Instance[F, A], d DryRun) (Checked, error)
}

// Files holds the options in the configuration files of one instance.
type Files interface {
	// Paths returns the files that were read, the main one first.
	Paths() []string
	// Value returns an option's value and its position, FILE:LINE; ok is false if no file sets it.
	// The error says why it is unknown.
	Value(key string) (value, at string, ok bool, err error)
}

// Product returns the product that this template describes.
func (d *Daemon[F, A]) Product() Product {
	p := Product{Name: d.Name, Doc: d.Doc, Packages: d.Packages, Parameters: d.Parameters, Find: d.find, Kind: d.kind}
	if d.DryRun != nil {
		p.Inputs = probeInputs(d.Name)
	}
	for _, in := range d.Inputs {
		p.Inputs = append(p.Inputs, fact.Input{Name: d.Name + "." + in.Name, Type: in.Type, Unit: in.Unit, Doc: in.Doc})
	}
	return p
}

// read reads the files of an instance; argv is its program's command line, or nil.
func (d *Daemon[F, A]) read(h *host.Host, main string, argv []string) (F, error) {
	if d.ReadRunning != nil {
		return d.ReadRunning(h, main, argv)
	}
	return d.Read(h, main)
}

// New returns an instance from given files and a report, for callers that do not use Find.
func (d *Daemon[F, A]) New(h *host.Host, in conf.Instance, files F, report A, reportErr error) *Instance[F, A] {
	return &Instance[F, A]{Instance: in, Host: h, Files: files, Report: report, ReportErr: reportErr, daemon: d}
}

func (d *Daemon[F, A]) find(ctx context.Context, h *host.Host) ([]Installed, error) {
	instances := d.Instances
	if instances == nil {
		instances = d.Conf.Instances
	}
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []Installed
	for _, in := range all {
		i := &Instance[F, A]{Instance: in, Host: h, daemon: d}
		if d.Processes != nil {
			i.Run, i.RunErr = d.Processes(ctx, h, in.Main)
		}
		i.Files, i.FileErr = d.read(h, in.Main, i.Run.Main.Argv)
		if d.Processes != nil && i.RunErr == nil {
			i.Run.Changed = Changed(ctx, h, in.Main, i.Files.Paths())
		}
		i.ReportErr, i.OpenErr = i.RunErr, i.RunErr
		if d.OpenFiles && i.RunErr == nil {
			i.Open, i.OpenErr = filesOpen(ctx, h, d.Program+" "+in.Main, i.Run.serving()...)
		}
		if d.Ask != nil && i.RunErr == nil {
			i.Report, i.ReportErr = d.Ask(ctx, i)
		}
		out = append(out, i)
	}
	return out, nil
}

// NewControl returns the Control of the program.
func (d *Daemon[F, A]) NewControl() *Control {
	c := d.Control()
	c.Name = d.Program
	c.Mains = func(h *host.Host) ([]string, error) { return conf.Mains(d.Conf.Instances(h)) }
	if d.Processes == nil {
		return c
	}
	c.Running = func(ctx context.Context, h *host.Host, main string) (Process, error) {
		g, err := d.Processes(ctx, h, main)
		return g.Main, err
	}
	c.Reads = func(h *host.Host, main string) []string {
		files, _ := d.read(h, main, nil)
		return files.Paths()
	}
	return c
}

// kind returns the kind of setting that writes its options.
func (d *Daemon[F, A]) kind(h *host.Host) setting.Kind {
	c := d.NewControl()
	var silent silentReloads
	if reload := c.Reload; d.SilentReload {
		c.Reload = func(ctx context.Context, h *host.Host, main string, p Process) (Reloaded, error) {
			files, err := d.read(h, main, nil)
			if err != nil {
				return nil, err
			}
			done, err := reload(ctx, h, main, p)
			if err == nil {
				silent.add(main, p, Changed(ctx, h, main, files.Paths()))
			}
			return done, err
		}
	}
	p := d.Conf
	p.Name, p.Activate = d.Name, c.Activate
	if d.Place != nil {
		p.Winner = func(h *host.Host, main, key string) (conf.Place, bool, error) {
			files, err := d.read(h, main, nil)
			if err != nil {
				return conf.Place{}, false, err
			}
			return d.Place(files, key)
		}
	}
	p.Activation = func(ctx context.Context, h *host.Host, file, key string) (setting.Activation, bool) {
		if d.MainOf != nil {
			file = d.MainOf(h, file)
		}
		return c.Activation(ctx, h, file, d.restarts(key))
	}
	p.Effect = func(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
		return d.effect(ctx, h, main, key, value, &silent)
	}
	if d.Adapt != nil {
		d.Adapt(c, &p)
	}
	return conf.New(h, p)
}

func (d *Daemon[F, A]) restarts(key string) bool { return d.Restart != nil && d.Restart(key) }

// taken returns whether the processes of an instance have read an option since its files changed.
func (d *Daemon[F, A]) taken(g Group, key string) Taken {
	if d.SilentReload || d.restarts(key) {
		return g.TakenAtStart()
	}
	return g.Taken()
}

// effect returns OK if the running program has the value that its files set.
func (d *Daemon[F, A]) effect(ctx context.Context, h *host.Host, main, key, value string, silent *silentReloads) (plugin.Verdict, string) {
	if d.Effect != nil {
		if v, why, ok := d.Effect(ctx, h, main, key, value); ok {
			return v, why
		}
	}
	files, err := d.read(h, main, nil)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	i := &Instance[F, A]{Instance: conf.Instance{Main: main}, Host: h, Files: files, daemon: d}
	if d.Runs != nil {
		return d.effectOfReport(ctx, i, key, value)
	}
	i.Run, i.RunErr = d.Processes(ctx, h, main)
	i.Run.Changed = Changed(ctx, h, main, files.Paths())
	if i.RunErr == nil && d.Reported != nil {
		runs := ""
		if report, err := d.Ask(ctx, i); err == nil {
			runs = d.Reported(report, key)
		}
		switch {
		case runs == "":
		case runs == d.Conf.Canonical(value):
			return plugin.OK, ""
		case d.restarts(key):
			return plugin.NeedsRestart, "the server runs with " + runs + " until it is restarted"
		default:
			return plugin.Drifted, "the server runs with " + runs
		}
	}
	if i.RunErr == nil && !d.restarts(key) && silent.has(main, i.Run) {
		return plugin.OK, ""
	}
	return Effect(d.taken(i.Run, key), i.RunErr)
}

func (d *Daemon[F, A]) effectOfReport(ctx context.Context, i *Instance[F, A], key, value string) (plugin.Verdict, string) {
	i.Report, i.ReportErr = d.Ask(ctx, i)
	if i.ReportErr != nil {
		return Effect(Unclear, i.ReportErr)
	}
	now := d.Runs(i, key)
	runs, ok := now.Get()
	switch {
	case now.Unknown() != "":
		return plugin.Unknown, now.Unknown()
	case !ok:
		return plugin.Unsupported, "this version of " + d.Name + " has no such option"
	case d.same(key, runs, value):
		return plugin.OK, ""
	case d.restarts(key):
		return plugin.NeedsRestart, "the server runs with " + runs + " until it is restarted"
	}
	return plugin.Drifted, "the server runs with " + runs
}

// same reports whether two values of an option are equivalent.
func (d *Daemon[F, A]) same(name, a, b string) bool {
	switch {
	case d.Same != nil:
		return d.Same(name, a, b)
	case d.Conf.Canonical != nil:
		return d.Conf.Canonical(a) == d.Conf.Canonical(b)
	}
	return a == b
}

// silentReloads records reloaded processes by main file, with the time of the files' last change.
type silentReloads struct {
	mu  sync.Mutex
	all map[string]Group
}

func (s *silentReloads) add(main string, p Process, changed float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]Group{}
	}
	s.all[main] = Group{Main: p, Changed: changed}
}

// has reports whether a process was reloaded since its files changed.
func (s *silentReloads) has(main string, g Group) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.all[main]
	return ok && old.Main.Same(g.Main) && old.Changed == g.Changed
}
