// Package httpd knows the Apache HTTP server of Debian and of Red Hat: its
// configuration as the server reads it, whether it has read it, and how it takes a
// new value.
package httpd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is the Apache HTTP server.
var Product = product.Product{
	Name:       "httpd",
	Doc:        "the Apache HTTP server",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Packages:   []string{"httpd", "apache2"},
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:      "httpd",
			Syntax:    syntax{},
			SyntaxOf:  syntaxOf,
			FileOf:    fileOf,
			Roots:     rootsOf,
			Instances: servers,
			Winner:    winner,
			Canonical: canonical,
			Check:     check,
			Activation: func(ctx context.Context, h *host.Host, file, key string) (setting.Activation, bool) {
				return c.Activation(ctx, h, mainOf(h, file), key == ulimitVariable || slices.Contains(atStart, key))
			},
			Activate: c.Activate,
			Effect:   effect,
		})
	},
}

var inputs = append(product.ProbeInputs("httpd"), []fact.Input{
	{Name: "httpd.version", Type: fact.Text, Doc: "version of the package"},
	{Name: "httpd.mpm", Type: fact.Text, Doc: "multi-processing module that is loaded: event, worker or prefork"},
	{Name: "httpd.server_limit", Type: fact.Number, Doc: "ServerLimit, or its default with this module"},
	{Name: "httpd.threads_per_child", Type: fact.Number, Doc: "threads of one process: ThreadsPerChild, or its default, as ThreadLimit allows; 1 with prefork"},
	{Name: "httpd.max_request_workers", Type: fact.Number, Doc: "MaxRequestWorkers as it is asked for, or its default with this module"},
	{Name: "httpd.requests_limit", Type: fact.Number, Doc: "requests that it serves at a time: MaxRequestWorkers in whole processes, as ServerLimit and ThreadLimit allow"},
	{Name: "httpd.start_servers", Type: fact.Number, Doc: "StartServers, or its default with this module"},
	{Name: "httpd.proxy_timeout_s", Type: fact.Number, Unit: "s", Doc: "ProxyTimeout, or else Timeout"},
	{Name: "httpd.proxies", Type: fact.Truth, Doc: "whether mod_proxy is loaded"},
	{Name: "httpd.processes_running", Type: fact.Number, Doc: "processes beside the main one"},
	{Name: "httpd.open_files_limit", Type: fact.Number, Doc: "files that a running process may have open"},
	{Name: "httpd.unit", Type: fact.Text, Doc: "service of systemd that runs it; empty where none does"},
	{Name: "httpd.limit_script", Type: fact.Text, Doc: "script that sets the limit of open files when it is started, whatever its unit says (Debian's envvars)"},
	{Name: "httpd.read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed"},
	{Name: "httpd.certificate_faults", Type: fact.List, Doc: "places of virtual hosts that ask for client certificates where an answer that is kept, or who a client is, can be had or said by others"},
	{Name: "httpd.virtual_host_timeouts", Type: fact.List, Doc: "virtual hosts with a Timeout or ProxyTimeout of their own"},
}...)

// servers are the instances as conf wants them.
func servers(h *host.Host) ([]conf.Instance, error) {
	all, err := instances(h)
	out := make([]conf.Instance, len(all))
	for i, in := range all {
		out[i] = in.Instance
	}
	return out, err
}

func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	if isEnvvars(main) {
		return envvars{}.winner(h, main, key)
	}
	s, err := readSettings(h, instanceOf(h, main))
	if err != nil {
		return conf.Place{}, false, err
	}
	t, ok := s.value(key)
	if t.unknown != "" {
		err = errors.New(t.unknown)
	}
	return t.at, ok, err
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{instance: in, host: h}
		i.run, i.runErr = processes(ctx, h, in.Main)
		i.argv = i.run.Main.Argv
		i.files, i.fileErr = readSettings(h, i.instance)
		if i.runErr == nil {
			i.run.Changed = product.Changed(ctx, h, in.Main, i.files.files)
		}
		i.info, i.infoErr = i.askInfo(ctx)
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	product.Probed
	instance
	host    *host.Host
	files   settings
	fileErr error
	run     product.Group
	runErr  error
	info    settings // what the running server has read
	infoErr error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed: of the whole server.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, p := range i.files.all {
		if !strings.Contains(p.Key, "/") {
			names[name(p.Key)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// name is a directive with the capitals that it has in the documentation.
func name(key string) string {
	if p := parameter(key); p != nil {
		return p.Name
	}
	return key
}

// Option implements component.Installed. What httpd runs with it says
// only where its files enable server-info; else it is what its files say, where it has read
// them since they were changed.
func (i *installed) Option(option string) product.Option {
	file := fact.Absent[string](i.Main)
	key, err := syntax{}.Key(option)
	if err == nil {
		err = i.fileErr
	}
	if t, ok := i.files.value(key); ok && err == nil {
		file = fact.Known(t.value, t.at.String())
		if t.unknown != "" {
			err = errors.New(t.unknown)
		}
	}
	taken := i.run.Taken()
	if slices.Contains(atStart, key) {
		taken = i.run.TakenAtStart()
	}
	o := product.AsRead(i.Main, file, err, taken, i.runErr)
	if value, at, ok := i.running(key); ok && err == nil {
		o.Running = fact.Known(value, at)
	}
	return o
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	if a, ok := i.ProbeAnswer(input, i.Main); ok {
		return a
	}
	switch input {
	case "version":
		if v, at := version(i.host); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no list of packages names it", At: i.Main}
	case "processes_running", "open_files_limit", "unit":
		return i.process(input)
	case "limit_script":
		return i.limitScript()
	case "read_since_change":
		return product.ReadSinceChange(i.Main, i.fileErr, i.run.Taken(), i.runErr)
	}
	if i.fileErr != nil {
		return fact.Answer{Unknown: i.fileErr.Error(), At: i.Main}
	}
	if i.files.mpm == "" && input != "proxies" && input != "proxy_timeout_s" && input != "virtual_host_timeouts" && input != "certificate_faults" {
		return fact.Answer{Unknown: "no file loads a multi-processing module: it is compiled in", At: i.Main}
	}
	start := input == "server_limit" || input == "threads_per_child" || input == "requests_limit"
	now := i.now(start)
	a := now.told(input)
	taken := i.run.Taken()
	if start {
		taken = i.run.TakenAtStart()
	}
	if a.From = product.Origin(taken, i.runErr); now != i {
		a.From = fact.Running
	}
	return a
}

// told answers from the files.
func (i *installed) told(input string) fact.Answer {
	switch input {
	case "mpm":
		return fact.Answer{Value: i.files.mpm, At: i.files.mpmAt}
	case "server_limit", "threads_per_child", "start_servers", "max_request_workers", "requests_limit":
		return i.capacity(input)
	case "proxy_timeout_s":
		for _, key := range []string{"proxytimeout", "timeout"} {
			if t, ok := i.files.value(key); ok {
				return i.number(t, key)
			}
		}
		return fact.Answer{Value: 60.0, At: "the default of httpd"}
	case "proxies":
		at, ok := i.files.modules["proxy_module"]
		return fact.Answer{Value: ok, At: at}
	case "certificate_faults":
		faults, err := i.files.certificateFaults()
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		}
		return fact.Answer{Value: faults, At: i.Main}
	case "virtual_host_timeouts":
		list := []string{}
		for n, p := range i.files.all {
			scope, directive, _ := strings.Cut(p.Key, "/")
			if strings.HasPrefix(scope, "virtualhost ") && (directive == "timeout" || directive == "proxytimeout") {
				if why := i.files.unsure[n]; why != "" {
					return fact.Answer{Unknown: why, At: p.String()}
				}
				list = append(list, scope+"/"+name(directive)+"="+i.files.values[n])
			}
		}
		return fact.Answer{Value: list, At: i.Main}
	}
	return fact.Answer{Unknown: "httpd does not say it", At: i.Main}
}

func (i *installed) process(input string) fact.Answer {
	const at = "/proc"
	if i.runErr != nil {
		return fact.Answer{Unknown: i.runErr.Error(), At: at}
	}
	switch input {
	case "processes_running":
		return fact.Answer{Value: float64(len(i.run.Children)), At: at}
	case "unit":
		return product.RunBy(i.run.Main)
	}
	limit := i.run.Main.OpenFiles
	for _, c := range i.run.Children {
		limit = c.OpenFiles // what serves requests
	}
	if limit > 0 {
		return fact.Answer{Value: float64(limit), At: "/proc/PID/limits of httpd"}
	}
	return fact.Answer{Unknown: "/proc/PID/limits of httpd cannot be read, or is not in this copy", At: at}
}
