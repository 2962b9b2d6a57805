package experiment

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
	internaltext "fettle.dev/fettle/internal/text"
)

// pgbench runs pgbench with a number of clients, in a database created for it.
type pgbench struct {
	host     *host.Host
	say      func(format string, args ...any)
	clients  int
	target   postgres.Target
	plan     *postgres.Prepared
	database *postgres.Database
}

// postgresRun is the length of a run.
const postgresRun = 5 * time.Second

// postgresScale is the minimum scale of the database. pgbench needs as many branches as clients;
// otherwise clients wait for each other.
const postgresScale = 10

// postgresWork returns the work for a name: clients-8, or clients-8@15/main if several
// servers run.
func postgresWork(h *host.Host, say func(format string, args ...any), name string, anyway bool) (*benchWork, error) {
	cell, server, _ := strings.Cut(name, "@")
	text, is := strings.CutPrefix(cell, "clients-")
	n, err := strconv.Atoi(text)
	if !is || err != nil || n < 1 {
		return nil, fmt.Errorf("bench postgres: unknown cell %q; want clients-N, such as clients-8", cell)
	}
	asked := postgres.Asked{Clients: []int{n}, Rounds: 1, Step: postgresRun, Scale: max(postgresScale, n)}
	w := &pgbench{host: h, say: say, clients: n, target: postgres.Target{Server: server, Anyway: anyway, Asked: asked}}
	return &benchWork{metric: prove.Metric{Name: cell, Unit: "1/s", More: true}, prepare: w.prepare, once: w.once, close: w.close}, nil
}

// prepare creates the database and fills it.
func (w *pgbench) prepare(ctx context.Context) (err error) {
	if w.plan, err = postgres.Prepare(ctx, w.host, w.target, w.say); err != nil {
		return err
	}
	if len(w.plan.Clients) == 0 {
		return fmt.Errorf("%s has too few free connections for %s (max_connections)", w.plan.Server.Name, internaltext.Count(w.clients, "client"))
	}
	w.say("creating pgbench's tables in a temporary database")
	if w.database, err = postgres.Create(ctx, w.plan.Server); err != nil {
		return err
	}
	return w.plan.Fill(ctx, w.database, w.plan.Program)
}

func (w *pgbench) once(ctx context.Context) (tps float64, err error) {
	return w.plan.Work(ctx, w.database, w.plan.Program, w.clients)
}

// close drops the database.
func (w *pgbench) close() (err error) {
	if w.database != nil {
		err = w.database.Drop(context.Background())
	}
	if w.plan != nil {
		w.plan.Program.Close()
	}
	return err
}
