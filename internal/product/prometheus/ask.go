package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/prometheus"
)

// answer is the report of a running Prometheus server.
type answer struct {
	Process product.Process    `json:"process"`
	Silent  string             `json:"silent,omitempty"` // why the server does not respond
	Ready   string             `json:"ready"`            // response of /-/ready, such as 200 OK
	Version string             `json:"version"`
	Flags   map[string]string  `json:"flags"`  // all flags, including defaults
	Global  map[string]string  `json:"global"` // global section of its configuration, including defaults
	Runtime runtime            `json:"runtime"`
	Values  map[string]float64 `json:"values"` // metrics by name
	// Free is the free space on the samples' disk, in bytes; nil if unknown.
	Free *float64 `json:"free,omitempty"`
	// now is the time of the query, in seconds since the epoch.
	now float64
}

// runtime is the part of /api/v1/status/runtimeinfo that fettle reads.
type runtime struct {
	Start     time.Time `json:"startTime"`
	ReloadOK  bool      `json:"reloadConfigSuccess"`
	LastRead  time.Time `json:"lastConfigTime"`
	Corrupted float64   `json:"corruptionCount"`
	Retention string    `json:"storageRetention"` // "15d", "15d or 512MiB"
}

// kept lists the metrics that an answer records.
var kept = []string{
	"prometheus_tsdb_head_series", "prometheus_tsdb_head_samples_appended_total", "prometheus_tsdb_storage_blocks_bytes", "prometheus_tsdb_wal_storage_size_bytes",
	"prometheus_tsdb_compactions_failed_total", "prometheus_tsdb_compaction_chunk_size_bytes_sum", "prometheus_tsdb_compaction_chunk_samples_sum",
	"prometheus_rule_group_iterations_missed_total", "prometheus_target_scrapes_exceeded_sample_limit_total",
	"process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
}

// question queries an instance's server; the error is product.ErrStopped if none runs.
func question(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a, err := host.QueryJSON(ctx, h, "prometheus "+in.Main, func(ctx context.Context, live *host.Host) (*answer, error) { return query(ctx, live, in) })
	if err == nil {
		a.now = float64(h.Clock.Now().UnixNano()) / 1e9
	}
	return a, err
}

func query(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	p, err := product.OfService(ctx, h, "prometheus", in.unit.Name)
	if err != nil {
		return nil, err
	}
	a := &answer{Process: p, Flags: map[string]string{}, Global: map[string]string{}, Values: map[string]float64{}}
	base := address(readFlags(p.Argv))
	if a.Ready, _, err = fetch(ctx, base+"/-/ready"); err != nil {
		a.Silent = err.Error()
		return a, nil
	}
	var config struct {
		YAML string `json:"yaml"`
	}
	var build struct {
		Version string `json:"version"`
	}
	for name, into := range map[string]any{"flags": &a.Flags, "config": &config, "runtimeinfo": &a.Runtime, "buildinfo": &build} {
		if err := document(ctx, base, name, into); err != nil {
			a.Silent = err.Error()
			return a, nil
		}
	}
	a.Version = build.Version
	all, err := readGlobal("its configuration", config.YAML)
	if err != nil {
		a.Silent = err.Error()
		return a, nil
	}
	for key, t := range all {
		a.Global[key] = t.text
	}
	_, page, err := fetch(ctx, base+"/metrics")
	if err != nil {
		a.Silent = err.Error()
		return a, nil
	}
	m := prometheus.ParseMetrics(page)
	for _, name := range kept {
		if v, ok := m.Values[name]; ok {
			a.Values[name] = v
		}
	}
	if dir := a.Flags["storage.tsdb.path"]; path.IsAbs(dir) {
		if _, free, err := h.Space(dir); err == nil {
			bytes := float64(free)
			a.Free = &bytes
		}
	}
	return a, nil
}

// address returns the address at which this machine reaches a server with these flags.
func address(flags map[string]string) string {
	listen := flags["web.listen-address"]
	if listen == "" {
		listen = parameters.Named("web.listen-address").Default
	}
	name, port, err := net.SplitHostPort(listen)
	if err != nil {
		name, port = listen, "9090"
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	prefix := flags["web.route-prefix"]
	if u, err := url.Parse(flags["web.external-url"]); prefix == "" && err == nil {
		prefix = u.Path
	}
	return "http://" + net.JoinHostPort(name, port) + strings.TrimSuffix(path.Clean("/"+prefix), "/")
}

// document reads one of the API's status documents.
func document(ctx context.Context, base, name string, into any) error {
	code, text, err := fetch(ctx, base+"/api/v1/status/"+name)
	if err != nil {
		return err
	}
	var doc struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Status != "success" {
		return fmt.Errorf("/api/v1/status/%s: %s %s", name, code, doc.Error)
	}
	return json.Unmarshal(doc.Data, into)
}

// maxPage is the size limit of a response, in bytes.
const maxPage = 16 << 20

// fetch reads a page with any status.
func fetch(ctx context.Context, page string) (status, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		return "", "", errors.New("a password is required (web.config.file)")
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	return res.Status, string(b), err
}

// value returns an option's value in the running server, or the reason that it is unknown.
func (a *answer) value(name string) (text, unknown string) {
	switch {
	case a.Silent != "":
		return "", a.Silent
	case !isFlag(name):
		return a.Global[name], ""
	case isRetention(name):
		return running(name, a.Runtime.Retention), ""
	}
	return a.Flags[name], ""
}
