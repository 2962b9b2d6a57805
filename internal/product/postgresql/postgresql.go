// Package postgresql reads the configuration of PostgreSQL clusters as the server does. It queries
// the running parameters, and reloads or restarts the server.
package postgresql

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/systemd"
)

// Product is PostgreSQL.
var Product = daemon.Product()

type (
	input     = product.Input[settings, *answer]
	installed = product.Instance[settings, *answer]
)

var daemon = &product.Daemon[settings, *answer]{
	Name: "postgresql", Doc: "PostgreSQL, each cluster of a machine",
	Packages:   []string{"postgresql-server", "postgresql-[0-9]*", "postgresql[0-9]*-server", "rh-postgresql*-postgresql-server"},
	Parameters: parameters,
	ByHand:     byHand,
	Inputs:     inputs,
	Conf:       conf.Product{Syntax: syntax{}, Roots: rootsOf, Instances: instances, Canonical: canonical, Check: check},
	Read:       readSettings,
	Place:      settings.place,
	Program:    "postgresql",
	Control: func() *product.Control {
		return &product.Control{
			Unit:    func(h *host.Host, main string) string { return clusterOf(h, main).Unit },
			Running: process, Reload: reload, Ready: ready, Start: start, Stop: stop, Complaint: complaint,
			Patience: startTime,
		}
	},
	Adapt: func(c *product.Control, p *conf.Product) {
		p.Activation = func(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
			return c.Activation(ctx, h, main, needsRestart(ctx, h, main, key))
		}
	},
	Ask: func(ctx context.Context, i *installed) (*answer, error) {
		return question(ctx, i.Host, i.Main, cmp.Or(i.Files.dir, path.Dir(i.Main)))
	},
	Runs: runs,
	Effect: func(ctx context.Context, h *host.Host, file, key, _ string) (plugin.Verdict, string, bool) {
		v, why := effect(ctx, h, file, key)
		return v, why, true
	},
}

var inputs = []input{
	{Name: "version", Type: fact.Text, Doc: "version of the running server, or else of the data", Answer: version},
	reported("connections_used", fact.Number, "", "clients that are connected", func(a *answer) any { return a.Connections }),
	{Name: "data_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of all databases", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		if i.Report.DataBytes == nil {
			return fact.Answer{Unknown: "the server took too long to calculate the size"}
		}
		return fact.Answer{Value: *i.Report.DataBytes, At: byServer}
	}},
	{Name: "pending_restart", Type: fact.List, Doc: "parameters whose value in the files waits for a restart", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		list := []string{}
		for _, name := range slices.Sorted(maps.Keys(i.Report.Settings)) {
			if i.Report.Settings[name].Pending {
				list = append(list, name)
			}
		}
		return fact.Answer{Value: list, At: "pg_settings"}
	}},
	reported("uptime_s", fact.Number, "s", "time since the server was started", func(a *answer) any { return a.UptimeS }),
	{Name: "memlock_bytes", Type: fact.Number, Unit: "bytes", Doc: "limit of locked memory in the files of its unit; absent if unlimited or not set", Answer: memlock},
	{Name: "file_errors", Type: fact.List, Doc: "lines of the configuration files that the server rejects", From: product.FromReport, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: i.Report.Errors, At: "pg_file_settings"}
	}},
}

// byServer is the source of values that the server reports.
const byServer = "asked of the server"

// reported returns an input that is answered from the server's report.
func reported(name string, as fact.Type, unit, doc string, value func(*answer) any) input {
	return input{Name: name, Type: as, Unit: unit, Doc: doc, From: product.FromReport, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: value(i.Report), At: byServer}
	}}
}

// runs returns a parameter's running value, from pg_settings.
func runs(i *installed, name string) fact.Fact[string] {
	if r, ok := i.Report.Settings[name]; ok {
		return fact.Known(r.Value, r.at())
	}
	return fact.Absent[string]("pg_settings")
}

// version answers with the running server's version, or else that of the data, such as 15 or 9.6.
func version(i *installed) fact.Answer {
	if i.ReportErr == nil {
		return fact.Answer{Value: i.Report.Version, At: byServer}
	}
	file := path.Join(cmp.Or(i.Files.dir, path.Dir(i.Main)), "PG_VERSION")
	b, err := i.Host.Files.ReadFile(file)
	if err == nil {
		return fact.Answer{Value: strings.TrimSpace(string(b)), At: file}
	}
	if c := clusterOf(i.Host, i.Main); c.debian != nil {
		return fact.Answer{Value: c.debian[0], At: i.Main}
	}
	return fact.Answer{Unknown: err.Error(), At: file}
}

// memlock answers with the locked-memory limit in the unit's files.
func memlock(i *installed) fact.Answer {
	service := clusterOf(i.Host, i.Main).Unit
	u, err := systemd.New(i.Host).Load(service)
	if err != nil { // absent: the server starts without systemd
		return fact.Answer{Unknown: host.Why(service, err)}
	}
	l, ok := u.Limit("MEMLOCK")
	switch {
	case !ok && u.Partial:
		return fact.Answer{Unknown: "the file of " + service + " is not in this copy"}
	case !ok || math.IsInf(l.Hard, 1):
		return fact.Answer{At: l.At}
	}
	return fact.Answer{Value: l.Hard, At: l.At}
}

func instances(h *host.Host) ([]conf.Instance, error) { return conf.Bases(clusters(h)) }
