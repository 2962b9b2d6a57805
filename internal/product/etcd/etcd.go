// Package etcd knows the members of etcd on a machine, as a unit with its
// variables, flags or configuration file sets one up, or a static pod of a cluster:
// what they were told, what they run with and say of themselves, and how one takes a
// new value.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is etcd.
var Product = product.Product{
	Name:       "etcd",
	Doc:        "etcd, the member of a machine: of a unit, or of a cluster's static pod",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:      "etcd",
			Syntax:    variables{},
			SyntaxOf:  syntaxOf,
			Roots:     func(*host.Host) []string { return []string{"/etc"} },
			Instances: settable,
			Winner:    winner,
			Canonical: canonical,
			Check: func(key, value string) error {
				if err := check(key, value); err != nil {
					return err
				}
				return errors.Join(ours(h), holds(h, key, value))
			},
			Activation: c.Restarts,
			Activate:   c.Activate,
			Effect:     effect,
		})
	},
}

var inputs = slices.Concat(percentileInputs(), releaseInputs, []fact.Input{
	{Name: "etcd.version", Type: fact.Text, Doc: "version of the running member, or by the image of its pod or its package"},
	{Name: "etcd.pod", Type: fact.Truth, Doc: "whether it is the static pod of a cluster's node"},
	{Name: "etcd.compacts", Type: fact.Truth, Doc: "whether it compacts its history by itself"},
	{Name: "etcd.members", Type: fact.Number, Doc: "members with which the cluster began"},
	{Name: "etcd.healthy", Type: fact.Truth, Doc: "what it answers to /health"},
	{Name: "etcd.has_leader", Type: fact.Truth, Doc: "whether it knows the leader"},
	{Name: "etcd.leader_changes", Type: fact.Number, Doc: "changes of the leader that it has seen since it was started, without its first"},
	{Name: "etcd.uptime_s", Type: fact.Number, Unit: "s", Doc: "time since it was started"},
	{Name: "etcd.db_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of the database"},
	{Name: "etcd.db_in_use_bytes", Type: fact.Number, Unit: "bytes", Doc: "part of it that is in use"},
	{Name: "etcd.quota_bytes", Type: fact.Number, Unit: "bytes", Doc: "size at which it takes no more writes, as it runs with or, where it does not report that, by its option; -1 means no quota"},
	{Name: "etcd.failed_proposals", Type: fact.Number, Doc: "changes that were not agreed on since it was started"},
	{Name: "etcd.open_files", Type: fact.Number, Doc: "files that it has open"},
	{Name: "etcd.open_files_limit", Type: fact.Number, Doc: "files that it may have open"},
	{Name: "etcd.unit", Type: fact.Text, Doc: "service of systemd that runs it; empty where none does"},
	{Name: "etcd.resident_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the process"},
	{Name: "etcd.pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running member's"},
})

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var out []product.Installed
	for _, in := range all {
		i := &installed{instance: in, now: float64(h.Clock.Now().UnixNano()) / 1e9}
		i.asked, i.askErr = question(ctx, h, in)
		i.version = in.versionOf(h, i.asked)
		out = append(out, i)
	}
	return out, nil
}

type installed struct {
	*instance
	now    float64 // in seconds since the epoch
	asked  *answer
	askErr error
	// version is what it is taken for: its own, or the one of --for.
	version fact.Answer
	cluster map[string]fact.Answer // of a member that a cluster shows
}

func (i *installed) Name() string { return i.Instance.Name }

// Options implements component.Installed.
func (i *installed) Options() []string {
	if i.config != nil {
		return slices.Sorted(maps.Keys(i.config.values))
	}
	names := maps.Clone(i.env)
	maps.Copy(names, i.flags)
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
	switch {
	case errors.Is(i.askErr, product.ErrStopped):
	case i.askErr != nil:
		o.Running = fact.Unknown[string](i.Main, i.askErr.Error())
	default:
		text, unknown := i.runs(name)
		at := fmt.Sprintf("process %d of etcd", i.asked.Process.PID)
		switch {
		case unknown != "":
			o.Running = fact.Unknown[string](at, unknown)
		case text != "":
			if text == t.text {
				at = t.at // that is where it comes from
			}
			o.Running = fact.Known(text, at)
		}
	}
	return o
}

// runs is what an option is in the running member, its default included.
func (i *installed) runs(name string) (text, unknown string) {
	text, unknown = i.asked.value(i.instance, name)
	if text == "" && unknown == "" && parameters.Named(name) != nil {
		text, _ = i.Default(name)
	}
	return text, unknown
}

// pending are the options that it does not run with as the files say.
func (i *installed) pending() []string {
	out := []string{}
	for _, name := range i.Options() {
		t, ok, _ := i.option(name)
		if p := parameters.Named(name); p == nil || !ok || strings.Contains(t.text, "%") {
			continue // %H is the machine's name
		}
		if v, unknown := i.runs(name); unknown == "" && canonical(v) != canonical(t.text) {
			out = append(out, name)
		}
	}
	return out
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) fact.Answer {
	switch input {
	case "pod":
		return fact.Answer{Value: i.pod(), At: i.Main}
	case "compacts", "members":
		return i.setUp(input)
	case "version":
		return i.version
	}
	if a, ok := i.byRelease(input); ok {
		return a
	}
	at := "/metrics of etcd"
	switch {
	case input == "quota_bytes" && (i.askErr != nil || i.asked.Silent != ""):
		return i.quota()
	case i.askErr != nil:
		return fact.Answer{Unknown: i.askErr.Error(), At: i.Main}
	case input == "unit":
		return product.RunBy(i.asked.Process)
	case input == "pending_changes" && i.pod():
		return fact.Answer{Unknown: "it runs in a container", At: i.Main}
	case input == "pending_changes" && i.config != nil && !i.asked.Taken:
		return fact.Answer{Unknown: "its configuration file was changed since it was started, and it does not say what it runs with", At: i.Main}
	case input == "pending_changes":
		return fact.Answer{Value: i.pending(), At: i.Main}
	case i.asked.Silent != "":
		return fact.Answer{Unknown: i.asked.Silent, At: i.Main}
	case input == "healthy":
		return fact.Answer{Value: i.asked.Healthy == "true", At: "/health of etcd"}
	}
	if a, ok := i.percentileAnswer(input, at); ok {
		return a
	}
	names, known := measured[input]
	for _, name := range names {
		if v, ok := i.asked.Values[name]; ok {
			return fact.Answer{Value: i.converted(input, v), At: at}
		}
	}
	if known {
		return fact.Answer{Unknown: names[0] + " is not among its metrics", At: at}
	}
	return fact.Answer{Unknown: "etcd does not say it", At: at}
}

// measured are the metrics of inputs; the second is the name before 3.4.
var measured = map[string][]string{
	"has_leader": {"etcd_server_has_leader"}, "leader_changes": {"etcd_server_leader_changes_seen_total"}, "uptime_s": {"process_start_time_seconds"},
	"db_bytes":        {"etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_db_total_size_in_bytes"},
	"db_in_use_bytes": {"etcd_mvcc_db_total_size_in_use_in_bytes"}, "quota_bytes": {"etcd_server_quota_backend_bytes"},
	"failed_proposals": {"etcd_server_proposals_failed_total"}, "open_files": {"process_open_fds"}, "open_files_limit": {"process_max_fds"},
	"resident_bytes": {"process_resident_memory_bytes"},
}

func (i *installed) converted(input string, v float64) any {
	switch input {
	case "has_leader":
		return v == 1
	case "leader_changes":
		return max(0, v-1) // the first is that it has found one
	case "uptime_s":
		return max(0, i.now-v)
	}
	return v
}

// quota is the size at which a member that does not report it takes no more writes, by its
// option: 0 is etcd's own 2 GiB, and below 0 it has no quota.
func (i *installed) quota() fact.Answer {
	o := i.Option("quota-backend-bytes").Effective()
	text, ok := o.Get()
	at := o.Source()
	switch {
	case o.Unknown() != "":
		return fact.Answer{Unknown: o.Unknown(), At: at}
	case !ok:
		text, at = i.Default("quota-backend-bytes")
	}
	n, err := readQuota(text)
	if err != nil {
		return fact.Answer{Unknown: "quota-backend-bytes: " + err.Error(), At: at}
	}
	if n == 0.0 {
		n = defaultQuota
	}
	return fact.Answer{Value: n, At: at}
}

// setUp is what the files say of compaction and members.
func (i *installed) setUp(input string) fact.Answer {
	text := func(name string) (string, string, string) {
		o := i.Option(name).Effective()
		if v, ok := o.Get(); ok {
			return v, o.Source(), ""
		}
		def, at := i.Default(name)
		return def, cmp.Or(at, i.Main), o.Unknown()
	}
	if input == "members" {
		v, at, unknown := text("initial-cluster")
		switch {
		case unknown != "":
			return fact.Answer{Unknown: unknown, At: at}
		case v == "":
			return fact.Answer{Value: 1.0, At: at} // itself
		}
		return fact.Answer{Value: float64(strings.Count(v, ",") + 1), At: at}
	}
	mode, _, unknownMode := text("auto-compaction-mode")
	keep, at, unknown := text("auto-compaction-retention")
	if unknown != "" || unknownMode != "" {
		return fact.Answer{Unknown: unknown + unknownMode, At: at}
	}
	return fact.Answer{Value: compactionHours(mode, keep) != 0, At: at}
}
