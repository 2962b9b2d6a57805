// Package qpid knows qpidd, the message broker of katello-agent and Pulp 2 on
// Satellites before 6.15: its configuration as the broker reads it, what it runs
// with, and how it takes a new value.
package qpid

import (
	"context"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is qpidd.
var Product = product.Product{
	Name:       "qpid",
	Doc:        "qpidd, the message broker of Satellites before 6.15",
	Parameters: parameters,
	Inputs:     inputs,
	Packages:   []string{"qpid-cpp-server", "qpidd"},
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:       "qpid",
			Syntax:     syntax{},
			Roots:      func(*host.Host) []string { return []string{"/etc"} },
			Instances:  settable,
			Winner:     winner,
			Canonical:  canonical,
			Check:      check,
			Activation: c.Restarts,
			Activate:   c.Activate,
			Effect:     effect,
		})
	},
}

var inputs = []fact.Input{
	{Name: "qpid.version", Type: fact.Text, Doc: "version of the package"},
	{Name: "qpid.open_files_limit", Type: fact.Number, Doc: "files that the running broker may open, or that its unit gives it: a connection is one, a durable queue several"},
	{Name: "qpid.files_open", Type: fact.Number, Doc: "files and connections that it has open"},
	{Name: "qpid.started_since_change", Type: fact.Truth, Doc: "whether the running broker was started after its file was changed"},
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{instance: in, host: h}
		text, err := h.Files.ReadFile(in.Main)
		if i.fileErr = err; err == nil {
			i.all, i.fileErr = syntax{}.Assignments(string(text))
		}
		if i.run.Main, i.runErr = product.OfService(ctx, h, "qpidd", service); i.runErr == nil {
			i.run.Changed = product.Changed(ctx, h, in.Main, []string{in.Main})
		}
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	*instance
	host    *host.Host
	all     []conf.Assignment
	fileErr error
	run     product.Group
	runErr  error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, a := range i.all {
		names[a.Key] = true
	}
	for name := range i.flags {
		names[name] = true
	}
	for name := range i.env {
		names[name] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(n string) bool { return parameters.Named(n) == nil })
}

// Option implements component.Installed. qpidd reads everything when it starts.
func (i *installed) Option(name string) product.Option {
	file := fact.Absent[string](i.Main)
	t, ok, err := i.option(i.host, name)
	if ok {
		file = fact.Known(t.text, t.at)
	}
	return product.AsRead(i.Main, file, err, i.run.TakenAtStart(), i.runErr)
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	switch input {
	case "version":
		if v, at := product.Version(i.host, Product.Packages...); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no list of packages names it", At: i.Main}
	case "started_since_change":
		return product.ReadSinceChange(i.Main, i.fileErr, i.run.TakenAtStart(), i.runErr)
	case "open_files_limit":
		if i.runErr == nil && i.run.Main.OpenFiles > 0 {
			return fact.Answer{Value: float64(i.run.Main.OpenFiles), At: "/proc/PID/limits of qpidd"}
		}
		if i.unit == nil {
			return fact.Answer{Unknown: service + " is not in this copy", At: i.Main}
		}
		if l, ok := i.unit.Limit("NOFILE"); ok {
			return fact.Answer{Value: min(l.Soft, 1<<30), At: l.At}
		}
		return fact.Answer{Value: 1024.0, At: "systemd's default for " + service}
	case "files_open":
		if i.runErr != nil {
			return fact.Answer{Unknown: i.runErr.Error(), At: "/proc"}
		}
		n, err := product.FilesOpen(context.Background(), i.host, "qpidd "+i.Main, i.run.Main)
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: "/proc"}
		}
		return fact.Answer{Value: float64(n), At: "/proc/PID/fd of qpidd"}
	}
	return fact.Answer{Unknown: "qpidd does not say it", At: i.Main}
}
