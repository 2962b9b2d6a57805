package foreman

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// pumaInstance is one Puma that a systemd unit and its files configure.
type pumaInstance struct {
	name    string        // of the unit: "foreman"
	unit    *systemd.Unit // nil if it was started by hand
	dir     string        // working directory
	args    arguments
	argsAt  string
	env     map[string]systemd.Value
	unread  string // why a variable missing from env may still be set
	files   []string
	configs []config // parsed files
	unknown string   // the reason that there are no configs
	cpus    int      // CPUs of the machine; 0 if unknown
	// version returns Puma's version, if a file shows it; nil means that no file is searched.
	version func() told
}

// foremans are the variables that Foreman's configuration reads since 2.1
// (config/puma/production.rb). The file belongs to the package; sosreports omit it.
var foremans = map[string]string{"workers": "FOREMAN_PUMA_WORKERS", "threads_min": "FOREMAN_PUMA_THREADS_MIN", "threads_max": "FOREMAN_PUMA_THREADS_MAX"}

// defaults are the variables that Puma itself reads for its defaults (puma 5.6,
// lib/puma/configuration.rb), in their order.
var defaults = map[string][]string{"workers": {"WEB_CONCURRENCY"}, "threads_min": {"PUMA_MIN_THREADS", "MIN_THREADS"}, "threads_max": {"PUMA_MAX_THREADS", "MAX_THREADS"}}

const etcUnits = "/etc/systemd/system"

// unitNames returns the services that may run Puma: Foreman's, those named puma, and an
// administrator's own.
func unitNames(h *host.Host, r *systemd.Reader) []string {
	names := []string{"foreman.service"}
	add := func(n string) {
		if !slices.Contains(names, n) && !strings.HasSuffix(n, "@.service") {
			names = append(names, n)
		}
	}
	for _, pattern := range []string{"/usr/lib/systemd/system/puma*.service", "/lib/systemd/system/puma*.service", etcUnits + "/*.service"} {
		found, _ := host.Glob(h.Files, pattern)
		for _, f := range found {
			if text, err := h.Files.ReadFile(f); err == nil && strings.Contains(string(text), "puma") || path.Base(f) == "puma.service" {
				add(path.Base(f))
			}
		}
	}
	enabled, _ := r.Enabled("puma*@*.service")
	for _, n := range enabled {
		add(n)
	}
	return names
}

// pumaInstances returns the instances of all units.
func pumaInstances(h *host.Host) ([]*pumaInstance, error) {
	r := systemd.New(h)
	var out []*pumaInstance
	for _, name := range unitNames(h, r) {
		u, err := r.Load(name)
		switch {
		case host.Unknown(err):
			// Without the unit or /etc/foreman, the machine is assumed to have no Foreman.
			if _, err := h.Files.Stat("/etc/foreman"); name == "foreman.service" && err == nil {
				out = append(out, &pumaInstance{name: "foreman", unknown: name + " is not in this copy"})
			}
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case u.Masked:
			continue
		}
		if in := fromUnit(h, u); in != nil {
			out = append(out, in)
		}
	}
	return out, nil
}

// fromUnit returns a unit's instance, or nil if the unit runs another program.
func fromUnit(h *host.Host, u *systemd.Unit) *pumaInstance {
	in := &pumaInstance{name: strings.TrimSuffix(u.Name, ".service"), unit: u, dir: "/", cpus: onlineCPUs(h)}
	argv, at := u.Command()
	foreman := u.Name == "foreman.service"
	var ok bool
	if in.args, ok = readCommand(argv); !ok && !foreman {
		return nil
	}
	in.argsAt = at
	if foreman {
		in.dir = "/usr/share/foreman"
	}
	if v, ok := u.Last("Service", "WorkingDirectory"); ok {
		in.dir = path.Clean("/" + strings.TrimPrefix(v.Text, "-"))
	}
	if dir, err := h.Files.Resolve(in.dir); err == nil {
		in.dir = dir
	}
	if len(argv) > 0 {
		in.version = func() told { return versionOf(h, in.dir, argv[0]) }
	}
	in.env, in.unread = u.Environment()
	if in.unread != "" {
		in.unread += " is not in this copy, or cannot be read"
	}
	if in.args.environment == "" && foreman {
		in.args.environment = "production"
	}
	in.read(h, in.get)
	if foreman && len(in.configs) == 0 && in.unknown == "" {
		in.unknown = path.Join(in.dir, "config/puma/production.rb") + " is missing"
	}
	return in
}

// getter returns an environment variable and its source, or the reason that it is unknown.
type getter func(name string) (text, at string, ok bool, unknown string)

// get returns an environment variable as the unit sets it.
func (in *pumaInstance) get(name string) (text, at string, ok bool, unknown string) {
	v, ok := in.env[name]
	return v.Text, v.At, ok, in.unread
}

// read parses the configuration files that Puma would read: those of -C, or the default file in its
// directory.
func (in *pumaInstance) read(h *host.Host, get getter) {
	names := in.args.files
	if len(names) == 0 {
		names = in.defaultFiles(h, get)
	}
	for _, name := range names {
		if name == "-" && len(names) == 1 {
			return
		}
		file := name
		if !strings.HasPrefix(file, "/") {
			file = path.Join(in.dir, name)
		}
		if real, err := h.Files.Resolve(file); err == nil {
			file = real
		}
		text, err := h.Files.ReadFile(file)
		if err != nil {
			in.unknown = fmt.Sprintf("%s: %v", file, pumaReason(err))
			return
		}
		in.files = append(in.files, file)
		in.configs = append(in.configs, readRuby(string(text)))
	}
}

// defaultFiles returns config/puma/ENVIRONMENT.rb, or else config/puma.rb, or nil.
func (in *pumaInstance) defaultFiles(h *host.Host, get getter) []string {
	environment := in.args.environment
	for _, v := range []string{"APP_ENV", "RACK_ENV", "RAILS_ENV"} {
		if text, _, ok, _ := get(v); environment == "" && ok {
			environment = text
		}
	}
	if environment == "" {
		environment = "development"
	}
	for _, f := range []string{"config/puma/" + environment + ".rb", "config/puma.rb"} {
		_, err := h.Files.Stat(path.Join(in.dir, f))
		if err == nil {
			return []string{f}
		}
		if host.Unknown(err) {
			in.unknown = path.Join(in.dir, f) + " is not in this copy"
			return nil
		}
	}
	return nil
}

func pumaReason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// told is an option's value and its position.
type told struct {
	text, at string // text is "" if the option is not set
	unknown  string
	// variable is the environment variable that decides the value, or would if it were set.
	variable string
	// place is the literal that sets the value, if fettle can change it.
	place *conf.Place
}

// option returns an option's value from the command line, or else the files, or else an
// environment.
func (in *pumaInstance) option(name string, get getter) told {
	if text := map[string]string{"workers": in.args.workers, "threads_min": in.args.min, "threads_max": in.args.max}[name]; text != "" {
		n := leading(text)
		if n == "" && name != "workers" {
			return told{at: in.argsAt, unknown: fmt.Sprintf("%q is not a number of threads", text)}
		}
		if n == "" {
			n = "0"
		}
		return told{text: n, at: in.argsAt}
	}
	if in.unknown != "" {
		if in.unit == nil || in.unit.Name != "foreman.service" {
			return told{at: in.name, unknown: in.unknown}
		}
		n := &number{variable: foremans[name], other: &number{unknown: in.unknown}}
		text, at, unknown := n.value(get, in.unit.Name, conversions[name])
		return told{text: text, at: at, unknown: unknown, variable: n.variable}
	}
	for i := len(in.configs) - 1; i >= 0; i-- {
		n := in.configs[i].number(name)
		if n == nil {
			continue
		}
		var t told
		t.text, t.at, t.unknown = n.value(get, in.files[i], conversions[name])
		t.variable = n.variable
		if n.to > 0 {
			t.place = &conf.Place{File: in.files[i], Assignment: conf.Assignment{Key: name, Literal: n.literal, Line: n.line, From: n.from, To: n.to}}
		}
		return t
	}
	for _, v := range defaults[name] {
		text, at, ok, unknown := get(v)
		number, isNumber := integer(text)
		switch {
		case ok && text == "": // since Puma 6.5; an older Puma does not start with it
			return told{variable: v}
		case ok && text == "auto" && name == "workers":
			return in.eachCPU(told{at: at, variable: v})
		case ok && !isNumber:
			return told{at: at, variable: v, unknown: fmt.Sprintf("%s is %q, not a number; Puma does not start", v, text)}
		case ok:
			return told{text: number, at: at, variable: v}
		case unknown != "":
			return told{at: at, variable: v, unknown: unknown}
		}
	}
	return told{variable: defaults[name][0]}
}

// conversions are the Ruby methods with which Puma converts each option's text to a number.
var conversions = map[string]string{"workers": "to_i", "threads_min": "Integer", "threads_max": "Integer"}

func (c config) number(name string) *number {
	return map[string]*number{"workers": c.workers, "threads_min": c.min, "threads_max": c.max}[name]
}

// variables returns the environment variables that decide the instance's options.
func (in *pumaInstance) variables() []string {
	var out []string
	for _, p := range parameters {
		out = append(out, foremans[p.Name])
		out = append(out, defaults[p.Name]...)
		for _, c := range in.configs {
			for n := c.number(p.Name); n != nil; n = n.other {
				if n.variable != "" {
					out = append(out, n.variable)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leading returns the digits at the beginning of a text, as Ruby's String#to_i reads them.
func leading(text string) string {
	end := 0
	for end < len(text) && end < 9 && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	return text[:end]
}

// main returns the file that identifies the instance in settings and receives new lines. It is the
// last file of the unit that an administrator owns, or else the configuration file unless a package
// owns it, or "".
func (in *pumaInstance) main() string {
	if in.unit != nil {
		for _, f := range slices.Backward(in.unit.Files) {
			if in.own(f) {
				return f
			}
		}
	}
	for _, f := range slices.Backward(in.files) {
		if !packaged(f) {
			return f
		}
	}
	return ""
}

// own reports whether a file is the administrator's and affects only this unit: the unit or a
// drop-in.
func (in *pumaInstance) own(file string) bool {
	return file == path.Join(etcUnits, in.unit.Name) || path.Dir(file) == path.Join(etcUnits, in.unit.Name+".d")
}

// packaged reports whether a file belongs to a package; the next version replaces such a file.
func packaged(file string) bool {
	return strings.HasPrefix(file, "/usr/") && !strings.HasPrefix(file, "/usr/local/") || strings.HasPrefix(file, "/lib/")
}

// has reports whether a file configures the instance.
func (in *pumaInstance) has(file string) bool {
	return slices.Contains(in.files, file) || in.unit != nil && slices.Contains(in.unit.Files, file)
}
