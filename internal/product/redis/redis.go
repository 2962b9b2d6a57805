// Package redis knows the instances of Redis: their configuration as the server
// reads it, what the server runs with, and how it takes a new value.
package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is Redis.
var Product = product.Product{
	Name:       "redis",
	Doc:        "Redis, each instance of a machine",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Packages:   []string{"redis", "redis-server", "valkey", "rh-redis*-redis"},
	Kind: func(h *host.Host) setting.Kind {
		t := newTeller()
		return conf.New(h, conf.Product{
			Name:      "redis",
			Syntax:    syntax{},
			Roots:     rootsOf,
			Instances: instances,
			Winner:    winner,
			Canonical: canonical,
			Check: func(key, value string) error {
				if err := check(key, value); err != nil {
					return err
				}
				return keepsSnapshot(h, key, value)
			},
			Activation: t.activation,
			Activate:   t.activate,
			Effect:     effect,
		})
	},
}

// keepsSnapshot refuses to switch the log on in the file of a server that does not
// run: started with it, Redis reads the log, which is empty, and not its snapshot.
func keepsSnapshot(h *host.Host, key, value string) error {
	if key != "appendonly" || value != "yes" {
		return nil
	}
	all, err := instances(h)
	if err != nil {
		return err
	}
	for _, in := range all {
		if _, err := running(context.Background(), h, in.Main); err != nil {
			return fmt.Errorf("%s: appendonly is switched on only while Redis runs, or its data is gone at the next start: %w", in.Main, err)
		}
	}
	return nil
}

var inputs = []fact.Input{
	{Name: "redis.version", Type: fact.Text, Doc: "version of the running server"},
	{Name: "redis.used_memory_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the data and of what Redis needs for it"},
	{Name: "redis.resident_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the process"},
	{Name: "redis.connected_clients", Type: fact.Number, Doc: "clients that are connected"},
	{Name: "redis.clients_asked", Type: fact.Number, Doc: "maxclients as it is asked for; what runs may have been lowered to the files that it may open"},
	{Name: "redis.rejected_connections", Type: fact.Number, Doc: "connections refused for maxclients since the start"},
	{Name: "redis.evicted_keys", Type: fact.Number, Doc: "keys evicted for maxmemory since the start"},
	{Name: "redis.last_save_ok", Type: fact.Truth, Doc: "whether the last snapshot was written"},
	{Name: "redis.open_files_limit", Type: fact.Number, Doc: "files that the running server may have open"},
	{Name: "redis.unit", Type: fact.Text, Doc: "service of systemd that runs it; empty where none does"},
	{Name: "redis.uptime_s", Type: fact.Number, Unit: "s", Doc: "time since the server was started"},
	{Name: "redis.pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's"},
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{Instance: in}
		i.files, i.fileErr = readSettings(h, in.Main)
		i.asked, i.askErr = question(ctx, h, in.Main, i.files)
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	conf.Instance
	files   settings
	fileErr error
	asked   *answer
	askErr  error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, p := range i.files.all {
		names[p.Key] = true
	}
	if i.asked != nil {
		for name := range i.asked.Config {
			names[name] = true
		}
	}
	for _, s := range secrets {
		delete(names, s)
	}
	return slices.Sorted(maps.Keys(names))
}

// Option implements component.Installed.
func (i *installed) Option(name string) product.Option {
	o := product.Option{
		Intended: fact.Absent[string](i.Main),
		File:     fact.Absent[string](i.Main),
		Running:  fact.Absent[string]("CONFIG GET " + name),
	}
	value, at, ok := i.files.value(name)
	switch {
	case slices.Contains(secrets, name):
		return o
	case i.fileErr != nil:
		o.File = fact.Unknown[string](i.Main, i.fileErr.Error())
	case ok:
		o.File = fact.Known(value, at.String())
	}
	switch {
	case errors.Is(i.askErr, product.ErrStopped):
	case i.askErr != nil:
		o.Running = fact.Unknown[string](i.Main, i.askErr.Error())
	case i.asked.NoConfig != "":
		o.Running = fact.Unknown[string](i.Main, i.asked.NoConfig)
	default:
		if v, has := i.asked.Config[name]; has {
			source := "CONFIG GET " + name
			if ok && same(name, v, value) {
				source = at.String() // the file is where it comes from
			}
			o.Running = fact.Known(v, source)
		}
	}
	return o
}

// same compares two values of an option as Redis does.
func same(name, a, b string) bool {
	if p := parameters.Named(name); p != nil && p.Read != nil {
		x, errX := p.Read(a)
		y, errY := p.Read(b)
		if _, list := x.([]string); !list && errX == nil && errY == nil {
			return x == y
		}
	}
	return canonical(a) == canonical(b)
}

// pending are the tuning parameters that the server does not run with as the
// files say.
func (i *installed) pending() []string {
	out := []string{}
	for _, p := range parameters {
		file, _, ok := i.files.value(p.Name)
		running, has := i.asked.Config[p.Name]
		if ok && has && !slices.Contains(byHand, p.Name) && !same(p.Name, file, running) {
			out = append(out, p.Name)
		}
	}
	return out
}

// clientsAsked is maxclients as its files ask for it, or as CONFIG SET has asked for
// since: what runs alone may be what Redis has lowered to the files that it may open (8.0.2
// and Valkey 8.1.1: 992 with 1024).
func (i *installed) clientsAsked() fact.Answer {
	p := parameters.Named("maxclients")
	if i.fileErr != nil {
		return fact.Answer{Unknown: i.fileErr.Error(), At: i.Main}
	}
	text, at := p.Default, "the default of redis"
	if v, place, ok := i.files.value(p.Name); ok {
		text, at = v, place.String()
	}
	n, err := p.Read(text)
	if err != nil {
		return fact.Answer{Unknown: p.Name + ": " + err.Error(), At: at}
	}
	if runs, ok := i.Option(p.Name).Running.Get(); ok {
		if more, err := p.Read(runs); err == nil && more.(float64) > n.(float64) {
			return fact.Answer{Value: more, At: "CONFIG GET maxclients"}
		}
	}
	return fact.Answer{Value: n, At: at}
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	const at = "INFO of redis"
	if input == "clients_asked" {
		return i.clientsAsked()
	}
	if i.askErr != nil {
		return fact.Answer{Unknown: i.askErr.Error(), At: i.Main}
	}
	number := func(name string) fact.Answer {
		if n, ok := i.asked.number(name); ok {
			return fact.Answer{Value: n, At: at}
		}
		return fact.Answer{Unknown: "INFO has no " + name, At: at}
	}
	switch input {
	case "version":
		if v := i.asked.Info["redis_version"]; v != "" {
			return fact.Answer{Value: v, At: at}
		}
	case "used_memory_bytes":
		return number("used_memory")
	case "resident_bytes":
		return number("used_memory_rss")
	case "connected_clients", "rejected_connections", "evicted_keys":
		return number(input)
	case "uptime_s":
		return number("uptime_in_seconds")
	case "last_save_ok":
		if v := i.asked.Info["rdb_last_bgsave_status"]; v != "" {
			return fact.Answer{Value: v == "ok", At: at}
		}
	case "open_files_limit":
		if p := i.asked.Process; p.PID > 0 && p.OpenFiles > 0 {
			return fact.Answer{Value: float64(p.OpenFiles), At: "/proc/PID/limits of redis-server"}
		}
		return fact.Answer{Unknown: "its process cannot be looked at", At: i.Main}
	case "unit":
		return product.RunBy(i.asked.Process)
	case "pending_changes":
		switch {
		case i.fileErr != nil:
			return fact.Answer{Unknown: i.fileErr.Error(), At: i.Main}
		case i.asked.NoConfig != "":
			return fact.Answer{Unknown: i.asked.NoConfig, At: i.Main}
		}
		return fact.Answer{Value: i.pending(), At: "CONFIG GET"}
	}
	return fact.Answer{Unknown: "INFO does not say it", At: at}
}
