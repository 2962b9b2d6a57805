package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// FindServer returns the server with a name, or the only one if name is empty.
func FindServer(h *host.Host, name string) (*postgresql.Server, error) {
	all, err := postgresql.Servers(h)
	if err != nil {
		return nil, ui.Hinted(ui.Failed, fmt.Errorf("PostgreSQL: %w", err), "start the server; pg_lsclusters or systemctl list-units 'postgresql*' shows the state of each")
	}
	return product.Choose("PostgreSQL", "PostgreSQL not found on this machine", "--server", all, func(s *postgresql.Server) string { return s.Name }, name)
}

// roomOf returns the capacity of the server and the machine.
func roomOf(ctx context.Context, h *host.Host, s *postgresql.Server) (Room, error) {
	r, err := AskRoom(ctx, s)
	if err != nil {
		return r, err
	}
	// The page cache can use the available memory.
	cache, known := fact.Collect(h).Memory.AvailableBytes.Get()
	if !known {
		return r, errors.New("available memory unknown (/proc/meminfo), so the size of the page cache is unknown")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.Dir, &fs); err != nil {
		return r, fmt.Errorf("%s: %w", s.Dir, err)
	}
	r.Cache, r.Free, r.CPUs = cache, int64(fs.Bavail)*fs.Frsize, runtime.NumCPU()
	return r, nil
}

// Prepared is a plan with the server and the program that it runs with.
type Prepared struct {
	*Plan
	Server  *postgresql.Server
	Program *Pgbench
}

// Target selects the server and the measurements.
type Target struct {
	Server, Pgbench string // "" for the only server, and for the server's own program
	Asked
	Anyway bool // measure although other clients are connected
}

// Prepare plans a bench. It drops the databases of killed benches and reports them with say. The
// caller must close the plan's program.
func Prepare(ctx context.Context, h *host.Host, o Target, say func(format string, args ...any)) (_ *Prepared, err error) {
	server, err := FindServer(h, o.Server)
	if err != nil {
		return nil, err
	}
	program, err := newPgbench(h, server, o.Pgbench)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			program.Close()
		}
	}()
	left, err := Sweep(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, name := range left.Dropped {
		say("dropped database %s of a killed benchmark", name)
	}
	for _, name := range left.Unmarked {
		say("database %s has a name like those of fettle's databases but lacks fettle's comment; not dropped. To drop it: DROP DATABASE %s", name, name)
	}
	if len(left.InUse) > 0 {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("another fettle bench is using database %s", strings.Join(left.InUse, ", ")), "wait until it ends")
	}
	room, err := roomOf(ctx, h, server)
	// Disconnected clients count until the server has ended their processes.
	for end := h.Clock.Now().Add(5 * time.Second); err == nil && room.Others > 0 && !o.Anyway && h.Clock.Now().Before(end); {
		if err = host.Sleep(ctx, 100*time.Millisecond); err == nil {
			room, err = roomOf(ctx, h, server)
		}
	}
	if err != nil {
		return nil, err
	}
	if room.Others > 0 && !o.Anyway {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("%s has %s connected; a benchmark would slow other clients, and they would distort the benchmark", server.Name, text.Count(room.Others, "other client")), "stop these clients; --force measures now, and the result shows a warning", "--force")
	}
	p, err := Make(room, o.Asked)
	if errors.Is(err, errNoSpace) {
		return nil, ui.Instead(ui.Refused, err, "df -h "+text.Quote(server.Dir)+" shows free space; a smaller --scale needs less", "--scale=1")
	}
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return &Prepared{p, server, program}, nil
}
