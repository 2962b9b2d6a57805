package nginx

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// instances returns the main files of distributions and software collections.
func instances(h *host.Host) ([]conf.Instance, error) {
	var out []conf.Instance
	for _, pattern := range []string{"/etc/nginx/nginx.conf", "/etc/opt/rh/*/nginx/nginx.conf", "/usr/local/nginx/conf/nginx.conf"} {
		found, err := host.Glob(h.Files, pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			name := "nginx"
			if rest, ok := strings.CutPrefix(f, "/etc/opt/rh/"); ok {
				name, _, _ = strings.Cut(rest, "/")
			} else if strings.HasPrefix(f, "/usr/local") {
				name = "local"
			}
			out = append(out, conf.Instance{Name: name, Main: f})
		}
	}
	return out, nil
}

func rootsOf(*host.Host) []string { return []string{"/etc", "/usr/local/nginx/conf"} }

// prefix returns the base directory of relative names: the directory of the main file, as named on
// nginx's command line (possibly a symbolic link).
func prefix(h *host.Host, main string) string {
	all, _ := instances(h)
	for _, in := range all {
		if in.Is(h, main) {
			return path.Dir(in.Main)
		}
	}
	return path.Dir(main)
}

// Limits: a copied file tree may contain anything.
const (
	maxDepth      = 20
	maxFiles      = 3000
	maxDirectives = 200000
)

// settings holds the directives that nginx reads for one instance.
type settings struct {
	all   []found
	files []string // the main one first
	logs  []logDirective
}

// found is a directive with all of its blocks. Its Place has only the blocks in the directive's own
// file.
type found struct {
	key   string
	words []string
	conf.Place
}

func (f found) value() string { return strings.Join(f.words, " ") }

// get returns a directive in a block. nginx rejects most duplicates; of others the last applies.
func (s settings) get(key string) (found, bool) {
	for _, f := range slices.Backward(s.all) {
		if f.key == key {
			return f, true
		}
	}
	return found{}, false
}

// Paths implements product.Files.
func (s settings) Paths() []string { return s.files }

// Value implements product.Files.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	f, ok := s.get(key)
	return f.value(), f.String(), ok, nil
}

func (s settings) place(key string) (conf.Place, bool, error) {
	f, ok := s.get(key)
	return f.Place, ok, nil
}

// sockets returns the listen directives for TCP and unix sockets.
func (s settings) sockets() []found {
	var out []found
	for _, f := range s.all {
		if block, ok := strings.CutSuffix(f.key, "/server/listen"); ok && !strings.Contains(block, "/") && !slices.Contains(f.words, "udp") && !slices.Contains(f.words, "quic") {
			out = append(out, f)
		}
	}
	return out
}

// listens returns the first listen address that this machine can dial, or "".
func (s settings) listens() (network, address string) {
	all := s.sockets()
	if len(all) == 0 {
		return "", ""
	}
	first := all[0].words[0]
	if name, ok := strings.CutPrefix(first, "unix:"); ok {
		return "unix", name
	}
	at, port, err := net.SplitHostPort(first)
	if err != nil {
		at, port = first, "80"
		if _, err := strconv.ParseUint(first, 10, 16); err == nil {
			at, port = "*", first
		}
	}
	return "tcp", net.JoinHostPort(product.Loopback(strings.Trim(at, "[]")), port)
}

// backlog returns the longest listen queue that nginx requests from the kernel, and its position.
func (s settings) backlog() (n float64, at string) {
	for _, f := range s.sockets() {
		length, where := 511.0, "the default of nginx" // NGX_LISTEN_BACKLOG
		for _, w := range f.words {
			if text, ok := strings.CutPrefix(w, "backlog="); ok {
				if v, err := product.ReadCount(text); err == nil {
					length, where = v.(float64), f.String()
				}
			}
		}
		if length > n {
			n, at = length, where
		}
	}
	return n, at
}

// closing returns the upstream groups that use a new connection for each request.
func (s settings) closing() []string {
	out := []string{}
	keeps := map[string]bool{}
	for _, f := range s.all {
		if group, ok := strings.CutPrefix(path.Dir(f.key), "http/upstream "); ok {
			switch path.Base(f.key) {
			case "server":
				if !slices.Contains(out, group) {
					out = append(out, group)
				}
			case "keepalive":
				keeps[group] = f.value() != "0"
			}
		}
	}
	return slices.DeleteFunc(out, func(group string) bool { return keeps[group] })
}

// readSettings reads a main file and its includes.
func readSettings(h *host.Host, main string) (settings, error) {
	r := reader{host: h, prefix: prefix(h, main), includes: conf.Includes{From: h.Files, Depth: maxDepth, Most: maxFiles}}
	err := r.file(main, "", 0)
	return settings{r.all, r.includes.Read, r.logs}, err
}

type reader struct {
	host     *host.Host
	prefix   string
	includes conf.Includes
	all      []found
	logs     []logDirective
	block    string // the block that includes the current file
}

// blockOf returns a directive's innermost block, identified by its beginning.
func (r *reader) blockOf(file string, all []directive, of directive) string {
	within := []string{r.block}
	for _, d := range all {
		switch {
		case d.end == of.end:
			return within[len(within)-1]
		case d.block:
			within = append(within, fmt.Sprintf("%s:%d", file, d.end))
		case d.name == "}" && len(within) > 1:
			within = within[:len(within)-1]
		}
	}
	return r.block
}

// file reads one file; depth is the number of blocks around its include.
func (r *reader) file(name, context string, depth int) error {
	return r.includes.File(name, func(text string) error { return r.text(name, text, context, depth) })
}

func (r *reader) text(name, text, context string, depth int) error {
	all, err := scan(text)
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	if len(r.all)+len(all) > maxDirectives {
		return fmt.Errorf("%s: more than %d directives", name, maxDirectives)
	}
	err = walk(all, depth, func(local string, within int, d directive) error {
		if d.name == "include" && len(d.words) == 1 {
			outer := r.block
			r.block = r.blockOf(name, all, d)
			defer func() { r.block = outer }()
			if err := r.include(d.words[0], context+local, within); err != nil {
				return fmt.Errorf("%d: %w", d.number, err)
			}
			return nil
		}
		if d.name == "log_format" || d.name == "access_log" {
			r.keepLog(name, text, context+local+d.name, r.blockOf(name, all, d), d)
		}
		if len(d.words) > 0 {
			r.all = append(r.all, found{context + local + d.name, d.words, conf.Place{
				File: name, Assignment: conf.Assignment{Key: local + d.name, Literal: d.args, Line: d.number, From: d.from, To: d.to},
			}})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	return nil
}

// include reads a file, or all files that match a pattern, in the order of glob(3).
func (r *reader) include(name, context string, depth int) error {
	if !strings.HasPrefix(name, "/") {
		name = path.Join(r.prefix, name)
	}
	if !strings.ContainsAny(name, "*?[") {
		return r.file(path.Clean(name), context, depth)
	}
	found, err := host.Glob(r.host.Files, name)
	if err != nil {
		return err
	}
	for _, f := range found {
		if strings.HasPrefix(path.Base(f), ".") && !strings.HasPrefix(path.Base(name), ".") {
			continue
		}
		if err := r.file(f, context, depth); err != nil {
			return err
		}
	}
	return nil
}
