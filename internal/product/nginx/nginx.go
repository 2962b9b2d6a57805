// Package nginx knows nginx: its configuration as the server reads it, whether it
// has read it, and how it takes a new value.
package nginx

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Product is nginx.
var Product = product.Product{
	Name:       "nginx",
	Doc:        "nginx, web server and proxy",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:       "nginx",
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

var inputs = append(product.ProbeInputs("nginx"), []fact.Input{
	{Name: "nginx.version", Type: fact.Text, Doc: "version of the package"},
	{Name: "nginx.workers", Type: fact.Number, Doc: "worker_processes as a number: auto is one for each CPU"},
	{Name: "nginx.workers_running", Type: fact.Number, Doc: "workers that serve now"},
	{Name: "nginx.open_files_limit", Type: fact.Number, Doc: "files that a running worker may have open"},
	{Name: "nginx.files_open", Type: fact.Number, Doc: "files and connections that the busiest worker has open"},
	{Name: "nginx.listen_backlog", Type: fact.Number, Doc: "connections that wait to be accepted, of the socket that asks for the longest queue"},
	{Name: "nginx.upstreams_without_keepalive", Type: fact.List, Doc: "upstream groups of http whose connections end with each request"},
	{Name: "nginx.certificate_faults", Type: fact.List, Doc: "places of servers that ask for client certificates where an answer that is kept, or who a client is, can be had or said by others"},
	{Name: "nginx.read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed"},
}...)

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{Instance: in, host: h}
		i.files, i.fileErr = readSettings(h, in.Main)
		i.run, i.runErr = processes(ctx, h, in.Main)
		if i.runErr == nil {
			i.run.Changed = product.Changed(ctx, h, in.Main, i.files.files)
			i.open, i.openErr = product.FilesOpen(ctx, h, "nginx "+in.Main, i.run.Children...)
		}
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	conf.Instance
	product.Probed
	host    *host.Host
	files   settings
	fileErr error
	run     product.Group
	runErr  error
	open    int
	openErr error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, f := range i.files.all {
		if p := parameters.Named(bare(f.key)); p != nil {
			names[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Option implements component.Installed. What nginx runs with it does not say: it
// is what its files say, where it has read them since they were changed.
func (i *installed) Option(name string) product.Option {
	file := fact.Absent[string](i.Main)
	key, err := syntax{}.Key(name)
	if err == nil {
		err = i.fileErr
	}
	if f, ok := i.files.get(key); ok {
		file = fact.Known(f.value(), f.String())
	}
	return product.AsRead(i.Main, file, err, i.run.Taken(), i.runErr)
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	if a, ok := i.ProbeAnswer(input, i.Main); ok {
		return a
	}
	switch input {
	case "version":
		if v, at := product.Version(i.host, "nginx", "nginx-core"); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no list of packages names it", At: i.Main}
	case "workers", "listen_backlog", "upstreams_without_keepalive", "certificate_faults":
		if i.fileErr != nil {
			return fact.Answer{Unknown: i.fileErr.Error(), At: i.Main}
		}
		a := i.told(input)
		a.From = product.Origin(i.run.Taken(), i.runErr)
		return a
	case "read_since_change":
		return product.ReadSinceChange(i.Main, i.fileErr, i.run.Taken(), i.runErr)
	}
	const at = "/proc"
	if i.runErr != nil {
		return fact.Answer{Unknown: i.runErr.Error(), At: at}
	}
	switch input {
	case "workers_running":
		return fact.Answer{Value: float64(len(i.run.Children)), At: at}
	case "files_open":
		if i.openErr != nil {
			return fact.Answer{Unknown: i.openErr.Error(), At: at}
		}
		return fact.Answer{Value: float64(i.open), At: "/proc/PID/fd of a worker of nginx"}
	case "open_files_limit":
		if len(i.run.Children) > 0 && i.run.Children[0].OpenFiles > 0 {
			return fact.Answer{Value: float64(i.run.Children[0].OpenFiles), At: "/proc/PID/limits of a worker of nginx"}
		}
		return fact.Answer{Unknown: "its workers cannot be looked at", At: at}
	}
	return fact.Answer{Unknown: "nginx does not say it", At: i.Main}
}

// told answers what the files say.
func (i *installed) told(input string) fact.Answer {
	switch input {
	case "listen_backlog":
		if n, at := i.files.backlog(); n > 0 {
			return fact.Answer{Value: n, At: at}
		}
		return fact.Answer{At: i.Main} // it listens nowhere
	case "upstreams_without_keepalive":
		return fact.Answer{Value: i.files.closing(), At: i.Main}
	case "certificate_faults":
		faults, err := certificateFaults(i.host, i.files.files)
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		}
		return fact.Answer{Value: faults, At: i.Main}
	}
	f, ok := i.files.get("worker_processes")
	if !ok {
		return fact.Answer{Value: 1.0, At: "the default of nginx"}
	}
	if n, err := strconv.ParseUint(f.value(), 10, 31); err == nil {
		return fact.Answer{Value: float64(n), At: f.String()}
	}
	const online = "/sys/devices/system/cpu/online"
	text, err := i.host.Files.ReadFile(online)
	if err == nil {
		var cpus unit.CPUSet
		if cpus, err = unit.ParseCPUList(string(text)); err == nil {
			return fact.Answer{Value: float64(cpus.Len()), At: f.String()}
		}
	}
	return fact.Answer{Unknown: online + ": " + err.Error(), At: f.String()}
}
