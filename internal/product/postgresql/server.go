package postgresql

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"fettle.dev/fettle/internal/host"
)

// Server is a running cluster on this machine, for callers that use its databases.
type Server struct {
	Name string // such as 15/main
	Dir  string // data directory
	// Socket and Port are the server's address for clients.
	Socket, Port string
	// User owns the data; As has the user's ids.
	User string
	As   host.User
	// Programs is the directory of the server's programs.
	Programs string

	h *host.Host
}

// Servers returns the running clusters. It returns an error if clusters exist but none runs.
func Servers(h *host.Host) (out []*Server, err error) {
	all, err := clusters(h)
	if err != nil {
		return nil, err
	}
	var stopped error
	for _, c := range all {
		dir := path.Dir(c.Main)
		if files, err := readSettings(h, c.Main); err == nil && files.dir != "" {
			dir = files.dir
		}
		p, err := serverOf(h, dir)
		if err != nil {
			stopped = fmt.Errorf("%s: %w", c.Name, err)
			continue
		}
		st, err := h.Files.Stat(dir)
		if err != nil {
			return nil, err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, host.NotRecorded(dir)
		}
		s := &Server{Name: c.Name, Dir: dir, Socket: p.socket, Port: p.port, User: userName(h, int(sys.Uid)), As: host.User{UID: sys.Uid, GID: sys.Gid}, h: h}
		if exe, err := h.Files.Readlink("/proc/" + strconv.Itoa(p.pid) + "/exe"); err == nil {
			s.Programs = path.Dir(strings.TrimSuffix(exe, " (deleted)"))
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, stopped
	}
	return out, nil
}

// ErrNoDatabase is returned if a server lacks the named database.
var ErrNoDatabase = errors.New("database not found")

func (s *Server) session(ctx context.Context, database string) (*session, error) {
	c, err := connect(ctx, s.h, s.Dir, database)
	if err != nil && strings.Contains(err.Error(), "does not exist") {
		err = fmt.Errorf("%s: %w", database, ErrNoDatabase)
	}
	return c, err
}

// One runs a read-only statement, and returns one text.
func (s *Server) One(ctx context.Context, database, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := s.session(ctx, database)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.one(statement)
}

// workTime limits a statement that changes data: creating a database waits for a checkpoint.
const workTime = 10 * time.Minute

// Do runs a statement outside of a transaction, for changes such as CREATE DATABASE.
func (s *Server) Do(ctx context.Context, database, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	c, err := s.session(ctx, database)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Send(&pgproto3.Query{String: statement})
	_, err = c.finish()
	return err
}

// Hold opens a session with a database, which keeps it in use until the caller runs the returned
// function or this process ends.
func (s *Server) Hold(ctx context.Context, database string) (func(), error) {
	c, err := s.session(context.WithoutCancel(ctx), database)
	if err != nil {
		return nil, err
	}
	return c.Close, nil
}
