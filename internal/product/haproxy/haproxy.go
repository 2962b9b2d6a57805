// Package haproxy knows HAProxy: its configuration as the server reads it, what it
// says that it runs with, and how it takes a new value.
package haproxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is HAProxy.
var Product = product.Product{
	Name:       "haproxy",
	Doc:        "HAProxy, load balancer and OpenShift's router",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:       "haproxy",
			Syntax:     syntax{},
			Roots:      rootsOf,
			Instances:  instances,
			Winner:     winner,
			Canonical:  canonical,
			Check:      check,
			Activation: c.Reloads,
			Activate:   c.Activate,
			Effect:     effect,
		})
	},
}

var inputs = append(product.ProbeInputs("haproxy"), []fact.Input{
	{Name: "haproxy.version", Type: fact.Text, Doc: "version of the running server, or of the package"},
	{Name: "haproxy.threads", Type: fact.Number, Doc: "threads of the running server, or nbthread of its files where it cannot be asked"},
	{Name: "haproxy.connections", Type: fact.Number, Doc: "connections of clients at this moment"},
	{Name: "haproxy.connections_limit", Type: fact.Number, Doc: "connections of clients that the running server allows"},
	{Name: "haproxy.sockets_needed", Type: fact.Number, Doc: "files and sockets that it needs for all connections that it allows, as it reckons itself"},
	{Name: "haproxy.open_files_limit", Type: fact.Number, Doc: "files that the running server may open"},
	{Name: "haproxy.idle_percent", Type: fact.Number, Unit: "%", Doc: "time that its threads have had nothing to do"},
	{Name: "haproxy.allocations_failed", Type: fact.Number, Doc: "times that it was refused memory since the start"},
	{Name: "haproxy.uptime_s", Type: fact.Number, Unit: "s", Doc: "time since the worker was started"},
	{Name: "haproxy.stats_socket", Type: fact.Text, Doc: "where it can be asked what it runs with"},
	{Name: "haproxy.listen_backlog", Type: fact.Number, Doc: "connections that wait to be accepted, of the frontend that asks for the longest queue"},
	{Name: "haproxy.missing_timeouts", Type: fact.List, Doc: "proxies that wait without an end for a client or a server"},
	{Name: "haproxy.frontends_beyond_maxconn", Type: fact.List, Doc: "frontends that allow more connections than the process"},
	{Name: "haproxy.ports", Type: fact.List, Doc: "ports that clients come to"},
	{Name: "haproxy.passthrough_443", Type: fact.Text, Doc: "how connections to port 443 that are passed on as they are (mode tcp) are shared out to servers"},
	{Name: "haproxy.read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed"},
}...)

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := lookAt(ctx, h, in)
		for end := time.Now().Add(lingers); errors.Is(i.infoErr, errAnother) && h.Live && ctx.Err() == nil && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
			i = lookAt(ctx, h, in)
		}
		out = append(out, i)
	}
	return out, nil
}

// errAnother is that the answer is of another process than the one that serves.
var errAnother = errors.New("another process answers at its stats socket")

// lingers is how long after a reload the worker of before may take a question: until it
// is told to end, both have the socket.
const lingers = 5 * time.Second

func lookAt(ctx context.Context, h *host.Host, in conf.Instance) *installed {
	i := &installed{Instance: in, host: h}
	i.files, i.fileErr = readSettings(h, in.Main)
	if i.run, i.runErr = processes(ctx, h, in.Main); i.runErr != nil {
		i.infoErr = i.runErr
		return i
	}
	i.run.Changed = product.Changed(ctx, h, in.Main, i.files.files)
	i.info, i.infoErr = question(ctx, h, in.Main, i.files)
	if i.infoErr == nil && i.info["Pid"] != strconv.Itoa(worker(i.run).PID) {
		i.info, i.infoErr = nil, errAnother
	}
	return i
}

type installed struct {
	product.Probed
	conf.Instance
	host    *host.Host
	files   settings
	fileErr error
	run     product.Group
	runErr  error
	info    map[string]string
	infoErr error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed: the tuning options of the process and of
// the defaults.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, o := range i.files.options {
		kind := i.files.sections[o.section].kind
		if p := parameter(o.Key); p != nil && (kind == "global" || kind == "defaults") {
			names[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Option implements component.Installed. What "show info" does not say is what the
// files say, where the server has read them since they were changed.
func (i *installed) Option(name string) product.Option {
	file := fact.Absent[string](i.Main)
	key, err := syntax{}.Key(name)
	if err == nil {
		err = i.fileErr
	}
	if err == nil {
		var told option
		var ok bool
		if told, ok, err = i.files.get(key); ok {
			file = fact.Known(syntax{}.Unquote(told.Literal), told.Place.String())
		}
	}
	o := product.AsRead(i.Main, file, err, i.run.Taken(), i.runErr)
	if v := i.info[fields[name]]; v != "" {
		source := "show info"
		if text, ok := file.Get(); ok && err == nil && canonical(text) == v {
			source = file.Source() // the file is where it comes from
		}
		o.Running = fact.Known(v, source)
	}
	return o
}

// asked are the inputs that "show info" answers.
var asked = map[string]string{
	"threads": "Nbthread", "connections": "CurrConns", "connections_limit": "Maxconn", "sockets_needed": "Maxsock", "open_files_limit": "Ulimit-n",
	"idle_percent": "Idle_pct", "allocations_failed": "PoolFailed", "uptime_s": "Uptime_sec",
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	if a, ok := i.ProbeAnswer(input, i.Main); ok {
		return a
	}
	if field, ok := asked[input]; ok {
		if i.infoErr != nil {
			if input == "threads" {
				return i.threads()
			}
			return fact.Answer{Unknown: i.infoErr.Error(), At: i.Main}
		}
		n, err := strconv.ParseFloat(i.info[field], 64)
		if err != nil {
			return fact.Answer{Unknown: "show info has no " + field, At: i.Main}
		}
		return fact.Answer{Value: n, At: "show info"}
	}
	switch input {
	case "version":
		if v := i.info["Version"]; v != "" {
			return fact.Answer{Value: product.Upstream(v), At: "show info"}
		}
		if v, at := version(i.host); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no list of packages names it", At: i.Main}
	case "read_since_change":
		return product.ReadSinceChange(i.Main, i.fileErr, i.run.Taken(), i.runErr)
	}
	if i.fileErr != nil {
		return fact.Answer{Unknown: i.fileErr.Error(), At: i.Main}
	}
	a := i.told(input)
	a.From = product.Origin(i.run.Taken(), i.runErr)
	return a
}

// threads are those of nbthread in the files, for a server that cannot be asked; where no
// file says it, HAProxy chooses the number when it starts.
func (i *installed) threads() fact.Answer {
	o := i.Option("nbthread")
	text, ok := o.File.Get()
	if !ok {
		return fact.Answer{Unknown: cmp.Or(o.File.Unknown(), "no file has nbthread, and HAProxy cannot be asked how many threads it has chosen: "+i.infoErr.Error()), At: i.Main}
	}
	n, err := product.ReadCount(text)
	if err != nil {
		return fact.Answer{Unknown: err.Error(), At: o.File.Source()}
	}
	return fact.Answer{Value: n, At: o.File.Source(), From: product.Origin(i.run.Taken(), i.runErr)}
}

// told answers what the files say.
func (i *installed) told(input string) fact.Answer {
	list := func(of []string, err error) fact.Answer {
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		}
		return fact.Answer{Value: of, At: i.Main}
	}
	switch input {
	case "stats_socket":
		if _, address, at := i.files.socket(); address != "" {
			return fact.Answer{Value: address, At: at}
		}
		return fact.Answer{Value: "", At: i.Main}
	case "listen_backlog":
		process, why := i.maxconn()
		if why != "" {
			process = -1
		}
		n, at, err := i.files.backlog(process)
		switch {
		case err != nil:
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		case n < 0:
			return fact.Answer{Unknown: why, At: i.Main}
		case n == 0:
			return fact.Answer{At: i.Main} // it listens nowhere
		}
		return fact.Answer{Value: n, At: at}
	case "ports":
		return fact.Answer{Value: i.files.ports(), At: i.Main}
	case "passthrough_443":
		balance, at, err := i.files.passes("443")
		switch {
		case err != nil:
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		case balance == "":
			return fact.Answer{At: i.Main}
		}
		return fact.Answer{Value: balance, At: at}
	case "missing_timeouts":
		a := list(i.timeless())
		if a.Unknown != "" {
			if a.Unknown += "; fettle check haproxy --probe asks HAProxy"; !i.host.Live {
				a.Unknown += ", on the machine itself"
			}
		}
		return a
	case "frontends_beyond_maxconn":
		process, why := i.maxconn()
		if why != "" {
			return fact.Answer{Unknown: why, At: i.Main}
		}
		return list(i.files.beyond(process))
	}
	return fact.Answer{Unknown: "haproxy does not say it", At: i.Main}
}

// maxconn is that of the process, or why it is not known.
func (i *installed) maxconn() (n float64, unknown string) {
	limit := i.Option("maxconn").Effective()
	text, ok := limit.Get()
	switch {
	case limit.Unknown() != "":
		return 0, limit.Unknown()
	case !ok:
		return 0, "no file sets maxconn: HAProxy reckons it out from its open files when it starts"
	}
	v, err := readAtol(text)
	if err != nil {
		return 0, err.Error()
	}
	if v == 0.0 {
		return 0, "maxconn is 0: HAProxy reckons it out from its open files when it starts"
	}
	return v.(float64), ""
}
