package product

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// Instance is one instance of a Daemon on a machine.
type Instance[F Files, A any] struct {
	conf.Instance
	probed
	Host *host.Host

	Files   F
	FileErr error

	Run    Group
	RunErr error // ErrStopped if the program does not run

	// Open is the largest number of open files of any of its processes.
	Open    int
	OpenErr error

	Report    A
	ReportErr error

	daemon *Daemon[F, A]
}

// Name implements Installed.
func (i *Instance[F, A]) Name() string { return i.Instance.Name }

// Option implements Installed.
func (i *Instance[F, A]) Option(name string) Option {
	if i.daemon.Runs != nil {
		return i.reportedOption(name)
	}
	return i.readOption(name)
}

// reportedOption returns an option of a program that reports all of its options.
func (i *Instance[F, A]) reportedOption(name string) Option {
	o := Option{File: fact.Absent[string](i.Main), Running: fact.Absent[string](i.Main)}
	value, at, ok, err := i.Files.Value(name)
	if i.FileErr != nil {
		ok, err = false, i.FileErr
	}
	switch {
	case ok:
		o.File = fact.Known(value, at)
	case err != nil:
		o.File = fact.Unknown[string](cmp.Or(at, i.Main), err.Error())
	}
	switch {
	case errors.Is(i.ReportErr, ErrStopped):
	case i.ReportErr != nil:
		o.Running = fact.Unknown[string](i.Main, i.ReportErr.Error())
	default:
		o.Running = i.daemon.Runs(i, name)
		if runs, known := o.Running.Get(); known && ok && i.daemon.same(name, runs, value) {
			o.Running = fact.Known(runs, at) // the value comes from the file
		}
	}
	return o
}

// readOption returns an option of a program that does not report it. Its running value is the
// file's value if the program has read the files since they changed. A few options are reported and
// come from the report.
func (i *Instance[F, A]) readOption(name string) Option {
	file, value := fact.Absent[string](i.Main), ""
	key, err := i.daemon.Conf.Syntax.Key(name)
	if err == nil {
		err = i.FileErr
	}
	if err == nil {
		var at string
		var ok bool
		if value, at, ok, err = i.Files.Value(key); ok {
			file = fact.Known(value, at)
		}
	}
	o := asRead(i.Main, file, err, i.daemon.taken(i.Run, key), i.RunErr)
	switch {
	case i.ReportErr != nil:
	case i.daemon.Running != nil:
		if runs, at, ok := i.daemon.Running(i, key); ok && err == nil {
			o.Running = fact.Known(runs, at)
		}
	case i.daemon.Reported != nil:
		if runs := i.daemon.Reported(i.Report, key); runs != "" {
			source := i.daemon.ReportedBy
			if _, ok := file.Get(); ok && err == nil && i.daemon.Conf.Canonical(value) == runs {
				source = file.Source() // the value comes from the file
			}
			o.Running = fact.Known(runs, source)
		}
	}
	return o
}

// Default implements Defaulter.
func (i *Instance[F, A]) Default(name string) (value, source string) {
	if i.daemon.Default == nil {
		return "", ""
	}
	return i.daemon.Default(i, name)
}

// Pending answers with the settable parameters whose running value differs from the files.
func (i *Instance[F, A]) Pending() fact.Answer {
	out := []string{}
	for _, p := range i.daemon.Parameters {
		o := i.Option(p.Name)
		file, inFile := o.File.Get()
		runs, running := o.Running.Get()
		if inFile && running && !slices.Contains(i.daemon.ByHand, p.Name) && !i.daemon.same(p.Name, file, runs) {
			out = append(out, p.Name)
		}
	}
	return fact.Answer{Value: out, At: i.Main}
}

// Probe implements Prober.
func (i *Instance[F, A]) Probe(ctx context.Context) {
	if i.daemon.DryRun == nil {
		return
	}
	if host.Unknown(i.FileErr) {
		i.Take(Checked{}, i.FileErr)
		return
	}
	d := DryRun{Unit: i.Service(), Running: i.Run, Files: i.Files.Paths()}
	if u, err := systemd.New(i.Host).Load(d.Unit); d.Unit != "" && err == nil {
		env, _ := u.Environment()
		for name, v := range env {
			d.Env = append(d.Env, name+"="+v.Text)
		}
	}
	i.Take(i.daemon.DryRun(ctx, i, d))
}

// Service returns the unit that runs, or would run, the instance; "" if none exists.
func (i *Instance[F, A]) Service() string {
	if i.RunErr == nil && i.Run.Main.Unit != "" {
		return i.Run.Main.Unit
	}
	return i.daemon.Control().Unit(i.Host, i.Main)
}

// Input is an input of a Daemon and the function that answers it.
type Input[F Files, A any] struct {
	Name string // without the product's prefix
	Type fact.Type
	Unit string
	Doc  string
	// From is the source that Answer needs; if it cannot be read, the input is unknown.
	From   Need
	Answer func(*Instance[F, A]) fact.Answer
}

// Need is the source that the answer of an Input needs.
type Need int

// The needs.
const (
	_ Need = iota // nothing
	FromFiles
	FromProcess
	FromReport
)

// Answer implements Installed.
func (i *Instance[F, A]) Answer(input string) fact.Answer {
	if i.daemon.DryRun != nil {
		if a, ok := i.probeAnswer(input, i.Main); ok {
			return a
		}
	}
	n := slices.IndexFunc(i.daemon.Inputs, func(in Input[F, A]) bool { return in.Name == input })
	if n < 0 {
		return fact.Answer{Unknown: i.daemon.Name + " has no input " + input, At: i.Main}
	}
	in := i.daemon.Inputs[n]
	switch {
	case in.From == FromFiles && i.FileErr != nil:
		return fact.Answer{Unknown: i.FileErr.Error(), At: i.Main}
	case in.From == FromProcess && i.RunErr != nil:
		return fact.Answer{Unknown: i.RunErr.Error(), At: "/proc"}
	case in.From == FromReport && i.ReportErr != nil:
		return fact.Answer{Unknown: i.ReportErr.Error(), At: i.Main}
	}
	a := in.Answer(i)
	if in.From == FromFiles {
		a.From = cmp.Or(a.From, Origin(i.daemon.taken(i.Run, ""), i.RunErr))
	}
	return a
}

// ReadSinceChange answers whether the running program has read its files since they changed.
func (i *Instance[F, A]) ReadSinceChange() fact.Answer {
	taken := i.daemon.taken(i.Run, "")
	switch {
	case i.FileErr != nil:
		return fact.Answer{Unknown: i.FileErr.Error(), At: i.Main}
	case i.RunErr != nil:
		return fact.Answer{Unknown: i.RunErr.Error(), At: "/proc"}
	case taken == Unclear:
		return fact.Answer{Unknown: taken.Unknown(), At: "/proc"}
	}
	return fact.Answer{Value: taken == Yes, At: "/proc"}
}

// StartedSinceChange is like ReadSinceChange, but for programs that read their files only at start,
// or whose reloads leave no trace. It answers false unless the program has certainly read them.
func (i *Instance[F, A]) StartedSinceChange() fact.Answer {
	a := i.ReadSinceChange()
	if a.Unknown != "" && i.RunErr == nil && i.FileErr == nil {
		return fact.Answer{Value: false, At: "/proc"}
	}
	return a
}

// FilesOpen answers with the largest number of open files of any of its processes.
func (i *Instance[F, A]) FilesOpen() fact.Answer {
	if i.OpenErr != nil {
		return fact.Answer{Unknown: i.OpenErr.Error(), At: "/proc"}
	}
	return fact.Answer{Value: float64(i.Open), At: "/proc/PID/fd of " + i.daemon.Program}
}

// OpenFilesLimit answers with the open-file limit of a serving process.
func (i *Instance[F, A]) OpenFilesLimit() fact.Answer {
	if all := i.Run.serving(); all[len(all)-1].OpenFiles > 0 {
		return fact.Answer{Value: float64(all[len(all)-1].OpenFiles), At: "/proc/PID/limits of " + i.daemon.Program}
	}
	return fact.Answer{Unknown: "/proc/PID/limits of " + i.daemon.Program + " cannot be read, or is not in this copy", At: "/proc"}
}

// PackageVersion answers with the version of the product's first installed package.
func (i *Instance[F, A]) PackageVersion() fact.Answer {
	names := i.daemon.Packages
	if len(names) == 0 {
		names = []string{i.daemon.Name}
	}
	if v, at := Version(i.Host, names...); v != "" {
		return fact.Answer{Value: v, At: at}
	}
	return fact.Answer{Unknown: "no package list contains this program", At: i.Main}
}

// asRead returns an option of a program that does not report its options. Its running value is the
// file's value if the program has read the files since they changed. fileErr says why the files are
// unknown, runErr why the processes are.
func asRead(main string, file fact.Fact[string], fileErr error, taken Taken, runErr error) Option {
	o := Option{File: file, Running: fact.Absent[string](main)}
	switch {
	case fileErr != nil:
		o.File = fact.Unknown[string](main, fileErr.Error())
		o.Running = o.File
	case errors.Is(runErr, ErrStopped):
	case runErr != nil:
		o.Running = fact.Unknown[string](main, runErr.Error())
	case taken == Yes:
		o.Running = file
	default:
		o.Running = fact.Unknown[string](main, taken.Unknown())
	}
	return o
}

// RunBy answers with the service of systemd that runs a process, or "".
func RunBy(p Process) fact.Answer {
	return fact.Answer{Value: p.Unit, At: "/proc/PID/cgroup"}
}

// Origin returns fact.Running if the running program has read its files, and fact.Files if it will
// read them at its next start.
func Origin(taken Taken, runErr error) string {
	if runErr == nil && taken == Yes {
		return fact.Running
	}
	return fact.Files
}
