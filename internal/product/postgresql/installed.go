package postgresql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/systemd"
)

var inputs = []fact.Input{
	{Name: "postgresql.version", Type: fact.Text, Doc: "version: that of the running server, else of the data"},
	{Name: "postgresql.connections_used", Type: fact.Number, Doc: "clients that are connected"},
	{Name: "postgresql.data_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of all databases"},
	{Name: "postgresql.pending_restart", Type: fact.List, Doc: "parameters whose value in the files waits for a restart"},
	{Name: "postgresql.uptime_s", Type: fact.Number, Unit: "s", Doc: "time since the server was started"},
	{Name: "postgresql.memlock_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory that the files of its unit let it lock; absent where they set no limit, or none"},
	{Name: "postgresql.file_errors", Type: fact.List, Doc: "what the server does not take of its files"},
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := clusters(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, c := range all {
		i := &installed{cluster: c, host: h}
		i.files, i.fileErr = readSettings(h, c.Main)
		if i.files.dir == "" {
			i.files.dir = path.Dir(c.Main)
		}
		i.asked, i.askErr = question(ctx, h, c.Main, i.files.dir)
		i.version = version(h, c, i.files.dir)
		out = append(out, i)
	}
	return out, nil
}

// version is that of the data: 15, or 9.6.
func version(h *host.Host, c cluster, dir string) fact.Fact[string] {
	file := path.Join(dir, "PG_VERSION")
	b, err := h.Files.ReadFile(file)
	switch {
	case err == nil:
		return fact.Known(strings.TrimSpace(string(b)), file)
	case c.debian != nil:
		return fact.Known(c.debian[0], c.Main)
	}
	return fact.Unknown[string](file, err.Error())
}

// installed is one cluster as it is found.
type installed struct {
	cluster
	host    *host.Host
	files   settings
	fileErr error
	asked   *answer
	askErr  error
	version fact.Fact[string]
}

func (i *installed) Name() string { return i.cluster.Name }

// Option implements component.Installed.
func (i *installed) Option(name string) product.Option {
	o := product.Option{File: fact.Absent[string](i.Main), Running: fact.Absent[string]("pg_settings")}
	if i.fileErr != nil {
		o.File = fact.Unknown[string](i.Main, i.fileErr.Error())
	} else if p, ok := i.files.winner(name); ok {
		o.File = fact.Known(syntax{}.Unquote(p.Literal), p.String())
	}
	if i.askErr != nil {
		o.Running = fact.Unknown[string]("pg_settings", i.whyNotAsked())
	} else if r, ok := i.asked.Settings[name]; ok {
		o.Running = fact.Known(r.Value, r.at())
	}
	return o
}

func (i *installed) whyNotAsked() string {
	if errors.Is(i.askErr, errStopped) {
		return errStopped.Error()
	}
	return i.askErr.Error()
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	const at = "asked of the server"
	if input == "version" {
		if i.asked != nil {
			return fact.Answer{Value: i.asked.Version, At: at}
		}
		v, ok := i.version.Get()
		if !ok {
			return fact.Answer{Unknown: i.version.Unknown(), At: i.version.Source()}
		}
		return fact.Answer{Value: v, At: i.version.Source()}
	}
	if input == "memlock_bytes" {
		return i.memlock()
	}
	if i.askErr != nil {
		return fact.Answer{Unknown: i.whyNotAsked()}
	}
	switch input {
	case "connections_used":
		return fact.Answer{Value: i.asked.Connections, At: at}
	case "data_bytes":
		if i.asked.DataBytes == nil {
			return fact.Answer{Unknown: "counting it took too long"}
		}
		return fact.Answer{Value: *i.asked.DataBytes, At: at}
	case "uptime_s":
		return fact.Answer{Value: i.asked.UptimeS, At: at}
	case "pending_restart":
		list := []string{}
		for _, name := range slices.Sorted(maps.Keys(i.asked.Settings)) {
			if i.asked.Settings[name].Pending {
				list = append(list, name)
			}
		}
		return fact.Answer{Value: list, At: "pg_settings"}
	case "file_errors":
		return fact.Answer{Value: i.asked.Errors, At: "pg_file_settings"}
	}
	return fact.Answer{Unknown: fmt.Sprintf("postgresql has no input %q", input)}
}

// memlock is the limit of locked memory that the unit's files ask for.
func (i *installed) memlock() fact.Answer {
	u, err := systemd.New(i.host).Load(i.Unit)
	if err != nil { // absent: it is started without systemd
		return fact.Answer{Unknown: host.Why(i.Unit, err)}
	}
	l, ok := u.Limit("MEMLOCK")
	switch {
	case !ok && u.Partial:
		return fact.Answer{Unknown: "the file of " + i.Unit + " is not in this copy"}
	case !ok || math.IsInf(l.Hard, 1):
		return fact.Answer{At: l.At}
	}
	return fact.Answer{Value: l.Hard, At: l.At}
}
