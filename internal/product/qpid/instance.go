package qpid

import (
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

const service = "qpidd.service"

// mains are where the packages have the file; the second before 0.22.
var mains = []string{"/etc/qpid/qpidd.conf", "/etc/qpidd.conf"}

// told is a value and where it stands.
type told struct{ text, at string }

// instance is the broker as the files of a machine set it up. A flag goes before a
// variable, and that before the file (Options::parse).
type instance struct {
	conf.Instance
	unit  *systemd.Unit // nil where a copy has none
	flags map[string]told
	env   map[string]told
}

// instances is the broker, where there is one.
func instances(h *host.Host) ([]*instance, error) {
	in := &instance{Instance: conf.Instance{Name: "qpidd"}, flags: map[string]told{}, env: map[string]told{}}
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
		return []*instance{in}, nil
	}
	for _, name := range mains {
		if _, err := h.Files.Stat(name); err == nil {
			in.Main = name
			return []*instance{in}, nil
		}
	}
	if in.unit != nil {
		in.Main = mains[0]
		return []*instance{in}, nil
	}
	return nil, nil
}

// flags are the options of a command line: --NAME=VALUE or --NAME VALUE.
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

// above is what goes before the file.
func (in *instance) above(option string) (t told, what string) {
	if t, ok := in.flags[option]; ok {
		return t, "--" + option
	}
	if t, ok := in.env[option]; ok {
		return t, "QPID_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
	}
	return told{}, ""
}

// file is what the file says of an option.
func (in *instance) file(h *host.Host, option string) (conf.Place, bool, error) {
	text, err := h.Files.ReadFile(in.Main)
	if err != nil {
		return conf.Place{}, false, err
	}
	all, err := syntax{}.Assignments(string(text))
	if err != nil {
		return conf.Place{}, false, fmt.Errorf("%s:%w", in.Main, err)
	}
	for _, a := range all {
		if a.Key == option {
			return conf.Place{File: in.Main, Assignment: a}, true, nil
		}
	}
	return conf.Place{}, false, nil
}

// option is what counts of the three.
func (in *instance) option(h *host.Host, name string) (t told, ok bool, err error) {
	if t, what := in.above(name); what != "" {
		return t, true, nil
	}
	p, ok, err := in.file(h, name)
	return told{p.Literal, p.String()}, ok, err
}

// settable are the instances as conf has them.
func settable(h *host.Host) ([]conf.Instance, error) {
	all, err := instances(h)
	var out []conf.Instance
	for _, in := range all {
		out = append(out, in.Instance)
	}
	return out, err
}

// of is the instance of a main file.
func of(h *host.Host, main string) (*instance, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	for _, in := range all {
		if real, err := h.Files.Resolve(in.Main); in.Main == main || err == nil && real == main {
			return in, nil
		}
	}
	return nil, fmt.Errorf("%s is not a file of qpidd's", main)
}

// winner is the line from which the broker takes an option.
func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	in, err := of(h, main)
	if err != nil {
		return conf.Place{}, false, err
	}
	if t, what := in.above(key); what != "" {
		return conf.Place{}, false, fmt.Errorf("%s has %s, which goes before the file: change it there by hand", t.at, what)
	}
	return in.file(h, key)
}
