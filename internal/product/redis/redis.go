// Package redis reads the configuration of Redis as the server does. It queries the running
// options, sets options while the server runs, or restarts it.
package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Product is Redis.
var Product = daemon.Product()

type (
	input     = product.Input[settings, *answer]
	installed = product.Instance[settings, *answer]
)

var daemon = &product.Daemon[settings, *answer]{
	Name: "redis", Doc: "Redis, each instance of a machine", Packages: []string{"redis", "redis-server", "valkey", "rh-redis*-redis"},
	Parameters: parameters,
	ByHand:     byHand,
	Inputs:     inputs,
	Conf: conf.Product{
		Syntax: syntax{}, Roots: rootsOf, Instances: instances, Winner: winner, Canonical: canonical, Check: check, CheckHere: keepsSnapshot,
	},
	Read:    readSettings,
	Program: "redis-server",
	Control: func() *product.Control {
		return &product.Control{
			Unit:    product.Service("redis-server.service", "redis.service", "valkey.service"),
			Running: running, Check: keepsData, Ready: ready, Start: start,
			Patience: 2 * time.Minute, // Redis loads all data at start
		}
	},
	Adapt:   setsOne,
	Restart: func(key string) bool { return slices.Contains(atStart, key) },
	Ask: func(ctx context.Context, i *installed) (*answer, error) {
		return question(ctx, i.Host, i.Main, i.Files)
	},
	Runs: runs,
	Same: same,
}

// keepsSnapshot returns an error for appendonly in the file of a stopped server: Redis would then
// start with the empty log instead of its snapshot.
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
			return fmt.Errorf("%s: start Redis before turning appendonly on, or its data is lost at the next start: %w", in.Main, err)
		}
	}
	return nil
}

var inputs = []input{
	{Name: "version", Type: fact.Text, Doc: "version of the running server", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		return info(i, "redis_version", func(text string) (any, error) { return text, nil })
	}},
	number("used_memory_bytes", "bytes", "memory of the data, including Redis's overhead", "used_memory"),
	number("resident_bytes", "bytes", "memory of the process", "used_memory_rss"),
	number("connected_clients", "", "clients that are connected", "connected_clients"),
	{Name: "clients_asked", Type: fact.Number, Doc: "configured maxclients; Redis lowers it to its limit of open files", Answer: clientsAsked},
	number("rejected_connections", "", "connections refused because of maxclients since the start", "rejected_connections"),
	number("evicted_keys", "", "keys evicted because of maxmemory since the start", "evicted_keys"),
	{Name: "last_save_ok", Type: fact.Truth, Doc: "whether the last snapshot was written", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		return info(i, "rdb_last_bgsave_status", func(text string) (any, error) { return text == "ok", nil })
	}},
	{Name: "open_files_limit", Type: fact.Number, Doc: "limit of open files of the running server", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		if n := i.Report.Process.OpenFiles; n > 0 {
			return fact.Answer{Value: float64(n), At: "/proc/PID/limits of redis-server"}
		}
		return fact.Answer{Unknown: "the limits of its process cannot be read", At: i.Main}
	}},
	{Name: "unit", Type: fact.Text, Doc: "systemd service of Redis; empty without one", From: product.FromReport, Answer: func(i *installed) fact.Answer { return product.RunBy(i.Report.Process) }},
	number("uptime_s", "s", "time since the server was started", "uptime_in_seconds"),
	{Name: "pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		switch {
		case i.FileErr != nil:
			return fact.Answer{Unknown: i.FileErr.Error(), At: i.Main}
		case i.Report.NoConfig != "":
			return fact.Answer{Unknown: i.Report.NoConfig, At: i.Main}
		}
		return i.Pending()
	}},
}

// number returns an input that is answered from a line of INFO.
func number(name, unit, doc, line string) input {
	return input{Name: name, Type: fact.Number, Unit: unit, Doc: doc, From: product.FromReport, Answer: func(i *installed) fact.Answer {
		return info(i, line, func(text string) (any, error) { return strconv.ParseFloat(text, 64) })
	}}
}

// info answers with a line of INFO, converted by read.
func info(i *installed, line string, read func(text string) (any, error)) fact.Answer {
	const at = "INFO of redis"
	if text := i.Report.Info[line]; text != "" {
		if v, err := read(text); err == nil {
			return fact.Answer{Value: v, At: at}
		}
	}
	return fact.Answer{Unknown: "INFO has no " + line, At: at}
}

// runs returns an option's running value from CONFIG GET.
func runs(i *installed, name string) fact.Fact[string] {
	if i.Report.NoConfig != "" {
		return fact.Unknown[string](i.Main, i.Report.NoConfig)
	}
	at := "CONFIG GET " + name
	if v, ok := i.Report.Config[name]; ok {
		return fact.Known(v, at)
	}
	return fact.Absent[string](at)
}

// same reports whether two values of an option are equal to Redis.
func same(name, a, b string) bool {
	return parameters.Same(name, a, b) || canonical(a) == canonical(b)
}

// clientsAsked answers with the requested maxclients, from the files or a later CONFIG SET. The
// running value may be lower, because Redis adapts it to its open-file limit (8.0.2 and Valkey
// 8.1.1: 992 with 1024 files).
func clientsAsked(i *installed) fact.Answer {
	p := parameters.Named("maxclients")
	if i.FileErr != nil {
		return fact.Answer{Unknown: i.FileErr.Error(), At: i.Main}
	}
	text, at := p.Default, "the default of redis"
	if v, place, ok := i.Files.value(p.Name); ok {
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
