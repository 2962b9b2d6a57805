package openshift

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// safety is the margin in the source's figures. It is added to a measured figure too (OpenShift
// 4.4, 8.1: about 20 %).
const safety = 1.2

// demand is the need of one Prometheus: disk in GB per day, memory in GiB.
type demand struct {
	perDay, ram float64
	why         string
	sources     []rule.Source
}

// byTable returns the demand of a cluster from the source's table, extrapolated linearly beyond
// its last row.
func byTable(e *sizing.Edition, nodes, pods float64) (d demand, row *rule.Row) {
	d.sources = e.Sources
	last := &e.Rows[len(e.Rows)-1]
	for i := range e.Rows {
		r := &e.Rows[i]
		if e.Number(r.Key, "nodes") >= nodes && e.Number(r.Key, "pods") >= pods {
			d.perDay, d.ram = e.Number(r.Key, "per_day"), e.Number(r.Key, "ram")
			d.why = fmt.Sprintf("for %s nodes and %s pods", unit.Digits(e.Number(r.Key, "nodes")), unit.Digits(e.Number(r.Key, "pods")))
			return d, r
		}
	}
	before := e.Rows[len(e.Rows)-2].Key
	factor := max(nodes/e.Number(last.Key, "nodes"), pods/e.Number(last.Key, "pods"))
	slope := e.Number(last.Key, "ram") - e.Number(before, "ram")
	steps := (factor - 1) * e.Number(last.Key, "nodes") / (e.Number(last.Key, "nodes") - e.Number(before, "nodes"))
	d.perDay = e.Number(last.Key, "per_day") * factor
	d.ram = e.Number(last.Key, "ram") + slope*steps
	d.why = fmt.Sprintf("extrapolated linearly from the table, whose last row is %s nodes and %s pods", unit.Digits(e.Number(last.Key, "nodes")), unit.Digits(e.Number(last.Key, "pods")))
	return d, nil
}

// monitoring decides the volumes and the memory of Prometheus.
func (p *plan) monitoring(ctx context.Context) error {
	typical := p.Table("openshift-monitoring")
	p.retention = p.w.RetentionDays
	if p.retention == 0 {
		text := typical.Text("retention", "value")
		var err error
		if p.retention, err = strconv.Atoi(strings.TrimSuffix(text, "d")); err != nil {
			return fmt.Errorf("%s: retention %q", typical.At, text)
		}
		p.w.RetentionDays = p.retention
	}
	p.Add(sizing.Value{Group: "prometheus", Name: "retention", Value: p.retention, Unit: "d", Why: "how long samples are kept", Sources: typical.Sources})
	e := p.Table("openshift-prometheus")
	if len(e.Rows) < 2 {
		return p.Err()
	}
	d, row := byTable(e, float64(p.nodes), float64(p.pods))
	p.storage = d.perDay * float64(p.retention)
	v := sizing.Value{Group: "prometheus", Name: "storage", Value: sizing.Round(p.storage), Unit: "GB", Why: internaltext.Sprintf("%s of %s, %s; including 20 %% for safety", internaltext.Count(p.retention, "day"), sizing.Amount(d.perDay, "GB"), d.why), Sources: d.sources}
	if row != nil && p.retention == 15 {
		v.Also = []sizing.Figure{{Value: e.Number(row.Key, "per_15_days"), Unit: "GB", What: "the documentation's figure for 15 days"}}
	}
	p.Add(sizing.Value{Group: "prometheus", Name: "storage_per_day", Value: sizing.Round(d.perDay), Unit: "GB", Why: d.why, Sources: d.sources})
	p.Add(v)
	p.Add(sizing.Value{Group: "prometheus", Name: "ram", Value: sizing.Round(d.ram), Unit: "GiB", Why: d.why + "; newer documents give no memory figure", Sources: d.sources})
	cores := max(sizing.Ceil(float64(p.nodes), e.Number(e.Rows[0].Key, "nodes")), sizing.Ceil(float64(p.pods), e.Number(e.Rows[0].Key, "pods")))
	p.Add(sizing.Value{Group: "prometheus", Name: "cores", Value: cores, Unit: "cores", Why: "one of 40 for each 50 nodes and 1800 pods", Sources: d.sources})
	if p.w.Prometheus != "" {
		if err := p.measured(ctx, d); err != nil {
			return err
		}
	}
	p.Note("each of the two pods of Prometheus has a volume of its own of that size")
	p.monitoringFile(typical)
	return nil
}

// measured sizes Prometheus from a running one as well as from the table.
func (p *plan) measured(ctx context.Context, table demand) error {
	u, err := p.w.measure(ctx, p.w.Prometheus, p.w.PrometheusToken)
	var bad *sizing.InputError
	if errors.As(err, &bad) {
		return err
	}
	if err != nil {
		return fmt.Errorf("--prometheus: %w", err)
	}
	scale, how := p.scale(u)
	source := []rule.Source{{Document: p.w.Prometheus, Section: "measured"}, rule.Cite("prometheus-docs", "docs, storage: retention x samples/s x bytes per sample")}
	add := func(name string, value float64, unit, why string) {
		p.Add(sizing.Value{Group: "prometheus measured", Name: name, Value: sizing.Round(value), Unit: unit, Why: why, Sources: source})
	}
	add("series", u.Series, "series", "in memory now")
	add("samples_per_second", u.SamplesPerSecond, "1/s", "taken in now")
	add("bytes_per_sample", u.BytesPerSample, "bytes", u.BytesFrom)
	add("scale", scale, "", how)
	keep := time.Duration(p.retention) * 24 * time.Hour
	storage := u.Disk(keep) * scale * safety / 1e9
	add("storage", storage, "GB", internaltext.Sprintf("%s x %s samples/s x %s bytes x %s, and 20 %% for safety", internaltext.Count(p.retention, "day"), unit.Digits(u.SamplesPerSecond), unit.Digits(u.BytesPerSample), unit.Digits(scale)))
	if u.Resident > 0 {
		add("ram", u.Resident*scale*safety/(1<<30), "GiB", fmt.Sprintf("%s GiB of the process now x %s, and 20 %% for safety", unit.Digits(u.Resident/(1<<30)), unit.Digits(scale)))
	}
	if u.Retention != "" {
		p.Note("the Prometheus at %s keeps samples for %s", p.w.Prometheus, u.Retention)
	}
	if storage > p.storage {
		p.Note("the volume is sized by the running Prometheus: the table has %s", sizing.Amount(p.storage, "GB"))
		p.storage = storage
	} else {
		p.Note("the volume is sized by the table: the running Prometheus would need %s", sizing.Amount(storage, "GB"))
	}
	return nil
}

// scale returns the ratio of the requested to the measured cluster, with the reason.
func (p *plan) scale(u *Usage) (float64, string) {
	factor, how := 0.0, ""
	if u.Nodes > 0 {
		factor, how = float64(p.nodes)/u.Nodes, internaltext.Sprintf("%s, compared with %s in the running cluster", internaltext.Count(p.nodes, "node"), unit.Digits(u.Nodes))
	}
	if f := float64(p.pods) / max(u.Pods, 1); u.Pods > 0 && f > factor {
		factor, how = f, internaltext.Sprintf("%s, compared with %s in the running cluster", internaltext.Count(p.pods, "pod"), unit.Digits(u.Pods))
	}
	if factor == 0 {
		return 1, "not scaled: no cluster metrics (kube_node_info, kube_pod_info)"
	}
	return factor, how
}

// monitoringFile writes the configuration of cluster monitoring.
func (p *plan) monitoringFile(typical *sizing.Edition) {
	size := sizing.Gi(p.storage * 1e9)
	placed := []string{"kubeStateMetrics"}
	// 4.11 removed Grafana; in 4.16 metrics-server replaced the adapter.
	switch minor := p.minor(); {
	case minor < 11:
		placed = append(placed, "grafana", "k8sPrometheusAdapter")
	case minor < 16:
		placed = append(placed, "k8sPrometheusAdapter")
	default:
		placed = append(placed, "metricsServer")
	}
	volume := func(size string) map[string]any { return map[string]any{"Class": p.w.StorageClass, "Size": size} }
	text := sizing.Manifest("monitoring.yaml", "Cluster monitoring on the infrastructure nodes, with volumes.", map[string]any{
		"Nodes": p.nodes, "Pods": p.pods, "RetentionDays": p.retention, "Placed": placed,
		"Prometheus": volume(size), "Alertmanager": volume(typical.Text("alertmanager_storage", "value")),
	})
	p.Add(sizing.Value{Group: "prometheus", Name: "volume", Value: size, Why: "of each of the two pods, in the configuration of cluster monitoring", Sources: typical.Sources,
		Also: []sizing.Figure{{Value: typical.Text("prometheus_storage", "value"), What: "typical, according to the documentation"}}})
	p.Files = append(p.Files, sizing.Artefact{Name: "cluster-monitoring-config.yml", What: "retention, volumes and place of Prometheus and Alertmanager", Checked: "the types of k8s.io/api (the operator's own types are in no module)", Content: text})
}

// minor returns the second number of the version: 4 for 4.4.
func (p *plan) minor() int {
	_, text, _ := strings.Cut(p.Version, ".")
	n, _ := strconv.Atoi(text)
	return n
}
