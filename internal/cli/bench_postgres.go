package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type benchPostgresOptions struct {
	postgres.Target
	tables    bool
	databases []string
	top       int
}

func benchPostgresCommand(a *app) *cobra.Command {
	var o benchPostgresOptions
	c := &cobra.Command{
		Use: "postgres", Short: "Measure PostgreSQL transactions and latency, or list tables",
		Long: `Runs pgbench against the PostgreSQL server of this machine, in a temporary database. It
measures transactions per second and latency for an increasing number of clients. It
refuses to run while other clients are connected. With --tables it only lists the
largest tables of foreman, candlepin and pulpcore.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.tables {
				return a.postgresTables(c.Context(), o)
			}
			return a.benchPostgres(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Server, "server", "", "server to measure, if several run on this machine, such as 15/main")
	f.StringVar(&o.Pgbench, "pgbench", "", "path of pgbench (default the one installed with the server, else the one in PATH)")
	f.IntVar(&o.Asked.Scale, "scale", 0, "size of the database, in scale units of about 15 MiB (default 50)")
	f.BoolVar(&o.Asked.OutOfCache, "out-of-cache", false, "make the database larger than memory, so that reads reach the disk")
	f.IntSliceVar(&o.Asked.Clients, "clients", nil, "numbers of clients, such as 1,4,16 (default 1, 2, 4 ... up to four per CPU)")
	f.IntVar(&o.Asked.Rounds, "rounds", 3, "how often the whole series of client numbers is measured")
	f.DurationVar(&o.Asked.Step, "step", 10*time.Second, "time of each measurement with one number of clients, such as 10s")
	f.BoolVar(&o.Asked.ReadOnly, "read-only", false, "use only transactions that read (pgbench -S)")
	f.BoolVar(&o.Anyway, "force", false, "measure although other clients are connected")
	f.BoolVar(&o.tables, "tables", false, "only list the largest tables")
	f.StringSliceVar(&o.databases, "database", []string{"foreman", "candlepin", "pulpcore"}, "with --tables: names of the databases")
	f.IntVar(&o.top, "top", 10, "with --tables: number of tables per database")
	cliutil.Excludes(c, "out-of-cache", "--out-of-cache chooses the scale", "scale")
	cliutil.Requires(c, "--tables", "database", "top")
	cliutil.Between(f, "top", 1, 1000, 10)
	cliutil.Between(f, "scale", 1, postgres.MostScale, 50)
	cliutil.Between(f, "rounds", 1, 100, 3)
	cliutil.Between(f, "step", time.Second, time.Hour, 10*time.Second)
	cliutil.Reads(f, "clients", "1,4,16", func(words string) error {
		for word := range strings.SplitSeq(words, ",") {
			if n, err := strconv.Atoi(word); err != nil || n < 1 || n > postgres.MostClients {
				return errors.New(text.Sprintf("want comma-separated numbers from 1 to %d", postgres.MostClients))
			}
		}
		return nil
	})
	return c
}

func (a *app) benchPostgres(ctx context.Context, o benchPostgresOptions) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	p, err := postgres.Prepare(ctx, m.Host, o.Target, a.screen.Say)
	if err != nil {
		return err
	}
	defer p.Program.Close()
	k := a.keeper(m, "bench-postgres")
	p.Finished = func(r *postgres.Result) error {
		r.Server = p.Server.Name
		return k.Finished(r.Text, r)
	}
	d, err := postgres.Create(ctx, p.Server)
	if err != nil {
		return err
	}
	a.screen.Say("%s of %s, %s each, at scale %s: about %s", text.Count(p.Rounds, "repetition"), text.Count(len(p.Clients), "client number"), unit.FormatSeconds(p.Step.Seconds()), unit.Digits(float64(p.Scale)), ui.Roughly(p.TakesS()))
	step, stop := a.screen.Steps(experiment.Seconds(p.TakesS()))
	result, err := p.Run(ctx, p.Server, d, p.Program, func(done, all, clients int) {
		step(text.Sprintf("%d of %d: %s", done+1, all, text.Count(clients, "client")), done, all)
	})
	stop()
	if dropped := d.Drop(ctx); dropped != nil {
		return errors.Join(ui.Exit(ui.Incomplete, dropped), err)
	}
	verdict := ""
	if result != nil {
		result.Server, verdict = p.Server.Name, result.Text
	}
	return finish(ctx, a, k, verdict, result, err, "the database is dropped", nil)
}

// PostgresTables is the JSON form of fettle bench postgres --tables.
type PostgresTables struct {
	Schema    string           `json:"schema"` // fettle/postgres-tables/v1
	Headline  ui.Headline      `json:"headline"`
	Server    string           `json:"server"`
	Databases []PostgresTabled `json:"databases"`
}

// PostgresTabled is a database and its largest tables.
type PostgresTabled struct {
	Name   string           `json:"name"`
	Tables []postgres.Table `json:"tables"`
}

func (a *app) postgresTables(ctx context.Context, o benchPostgresOptions) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	server, err := postgres.FindServer(m.Host, o.Server)
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
		return ui.Hinted(ui.Failed, fmt.Errorf("server %s has no database %s", server.Name, strings.Join(o.databases, ", ")), "use --database NAME for another database")
	}
	h, bytes, tables := &list.Headline, int64(0), 0
	for _, d := range list.Databases {
		for _, t := range d.Tables {
			bytes += t.Bytes
		}
		tables += len(d.Tables)
	}
	h.Line("%s: the %s of %s take up %s", server.Name, h.Count("tables", tables, "largest table"), h.Count("databases", len(list.Databases), "database"), h.Value("size_bytes", float64(bytes), unit.Size(bytes).Human()))
	if a.data() {
		return a.result(list, nil)
	}
	ui.PrintHeadline(a.screen, h)
	for _, d := range list.Databases {
		postgres.PrintTables(a.screen, d.Name, d.Tables)
	}
	return nil
}
