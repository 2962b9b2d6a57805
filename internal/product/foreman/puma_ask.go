package foreman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
)

// pumaRunning is one running Puma server.
type pumaRunning struct {
	Process product.Process `json:"process"` // the main process
	Version string          `json:"version"` // "" while it starts
	Binds   []string        `json:"binds"`
	Tag     string          `json:"tag"`
	Dir     string          `json:"dir"`
	// Env has the variables that decide the options. Whole is false if the process title has
	// overwritten some of them.
	Env     map[string]string `json:"env"`
	Whole   bool              `json:"whole"`
	Workers []worker          `json:"workers"` // none in single mode
	// Taken is true if Puma was started after the last change of its configuration files.
	Taken bool   `json:"taken"`
	Stats *stats `json:"stats,omitempty"` // from its control server
}

// worker is one process that serves requests. In single mode Puma has only one.
type worker struct {
	PID int `json:"pid"`
	// Serving is true once the worker accepts requests.
	Serving bool `json:"serving"`
	Threads int  `json:"threads"` // threads started to serve requests
}

// stats is the response of the control server of Puma 5 and later (lib/puma/cluster.rb and
// single.rb, stats).
type stats struct {
	Workers *int `json:"workers,omitempty"` // nil in single mode
	Booted  int  `json:"booted_workers"`
	status
	Status []struct {
		Last status `json:"last_status"`
	} `json:"worker_status,omitempty"`
}

type status struct {
	Backlog int `json:"backlog"`
	Max     int `json:"max_threads"`
}

// maxThreads returns the maximum number of threads of all workers that have reported, or 0.
func (s *stats) maxThreads() int {
	n := s.Max
	for _, w := range s.Status {
		n = max(n, w.Last.Max)
	}
	return n
}

// backlog returns the number of requests that wait for a thread.
func (s *stats) backlog() int {
	n := s.Backlog
	for _, w := range s.Status {
		n += w.Last.Backlog
	}
	return n
}

// names are the possible names of a Puma process.
var names = []string{"puma", "ruby", "rails", "bundle"}

var (
	mainTitle   = text.LazyRegexp(`^puma ([0-9]\S*) \(([^)]*)\)(?: \[(.*)\])?$`)
	workerTitle = text.LazyRegexp(`^puma: cluster worker [0-9]+: ([0-9]+)\b`)
)

// pumaQuestion returns all running Puma servers. It reads the variables and files that the instances
// name.
func pumaQuestion(ctx context.Context, h *host.Host, all []*pumaInstance) ([]pumaRunning, error) {
	return host.QueryJSON(ctx, h, "puma", func(ctx context.Context, live *host.Host) ([]pumaRunning, error) { return query(ctx, live, all) })
}

func query(ctx context.Context, h *host.Host, all []*pumaInstance) ([]pumaRunning, error) {
	processes, err := product.Find(ctx, h, names...)
	if err != nil {
		return nil, err
	}
	children := map[int][]product.Process{}
	out := []pumaRunning{}
	for _, p := range processes {
		if len(p.Argv) == 0 {
			continue
		}
		if m := workerTitle().FindStringSubmatch(p.Argv[0]); m != nil {
			if main, _ := strconv.Atoi(m[1]); main == p.Parent {
				children[main] = append(children[main], p)
			}
			continue
		}
		r := pumaRunning{Process: p}
		if m := mainTitle().FindStringSubmatch(p.Argv[0]); m != nil {
			r.Version, r.Tag = m[1], m[3]
			r.Binds = strings.Split(m[2], ",")
		} else if _, starts := readCommand(p.Argv); !starts {
			continue
		}
		dir, err := h.Files.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
		if err != nil {
			continue // it has ended, or is not readable
		}
		r.Dir = dir
		out = append(out, r)
	}
	for i := range out {
		out[i].look(ctx, h, pumaOf(out[i], all), children[out[i].Process.PID])
	}
	return out, nil
}

// look fills in the remaining fields from the process; in is nil if no unit configures it.
func (r *pumaRunning) look(ctx context.Context, h *host.Host, in *pumaInstance, children []product.Process) {
	if in == nil {
		in = byHand(h, *r)
	}
	r.Process.Argv = r.Process.Argv[:1] // the other arguments are padding or may be secret
	r.Env, r.Whole = environ(h, r.Process.PID, in.variables())
	if changed := product.Changed(ctx, h, in.name, in.files); len(in.files) == 0 || product.Since(changed, r.Process, nil) == product.Yes {
		r.Taken = true
	}
	for _, c := range children {
		r.Workers = append(r.Workers, threads(h, c.PID))
	}
	if len(children) == 0 {
		if w := threads(h, r.Process.PID); w.Serving {
			r.Workers = []worker{w}
		}
	}
	r.Stats = control(ctx, h, *r, in)
}

// single reports whether Puma runs without worker processes.
func (r *pumaRunning) single() bool { return len(r.Workers) == 1 && r.Workers[0].PID == r.Process.PID }

// environ returns named variables of a process's environment. whole is false if a title longer than
// the command line has overwritten the first ones.
func environ(h *host.Host, pid int, names []string) (env map[string]string, whole bool) {
	env = map[string]string{}
	b, err := h.Files.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return env, false
	}
	pairs := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
	whole = len(b) == 0 || strings.Contains(pairs[0], "=")
	if !whole { // the end of the title, zero bytes, and the rest of one variable
		pairs = pairs[1:]
		for len(pairs) > 0 && pairs[0] == "" {
			pairs = pairs[1:]
		}
		pairs = pairs[min(1, len(pairs)):]
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if _, twice := env[name]; !twice && slices.Contains(names, name) {
			env[name] = value
		}
	}
	return env, whole
}

// threads counts a process's threads by the names that Puma gives them since 5.0
// (lib/puma/thread_pool.rb).
func threads(h *host.Host, pid int) worker {
	w := worker{PID: pid}
	dir := fmt.Sprintf("/proc/%d/task", pid)
	list, _ := h.Files.ReadDir(dir)
	for _, t := range list {
		comm, err := h.Files.ReadFile(path.Join(dir, t.Name(), "comm"))
		if err != nil {
			continue
		}
		switch name := strings.TrimSuffix(string(comm), "\n"); {
		case name == "puma srv" || strings.HasPrefix(name, "puma srv thread"):
			w.Serving = true
		case strings.HasPrefix(name, "puma srv tp "):
			w.Threads++
		}
	}
	return w
}

var token = text.LazyRegexp(`^[A-Za-z0-9_.-]*$`)

// control queries the control server that the state file names; nil if none exists.
func control(ctx context.Context, h *host.Host, r pumaRunning, in *pumaInstance) *stats {
	files := []string{"tmp/puma.state", "tmp/pids/puma.state", "tmp/sockets/puma.state", "shared/tmp/pids/puma.state"}
	for _, c := range in.configs {
		files = append([]string{c.state}, files...)
	}
	for _, f := range append([]string{in.args.state}, files...) {
		if f == "" {
			continue
		}
		if !strings.HasPrefix(f, "/") {
			f = path.Join(r.Dir, f)
		}
		text, err := h.Files.ReadFile(f)
		if err != nil {
			continue
		}
		state := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			state[key] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
		if state["pid"] != strconv.Itoa(r.Process.PID) || !token().MatchString(state["control_auth_token"]) {
			continue
		}
		body, err := get(ctx, state["control_url"], "/stats?token="+state["control_auth_token"])
		s := new(stats)
		if err == nil && json.Unmarshal(body, s) == nil {
			return s
		}
	}
	return nil
}

// dial connects to a Puma bind on this machine, such as unix:///run/foreman.sock or
// tcp://0.0.0.0:3000.
func dial(ctx context.Context, bind string) (net.Conn, error) {
	u, err := url.Parse(bind)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "unix":
		return (&net.Dialer{}).DialContext(ctx, "unix", path.Join("/", u.Host, u.Path))
	case "tcp", "ssl", "http", "https":
		name := u.Hostname()
		ip := net.ParseIP(name)
		if ip == nil && name != "localhost" {
			return nil, fmt.Errorf("%s: not an address of this machine", bind)
		}
		if ip != nil && ip.IsUnspecified() {
			name = "127.0.0.1"
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(name, u.Port()))
	}
	return nil, fmt.Errorf("%s: unknown kind of address", bind)
}

// maxAnswer is more than the size of the statistics of a thousand workers, in bytes.
const maxAnswer = 1 << 20

// get requests a page from a bind on this machine.
func get(ctx context.Context, bind, page string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if u, err := url.Parse(bind); err != nil || u.Scheme != "unix" && (net.ParseIP(u.Hostname()) == nil || !net.ParseIP(u.Hostname()).IsLoopback()) {
		return nil, fmt.Errorf("%s: not a loopback address", bind)
	}
	head, body, err := request(ctx, bind, "GET "+page)
	if err == nil && !strings.Contains(head, " 200 ") {
		err = errors.New(head)
	}
	return body, err
}

// request sends an HTTP/1.0 request and returns the response's first line and body.
func request(ctx context.Context, bind, what string) (head string, body []byte, err error) {
	c, err := dial(ctx, bind)
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(t)
	}
	if _, err := io.WriteString(c, what+" HTTP/1.0\r\nHost: localhost\r\nUser-Agent: fettle\r\n\r\n"); err != nil {
		return "", nil, err
	}
	b, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err != nil {
		return "", nil, err
	}
	headers, rest, ok := strings.Cut(string(b), "\r\n\r\n")
	head, _, _ = strings.Cut(headers, "\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.") {
		return "", nil, fmt.Errorf("%s answers %.60q, which is not HTTP", bind, head)
	}
	return head, []byte(rest), nil
}

// pumaOf returns the instance that a process belongs to.
func pumaOf(r pumaRunning, all []*pumaInstance) *pumaInstance {
	for _, in := range all {
		if in.unit != nil && r.Process.Unit == in.unit.Name {
			return in
		}
	}
	for _, in := range all {
		if in.unit != nil && in.dir == r.Dir {
			return in
		}
	}
	return nil
}

// byHand builds the instance of a process without a unit from its directory and environment. Its
// title has overwritten its command line.
func byHand(h *host.Host, r pumaRunning) *pumaInstance {
	in := &pumaInstance{name: path.Base(r.Dir), dir: r.Dir, cpus: onlineCPUs(h)}
	if dir, err := h.Files.Resolve(r.Dir); err == nil {
		in.dir = dir
	}
	env, whole := environ(h, r.Process.PID, []string{"APP_ENV", "RACK_ENV", "RAILS_ENV"})
	if !whole {
		in.unread = "the process title of Puma has overwritten its environment"
	}
	in.read(h, func(name string) (string, string, bool, string) {
		v, ok := env[name]
		return v, "", ok, ""
	})
	in.unread = "no unit started Puma, so its environment is unknown"
	return in
}
