package postgres

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

// Pgbench is the program pgbench, run as the user that the server accepts on its socket.
type Pgbench struct {
	exec   host.Exec
	server *postgresql.Server
	path   string
	dir    string // for its logs; owned by that user
}

// newPgbench finds the program and creates a directory for its logs.
func newPgbench(h *host.Host, s *postgresql.Server, path string) (*Pgbench, error) {
	tried := []string{path}
	if path == "" {
		tried = []string{filepath.Join(s.Programs, "pgbench"), "pgbench"}
	}
	b := &Pgbench{exec: h.Exec, server: s}
	for _, name := range tried {
		if found, err := h.Exec.LookPath(name); err == nil {
			b.path = found
			break
		}
	}
	if b.path == "" && path != "" {
		return nil, ui.Without(fmt.Errorf("--pgbench: program %s not found", path), "--pgbench")
	}
	if b.path == "" {
		return nil, ui.Hinted(ui.Failed, fmt.Errorf("%s not found", strings.Join(tried, " and ")), "install it (Red Hat: dnf install postgresql-contrib; Debian: apt install postgresql), or use --pgbench PATH")
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

// Close removes the logs and their directory.
func (b *Pgbench) Close() { _ = os.RemoveAll(b.dir) }

// mostPgbench is the time limit of one call: filling a large database takes hours.
const mostPgbench = 24 * time.Hour

// Run implements Program.
func (b *Pgbench) Run(ctx context.Context, args ...string) (string, error) {
	res, err := b.exec.Run(ctx, host.Command{
		Argv: append([]string{b.path}, args...), Timeout: mostPgbench, DiesWithCaller: true, As: &b.server.As, Dir: b.dir,
		Env: []string{"PGHOST=" + b.server.Socket, "PGPORT=" + b.server.Port, "PGUSER=" + b.server.User, "PGAPPNAME=fettle bench"},
	})
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		said := strings.TrimSpace(string(res.Stderr))
		return "", fmt.Errorf("pgbench failed with exit code %d: %s", res.ExitCode, said[strings.LastIndexByte(said, '\n')+1:])
	}
	return string(res.Stdout), nil
}

// LogPrefix implements Program.
func (b *Pgbench) LogPrefix() string { return filepath.Join(b.dir, "log") }

// Log implements Program.
func (b *Pgbench) Log(read func(io.Reader) error) error {
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
