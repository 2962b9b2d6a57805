// Package httpd reads the configuration of the Apache HTTP server of Debian and Red Hat as the
// server does. It detects whether the running server has read it, and reloads or restarts the
// server.
package httpd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Product is the Apache HTTP server.
var Product = daemon.Product()

// installed is an instance whose report is the running server's configuration (mod_info).
type (
	input     = product.Input[settings, settings]
	installed = product.Instance[settings, settings]
)

var daemon = &product.Daemon[settings, settings]{
	Name: "httpd", Doc: "the Apache HTTP server", Packages: []string{"httpd", "apache2"},
	Parameters: parameters,
	Inputs:     inputs,
	Conf: conf.Product{
		Syntax: syntax{}, SyntaxOf: syntaxOf, FileOf: fileOf, Roots: rootsOf,
		Instances: func(h *host.Host) ([]conf.Instance, error) { return conf.Bases(instances(h)) },
		Winner:    winner, Canonical: canonical, Check: check,
	},
	ReadRunning: func(h *host.Host, main string, argv []string) (settings, error) {
		in := instanceOf(h, main)
		in.argv = argv
		return readSettings(h, in)
	},
	MainOf:    mainOf,
	Program:   "httpd",
	Processes: processes,
	Control: func() *product.Control {
		return &product.Control{
			Unit:      func(h *host.Host, main string) string { return product.Unit(h, main, instanceOf(h, main).unit) },
			Check:     configTest,
			Reload:    product.ReloadBy("USR1"), // a graceful restart: running requests finish
			Ready:     ready,
			Complaint: complaint,
			Start: func(h *host.Host, main string, _ product.Process) (product.Start, error) {
				c := tool(h, main, "-k", "start")
				return product.Start{Argv: c.Argv, Env: c.Env}, nil
			},
		}
	},
	Restart: func(key string) bool { return key == ulimitVariable || slices.Contains(atStart, key) },
	Ask:     askInfo,
	Running: running,
	Effect: func(ctx context.Context, h *host.Host, file, key, value string) (v plugin.Verdict, why string, ok bool) {
		if key == ulimitVariable {
			v, why = ulimitEffect(ctx, h, file, value)
			return v, why, true
		}
		return v, "", false
	},
	DryRun: dryRun,
}

var inputs = []input{
	{Name: "version", Type: fact.Text, Doc: "version of the package", Answer: func(i *installed) fact.Answer {
		if v, at := version(i.Host); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no package list contains httpd", At: i.Main}
	}},
	ofModule("mpm", fact.Text, "multi-processing module that is loaded: event, worker or prefork", atReload, func(s settings) fact.Answer {
		return fact.Answer{Value: s.mpm, At: s.mpmAt}
	}),
	limit("server_limit", "ServerLimit, or its default with this module", onlyAtStart),
	limit("threads_per_child", "threads of one process: ThreadsPerChild, or its default, as ThreadLimit allows; 1 with prefork", onlyAtStart),
	limit("max_request_workers", "configured MaxRequestWorkers, or its default with this module", atReload),
	limit("requests_limit", "maximum requests in progress: MaxRequestWorkers in whole processes, as ServerLimit and ThreadLimit allow", onlyAtStart),
	limit("start_servers", "StartServers, or its default with this module", atReload),
	ofFiles(input{Name: "proxy_timeout_s", Type: fact.Number, Unit: "s", Doc: "ProxyTimeout, or else Timeout"}, atReload, func(s settings) fact.Answer {
		for _, key := range []string{"proxytimeout", "timeout"} {
			if t, ok := s.value(key); ok {
				return number(t, key)
			}
		}
		return fact.Answer{Value: 60.0, At: "the default of httpd"}
	}),
	ofFiles(input{Name: "proxies", Type: fact.Truth, Doc: "whether mod_proxy is loaded"}, atReload, func(s settings) fact.Answer {
		at, ok := s.modules["proxy_module"]
		return fact.Answer{Value: ok, At: at}
	}),
	{Name: "processes_running", Type: fact.Number, Doc: "processes other than the main one", From: product.FromProcess, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: float64(len(i.Run.Children)), At: "/proc"}
	}},
	{Name: "connections_waiting", Type: fact.Number, Doc: "connections that wait until a process accepts them", From: product.FromProcess, Answer: func(i *installed) fact.Answer {
		return product.ConnectionsWaiting(i.Host, i.Run.Main.PID)
	}},
	{Name: "open_files_limit", Type: fact.Number, Doc: "files that a running process may have open", From: product.FromProcess, Answer: (*installed).OpenFilesLimit},
	{Name: "unit", Type: fact.Text, Doc: "systemd service of httpd; empty without one", From: product.FromProcess, Answer: func(i *installed) fact.Answer { return product.RunBy(i.Run.Main) }},
	{Name: "limit_script", Type: fact.Text, Doc: "script that sets the limit of open files at the start, regardless of the unit (Debian's envvars)", Answer: limitScript},
	{Name: "read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed", Answer: (*installed).ReadSinceChange},
	ofFiles(input{Name: "certificate_faults", Type: fact.List, Doc: "places in virtual hosts with client certificates where a client without one can get cached responses or forge an identity"}, atReload, func(s settings) fact.Answer {
		faults, err := s.certificateFaults()
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: s.main}
		}
		return fact.Answer{Value: faults, At: s.main}
	}),
	ofFiles(input{Name: "virtual_host_timeouts", Type: fact.List, Doc: "virtual hosts with a Timeout or ProxyTimeout of their own"}, atReload, virtualHostTimeouts),
}

// When the running server applies a directive.
const (
	atReload    = false
	onlyAtStart = true
)

// ofFiles returns an input that is answered from the running server's report, or else from the
// files. start marks directives that take effect only at start: the report answers them only if
// httpd has started since the files changed.
func ofFiles(in input, start bool, answer func(settings) fact.Answer) input {
	in.From = product.FromFiles
	in.Answer = func(i *installed) fact.Answer {
		taken := i.Run.Taken()
		if start {
			taken = i.Run.TakenAtStart()
		}
		files, from := i.Files, product.Origin(taken, i.RunErr)
		if i.ReportErr == nil && (!start || taken == product.Yes) {
			files, from = i.Report, fact.Running
		}
		a := answer(files)
		a.From = from
		return a
	}
	return in
}

// ofModule is like ofFiles, but the input is unknown if the multi-processing module is unknown.
func ofModule(name string, as fact.Type, doc string, start bool, answer func(settings) fact.Answer) input {
	return ofFiles(input{Name: name, Type: as, Doc: doc}, start, func(s settings) fact.Answer {
		if s.mpm == "" {
			return fact.Answer{Unknown: "no file loads a multi-processing module, so httpd was built with one", At: s.main}
		}
		return answer(s)
	})
}

// limit returns an input that is answered from the multi-processing module's limits.
func limit(name, doc string, start bool) input {
	return ofModule(name, fact.Number, doc, start, func(s settings) fact.Answer { return s.capacity(name) })
}

func virtualHostTimeouts(s settings) fact.Answer {
	list := []string{}
	for n, p := range s.all {
		scope, directive, _ := strings.Cut(p.Key, "/")
		if strings.HasPrefix(scope, "virtualhost ") && (directive == "timeout" || directive == "proxytimeout") {
			if why := s.unsure[n]; why != "" {
				return fact.Answer{Unknown: why, At: p.String()}
			}
			list = append(list, scope+"/"+name(directive)+"="+s.values[n])
		}
	}
	return fact.Answer{Value: list, At: s.main}
}

func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	if isEnvvars(main) {
		all, err := conf.PlacesIn(h, envvars{}, main)
		p, ok := conf.Last(all, key)
		return p, ok, err
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

// name returns a directive with the documentation's capital letters.
func name(key string) string {
	if p := parameter(key); p != nil {
		return p.Name
	}
	return key
}
