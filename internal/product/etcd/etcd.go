// Package etcd reads the etcd members of a machine: their options in files, in the running program
// and in its reports. A member is a systemd unit or a static pod. The package also activates new
// option values.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// Product is etcd.
var Product = daemon.Product()

type (
	input     = product.Input[*instance, *answer]
	installed = product.Instance[*instance, *answer]
)

var daemon = &product.Daemon[*instance, *answer]{
	Name: "etcd", Doc: "the etcd member of a machine, run by a unit or by a cluster's static pod",
	Parameters: parameters,
	Inputs:     inputs,
	Conf: conf.Product{
		Syntax: variables{}, SyntaxOf: syntaxOf, Roots: func(*host.Host) []string { return []string{"/etc"} }, Instances: settable,
		Winner: winner, Canonical: canonical, Check: check,
		CheckHere: func(h *host.Host, key, value string) error { return errors.Join(ours(h), holds(h, key, value)) },
	},
	Instances: func(h *host.Host) ([]conf.Instance, error) { return conf.Bases(instances(h)) },
	Read:      memberOf,
	Program:   "etcd",
	Control: func() *product.Control {
		c := product.ByUnit("etcd", func(h *host.Host, main string) (*systemd.Unit, error) {
			in, err := of(h, main)
			if err != nil {
				return nil, err
			}
			return in.unit, nil
		})
		c.Check, c.Ready, c.Start = agrees, ready, start
		c.Patience = 90 * time.Second // etcd reads its log, and waits for the other members
		return c
	},
	Restart: func(string) bool { return true }, // etcd reads all of its options at start
	Ask:     func(ctx context.Context, i *installed) (*answer, error) { return question(ctx, i.Host, i.Files) },
	Runs: func(i *installed, name string) fact.Fact[string] {
		text, unknown := runs(i, name)
		at := fmt.Sprintf("process %d of etcd", i.Report.Process.PID)
		switch {
		case unknown != "":
			return fact.Unknown[string](at, unknown)
		case text == "":
			return fact.Absent[string](i.Main)
		}
		return fact.Known(text, at)
	},
	Default: func(i *installed, name string) (value, source string) { return defaultOf(versionOf(i), name) },
}

var inputs = slices.Concat(percentileInputs(), releaseInputs, []input{
	{Name: "version", Type: fact.Text, Doc: "version of the running member, or of its pod's image or its package", Answer: versionOf},
	{Name: "pod", Type: fact.Truth, Doc: "whether the member is a static pod of a cluster's node", Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: i.Files.pod(), At: i.Main}
	}},
	{Name: "compacts", Type: fact.Truth, Doc: "whether the member compacts its history automatically", Answer: compacts},
	{Name: "members", Type: fact.Number, Doc: "members with which the cluster began", Answer: memberCount},
	reported("healthy", fact.Truth, "whether /health reports that the member is healthy", func(i *installed) fact.Answer {
		return fact.Answer{Value: i.Report.Healthy == "true", At: "/health of etcd"}
	}),
	metric("has_leader", fact.Truth, "", "whether the member has a leader", func(v, _ float64) any { return v == 1 }, "etcd_server_has_leader"),
	metric("leader_changes", fact.Number, "", "leader changes since the start of the member, without the first", func(v, _ float64) any { return max(0, v-1) }, "etcd_server_leader_changes_seen_total"),
	metric("uptime_s", fact.Number, "s", "time since the start of the member", func(v, now float64) any { return max(0, now-v) }, "process_start_time_seconds"),
	metric("db_bytes", fact.Number, "bytes", "size of the database", nil, "etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_db_total_size_in_bytes"),
	metric("db_in_use_bytes", fact.Number, "bytes", "used part of the database", nil, "etcd_mvcc_db_total_size_in_use_in_bytes"),
	{Name: "quota_bytes", Type: fact.Number, Unit: "bytes", Doc: "size at which the member refuses writes: the running value, or the option if the member does not report one; -1 means no quota", Answer: func(i *installed) fact.Answer {
		if i.ReportErr != nil || i.Report.Silent != "" {
			return quota(i)
		}
		return measured(i, nil, "etcd_server_quota_backend_bytes")
	}},
	metric("failed_proposals", fact.Number, "", "proposals that failed since the start of the member", nil, "etcd_server_proposals_failed_total"),
	metric("open_files", fact.Number, "", "open files of the member", nil, "process_open_fds"),
	metric("open_files_limit", fact.Number, "", "limit of open files of the member", nil, "process_max_fds"),
	{Name: "unit", Type: fact.Text, Doc: "systemd service of the member; empty without one", From: product.FromReport, Answer: func(i *installed) fact.Answer { return product.RunBy(i.Report.Process) }},
	metric("resident_bytes", fact.Number, "bytes", "memory of the process", nil, "process_resident_memory_bytes"),
	{Name: "pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running member's", From: product.FromReport, Answer: pending},
})

// reported returns an input that is answered from a member's metrics.
func reported(name string, as fact.Type, doc string, answer func(*installed) fact.Answer) input {
	return input{Name: name, Type: as, Doc: doc, From: product.FromReport, Answer: func(i *installed) fact.Answer {
		if i.Report.Silent != "" {
			return fact.Answer{Unknown: i.Report.Silent, At: i.Main}
		}
		return answer(i)
	}}
}

// metric returns an input that the first existing metric answers. convert gets the metric's value
// and the time of the query.
func metric(name string, as fact.Type, unit, doc string, convert func(v, now float64) any, names ...string) input {
	in := reported(name, as, doc, func(i *installed) fact.Answer { return measured(i, convert, names...) })
	in.Unit = unit
	return in
}

func measured(i *installed, convert func(v, now float64) any, names ...string) fact.Answer {
	const at = "/metrics of etcd"
	for _, name := range names {
		if v, ok := i.Report.Values[name]; ok {
			if convert == nil {
				return fact.Answer{Value: v, At: at}
			}
			return fact.Answer{Value: convert(v, i.Report.now), At: at}
		}
	}
	return fact.Answer{Unknown: names[0] + " is missing from the member's metrics", At: at}
}

// runs returns an option's value in a running member, including defaults.
func runs(i *installed, name string) (text, unknown string) {
	text, unknown = i.Report.value(i.Files, name)
	if text == "" && unknown == "" && parameters.Named(name) != nil {
		text, _ = i.Default(name)
	}
	return text, unknown
}

// pending answers with the options whose running value differs from the files.
func pending(i *installed) fact.Answer {
	in := i.Files
	switch {
	case in.pod():
		return fact.Answer{Unknown: "etcd runs in a container", At: i.Main}
	case in.config != nil && !i.Report.Taken:
		return fact.Answer{Unknown: "the configuration file of etcd was changed after its start, and etcd does not report its values", At: i.Main}
	}
	out := []string{}
	for _, p := range parameters {
		t, ok, _ := in.option(p.Name)
		if !ok || strings.Contains(t.text, "%") { // %H is the host name
			continue
		}
		if v, unknown := runs(i, p.Name); unknown == "" && canonical(v) != canonical(t.text) {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return fact.Answer{Value: out, At: i.Main}
}

// quota answers with the database size in bytes at which the member rejects writes, for members
// that do not report it. The option's value 0 means etcd's own 2 GiB; a negative value means no
// quota.
func quota(i *installed) fact.Answer {
	text, at, unknown := effective(i, "quota-backend-bytes")
	if unknown != "" {
		return fact.Answer{Unknown: unknown, At: at}
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

// effective returns an option's running value, or else the value in the files, or else its default.
func effective(i *installed, name string) (text, at, unknown string) {
	o := i.Option(name).Effective()
	if v, ok := o.Get(); ok {
		return v, o.Source(), ""
	}
	def, at := i.Default(name)
	return def, cmp.Or(at, i.Main), o.Unknown()
}

func memberCount(i *installed) fact.Answer {
	text, at, unknown := effective(i, "initial-cluster")
	switch {
	case unknown != "":
		return fact.Answer{Unknown: unknown, At: at}
	case text == "":
		return fact.Answer{Value: 1.0, At: at} // only the member itself
	}
	return fact.Answer{Value: float64(strings.Count(text, ",") + 1), At: at}
}

func compacts(i *installed) fact.Answer {
	mode, _, unknownMode := effective(i, "auto-compaction-mode")
	keep, at, unknown := effective(i, "auto-compaction-retention")
	if unknown != "" || unknownMode != "" {
		return fact.Answer{Unknown: unknown + unknownMode, At: at}
	}
	return fact.Answer{Value: compactionHours(mode, keep) != 0, At: at}
}
