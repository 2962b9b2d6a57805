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
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/text"
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
		Use: "disk DIR...", Short: "Measure the storage of directories with fio, with a verdict",
		Long: `Measures the storage of each directory with fio: sequential and random reads and writes,
block sizes, queue depths, etcd's log, and the page cache. It uses an unnamed file of
1 GiB, at most a quarter of the free space. The file is gone afterwards, even after
kill -9. Each figure is measured three times, with evidence that the disk itself was
measured. One directory takes two minutes; several are measured alternately.`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.benchDisk(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.full, "full", false, "measure for ten minutes per directory instead of two, and check that the speed is steady")
	f.BoolVar(&o.classic, "classic", false, "measure as the storage-benchmark script of Satellite does: 4 KiB blocks through the page cache")
	f.BoolVar(&o.sustained, "sustained", false, "write until the speed is steady or the budget ends")
	f.DurationVar(&o.budget, "budget", 10*time.Minute, "with --sustained: time limit of each measurement, such as 10m")
	f.StringVar(&o.size, "size", "", "size of the file, such as 4GiB, or 2xRAM for twice the memory; at least 64MiB, at most a quarter of the free space (default 1GiB)")
	f.StringVar(&o.fio, "fio", "", "path of the fio program (default fio in PATH)")
	f.StringVar(&o.role, "role", "", "intended use of the directories: pulp, postgresql or etcd; exit with 3 if a directory is too slow for this use")
	f.StringVar(&o.platform, "platform", "", "measure the data directories of this platform (only satellite) instead of DIR, each device once")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be measured, and measure nothing")
	cliutil.Exclusive(c, "full", "classic", "sustained")
	cliutil.Requires(c, "--sustained", "budget")
	cliutil.Excludes(c, "platform", "--platform sets the roles of the directories", "role")
	cliutil.Check(c, o.checkPlaces)
	cliutil.Between(f, "budget", time.Minute, 24*time.Hour, 10*time.Minute)
	cliutil.Reads(f, "size", "1GiB", readsFileSize)
	cliutil.OneOf(f, "role", "pulp", "postgresql", "etcd")
	cliutil.OneOf(f, "platform", "satellite")
	return c
}

func (o benchDiskOptions) mode() disk.Mode {
	switch {
	case o.full:
		return disk.Full
	case o.classic:
		return disk.Classic
	case o.sustained:
		return disk.Sustained
	}
	return disk.Quick
}

// fileSize returns --size in bytes, or 0 for the default.
func (o benchDiskOptions) fileSize(facts *fact.Facts) (int64, error) {
	switch {
	case o.size == "":
		return 0, nil
	case strings.EqualFold(o.size, "2xram"):
		ram, ok := facts.Memory.TotalBytes.Get()
		if !ok {
			return 0, ui.Instead(ui.Usage, errors.New("--size 2xRAM: this machine's memory size is unknown"), "", "--size=1GiB")
		}
		return 2 * ram, nil
	}
	size, err := unit.ParseSize(o.size)
	return int64(size), err
}

// readsFileSize validates --size.
func readsFileSize(word string) error {
	size, err := unit.ParseSize(word)
	switch {
	case strings.EqualFold(word, "2xram"):
		return nil
	case err != nil:
		return err
	case size == 0:
		return errors.New("want more than 0")
	case unit.Bare(word, disk.LeastSize, unit.PiB) != nil:
		return unit.Bare(word, disk.LeastSize, unit.PiB)
	case size > unit.EiB:
		return errors.New("larger than any disk")
	}
	return nil
}

func (a *app) benchDisk(ctx context.Context, o benchDiskOptions, dirs []string) error {
	mode := o.mode()
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	facts := fact.Collect(m.Host)
	places, err := o.places(a, m.Host, dirs)
	if err != nil {
		return err
	}
	if err := o.sizes(facts, places); err != nil {
		return err
	}
	plan := disk.NewPlan(mode, len(places), o.budget)
	if o.dryRun {
		dry := disk.NewDryRun(plan, places)
		if a.data() {
			return a.result(dry, nil)
		}
		dry.Print(a.screen)
		return nil
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	engine, err := disk.FindFioOrHelp(ctx, m.Host, o.fio)
	if err != nil {
		return err
	}
	if err := disk.Open(places); err != nil {
		return disk.Unmade(err)
	}
	a.sayTime(plan, places)
	k := a.keeper(m, disk.Kind)
	sum := func(e *disk.Evidence) {
		if o.platform != "" {
			e.CompareForeman()
		}
		e.Sum(facts.Virtualization.Hypervisor.Or(""))
	}
	bench := &disk.Bench{Engine: engine, Host: m.Host, Mode: mode, Finished: func(e *disk.Evidence) error {
		sum(e)
		return k.Finished(e.Text(), e)
	}}
	step, stop := a.screen.Steps(plan.Takes())
	defer stop()
	e, err := bench.Run(ctx, plan, places, func(done, all int, p *disk.Place, c disk.Cell) {
		step(text.Sprintf("%d of %d: %s in %s", done+1, all, c.Name, p.Directory), done, all)
	})
	stop()
	verdict, gate := "", error(nil)
	if e == nil {
		err = disk.Unmade(err)
	} else {
		sum(e)
		if verdict = e.Text(); o.role != "" || o.platform != "" {
			gate = fitForRole(e)
		}
	}
	return finish(ctx, a, k, verdict, e, err, "the files are removed", gate)
}

// fitForRole returns an error with an exit code if a disk does not meet the limits of its role.
func fitForRole(e *disk.Evidence) error {
	switch e.Verdict {
	case disk.Fail:
		return ui.Exit(ui.GateNotMet, errors.New("a directory is too slow for its role"))
	case disk.NoVerdict:
		return ui.Exit(ui.Failed, errors.New("no verdict: the measured figures do not come from the disk alone"))
	}
	return nil
}

// satelliteDirs are the directories of Satellite's data, with their roles.
var satelliteDirs = []struct {
	dir  string
	role disk.Role
}{
	{"/var/lib/pulp", disk.Pulp}, {"/var/lib/pgsql", disk.PostgreSQL}, {"/var/opt/rh/rh-postgresql12/lib/pgsql", disk.PostgreSQL},
	{"/var/lib/qpidd", disk.Pulp}, {"/var/lib/candlepin", disk.Pulp},
}

func (o *benchDiskOptions) checkPlaces(dirs []string) error {
	switch {
	case o.platform == "" && len(dirs) == 0:
		return ui.Retry(ui.Usage, errors.New("no directory given; name the directories to measure"), "", "/var/lib/pgsql")
	case o.platform != "" && len(dirs) > 0:
		return ui.Without(errors.New("--platform chooses the directories itself; use --platform or DIR, not both"), "--platform")
	}
	return nil
}

// places returns the directories to measure, with their roles.
func (o benchDiskOptions) places(a *app, h *host.Host, dirs []string) (places []*disk.Place, err error) {
	if o.platform == "" {
		for _, dir := range dirs {
			p, err := disk.LookAt(h, dir)
			if err != nil {
				return nil, ui.Exit(ui.Usage, err)
			}
			if slices.ContainsFunc(places, func(q *disk.Place) bool { return q.Directory == p.Directory }) {
				return nil, ui.WithoutWord(fmt.Errorf("directory %s is given twice", p.Directory), dir)
			}
			p.Role = disk.Role(o.role)
			places = append(places, p)
		}
		return places, nil
	}
	for _, d := range satelliteDirs {
		p, err := disk.LookAt(h, d.dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(places, func(q *disk.Place) bool { return q.Shares(p) }); i >= 0 {
			a.screen.Say("%s is on the same file system as %s: measured once", p.Directory, places[i].Directory)
			if places[i].Role != d.role {
				places[i].Role = disk.Satellite // limits of both roles
			}
			continue
		}
		p.Role = d.role
		places = append(places, p)
	}
	if len(places) == 0 {
		return nil, ui.Exit(ui.Failed, errors.New("no data directory of Satellite found on this machine"))
	}
	return places, nil
}

// sizes sets the sizes of the files to measure with.
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
			return disk.NoRoom(p.Directory, err)
		}
	}
	return nil
}

// sayTime prints the expected duration.
func (a *app) sayTime(plan disk.Plan, places []*disk.Place) {
	if takes := plan.Takes(); plan.Mode == disk.Sustained {
		a.screen.Say("this takes at most %s, until %s", ui.Roughly(takes.Seconds()), time.Now().Add(takes).Local().Format("15:04"))
	} else if takes > 0 {
		a.screen.Say("this takes about %s, until %s; on a slow disk longer", ui.Roughly(takes.Seconds()), time.Now().Add(takes).Local().Format("15:04"))
	} else {
		all := 0.0
		for _, p := range places {
			all += float64(p.SizeBytes)
		}
		passes := float64(1 + len(plan.Cells)*plan.Repeats)
		a.screen.Say("the files of %[2]s GB are read or written %.0[1]f times: %[3]s at 100 MB/s, longer if the disk is slower with 4 KiB blocks", passes, unit.Digits(all/1e9), ui.Roughly(passes*all/100e6))
	}
}
