package postgresql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// answer is the report of a running server.
type answer struct {
	Version     string             `json:"version"`
	UptimeS     float64            `json:"uptime_s"`
	Connections float64            `json:"connections_used"`
	DataBytes   *float64           // nil if measuring took too long
	Loaded      float64            `json:"loaded_s"` // last reading of the files, in seconds since the epoch
	Settings    map[string]running `json:"settings"`
	// Errors are the positions, FILE:LINE, of lines that the server rejects.
	Errors []string `json:"errors"`
}

// running is one row of pg_settings.
type running struct {
	Value   string `json:"value"` // in the form of a file, such as 128MB
	Context string `json:"context"`
	Source  string `json:"source"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Pending bool   `json:"pending,omitempty"` // a change waits for a restart
}

func (r running) at() string {
	if r.File != "" {
		return fmt.Sprintf("pg_settings (%s:%d)", r.File, r.Line)
	}
	return "pg_settings (" + r.Source + ")"
}

// ask is a single statement, so all values have the same time. It omits the settings of its own
// connection. PostgreSQL 15 to 18 keep pending_restart set after the line of a parameter is
// removed, even if it runs with its default; then ask ignores the flag.
const ask = `
SELECT json_build_object(
  'version', split_part(current_setting('server_version'), ' ', 1),
  'uptime_s', extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()),
  'loaded_s', extract(epoch FROM pg_conf_load_time()),
  'connections_used', (SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datid IS NOT NULL),
  'settings', (SELECT json_object_agg(name, json_build_object(
      'value', current_setting(name, true), 'context', context, 'source', source,
      'file', coalesce(sourcefile, ''), 'line', coalesce(sourceline, 0),
      'pending', pending_restart AND NOT (setting IS NOT DISTINCT FROM boot_val AND NOT EXISTS (SELECT 1 FROM pg_file_settings f WHERE f.name = s.name))))
    FROM pg_settings s WHERE source NOT IN ('client', 'session') AND name !~ '^(transaction_|statement_timeout$|primary_conninfo$)'),
  'errors', (SELECT coalesce(json_agg(sourcefile || ':' || sourceline || ': ' || coalesce(name || ': ', '') || error), '[]')
    FROM pg_file_settings f WHERE error IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM pg_settings p WHERE p.name = f.name AND p.pending_restart)))`

const askData = `SELECT sum(pg_database_size(oid)) FROM pg_database`

// patience limits the whole query of a server.
const patience = 10 * time.Second

// question queries a cluster's server; the error is product.ErrStopped if none runs.
func question(ctx context.Context, h *host.Host, main, dir string) (*answer, error) {
	b, err := h.Query(ctx, "postgresql "+main, func(ctx context.Context, live *host.Host) ([]byte, error) { return query(ctx, live, dir) })
	if err != nil {
		return nil, err
	}
	a, err := parseAnswer(string(b))
	if err != nil {
		return nil, fmt.Errorf("the answer of postgresql: %w", err)
	}
	return a, nil
}

func query(ctx context.Context, h *host.Host, dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := connect(ctx, h, dir, "postgres")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	text, err := c.one(ask)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return nil, err
	}
	if n, err := c.one(askData); err == nil {
		if bytes, err := strconv.ParseFloat(n, 64); err == nil {
			a.DataBytes = &bytes
		}
	}
	return a.text(), nil
}

// postmaster holds the values in a running server's postmaster.pid.
type postmaster struct {
	pid     int
	started int64  // seconds since the epoch
	socket  string // directory of the server's socket
	port    string
}

// serverOf parses postmaster.pid in the data directory. The error is product.ErrStopped if the
// process no longer exists.
func serverOf(h *host.Host, dir string) (postmaster, error) {
	text, err := h.Files.ReadFile(path.Join(dir, "postmaster.pid"))
	if host.Unknown(err) {
		return postmaster{}, err
	}
	if err != nil {
		return postmaster{}, product.ErrStopped
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 5 {
		return postmaster{}, product.ErrStopped // the server is just starting
	}
	p := postmaster{port: strings.TrimSpace(lines[3]), socket: strings.TrimSpace(lines[4])}
	if p.pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil || p.pid <= 0 {
		return postmaster{}, product.ErrStopped
	}
	p.started, _ = strconv.ParseInt(strings.TrimSpace(lines[2]), 10, 64)
	// After a reboot another process may have this number.
	comm, err := h.Files.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/comm")
	if name := strings.TrimSpace(string(comm)); err != nil || name != "postgres" && name != "postmaster" {
		return postmaster{}, product.ErrStopped
	}
	if _, err := strconv.ParseUint(p.port, 10, 16); err != nil || !strings.HasPrefix(p.socket, "/") {
		return p, errors.New("the server has no unix socket")
	}
	return p, nil
}

// connect opens a session with a database through the socket, as the owner of the data, who may
// connect under Debian's and Red Hat's pg_hba.conf.
func connect(ctx context.Context, h *host.Host, dir, database string) (*session, error) {
	p, err := serverOf(h, dir)
	if err != nil {
		return nil, err
	}
	st, err := h.Files.Stat(dir)
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, host.NotRecorded(dir)
	}
	user := userName(h, int(sys.Uid))
	if user == "" {
		return nil, fmt.Errorf("%s belongs to user %d, which is not in /etc/passwd", dir, sys.Uid)
	}
	conn, err := host.DialUnixAs(ctx, path.Join(p.socket, ".s.PGSQL."+p.port), int(sys.Uid))
	if err != nil {
		return nil, err
	}
	return login(ctx, conn, user, database)
}

func userName(h *host.Host, uid int) string {
	text, err := h.Files.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 3 && f[2] == strconv.Itoa(uid) {
			return f[0]
		}
	}
	return ""
}
