package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/product/postgresql"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

type benchPostgresOptions struct {
	server, pgbench string
	asked           postgres.Asked
	tables, anyway  bool
	databases       []string
	top             int
}

func benchPostgresCommand(a *app) *cobra.Command {
	var o benchPostgresOptions
	c := &cobra.Command{
		Use: "postgres", Short: "Transactions and latency by the number of clients, or which tables are large",
		Long: `Runs pgbench against the PostgreSQL of this machine, in a database that it creates and
drops again: a ladder of clients, with transactions a second and latency of each step.
Not for a server at work: it is refused where others are connected. --tables runs
nothing, and lists the largest tables of foreman, candlepin and pulpcore.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := noneEmpty(c); err != nil {
				return err
			}
			if c.Flags().Changed("scale") && o.asked.OutOfCache {
				return ui.Without(errors.New("--out-of-cache says the size: leave --scale out"), "--scale")
			}
			if o.tables {
				return a.postgresTables(c.Context(), o)
			}
			for _, name := range []string{"database", "top"} {
				if c.Flags().Changed(name) {
					return ui.Without(fmt.Errorf("--%s is for --tables: the benchmark runs in a database of its own alone", name), "--"+name)
				}
			}
			return a.benchPostgres(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.server, "server", "", "which one, where several run here, as in 15/main")
	f.StringVar(&o.pgbench, "pgbench", "", "the program (default: beside the server's own, else as a shell finds it)")
	f.IntVar(&o.asked.Scale, "scale", 0, "size of the database, in pgbench's units of about 15 MiB (default 50)")
	f.BoolVar(&o.asked.OutOfCache, "out-of-cache", false, "as large as it takes for reads to reach the disk")
	f.IntSliceVar(&o.asked.Clients, "clients", nil, "steps of the ladder, as in 1,4,16 (default: 1, 2, 4 ... to four for each CPU)")
	f.IntVar(&o.asked.Rounds, "rounds", 3, "how often the ladder is climbed")
	f.DurationVar(&o.asked.Step, "step", 10*time.Second, "how long each step takes")
	f.BoolVar(&o.asked.ReadOnly, "read-only", false, "transactions that only read (pgbench -S)")
	f.BoolVar(&o.anyway, "anyway", false, "also where other clients are connected")
	f.BoolVar(&o.tables, "tables", false, "list the largest tables, and run no benchmark")
	f.StringSliceVar(&o.databases, "database", []string{"foreman", "candlepin", "pulpcore"}, "with --tables: of which databases, where they exist")
	f.IntVar(&o.top, "top", 10, "with --tables: how many of each")
	cliutil.Between(f, "top", 1, 1000, 10)
	cliutil.Between(f, "scale", 1, postgres.MostScale, 50)
	cliutil.Between(f, "rounds", 1, 100, 3)
	cliutil.Between(f, "step", time.Second, time.Hour, 10*time.Second)
	cliutil.Reads(f, "clients", "1,4,16", func(words string) error {
		for word := range strings.SplitSeq(words, ",") {
			if n, err := strconv.Atoi(word); err != nil || n < 1 || n > postgres.MostClients {
				return fmt.Errorf("want numbers from 1 to %d with commas between", postgres.MostClients)
			}
		}
		return nil
	})
	return c
}

// postgresServer is the one that is asked for, or the only one.
func (m *machine) postgresServer(name string) (*postgresql.Server, error) {
	all, err := postgresql.Servers(m.host)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return oneOf("PostgreSQL", "no PostgreSQL is set up here", "--server", all, func(s *postgresql.Server) string { return s.Name }, name)
}

// postgresRoom is what server and machine have.
func (m *machine) postgresRoom(ctx context.Context, s *postgresql.Server) (postgres.Room, error) {
	r, err := postgres.AskRoom(ctx, s)
	if err != nil {
		return r, err
	}
	// What the kernel can give to files is what it can give to anybody.
	cache, known := fact.Collect(m.host).Memory.AvailableBytes.Get()
	if !known {
		return r, errors.New("how much memory is available is not known (/proc/meminfo), and so not what the page cache can hold")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.Dir, &fs); err != nil {
		return r, fmt.Errorf("%s: %w", s.Dir, err)
	}
	r.Cache, r.Free, r.CPUs = cache, int64(fs.Bavail)*fs.Frsize, runtime.NumCPU()
	return r, nil
}

// pgbenchPlan is what a bench of PostgreSQL works with.
type pgbenchPlan struct {
	*postgres.Plan
	server  *postgresql.Server
	program *pgbench
}

// planPostgres looks whether there can be a bench, and drops what one that was killed
// has left. The program of the plan has to be ended.
func (m *machine) planPostgres(ctx context.Context, o benchPostgresOptions) (_ *pgbenchPlan, err error) {
	server, err := m.postgresServer(o.server)
	if err != nil {
		return nil, err
	}
	program, err := m.pgbench(server, o.pgbench)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			program.end()
		}
	}()
	left, err := postgres.Sweep(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, name := range left.Dropped {
		m.screen.Say("database %s of a bench that was killed is dropped", name)
	}
	for _, name := range left.Unmarked {
		m.screen.Say("database %s is called like one of fettle's and does not say so in its comment: it stays; DROP DATABASE %s drops it", name, name)
	}
	if len(left.InUse) > 0 {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("another bench is at work in database %s", strings.Join(left.InUse, ", ")), "wait for its end")
	}
	room, err := m.postgresRoom(ctx, server)
	// Clients that have just left are counted until the server has ended their processes.
	for end := m.host.Clock.Now().Add(5 * time.Second); err == nil && room.Others > 0 && !o.anyway && m.host.Clock.Now().Before(end); {
		if err = wait(ctx, 100*time.Millisecond); err == nil {
			room, err = m.postgresRoom(ctx, server)
		}
	}
	if err != nil {
		return nil, err
	}
	if room.Others > 0 && !o.anyway {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("others are connected to %s (%d): a benchmark would slow their work, and they its", server.Name, room.Others), "stop what uses it; --anyway measures now, and the result says so", "--anyway")
	}
	p, err := postgres.Make(room, o.asked)
	if errors.Is(err, postgres.ErrNoSpace) {
		return nil, ui.Instead(ui.Refused, err, "df -h "+internaltext.Quote(server.Dir)+" shows what is free; a smaller --scale needs less", "--scale=1")
	}
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return &pgbenchPlan{p, server, program}, nil
}

func (a *app) benchPostgres(ctx context.Context, o benchPostgresOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if err := m.mayMeasure(); err != nil {
		return err
	}
	p, err := m.planPostgres(ctx, o)
	if err != nil {
		return err
	}
	defer p.program.end()
	a.screen.Say("%d rounds of %d steps of %s at scale %d: about %s", p.Rounds, len(p.Clients), p.Step, p.Scale, roughly(p.TakesS()))
	k := m.keeper("bench-postgres", m.host.Clock.Now())
	p.Finished = func(r *postgres.Result) error {
		r.Server = p.server.Name
		return k.finished(r.Text, r)
	}
	d, err := postgres.Create(ctx, p.server)
	if err != nil {
		return err
	}
	result, err := p.Run(ctx, p.server, d, p.program, func(done, all, clients int) {
		a.screen.Progress("%d of %d: %d clients", done+1, all, clients)
	})
	a.screen.Status("")
	if dropped := d.Drop(ctx); dropped != nil {
		return errors.Join(ui.Exit(ui.Incomplete, dropped), err)
	}
	const left = "the database is dropped"
	if result == nil {
		return errors.Join(cutShort(ctx, err, left, nil), k.nothing())
	}
	result.Server = p.server.Name
	recorded, r := k.record(result.Text, result), k.run
	if err != nil {
		err = cutShort(ctx, err, left, r)
	}
	err = errors.Join(err, recorded)
	if a.data() {
		return a.result(BenchResult{r}, err)
	}
	if recorded == nil {
		postgres.Print(a.screen, r, result)
	}
	return err
}

// PostgresTables is the JSON form of fettle bench postgres --tables.
type PostgresTables struct {
	Schema    string           `json:"schema"` // fettle/postgres-tables/v1
	Server    string           `json:"server"`
	Databases []PostgresTabled `json:"databases"`
}

// PostgresTabled is a database with its largest tables.
type PostgresTabled struct {
	Name   string           `json:"name"`
	Tables []postgres.Table `json:"tables"`
}

func (a *app) postgresTables(ctx context.Context, o benchPostgresOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	server, err := m.postgresServer(o.server)
	if err != nil {
		return err
	}
	list := PostgresTables{Schema: "fettle/postgres-tables/v1", Server: server.Name, Databases: []PostgresTabled{}}
	for _, name := range o.databases {
		tables, err := postgres.Top(ctx, server, name, o.top)
		if errors.Is(err, postgresql.ErrNoDatabase) {
			continue
		}
		if err != nil {
			return fmt.Errorf("database %s: %w", name, err)
		}
		list.Databases = append(list.Databases, PostgresTabled{name, slices.Clip(tables)})
	}
	if len(list.Databases) == 0 {
		return ui.Hinted(ui.Failed, fmt.Errorf("%s has no database %s", server.Name, strings.Join(o.databases, ", ")), "--database NAME names another")
	}
	if a.data() {
		return a.result(list, nil)
	}
	for _, d := range list.Databases {
		postgres.PrintTables(a.screen, d.Name, d.Tables)
	}
	return nil
}
