package prometheus

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// told is a value and its position.
type told struct{ text, at string }

// instance is the Prometheus server of a machine's unit.
type instance struct {
	conf.Instance // its main file is prometheus.yml
	unit          *systemd.Unit
	flags         map[string]told
	file          map[string]told // keys below "global:"
	retention     map[string]told // section storage.tsdb.retention, or nil
	fileErr       error
	// args is the environment file with the flags, variable the name of its variable with them; ""
	// if the unit itself has all flags.
	args, variable string
	unread         string // why further flags are possible
}

// standard is the packages' configuration file.
const standard = "/etc/prometheus/prometheus.yml"

var variableUsed = text.LazyRegexp(`\$\{?([A-Za-z_][A-Za-z0-9_]*)`)

// instances returns the unit's instance, or nil without a unit.
func instances(h *host.Host) ([]*instance, error) {
	u, err := systemd.New(h).Load("prometheus.service")
	switch {
	case host.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case u.Masked:
		return nil, nil
	}
	in := &instance{Instance: conf.Instance{Name: "prometheus", Main: standard}, unit: u, flags: map[string]told{}}
	env, unread := u.Environment()
	if unread != "" {
		in.unread = unread + " is not in this copy, or cannot be read"
	}
	argv, at := u.Command()
	for name, text := range readFlags(argv) {
		in.flags[name] = told{text, at}
		for _, v := range env {
			if strings.Contains(v.Text, "--"+name) {
				in.flags[name] = told{text, v.At}
			}
		}
	}
	if all := u.All("Service", "ExecStart"); len(all) > 0 {
		for _, m := range variableUsed().FindAllStringSubmatch(all[len(all)-1].Text, -1) {
			file, _, _ := strings.Cut(env[m[1]].At, ":")
			if file != "" && !slices.Contains(u.Files, file) {
				in.variable, in.args = m[1], path.Clean(file)
			}
		}
	}
	if f, ok := in.flags["config.file"]; ok {
		in.Main = f.text
	}
	text, err := h.Files.ReadFile(in.Main)
	if err == nil {
		in.file, err = readGlobal(in.Main, string(text))
	}
	if err == nil {
		in.retention, err = readRetention(in.Main, string(text))
	}
	in.fileErr = err
	return []*instance{in}, nil
}

// readGlobal parses the scalars below "global:".
func readGlobal(name, text string) (map[string]told, error) {
	var doc struct {
		Global map[string]yaml.Node `yaml:"global"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	out := map[string]told{}
	for key, n := range doc.Global {
		if v := conf.Aliased(&n); v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
			out[key] = told{v.Value, name + ":" + strconv.Itoa(n.Line)}
		}
	}
	return out, nil
}

// option returns an option's value in the files, or the reason that it is unknown.
func (in *instance) option(name string) (t told, ok bool, unknown string) {
	if isRetention(name) {
		return in.retained(name)
	}
	if isFlag(name) {
		t, ok = in.flags[name]
		return t, ok, in.unread
	}
	if in.fileErr != nil {
		return told{}, false, in.fileErr.Error()
	}
	t, ok = in.file[name]
	return t, ok, ""
}

// Paths implements product.Files.
func (in *instance) Paths() []string { return []string{in.Main} }

// Value implements product.Files.
func (in *instance) Value(name string) (value, at string, ok bool, err error) {
	t, ok, unknown := in.option(name)
	if unknown != "" {
		err = errors.New(unknown)
	}
	return t.text, t.at, ok, err
}

// of returns the instance that a file belongs to.
func of(h *host.Host, file string) (*instance, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	for _, in := range all {
		for _, own := range []string{in.Main, in.args} {
			if own == "" {
				continue
			}
			if real, err := h.Files.Resolve(own); own == file || err == nil && real == file {
				return in, nil
			}
		}
	}
	return nil, fmt.Errorf("the unit of Prometheus does not use %s", file)
}

// fileOf returns the file that holds a key: flags are in the environment file, other keys in the
// main file.
func fileOf(h *host.Host, main, key string) string {
	if in, err := of(h, main); err == nil && isFlag(key) && in.args != "" {
		return in.args
	}
	return main
}

// syntaxOf returns the syntax of a file: flags for the environment file, otherwise global.
func syntaxOf(h *host.Host, file string) conf.Syntax {
	if in, err := of(h, file); err == nil && in.args != "" {
		if real, err := h.Files.Resolve(in.args); in.args == file || err == nil && real == file {
			return flags{in.variable}
		}
	}
	return global{}
}

// winner returns the line that sets an option; ok is false if no line does.
func winner(h *host.Host, file, key string) (conf.Place, bool, error) {
	in, err := of(h, file)
	if err != nil {
		return conf.Place{}, false, err
	}
	syntax := syntaxOf(h, file)
	if _, args := syntax.(flags); args != isFlag(key) {
		if args {
			return conf.Place{}, false, fmt.Errorf("%s is a key of %s", key, in.Main)
		}
		return conf.Place{}, false, fmt.Errorf("--%s is a flag, and the unit has no environment file for flags; change the unit by hand (systemctl edit %s)", key, in.unit.Name)
	}
	if isRetention(key) && in.retention != nil {
		return conf.Place{}, false, fmt.Errorf("%s sets %s, which overrides the flag; change it in that file by hand", in.retention[key].at, key)
	}
	t, ok, unknown := in.option(key)
	switch {
	case isRetention(key) && in.flags[key].at == "":
		return conf.Place{}, false, nil // the flag is not set yet
	case !ok && unknown != "":
		return conf.Place{}, false, errors.New(unknown)
	case !ok:
		return conf.Place{}, false, nil
	}
	all, err := conf.PlacesIn(h, syntax, file)
	if err != nil {
		return conf.Place{}, false, err
	}
	for _, p := range slices.Backward(all) {
		if p.Key == key && syntax.Unquote(p.Literal) == t.text {
			return p, true, nil
		}
	}
	return conf.Place{}, false, fmt.Errorf("%s sets %s in a form that fettle cannot change; change it by hand", t.at, key)
}
