package haproxy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// instances returns the main files of distributions, software collections and OpenShift's router.
func instances(h *host.Host) ([]conf.Instance, error) {
	var out []conf.Instance
	for _, p := range []struct{ pattern, name string }{
		{"/etc/haproxy/haproxy.cfg", "haproxy"}, {"/etc/opt/rh/*/haproxy/haproxy.cfg", ""}, {"/var/lib/haproxy/conf/haproxy.config", "router"},
	} {
		found, err := host.Glob(h.Files, p.pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			name := p.name
			if name == "" {
				name, _, _ = strings.Cut(strings.TrimPrefix(f, "/etc/opt/rh/"), "/")
			}
			out = append(out, conf.Instance{Name: name, Main: f})
		}
	}
	return out, nil
}

// rootsOf returns the directories in which fettle writes. The router's file is outside, because its
// operator writes it.
func rootsOf(*host.Host) []string { return []string{"/etc"} }

// arguments returns the -f arguments of an instance: the main file, and Red Hat's directory if the
// unit names it.
func arguments(h *host.Host, main string) []string {
	const more = "/etc/haproxy/conf.d"
	args := []string{main}
	if strings.HasPrefix(main, "/etc/haproxy/") {
		for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"} {
			text, err := h.Files.ReadFile(dir + "/haproxy.service")
			if err != nil {
				continue
			}
			if st, err := h.Files.Stat(more); strings.Contains(string(text), more) && err == nil && st.IsDir() {
				args = append(args, more)
			}
			break
		}
	}
	return args
}

// option is one option in a section.
type option struct {
	section  int // index in settings.sections
	maybe    bool
	expanded *string // the value with its variables replaced, if the files set all of them
	line
	conf.Place
}

// value returns the option's value without quotes, with the variables that the files set.
func (o option) value() string {
	if o.expanded != nil {
		return *o.expanded
	}
	return syntax{}.Unquote(o.args)
}

// unknown reports whether the value depends on an unknown environment variable.
func (o option) unknown() bool { return o.variable && o.expanded == nil }

// settings holds the options that HAProxy reads for one instance.
type settings struct {
	version  string   // of the package; "" if unknown
	args     []string // command-line arguments
	files    []string // the main one first
	sections []section
	options  []option
	set      environment
}

// readSettings reads the files of an instance in the same order as HAProxy.
func readSettings(h *host.Host, main string) (settings, error) {
	s := settings{args: arguments(h, main), set: environment{}}
	s.version, _ = version(h)
	includes := conf.Includes{From: h.Files, Depth: 2, Most: maxFiles}
	read := func(name string) error {
		return includes.File(name, func(text string) error { return s.text(name, text) })
	}
	err := read(main)
	for _, dir := range s.args[1:] {
		if err != nil {
			break
		}
		err = includes.Dir(dir, func(paths []string) error {
			for _, p := range paths {
				if base := path.Base(p); !strings.HasSuffix(base, ".cfg") || base[0] == '.' {
					continue
				}
				if err := read(p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.files = includes.Read
	return s, err
}

func (s *settings) text(name, text string) error {
	all, err := scan(text)
	if err == nil {
		err = walk(all, s.version, func(now section, l *line, counts conf.Truth) error {
			switch {
			case l == nil:
				s.sections = append(s.sections, now)
			case l.args != "" || l.option == "disabled" || l.option == "enabled":
				o := option{section: len(s.sections) - 1, maybe: counts != conf.Yes, line: *l, Place: conf.Place{File: name, Assignment: assignment(now, *l)}}
				if l.variable {
					o.expanded = s.set.expand(l.args)
				}
				if now.kind == "global" {
					s.set.line(*l, counts)
				}
				s.options = append(s.options, o)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	return nil
}

// Paths implements product.Files.
func (s settings) Paths() []string { return s.files }

// Value implements product.Files.
func (s settings) Value(key string) (value, at string, ok bool, err error) {
	o, ok, err := s.get(key)
	return syntax{}.Unquote(o.Literal), o.Place.String(), ok, err
}

// get returns a key's option from the last line that sets it. "defaults/OPTION" means the only
// defaults section, whatever its name.
func (s settings) get(key string) (option, bool, error) {
	context, name := conf.SplitKey(key)
	if context == "defaults" {
		var all []string
		for _, x := range s.sections {
			if x.kind == context {
				all = append(all, x.key())
			}
		}
		if len(all) > 1 {
			return option{}, false, fmt.Errorf("%d defaults sections found (%s); name one", len(all), strings.Join(all, ", "))
		}
		if len(all) == 1 {
			key = all[0] + "/" + name
		}
	}
	return s.last(func(o option) bool { return o.Key == key })
}

// last returns the last option for which is returns true. It returns an error if a condition
// decides whether the option applies, or if its value comes from the environment.
func (s settings) last(is func(option) bool) (option, bool, error) {
	var found *option
	for n := range s.options {
		if o := &s.options[n]; is(*o) {
			found = o
		}
	}
	if found == nil {
		return option{}, false, nil
	}
	if found.maybe {
		return *found, true, inCondition(*found)
	}
	if found.variable {
		return *found, true, fmt.Errorf("%s: value comes from an environment variable", found.Place)
	}
	return *found, true, nil
}

// defaultsOf returns the index of a proxy's defaults section, or -1; a ring has none. It returns an
// error if a condition decides which section applies.
func (s settings) defaultsOf(proxy int) (int, error) {
	if s.sections[proxy].kind == "ring" {
		return -1, nil
	}
	from, next := s.sections[proxy].from, -1
	for n, x := range s.sections[:proxy] {
		if x.kind == "defaults" && (from == "" && s.sections[proxy].kind != "defaults" || from != "" && x.name == from) {
			next = n
		}
	}
	if next >= 0 && s.sections[next].counts != conf.Yes {
		return -1, fmt.Errorf("line %d begins %s inside .if, whose outcome depends on the environment or HAProxy's build", s.sections[next].number, s.sections[next].key())
	}
	return next, nil
}

// backlog returns the longest listen queue that HAProxy requests from the kernel, and its position
// (src/listener.c, listener_backlog). The queue is a frontend's backlog or maxconn, or else
// process, the process's maxconn (-1 if unknown). Without listeners it returns 0.
func (s settings) backlog(process float64) (longest float64, at string, err error) {
	for n, x := range s.sections {
		if x.kind != "frontend" && x.kind != "listen" || s.has(n, "bind") == conf.No {
			continue
		}
		length, where := process, "maxconn of the process"
		for _, name := range []string{"backlog", "maxconn"} {
			o, ok, err := s.effective(n, name)
			if err != nil {
				return 0, "", err
			}
			if v, err := readAtol(o.value()); ok && err == nil && v != 0.0 {
				length, where = v.(float64), o.Place.String()
				break
			}
		}
		if length < 0 {
			return length, where, nil
		}
		if length > longest {
			longest, at = length, where
		}
	}
	return longest, at, nil
}

// beyond returns the frontends whose maxconn exceeds the process's limit.
func (s settings) beyond(limit float64) ([]string, error) {
	out := []string{}
	for n, x := range s.sections {
		if x.kind != "frontend" && x.kind != "listen" {
			continue
		}
		o, ok, err := s.effective(n, "maxconn")
		if err != nil {
			return nil, err
		}
		if v, err := readAtol(o.value()); ok && err == nil && v.(float64) > limit {
			out = append(out, fmt.Sprintf("%s: %s", x.key(), o.value()))
		}
	}
	return out, nil
}

// ports returns the clients' ports of all frontends, in file order.
func (s settings) ports() []string {
	out := []string{}
	for _, o := range s.options {
		if o.option != "bind" {
			continue
		}
		for _, address := range strings.Split(o.words[1], ",") {
			port := address[strings.LastIndexByte(address, ':')+1:]
			if _, err := strconv.ParseUint(port, 10, 16); err == nil && !slices.Contains(out, port) {
				out = append(out, port)
			}
		}
	}
	return out
}

// passes returns the balance algorithm of a port that passes connections through to servers (mode
// tcp), such as "source" or "roundrobin"; "" for other ports.
func (s settings) passes(port string) (balance, at string, err error) {
	text := func(n int, name, def string) (string, string) {
		o, ok, fault := s.effective(n, name)
		if fault != nil {
			err = fault
		}
		if !ok || len(o.words) < 2 {
			return def, s.sections[n].key()
		}
		return o.words[1], o.Place.String()
	}
	for _, o := range s.options {
		if o.option != "bind" || !slices.ContainsFunc(strings.Split(o.words[1], ","), func(a string) bool { return strings.HasSuffix(a, ":"+port) }) {
			continue
		}
		if mode, _ := text(o.section, "mode", "tcp"); mode != "tcp" {
			continue
		}
		if s.sections[o.section].kind == "frontend" {
			to, _ := text(o.section, "default_backend", "")
			n := slices.IndexFunc(s.sections, func(x section) bool { return x.kind == "backend" && x.name == to })
			if n < 0 {
				continue
			}
			balance, at = text(n, "balance", "roundrobin")
			return balance, at, err
		}
		balance, at = text(o.section, "balance", "roundrobin")
		return balance, at, err
	}
	return "", "", err
}

// socket returns the address of the stats socket, or "".
func (s settings) socket() (network, address, at string) {
	for _, o := range s.options {
		if o.Key != "global/stats" || len(o.words) < 3 || o.words[1] != "socket" || o.variable {
			continue
		}
		if network, address := reach(o.words[2]); network != "" {
			return network, address, o.Place.String()
		}
	}
	return "", "", ""
}

// serves returns a client address that this machine can dial, or "".
func (s settings) serves() (network, address string) {
	for _, o := range s.options {
		if kind := s.sections[o.section].kind; o.option != "bind" || kind != "frontend" && kind != "listen" || o.variable || o.maybe || s.sections[o.section].counts != conf.Yes {
			continue
		}
		if network, address := reach(strings.Split(o.words[1], ",")[0]); network != "" {
			return network, address
		}
	}
	return "", ""
}

func (s settings) place(key string) (conf.Place, bool, error) {
	o, ok, err := s.get(key)
	return o.Place, ok, err
}

// version returns the version of HAProxy's package and its source.
func version(h *host.Host) (string, string) { return product.Version(h, "haproxy") }
