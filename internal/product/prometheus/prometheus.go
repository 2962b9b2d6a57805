// Package prometheus knows the Prometheus of a machine: its flags and its
// configuration as the server reads them, what it runs with, and how it takes a new
// value.
package prometheus

import (
	"context"
	"errors"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is Prometheus.
var Product = product.Product{
	Name:       "prometheus",
	Doc:        "Prometheus, the monitoring server that a unit runs",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:      "prometheus",
			Syntax:    global{},
			SyntaxOf:  syntaxOf,
			FileOf:    fileOf,
			Roots:     func(*host.Host) []string { return []string{"/etc"} },
			Instances: settable,
			Winner:    winner,
			Canonical: canonical,
			Check: func(key, value string) error {
				if err := check(key, value); err != nil {
					return err
				}
				return keepsSamples(h, key, value)
			},
			Activation: func(ctx context.Context, h *host.Host, file, key string) (setting.Activation, bool) {
				in, err := of(h, file)
				if err != nil {
					return setting.Activation{}, false
				}
				return c.Activation(ctx, h, in.Main, isFlag(key))
			},
			Activate: c.Activate,
			Effect:   effect,
		})
	},
}

var inputs = []fact.Input{
	{Name: "prometheus.version", Type: fact.Text, Doc: "version of the running server"},
	{Name: "prometheus.ready", Type: fact.Truth, Doc: "what it answers to /-/ready"},
	{Name: "prometheus.reload_ok", Type: fact.Truth, Doc: "whether it has taken its configuration when it last read it"},
	{Name: "prometheus.corruptions", Type: fact.Number, Doc: "corruptions of its log since it was started"},
	{Name: "prometheus.failed_compactions", Type: fact.Number, Doc: "compactions that have failed since it was started"},
	{Name: "prometheus.missed_evaluations", Type: fact.Number, Doc: "evaluations of rule groups left out, as the one before took too long"},
	{Name: "prometheus.series", Type: fact.Number, Doc: "series in memory"},
	{Name: "prometheus.samples_per_second", Type: fact.Number, Unit: "1/s", Doc: "samples taken in, since it was started"},
	{Name: "prometheus.disk_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of its blocks and of its log"},
	{Name: "prometheus.free_bytes", Type: fact.Number, Unit: "bytes", Doc: "what is free on the disk of its samples"},
	{Name: "prometheus.need_bytes", Type: fact.Number, Unit: "bytes", Doc: "what its retention will take, by the samples that it takes in"},
	{Name: "prometheus.resident_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the process"},
	{Name: "prometheus.open_files", Type: fact.Number, Doc: "files that it has open"},
	{Name: "prometheus.open_files_limit", Type: fact.Number, Doc: "files that it may have open"},
	{Name: "prometheus.unit", Type: fact.Text, Doc: "service of systemd that runs it; empty where none does"},
	{Name: "prometheus.uptime_s", Type: fact.Number, Unit: "s", Doc: "time since it was started"},
	{Name: "prometheus.pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's"},
}

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{instance: in, now: float64(h.Clock.Now().UnixNano()) / 1e9}
		i.asked, i.askErr = question(ctx, h, in)
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	*instance
	now    float64 // in seconds since the epoch
	asked  *answer
	askErr error
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	names := maps.Clone(i.flags)
	for name, t := range i.file {
		names[name] = t
	}
	return slices.Sorted(maps.Keys(names))
}

// Option implements component.Installed.
func (i *installed) Option(name string) product.Option {
	o := product.Option{Intended: fact.Absent[string](i.Main), File: fact.Absent[string](i.Main), Running: fact.Absent[string](i.Main)}
	t, ok, unknown := i.option(name)
	switch {
	case ok:
		o.File = fact.Known(t.text, t.at)
	case unknown != "":
		o.File = fact.Unknown[string](i.Main, unknown)
	}
	const at = "/api/v1/status of prometheus"
	switch {
	case errors.Is(i.askErr, product.ErrStopped):
	case i.askErr != nil:
		o.Running = fact.Unknown[string](i.Main, i.askErr.Error())
	default:
		switch text, unknown := i.asked.value(name); {
		case unknown != "":
			o.Running = fact.Unknown[string](at, unknown)
		case text != "" && ok && same(name, text, t.text):
			o.Running = fact.Known(text, t.at) // that is where it comes from
		case text != "":
			o.Running = fact.Known(text, at)
		}
	}
	return o
}

// pending are the tuning parameters that it does not run with as the files say.
func (i *installed) pending() []string {
	out := []string{}
	for _, p := range parameters {
		t, ok, _ := i.option(p.Name)
		v, unknown := i.asked.value(p.Name)
		if ok && unknown == "" && v != "" && !slices.Contains(byHand, p.Name) && !same(p.Name, v, t.text) {
			out = append(out, p.Name)
		}
	}
	return out
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	const at = "/api/v1/status of prometheus"
	a := i.asked
	switch {
	case i.askErr != nil:
		return fact.Answer{Unknown: i.askErr.Error(), At: i.Main}
	case input == "unit":
		return product.RunBy(a.Process)
	case a.Silent != "":
		return fact.Answer{Unknown: a.Silent, At: i.Main}
	}
	switch input {
	case "version":
		if a.Version != "" {
			return fact.Answer{Value: a.Version, At: at}
		}
	case "ready":
		return fact.Answer{Value: a.Ready == "200 OK", At: "/-/ready of prometheus"}
	case "reload_ok":
		return fact.Answer{Value: a.Runtime.ReloadOK, At: at}
	case "corruptions":
		return fact.Answer{Value: a.Runtime.Corrupted, At: at}
	case "pending_changes":
		return fact.Answer{Value: i.pending(), At: at}
	case "free_bytes":
		if a.Free == nil {
			return fact.Answer{Unknown: "the directory of its samples cannot be looked at", At: i.Main}
		}
		return fact.Answer{Value: *a.Free, At: a.Flags["storage.tsdb.path"]}
	}
	return i.measured(input)
}

// measured are the inputs of its metrics.
func (i *installed) measured(input string) fact.Answer {
	const at = "/metrics of prometheus"
	v := i.asked.Values
	uptime := max(0, i.now-v["process_start_time_seconds"])
	names := map[string]string{
		"failed_compactions": "prometheus_tsdb_compactions_failed_total", "missed_evaluations": "prometheus_rule_group_iterations_missed_total", "series": "prometheus_tsdb_head_series",
		"resident_bytes": "process_resident_memory_bytes", "open_files": "process_open_fds", "open_files_limit": "process_max_fds",
	}
	if n, ok := v[names[input]]; ok {
		return fact.Answer{Value: n, At: at}
	}
	_, started := v["process_start_time_seconds"]
	samples, taken := v["prometheus_tsdb_head_samples_appended_total"]
	switch {
	case !started:
	case input == "missed_evaluations":
		return fact.Answer{Value: 0.0, At: at} // it has no rules
	case input == "uptime_s":
		return fact.Answer{Value: uptime, At: at}
	case input == "disk_bytes":
		return fact.Answer{Value: v["prometheus_tsdb_storage_blocks_bytes"] + v["prometheus_tsdb_wal_storage_size_bytes"], At: at}
	case uptime < 600: // the first scrapes are not what it will take in
		return fact.Answer{Unknown: "it was started less than ten minutes ago", At: at}
	case !taken:
	case input == "samples_per_second":
		return fact.Answer{Value: samples / uptime, At: at}
	case input == "need_bytes":
		text, _ := i.asked.value("storage.tsdb.retention.time")
		keep, err := readTime(text)
		if err != nil || keep == 0.0 {
			return fact.Answer{At: at} // only a size counts
		}
		return fact.Answer{Value: keep.(float64) * samples / uptime * perSample(v), At: at}
	}
	return fact.Answer{Unknown: "prometheus does not say it", At: at}
}

// perSample is the bytes of a sample on the disk: as measured when blocks were
// compacted, else the upper end of what its documents say.
func perSample(v map[string]float64) float64 {
	size, n := v["prometheus_tsdb_compaction_chunk_size_bytes_sum"], v["prometheus_tsdb_compaction_chunk_samples_sum"]
	if n > 0 && size > 0 {
		return size / n
	}
	return 2
}
