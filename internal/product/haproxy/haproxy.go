// Package haproxy reads HAProxy's configuration as the server does, queries the running server's
// options, and reloads it.
package haproxy

import (
	"cmp"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Product is HAProxy.
var Product = daemon.Product()

// info maps the names in the response to "show info" to their values.
type info = map[string]string

type (
	input     = product.Input[settings, info]
	installed = product.Instance[settings, info]
)

var daemon = &product.Daemon[settings, info]{
	Name: "haproxy", Doc: "HAProxy, load balancer and OpenShift's router",
	Parameters: parameters,
	Inputs:     inputs,
	Conf:       conf.Product{Syntax: syntax{}, Roots: rootsOf, Instances: instances, Canonical: conf.WholeNumber, Check: check},
	Read:       readSettings,
	Place:      settings.place,
	Program:    "haproxy",
	Processes:  processes,
	Control: func() *product.Control {
		return &product.Control{Unit: product.Service("haproxy.service"), Check: configTest, Reload: reload, Ready: ready}
	},
	Ask:        ask,
	Reported:   func(report info, key string) string { return report[fields[strings.TrimPrefix(key, "global/")]] },
	ReportedBy: "show info",
	DryRun:     dryRun,
}

var inputs = []input{
	{Name: "version", Type: fact.Text, Doc: "version of the running server, or of the package", Answer: func(i *installed) fact.Answer {
		if v := i.Report["Version"]; v != "" {
			return fact.Answer{Value: product.Upstream(v), At: "show info"}
		}
		return i.PackageVersion()
	}},
	{Name: "threads", Type: fact.Number, Doc: "threads of the running server, or nbthread of the files without a stats socket", Answer: threads},
	reported("connections", "", "client connections now", "CurrConns"),
	reported("connections_limit", "", "maximum client connections of the running server", "Maxconn"),
	reported("sockets_needed", "", "files and sockets for the maximum connections, as HAProxy calculates", "Maxsock"),
	reported("open_files_limit", "", "files that the running server may open", "Ulimit-n"),
	reported("idle_percent", "%", "idle time of the threads", "Idle_pct"),
	reported("allocations_failed", "", "failed memory allocations since the start", "PoolFailed"),
	reported("uptime_s", "s", "time since the worker was started", "Uptime_sec"),
	{Name: "stats_socket", Type: fact.Text, Doc: "stats socket, which reports the running values", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		if _, address, at := i.Files.socket(); address != "" {
			return fact.Answer{Value: address, At: at}
		}
		return fact.Answer{Value: "", At: i.Main}
	}},
	{Name: "listen_backlog", Type: fact.Number, Doc: "longest listen queue that a frontend requests", From: product.FromFiles, Answer: listenBacklog},
	{Name: "missing_timeouts", Type: fact.List, Doc: "proxies without a timeout for a client or a server", From: product.FromFiles, Answer: missingTimeouts},
	{Name: "frontends_beyond_maxconn", Type: fact.List, Doc: "frontends that allow more connections than the process", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		process, why := maxconn(i)
		if why != "" {
			return fact.Answer{Unknown: why, At: i.Main}
		}
		list, err := i.Files.beyond(process)
		return answer(i, list, err)
	}},
	{Name: "ports", Type: fact.List, Doc: "ports for clients", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: i.Files.ports(), At: i.Main}
	}},
	{Name: "passthrough_443", Type: fact.Text, Doc: "balance of connections to port 443 that are passed through (mode tcp)", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		balance, at, err := i.Files.passes("443")
		switch {
		case err != nil:
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		case balance == "":
			return fact.Answer{At: i.Main}
		}
		return fact.Answer{Value: balance, At: at}
	}},
	{Name: "read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed", Answer: (*installed).ReadSinceChange},
}

// reported returns an input that is answered from a line of "show info".
func reported(name, unit, doc, line string) input {
	return input{Name: name, Type: fact.Number, Unit: unit, Doc: doc, From: product.FromReport, Answer: func(i *installed) fact.Answer {
		n, err := strconv.ParseFloat(i.Report[line], 64)
		if err != nil {
			return fact.Answer{Unknown: "show info has no " + line, At: i.Main}
		}
		return fact.Answer{Value: n, At: "show info"}
	}}
}

// threads answers with the number of running threads, or with nbthread from the files if the server
// cannot be queried. Without nbthread HAProxy chooses the number when it starts.
func threads(i *installed) fact.Answer {
	if i.ReportErr == nil {
		return reported("", "", "", "Nbthread").Answer(i)
	}
	o := i.Option("nbthread")
	text, ok := o.File.Get()
	if !ok {
		return fact.Answer{Unknown: cmp.Or(o.File.Unknown(), "nbthread is not set, and HAProxy's own choice is unknown: "+i.ReportErr.Error()), At: i.Main}
	}
	n, err := product.ReadCount(text)
	if err != nil {
		return fact.Answer{Unknown: err.Error(), At: o.File.Source()}
	}
	return fact.Answer{Value: n, At: o.File.Source(), From: product.Origin(i.Run.Taken(), i.RunErr)}
}

// listenBacklog answers with the longest listen queue that HAProxy requests from the kernel; absent
// without listeners.
func listenBacklog(i *installed) fact.Answer {
	process, why := maxconn(i)
	if why != "" {
		process = -1
	}
	n, at, err := i.Files.backlog(process)
	switch {
	case err != nil:
		return fact.Answer{Unknown: err.Error(), At: i.Main}
	case n < 0:
		return fact.Answer{Unknown: why, At: i.Main}
	case n == 0:
		return fact.Answer{At: i.Main}
	}
	return fact.Answer{Value: n, At: at}
}

func missingTimeouts(i *installed) fact.Answer {
	list, err := timeless(i)
	a := answer(i, list, err)
	if a.Unknown != "" {
		if a.Unknown += "; to ask HAProxy: fettle check haproxy --probe"; !i.Host.Live {
			a.Unknown += ", on the machine itself"
		}
	}
	return a
}

// answer wraps a list from the files, or the reason that it is unknown.
func answer(i *installed, list []string, err error) fact.Answer {
	if err != nil {
		return fact.Answer{Unknown: err.Error(), At: i.Main}
	}
	return fact.Answer{Value: list, At: i.Main}
}

// maxconn returns the process's maximum number of connections, or the reason that it is unknown.
func maxconn(i *installed) (n float64, unknown string) {
	limit := i.Option("maxconn").Effective()
	text, ok := limit.Get()
	const calculated = "HAProxy calculates it from its open files when it starts"
	switch {
	case limit.Unknown() != "":
		return 0, limit.Unknown()
	case !ok:
		return 0, "no file sets maxconn: " + calculated
	}
	v, err := readAtol(text)
	switch {
	case err != nil:
		return 0, err.Error()
	case v == 0.0:
		return 0, "maxconn is 0: " + calculated
	}
	return v.(float64), ""
}
