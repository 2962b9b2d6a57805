package qpid

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

const service = "qpidd.service"

// mains are the packages' paths of the file; the second was used before 0.22.
var mains = []string{"/etc/qpid/qpidd.conf", "/etc/qpidd.conf"}

// told is a value and its position.
type told struct{ text, at string }

// instance is the broker that a machine's files configure. A flag takes precedence over a variable,
// and a variable over the file (Options::parse).
type instance struct {
	conf.Instance
	unit  *systemd.Unit // nil if a copy lacks it
	flags map[string]told
	env   map[string]told
	lines []conf.Place // lines of the file
	// unread says why the lines are unknown.
	unread error
}

// find returns the machine's broker, if any, before its file is read.
func find(h *host.Host) ([]instance, error) {
	in := instance{Instance: conf.Instance{Name: "qpidd"}, flags: map[string]told{}, env: map[string]told{}}
	switch u, err := systemd.New(h).Load(service); {
	case host.NotFound(err):
	case err != nil:
		return nil, err
	case u.Masked:
		return nil, nil
	default:
		in.unit = u
		argv, at := u.Command()
		in.flags = flags(argv, at)
		env, _ := u.Environment()
		for name, v := range env {
			if option, ok := strings.CutPrefix(name, "QPID_"); ok {
				in.env[strings.ToLower(strings.ReplaceAll(option, "_", "-"))] = told{v.Text, v.At}
			}
		}
	}
	if c, ok := in.flags["config"]; ok && path.IsAbs(c.text) {
		in.Main = path.Clean(c.text)
		return []instance{in}, nil
	}
	for _, name := range mains {
		if _, err := h.Files.Stat(name); err == nil {
			in.Main = name
			return []instance{in}, nil
		}
	}
	if in.unit != nil {
		in.Main = mains[0]
		return []instance{in}, nil
	}
	return nil, nil
}

// flags parses the options of a command line: --NAME=VALUE or --NAME VALUE.
func flags(argv []string, at string) map[string]told {
	out := map[string]told{}
	for i := 1; i < len(argv); i++ {
		name, ok := strings.CutPrefix(argv[i], "--")
		if !ok {
			continue
		}
		name, text, whole := strings.Cut(name, "=")
		if !whole && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") {
			i++
			text = argv[i]
		}
		out[name] = told{text, at}
	}
	return out
}

// instances returns the brokers as conf.Instance.
func instances(h *host.Host) ([]conf.Instance, error) { return conf.Bases(find(h)) }

// above returns the flag or variable that takes precedence over the file, with its name in what;
// what is "" if none exists.
func (in instance) above(option string) (t told, what string) {
	if t, ok := in.flags[option]; ok {
		return t, "--" + option
	}
	if t, ok := in.env[option]; ok {
		return t, "QPID_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
	}
	return told{}, ""
}

// read returns the broker with its file's lines.
func read(h *host.Host, main string) (instance, error) {
	all, err := find(h)
	if err != nil {
		return instance{}, err
	}
	for _, in := range all {
		if in.Is(h, main) {
			in.lines, in.unread = conf.PlacesIn(h, syntax{}, in.Main)
			return in, nil
		}
	}
	return instance{}, fmt.Errorf("qpidd does not use %s", main)
}

// Paths implements product.Files.
func (in instance) Paths() []string { return []string{in.Main} }

// Value implements product.Files.
func (in instance) Value(name string) (value, at string, ok bool, err error) {
	if t, what := in.above(name); what != "" {
		return t.text, t.at, true, nil
	}
	p, ok := in.line(name)
	return p.Literal, p.String(), ok, in.unread
}

func (in instance) line(option string) (p conf.Place, ok bool) {
	if n := slices.IndexFunc(in.lines, func(p conf.Place) bool { return p.Key == option }); n >= 0 {
		return in.lines[n], true
	}
	return conf.Place{}, false
}

// place returns the line that sets an option; ok is false if no line does.
func (in instance) place(key string) (conf.Place, bool, error) {
	if t, what := in.above(key); what != "" {
		return conf.Place{}, false, fmt.Errorf("%s sets %s, which takes precedence over the file; change it in that place by hand", t.at, what)
	}
	p, ok := in.line(key)
	return p, ok, in.unread
}
