// Package socket serves TuneD's methods as JSON-RPC 2.0 on a unix socket, for systems without
// D-Bus: one request or one batch per connection.
package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// Options are the options of a server, with the key of tuned-main.conf in parentheses.
type Options struct {
	Control daemon.Control
	// Path is the path of the socket (unix_socket_path); its directory is created.
	Path string
	// Ownership is "user group", names or numbers; -1 means unchanged (unix_socket_ownership).
	// Permissions is the socket's mode (unix_socket_permissions).
	Ownership   string
	Permissions fs.FileMode
	// Backlog is the maximum number of waiting clients (connections_backlog).
	Backlog int
	// SignalPaths are the sockets that receive signals (unix_socket_signal_paths).
	SignalPaths []string
	Log         *slog.Logger
}

const (
	// maxRequest is the maximum size of a request, in bytes.
	maxRequest = 1 << 20
	// maxTime limits the time that a client may take to send or read, and a listener to read a
	// signal.
	maxTime = 10 * time.Second
)

// Server serves requests on its socket.
type Server struct {
	done     chan struct{}
	options  Options
	listener *net.UnixListener
	target   daemon.Target
	uid, gid int // owner of the socket file; this process's ids if unchanged

	mu          sync.Mutex
	signalPaths []string
}

// Serve creates the socket, starts to serve and to send signals, and returns. When ctx ends, the
// server finishes the requests in progress and removes the socket. Serve replaces a socket that an
// earlier daemon left; any other file at the path is an error.
func Serve(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, signalPaths: slices.Clone(o.SignalPaths), done: make(chan struct{})}
	s.target = daemon.Target{Control: o.Control, AddSignalPath: s.AddSignalPath}
	var err error
	if s.uid, s.gid, err = ownership(o.Ownership); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o755); err != nil {
		return nil, err
	}
	switch info, err := os.Lstat(o.Path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is not a socket; remove it, or choose another path with unix_socket_path", o.Path)
	default:
		if err := os.Remove(o.Path); err != nil {
			return nil, err
		}
	}
	if s.listener, err = s.listen(); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Path, err)
	}
	if s.uid < 0 {
		s.uid = os.Geteuid()
	}
	if s.gid < 0 {
		s.gid = os.Getegid()
	}
	go s.run(ctx, o.Control.Changed(ctx))
	return s, nil
}

// listen is net.ListenUnix with a configured backlog. Owner and mode are set before the first
// client can connect.
func (s *Server) listen() (*net.UnixListener, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), s.options.Path)
	defer file.Close() // FileListener duplicates the descriptor
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: s.options.Path}); err != nil {
		return nil, err
	}
	err = errors.Join(
		os.Lchown(s.options.Path, s.uid, s.gid),
		os.Chmod(s.options.Path, s.options.Permissions.Perm()),
	)
	if err == nil {
		err = syscall.Listen(fd, s.options.Backlog)
	}
	var l net.Listener
	if err == nil {
		l, err = net.FileListener(file)
	}
	if err != nil {
		os.Remove(s.options.Path)
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// ownership parses "user group" to ids; an empty part is -1.
func ownership(s string) (uid, gid int, err error) {
	ids := [2]int{-1, -1}
	for i, name := range strings.Fields(s) {
		if i > 1 {
			return 0, 0, fmt.Errorf("unix_socket_ownership: %q: want a user and a group only", s)
		}
		n, err := strconv.Atoi(name)
		switch {
		case err == nil:
		case i == 0:
			u, err := user.Lookup(name)
			if err != nil {
				return 0, 0, fmt.Errorf("unix_socket_ownership: %w", err)
			}
			n, _ = strconv.Atoi(u.Uid)
		default:
			g, err := user.LookupGroup(name)
			if err != nil {
				return 0, 0, fmt.Errorf("unix_socket_ownership: %w", err)
			}
			n, _ = strconv.Atoi(g.Gid)
		}
		ids[i] = n
	}
	return ids[0], ids[1], nil
}

// Wait returns once the server has ended.
func (s *Server) Wait() { <-s.done }

func (s *Server) run(ctx context.Context, changed <-chan daemon.ProfileChanged) {
	defer close(s.done)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case c, ok := <-changed:
				if !ok {
					return
				}
				s.signal(c)
			}
		}
	})
	defer os.Remove(s.options.Path)
	defer s.listener.Close()
	defer context.AfterFunc(ctx, func() { s.listener.Close() })()
	for {
		conn, err := s.listener.AcceptUnix()
		if ctx.Err() != nil {
			if conn != nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			// Both possible causes are temporary: too many open files, or a client that
			// disconnected early.
			s.options.Log.Error("cannot accept on the socket", "path", s.options.Path, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		running.Go(func() { s.answer(ctx, conn) })
	}
}

// answer reads one request or batch, sends the response and closes the connection.
func (s *Server) answer(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	var out any
	if peer, err := credentials(conn); err != nil || !s.allows(peer) {
		s.options.Log.Warn("refused on the socket", "uid", peer.uid, "gid", peer.gid, "pid", peer.pid, "error", err)
		out = failure(nil, codeUnauthorised, "Unauthorized", "")
	} else {
		conn.SetReadDeadline(time.Now().Add(maxTime))
		data, err := io.ReadAll(io.LimitReader(conn, maxRequest+1))
		switch {
		case err != nil:
			out = failure(nil, codeParse, "Parse error", "the request did not end within "+maxTime.String()+": shut down the sending side after the request")
		case len(data) == 0:
			return
		case len(data) > maxRequest:
			out = failure(nil, codeParse, "Parse error", text.Sprintf("longer than %d bytes", maxRequest))
		default:
			out = s.handle(tune.ByCaller(ctx, host.CallerOf(peer.pid, peer.uid, "socket")), data)
		}
	}
	if out == nil {
		return // notifications only
	}
	conn.SetWriteDeadline(time.Now().Add(maxTime))
	if err := encode(conn, out); err != nil {
		s.options.Log.Info("cannot answer on the socket", "error", err)
	}
}

// AddSignalPath adds a socket that receives signals, unless already known. It always returns true.
func (s *Server) AddSignalPath(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.signalPaths, path) {
		s.signalPaths = append(s.signalPaths, path)
	}
	return true
}

// signal sends a notification to each signal path. An absent listener misses it.
func (s *Server) signal(c daemon.ProfileChanged) {
	s.mu.Lock()
	paths := slices.Clone(s.signalPaths)
	s.mu.Unlock()
	for _, path := range paths {
		if err := send(path, notification{"2.0", daemon.Signal, []any{c.Profiles, c.OK, c.Message}}); err != nil {
			s.options.Log.Warn("cannot send a signal", "path", path, "error", err)
		}
	}
}

func send(path string, v any) error {
	conn, err := net.DialTimeout("unix", path, maxTime)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetWriteDeadline(time.Now().Add(maxTime))
	return encode(conn, v)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
