package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
)

// postgresWork is pgbench with so many clients as the work of an experiment, in a
// database that was created for it.
type postgresWork struct {
	machine  *machine
	name     string
	clients  int
	asked    benchPostgresOptions
	plan     *pgbenchPlan
	database *postgres.Database
}

// postgresVisit is how long one visit goes on.
const postgresVisit = 5 * time.Second

// postgresScale is the least size of the database; pgbench wants no fewer branches
// than clients, or they wait for each other.
const postgresScale = 10

// postgresWork makes the work of a name: clients-8, or clients-8@15/main where several
// servers run.
func (m *machine) postgresWork(name string, anyway bool) (*postgresWork, error) {
	cell, server, _ := strings.Cut(name, "@")
	text, is := strings.CutPrefix(cell, "clients-")
	n, err := strconv.Atoi(text)
	if !is || err != nil || n < 1 {
		return nil, fmt.Errorf("no cell of the PostgreSQL bench is called %q: want clients-N, as clients-8", cell)
	}
	return &postgresWork{machine: m, name: cell, clients: n,
		asked: benchPostgresOptions{server: server, anyway: anyway, asked: postgres.Asked{Clients: []int{n}, Rounds: 1, Step: postgresVisit, Scale: max(postgresScale, n)}}}, nil
}

func (w *postgresWork) Metric() prove.Metric {
	return prove.Metric{Name: w.name, Unit: "1/s", More: true}
}

// Check creates the database and fills it.
func (w *postgresWork) Check(ctx context.Context) error { return orFailed(w.prepare(ctx)) }

func (w *postgresWork) prepare(ctx context.Context) (err error) {
	if w.plan, err = w.machine.planPostgres(ctx, w.asked); err != nil {
		return err
	}
	if len(w.plan.Clients) == 0 {
		return fmt.Errorf("%s has too few connections for %d clients (max_connections)", w.plan.server.Name, w.clients)
	}
	w.machine.screen.Say("pgbench's tables are made, in a database that is dropped again")
	if w.database, err = postgres.Create(ctx, w.plan.server); err != nil {
		return err
	}
	return w.plan.Fill(ctx, w.database, w.plan.program)
}

func (w *postgresWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	tps, err := w.plan.Work(ctx, w.database, w.plan.program, w.clients)
	return prove.Measurement{Values: prove.Values{w.name: tps}}, err
}

// Close drops the database, whatever has ended the experiment.
func (w *postgresWork) Close() (err error) {
	if w.database != nil {
		err = w.database.Drop(context.Background())
	}
	if w.plan != nil {
		w.plan.program.end()
	}
	return err
}
