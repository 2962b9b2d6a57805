package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/measure/disk"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type benchDiskOptions struct {
	full, classic, sustained, dryRun bool
	budget                           time.Duration
	size, fio, role, platform        string
}

func benchDiskCommand(a *app) *cobra.Command {
	var o benchDiskOptions
	c := &cobra.Command{
		Use: "disk DIR...", Short: "Measure the storage of directories with fio, and say what the figures mean",
		Long: `Writes a file without a name into each directory, of 1 GiB and never more than a
quarter of the free space, and measures it with fio: streams, a ladder of block sizes
and one of queue depths, random reads and writes, the log of etcd, and through the
page cache. Each figure is measured three times and comes with the proof that it was
the disk that was measured. It takes two minutes for each directory; several are
measured turn by turn. Nothing is left behind, also after kill -9.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := noneEmpty(c); err != nil {
				return err
			}
			if c.Flags().Changed("budget") && !o.sustained {
				return ui.Retry(ui.Usage, errors.New("--budget is for --sustained"), "", "--sustained")
			}
			return a.benchDisk(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.full, "full", false, "ten minutes instead of two for each directory: longer visits, and whether the speed is steady")
	f.BoolVar(&o.classic, "classic", false, "storage-benchmark's cells: 4 KiB at a time, through the page cache, over the whole file")
	f.BoolVar(&o.sustained, "sustained", false, "write until the speed is steady or the budget ends")
	f.DurationVar(&o.budget, "budget", 10*time.Minute, "time of each cell of --sustained")
	f.StringVar(&o.size, "size", "", "size of the file, as 4GiB, or 2xRAM (default 1GiB); at least 64MiB, and never more than a quarter of the free space")
	f.StringVar(&o.fio, "fio", "", "the fio to run (default: the installed one)")
	f.StringVar(&o.role, "role", "", "what the directories are for: pulp, postgresql or etcd; exit with 3 if they are too slow for that")
	f.StringVar(&o.platform, "platform", "", "satellite: its data directories, each device once, instead of DIR")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be measured, and measure nothing")
	cliutil.Between(f, "budget", time.Minute, 24*time.Hour, 10*time.Minute)
	cliutil.Reads(f, "size", "1GiB", readsFileSize)
	cliutil.OneOf(f, "role", "pulp", "postgresql", "etcd")
	cliutil.OneOf(f, "platform", "satellite")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"pulp", "postgresql", "etcd"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions([]string{"satellite"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// mode is the kind of run that the options ask for.
func (o benchDiskOptions) mode() (disk.Mode, error) {
	mode, asked, more := disk.Quick, 0, []string(nil)
	for _, m := range []struct {
		on     bool
		mode   disk.Mode
		option string
	}{{o.full, disk.Full, "--full"}, {o.classic, disk.Classic, "--classic"}, {o.sustained, disk.Sustained, "--sustained"}} {
		if !m.on {
			continue
		}
		mode = m.mode
		if asked++; asked > 1 {
			more = append(more, m.option)
		}
	}
	switch {
	case asked > 1:
		return mode, ui.Without(errors.New("want one of --full, --classic and --sustained"), more...)
	case o.platform != "" && o.role != "":
		return mode, ui.Without(errors.New("--platform knows the roles of its directories: leave --role out"), "--role")
	}
	return mode, nil
}

// fileSize is the size that --size asks for, in bytes; 0 for the usual one.
func (o benchDiskOptions) fileSize(facts *fact.Facts) (int64, error) {
	switch {
	case o.size == "":
		return 0, nil
	case strings.EqualFold(o.size, "2xram"):
		ram, ok := facts.Memory.TotalBytes.Get()
		if !ok {
			return 0, ui.Instead(ui.Usage, errors.New("--size 2xRAM: the size of the memory is not known here"), "", "--size=1GiB")
		}
		return 2 * ram, nil
	}
	size, err := unit.ParseSize(o.size)
	return int64(size), err
}

// readsFileSize reads --size.
func readsFileSize(word string) error {
	size, err := unit.ParseSize(word)
	switch {
	case strings.EqualFold(word, "2xram"):
		return nil
	case err != nil:
		return err
	case size == 0:
		return errors.New("want more than 0")
	case size > unit.EiB:
		return errors.New("more than any disk has")
	}
	return nil
}

func (a *app) benchDisk(ctx context.Context, o benchDiskOptions, dirs []string) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	mode, err := o.mode()
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	facts := fact.Collect(m.host)
	places, err := o.places(m, dirs)
	if err != nil {
		return err
	}
	if err := o.sizes(facts, places); err != nil {
		return err
	}
	plan := disk.NewPlan(mode, len(places), o.budget)
	if o.dryRun {
		disk.PrintPlan(a.screen, plan, places)
		return nil
	}
	if err := m.mayMeasure(); err != nil {
		return err
	}
	engine, err := m.fio(ctx, o.fio)
	if err != nil {
		return err
	}
	a.sayTime(plan, places)
	k := m.keeper(disk.Kind, m.host.Clock.Now())
	sum := func(e *disk.Evidence) {
		if o.platform != "" {
			e.CompareForeman()
		}
		e.Sum(facts.Virtualization.Hypervisor.Or(""))
	}
	bench := &disk.Bench{Engine: engine, Host: m.host, Mode: mode, Finished: func(e *disk.Evidence) error {
		sum(e)
		return k.finished(e.Text(), e)
	}}
	e, err := bench.Run(ctx, plan, places, func(done, all int, p *disk.Place, c disk.Cell) {
		a.screen.Progress("%d of %d: %s in %s", done+1, all, c.Name, p.Directory)
	})
	a.screen.Status("")
	const left = "the files are gone"
	if e == nil {
		return cutShort(ctx, unmade(err), left, nil)
	}
	sum(e)
	recorded, run := k.record(e.Text(), e), k.run
	switch {
	case err != nil:
		err = errors.Join(cutShort(ctx, err, left, run), recorded)
	case recorded != nil:
		err = recorded
	case o.role != "" || o.platform != "":
		err = fitForRole(e)
	}
	if a.data() {
		return a.result(BenchResult{run}, err)
	}
	disk.Print(a.screen, run, e)
	return err
}

// fitForRole is the exit code of a run that asks whether a disk is fit for a role.
func fitForRole(e *disk.Evidence) error {
	switch e.Verdict {
	case disk.Fail:
		return ui.Exit(ui.GateNotMet, errors.New("too slow for what it is for"))
	case disk.NoVerdict:
		return ui.Exit(ui.Failed, errors.New("no verdict: the figures are not those of the disk alone"))
	}
	return nil
}

// fio finds the fio to run, at the path that was asked for, if any.
func (m *machine) fio(ctx context.Context, path string) (*disk.Engine, error) {
	engine, err := disk.FindFio(ctx, m.host, path)
	switch {
	case err == nil || ctx.Err() != nil:
		return engine, err
	case errors.Is(err, disk.ErrNone):
		return nil, ui.Hinted(ui.Failed, err, installHint(fact.Collect(m.host)))
	case path == "":
		return nil, ui.Hinted(ui.Failed, err, "--fio PATH names another one")
	}
	return nil, ui.Exit(ui.Usage, err)
}

// unmade gives the error of a directory in which the files cannot be made its exit code.
func unmade(err error) error {
	switch {
	case errors.Is(err, disk.ErrNoRoom):
		return ui.Hinted(ui.Refused, err, "df -h shows which file system is full; a smaller --size, or another directory, needs less")
	case errors.Is(err, disk.ErrUnwritable):
		return ui.Exit(ui.Usage, err)
	}
	return err
}

// noRoom refuses to measure where the files would take too much of the free space. Where a
// smaller size would do, the command has it.
func noRoom(directory string, err error) error {
	err = fmt.Errorf("%s: %w", directory, err)
	if size := (*disk.SizeError)(nil); errors.As(err, &size) {
		return ui.Instead(ui.Refused, err, "", fmt.Sprintf("--size=%dMiB", size.Possible>>20))
	}
	return ui.Hinted(ui.Refused, err, "no size is small enough; df -h "+internaltext.Quote(directory)+" shows what is free, and another directory may have more")
}

func installHint(facts *fact.Facts) string {
	ids := append([]string{facts.OS.ID.Or("")}, facts.OS.IDLike.Or(nil)...)
	if how := disk.Install(ids...); how != "" {
		return how + " installs it; --fio PATH names another one"
	}
	return "install the package fio, or name one with --fio PATH"
}

// satelliteDirs are the directories of Satellite's data, with their roles.
var satelliteDirs = []struct {
	dir  string
	role disk.Role
}{
	{"/var/lib/pulp", disk.Pulp}, {"/var/lib/pgsql", disk.PostgreSQL}, {"/var/opt/rh/rh-postgresql12/lib/pgsql", disk.PostgreSQL},
	{"/var/lib/qpidd", disk.Pulp}, {"/var/lib/candlepin", disk.Pulp},
}

// places looks at the directories that are asked for.
func (o benchDiskOptions) places(m *machine, dirs []string) (places []*disk.Place, err error) {
	if o.platform == "" {
		if len(dirs) == 0 {
			return nil, ui.Retry(ui.Usage, errors.New("want the directories to measure"), "", "/var/lib/pgsql")
		}
		for _, dir := range dirs {
			p, err := disk.LookAt(m.host, dir)
			if err != nil {
				return nil, ui.Exit(ui.Usage, err)
			}
			if slices.ContainsFunc(places, func(q *disk.Place) bool { return q.Directory == p.Directory }) {
				return nil, ui.WithoutWord(fmt.Errorf("%s is named twice", p.Directory), dir)
			}
			p.Role = disk.Role(o.role)
			places = append(places, p)
		}
		return places, nil
	}
	if len(dirs) > 0 {
		return nil, ui.Without(errors.New("--platform has its own directories: leave it out, or DIR"), "--platform")
	}
	for _, d := range satelliteDirs {
		p, err := disk.LookAt(m.host, d.dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(places, func(q *disk.Place) bool { return q.Shares(p) }); i >= 0 {
			m.screen.Say("%s is on the same file system as %s: measured once", p.Directory, places[i].Directory)
			if places[i].Role != d.role {
				places[i].Role = disk.Satellite // the limits of both
			}
			continue
		}
		p.Role = d.role
		places = append(places, p)
	}
	if len(places) == 0 {
		return nil, ui.Exit(ui.Failed, errors.New("no data directory of Satellite is on this machine"))
	}
	return places, nil
}

// sizes decides how large the files are.
func (o benchDiskOptions) sizes(facts *fact.Facts, places []*disk.Place) error {
	asked, err := o.fileSize(facts)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	for _, p := range places {
		sharers := 0
		for _, q := range places {
			if p.Shares(q) {
				sharers++
			}
		}
		if p.SizeBytes, err = disk.FileSize(asked, p.FreeBytes, sharers); err != nil {
			return noRoom(p.Directory, err)
		}
	}
	return nil
}

// sayTime says how long it will take.
func (a *app) sayTime(plan disk.Plan, places []*disk.Place) {
	if takes := plan.Takes(); plan.Mode == disk.Sustained {
		a.screen.Say("this takes %s at the most, until %s", roughly(takes.Seconds()), time.Now().Add(takes).Local().Format("15:04"))
	} else if takes > 0 {
		a.screen.Say("this takes about %s, until %s; on a slow disk longer", roughly(takes.Seconds()), time.Now().Add(takes).Local().Format("15:04"))
	} else {
		all := 0.0
		for _, p := range places {
			all += float64(p.SizeBytes)
		}
		passes := float64(1 + len(plan.Cells)*plan.Repeats)
		a.screen.Say("this goes %.0f times over %.3g GB: %s at 100 MB/s, and longer where 4 KiB at a time are slower than that", passes, all/1e9, roughly(passes*all/100e6))
	}
}
