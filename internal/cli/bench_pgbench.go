package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/ui"
)

// pgbench is the program, run as the user that the server knows by its socket.
type pgbench struct {
	exec   host.Exec
	server *postgresql.Server
	path   string
	dir    string // of its logs, which is that user's
}

// pgbench finds the program, and makes a place for its logs.
func (m *machine) pgbench(s *postgresql.Server, path string) (*pgbench, error) {
	tried := []string{path}
	if path == "" {
		tried = []string{filepath.Join(s.Programs, "pgbench"), "pgbench"}
	}
	b := &pgbench{exec: m.host.Exec, server: s}
	for _, name := range tried {
		if found, err := m.host.Exec.LookPath(name); err == nil {
			b.path = found
			break
		}
	}
	if b.path == "" && path != "" {
		return nil, ui.Without(fmt.Errorf("--pgbench: there is no program %s", path), "--pgbench")
	}
	if b.path == "" {
		return nil, ui.Hinted(ui.Failed, fmt.Errorf("there is no %s", strings.Join(tried, ", and no ")), "dnf install postgresql-contrib (Red Hat), apt install postgresql (Debian), or --pgbench PATH")
	}
	dir, err := os.MkdirTemp("", "fettle-pgbench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(s.As.UID), int(s.As.GID)); err != nil {
		return nil, errors.Join(ui.AsRoot(err, "or as user "+s.User), os.Remove(dir))
	}
	b.dir = dir
	return b, nil
}

func (b *pgbench) end() { _ = os.RemoveAll(b.dir) }

// mostPgbench is how long one call may take: to fill a large database takes hours.
const mostPgbench = 24 * time.Hour

// Run implements postgres.Program.
func (b *pgbench) Run(ctx context.Context, args ...string) (string, error) {
	res, err := b.exec.Run(ctx, host.Command{
		Argv: append([]string{b.path}, args...), Timeout: mostPgbench, DiesWithCaller: true, As: &b.server.As, Dir: b.dir,
		Env: []string{"PGHOST=" + b.server.Socket, "PGPORT=" + b.server.Port, "PGUSER=" + b.server.User, "PGAPPNAME=fettle bench"},
	})
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		said := strings.TrimSpace(string(res.Stderr))
		return "", fmt.Errorf("pgbench: exit %d: %s", res.ExitCode, said[strings.LastIndexByte(said, '\n')+1:])
	}
	return string(res.Stdout), nil
}

// LogPrefix implements postgres.Program.
func (b *pgbench) LogPrefix() string { return filepath.Join(b.dir, "log") }

// Log implements postgres.Program.
func (b *pgbench) Log(read func(io.Reader) error) error {
	files, err := filepath.Glob(b.LogPrefix() + ".*")
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = read(f)
		if err := errors.Join(err, f.Close(), os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}
