// Package prometheus reads the flags and the configuration of a machine's Prometheus server as the
// server does. It queries the running options, and reloads or restarts the server.
package prometheus

import (
	"context"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// Product is Prometheus.
var Product = daemon.Product()

type (
	input     = product.Input[*instance, *answer]
	installed = product.Instance[*instance, *answer]
)

var daemon = &product.Daemon[*instance, *answer]{
	Name: "prometheus", Doc: "Prometheus, the monitoring server that a unit runs",
	Parameters: parameters,
	ByHand:     byHand,
	Inputs:     inputs,
	Conf: conf.Product{
		Syntax: global{}, SyntaxOf: syntaxOf, FileOf: fileOf, Roots: func(*host.Host) []string { return []string{"/etc"} },
		Instances: func(h *host.Host) ([]conf.Instance, error) { return conf.Bases(instances(h)) },
		Winner:    winner, Canonical: canonical, Check: check, CheckHere: keepsSamples,
	},
	Read: of,
	MainOf: func(h *host.Host, file string) string {
		if in, err := of(h, file); err == nil {
			return in.Main
		}
		return file
	},
	Program: "prometheus",
	Control: func() *product.Control {
		c := product.ByUnit("prometheus", func(h *host.Host, main string) (*systemd.Unit, error) {
			in, err := of(h, main)
			if err != nil {
				return nil, err
			}
			return in.unit, nil
		})
		c.Check, c.Reload, c.Ready = configTest, product.ReloadBy("HUP"), ready
		c.Patience = 5 * time.Minute // Prometheus reads its log at start
		return c
	},
	Restart: isFlag,
	Ask:     func(ctx context.Context, i *installed) (*answer, error) { return question(ctx, i.Host, i.Files) },
	Runs:    runs,
	Same:    parameters.Same,
}

// Sources of answers.
const (
	statusPage  = "/api/v1/status of prometheus"
	metricsPage = "/metrics of prometheus"
)

var inputs = []input{
	status("version", fact.Text, "version of the running server", func(a *answer) any {
		if a.Version == "" {
			return nil
		}
		return a.Version
	}),
	status("ready", fact.Truth, "whether /-/ready reports that the server is ready", func(a *answer) any { return a.Ready == "200 OK" }),
	status("reload_ok", fact.Truth, "whether the last reload of the configuration succeeded", func(a *answer) any { return a.Runtime.ReloadOK }),
	status("corruptions", fact.Number, "corruptions of the write-ahead log since the start", func(a *answer) any { return a.Runtime.Corrupted }),
	metric("failed_compactions", "", "failed compactions since the start", "prometheus_tsdb_compactions_failed_total"),
	measured("missed_evaluations", "", "missed evaluations of rule groups because the previous one took too long", func(i *installed, _ float64) fact.Answer {
		return fact.Answer{Value: i.Report.Values["prometheus_rule_group_iterations_missed_total"], At: metricsPage} // 0 without the metric: the server has no rules
	}),
	metric("series", "", "series in memory", "prometheus_tsdb_head_series"),
	measured("samples_per_second", "1/s", "ingested samples per second since the start", func(i *installed, uptime float64) fact.Answer {
		return rate(i, uptime, func(samples float64) any { return samples })
	}),
	measured("disk_bytes", "bytes", "size of the blocks and of the write-ahead log", func(i *installed, _ float64) fact.Answer {
		v := i.Report.Values
		return fact.Answer{Value: v["prometheus_tsdb_storage_blocks_bytes"] + v["prometheus_tsdb_wal_storage_size_bytes"], At: metricsPage}
	}),
	{Name: "free_bytes", Type: fact.Number, Unit: "bytes", Doc: "free space of the file system with the samples", From: product.FromReport, Answer: ifItAnswers(func(i *installed) fact.Answer {
		if i.Report.Free == nil {
			return fact.Answer{Unknown: "cannot read the directory of the samples", At: i.Main}
		}
		return fact.Answer{Value: *i.Report.Free, At: i.Report.Flags["storage.tsdb.path"]}
	})},
	measured("need_bytes", "bytes", "disk space that the retention needs at the present rate of samples", func(i *installed, uptime float64) fact.Answer {
		return rate(i, uptime, func(samples float64) any {
			text, _ := i.Report.value(retentionTime)
			keep, err := readTime(text)
			if err != nil || keep == 0.0 {
				return nil // only the size limit applies
			}
			return keep.(float64) * samples * perSample(i.Report.Values)
		})
	}),
	metric("resident_bytes", "bytes", "memory of the process", "process_resident_memory_bytes"),
	metric("open_files", "", "open files of the server", "process_open_fds"),
	metric("open_files_limit", "", "limit of open files of the server", "process_max_fds"),
	{Name: "unit", Type: fact.Text, Doc: "systemd service of Prometheus; empty without one", From: product.FromReport, Answer: func(i *installed) fact.Answer { return product.RunBy(i.Report.Process) }},
	measured("uptime_s", "s", "time since the start of the server", func(_ *installed, uptime float64) fact.Answer {
		return fact.Answer{Value: uptime, At: metricsPage}
	}),
	{Name: "pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's", From: product.FromReport, Answer: ifItAnswers((*installed).Pending)},
}

// ifItAnswers makes an answer unknown if the server did not respond.
func ifItAnswers(answer func(*installed) fact.Answer) func(*installed) fact.Answer {
	return func(i *installed) fact.Answer {
		if i.Report.Silent != "" {
			return fact.Answer{Unknown: i.Report.Silent, At: i.Main}
		}
		return answer(i)
	}
}

// status returns an input that is answered from the API's status; a nil value means unknown.
func status(name string, as fact.Type, doc string, value func(*answer) any) input {
	return input{Name: name, Type: as, Doc: doc, From: product.FromReport, Answer: ifItAnswers(func(i *installed) fact.Answer {
		if v := value(i.Report); v != nil {
			return fact.Answer{Value: v, At: statusPage}
		}
		return fact.Answer{Unknown: "Prometheus does not report its " + name, At: statusPage}
	})}
}

// metric returns an input that is answered from a metric.
func metric(name, unit, doc, metric string) input {
	return measured(name, unit, doc, func(i *installed, _ float64) fact.Answer {
		if v, ok := i.Report.Values[metric]; ok {
			return fact.Answer{Value: v, At: metricsPage}
		}
		return lacks(metric)
	})
}

// measured returns an input that is calculated from metrics and the server's uptime in seconds.
func measured(name, unit, doc string, answer func(i *installed, uptime float64) fact.Answer) input {
	return input{Name: name, Type: fact.Number, Unit: unit, Doc: doc, From: product.FromReport, Answer: ifItAnswers(func(i *installed) fact.Answer {
		const start = "process_start_time_seconds"
		started, ok := i.Report.Values[start]
		if !ok {
			return lacks(start)
		}
		return answer(i, max(0, i.Report.now-started))
	})}
}

// rate answers with a value calculated from the ingested samples per second. The answer is unknown
// soon after a start, because the first scrapes are not typical.
func rate(i *installed, uptime float64, of func(samples float64) any) fact.Answer {
	const taken = "prometheus_tsdb_head_samples_appended_total"
	samples, ok := i.Report.Values[taken]
	switch {
	case uptime < 600:
		return fact.Answer{Unknown: "Prometheus was started less than ten minutes ago", At: metricsPage}
	case !ok:
		return lacks(taken)
	}
	return fact.Answer{Value: of(samples / uptime), At: metricsPage}
}

func lacks(metric string) fact.Answer {
	return fact.Answer{Unknown: metric + " is missing from Prometheus's own metrics", At: metricsPage}
}

// runs returns an option's value in the running server.
func runs(i *installed, name string) fact.Fact[string] {
	switch text, unknown := i.Report.value(name); {
	case unknown != "":
		return fact.Unknown[string](statusPage, unknown)
	case text != "":
		return fact.Known(text, statusPage)
	}
	return fact.Absent[string](i.Main)
}

// perSample returns the bytes on disk per sample: measured at compactions, or else the upper end of
// the documented range.
func perSample(v map[string]float64) float64 {
	size, n := v["prometheus_tsdb_compaction_chunk_size_bytes_sum"], v["prometheus_tsdb_compaction_chunk_samples_sum"]
	if n > 0 && size > 0 {
		return size / n
	}
	return 2
}
