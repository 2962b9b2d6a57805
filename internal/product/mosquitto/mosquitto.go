// Package mosquitto knows the MQTT broker of remote execution: its configuration as
// the broker reads it, what it says of itself, and how it takes a new value.
package mosquitto

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is mosquitto.
var Product = product.Product{
	Name:       "mosquitto",
	Doc:        "mosquitto, the MQTT broker of remote execution",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:      "mosquitto",
			Syntax:    syntax{},
			Roots:     rootsOf,
			Instances: instances,
			Winner:    winner,
			Canonical: canonical,
			Check: func(key, value string) error {
				if err := check(key, value); err != nil {
					return err
				}
				return keeps(h, key)
			},
			Activation: func(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
				_, option := split(key)
				return c.Activation(ctx, h, main, slices.Contains(atStart, option))
			},
			Activate: c.Activate,
			Effect:   c.effect,
		})
	},
}

var inputs = []fact.Input{
	{Name: "mosquitto.version", Type: fact.Text, Doc: "version of the running broker, or of the package"},
	{Name: "mosquitto.open_files_limit", Type: fact.Number, Doc: "files that the running broker may open: a client is one"},
	{Name: "mosquitto.files_open", Type: fact.Number, Doc: "files and connections that it has open"},
	{Name: "mosquitto.connections_limit", Type: fact.Number, Doc: "max_connections of all listeners together; absent where one of them has no limit"},
	{Name: "mosquitto.clients", Type: fact.Number, Doc: "clients that are connected"},
	{Name: "mosquitto.messages_dropped", Type: fact.Number, Doc: "messages that were dropped for a full queue since the start"},
	{Name: "mosquitto.started_since_change", Type: fact.Truth, Doc: "whether the running broker was started after its files were changed"},
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{Instance: in, host: h}
		i.files, i.fileErr = readSettings(h, in.Main)
		if i.run, i.runErr = processes(ctx, h, in.Main); i.runErr == nil {
			i.run.Changed = product.Changed(ctx, h, in.Main, i.files.files)
			i.open, i.openErr = product.FilesOpen(ctx, h, "mosquitto "+in.Main, i.run.Main)
			var a *answer
			if a, i.saidErr = question(ctx, h, in.Main, i.files); a != nil {
				i.said = *a
			}
		} else {
			i.openErr, i.saidErr = i.runErr, i.runErr
		}
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	conf.Instance
	host    *host.Host
	files   settings
	fileErr error
	run     product.Group
	runErr  error
	open    int
	openErr error
	said    answer
	saidErr error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	names := map[string]bool{}
	for _, p := range i.files.all {
		if parameters.Named(p.Key) != nil {
			names[p.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Option implements component.Installed. What mosquitto runs with it says of three
// options; the others are what its files say, where it was started after they were
// changed.
func (i *installed) Option(name string) product.Option {
	file := fact.Absent[string](i.Main)
	key, err := syntax{}.Key(name)
	if err == nil {
		err = i.fileErr
	}
	if p, ok := i.files.get(key); ok {
		file = fact.Known(p.Literal, p.String())
	}
	o := product.AsRead(i.Main, file, err, i.run.TakenAtStart(), i.runErr)
	if v := i.said.Limits[name]; v != "" {
		source := "CONNACK of MQTT 5"
		if text, ok := file.Get(); ok && canonical(text) == v {
			source = file.Source() // the file is where it comes from
		}
		o.Running = fact.Known(v, source)
	}
	return o
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	unknown := func(err error, at string) fact.Answer { return fact.Answer{Unknown: err.Error(), At: at} }
	switch input {
	case "version":
		if _, v, ok := strings.Cut(i.said.Sys["$SYS/broker/version"], "version "); ok {
			return fact.Answer{Value: v, At: "$SYS/broker/version"}
		}
		if v, at := product.Version(i.host, "mosquitto"); v != "" {
			return fact.Answer{Value: v, At: at}
		}
		return fact.Answer{Unknown: "no list of packages names it", At: i.Main}
	case "started_since_change":
		if a := product.ReadSinceChange(i.Main, i.fileErr, i.run.TakenAtStart(), i.runErr); a.Unknown == "" || i.runErr != nil || i.fileErr != nil {
			return a
		}
		return fact.Answer{Value: false, At: "/proc"}
	case "open_files_limit":
		switch {
		case i.runErr != nil:
			return unknown(i.runErr, "/proc")
		case i.run.Main.OpenFiles > 0:
			return fact.Answer{Value: float64(i.run.Main.OpenFiles), At: "/proc/PID/limits of mosquitto"}
		}
		return fact.Answer{Unknown: "its process cannot be looked at", At: "/proc"}
	case "files_open":
		if i.openErr != nil {
			return unknown(i.openErr, "/proc")
		}
		return fact.Answer{Value: float64(i.open), At: "/proc/PID/fd of mosquitto"}
	case "connections_limit":
		if i.fileErr != nil {
			return unknown(i.fileErr, i.Main)
		}
		if n, at := i.files.connections(); n >= 0 {
			return fact.Answer{Value: n, At: at}
		}
		return fact.Answer{At: i.Main}
	case "clients":
		return i.topic("$SYS/broker/clients/connected")
	case "messages_dropped":
		return i.topic("$SYS/broker/publish/messages/dropped")
	}
	return fact.Answer{Unknown: "mosquitto does not say it", At: i.Main}
}

// topic is a number that the broker says.
func (i *installed) topic(topic string) fact.Answer {
	if i.saidErr != nil {
		return fact.Answer{Unknown: i.saidErr.Error(), At: i.Main}
	}
	n, err := strconv.ParseFloat(i.said.Sys[topic], 64)
	if err != nil {
		return fact.Answer{Unknown: "it does not say " + topic, At: i.Main}
	}
	return fact.Answer{Value: n, At: topic}
}
