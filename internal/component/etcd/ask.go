package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fettle.dev/fettle/internal/component/metrics"
	"fettle.dev/fettle/internal/component/program"
	"fettle.dev/fettle/internal/host"
)

// answer is what a running member says of itself.
type answer struct {
	Process program.Process `json:"process"` // PID 0 for one in a container
	// Env are the ETCD_ variables that it was started with, by option; Whole is
	// false where they cannot be read.
	Env   map[string]string `json:"env"`
	Whole bool              `json:"whole"`
	// Taken says that it was started since its configuration file was changed.
	Taken bool `json:"taken"`
	// Healthy is what it answers to /health; Silent is why it says nothing.
	Healthy string             `json:"healthy"`
	Silent  string             `json:"silent,omitempty"`
	Version string             `json:"version"`
	Values  map[string]float64 `json:"values"` // metrics
	P99     map[string]float64 `json:"p99"`    // of histograms, in seconds
}

// kept are the metrics that are.
var kept = []string{
	"etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_server_quota_backend_bytes",
	"etcd_server_has_leader", "etcd_server_leader_changes_seen_total", "etcd_server_proposals_failed_total", "etcd_server_slow_apply_total",
	"process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
}

// histograms are those whose 99th percentile is.
var histograms = map[string]string{
	"etcd_disk_wal_fsync_duration_seconds": "fsync", "etcd_disk_backend_commit_duration_seconds": "commit", "etcd_network_peer_round_trip_time_seconds": "peer",
}

// question asks the member of an instance; program.ErrStopped where none runs.
func question(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	return host.AskFor(ctx, h, "etcd "+in.Name, func(ctx context.Context, live *host.Host) (*answer, error) { return query(ctx, live, in) })
}

// started is what a running member was started with.
func started(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a := &answer{Env: map[string]string{}, Values: map[string]float64{}, P99: map[string]float64{}}
	if !in.pod() {
		p, err := program.OfService(ctx, h, "etcd", in.unit.Name)
		if err != nil {
			return nil, err
		}
		a.Process = p
		if b, err := h.Files.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID)); err == nil {
			a.Whole = true
			for v := range strings.SplitSeq(string(b), "\x00") {
				if name, value, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, "ETCD_") {
					a.Env[option(name)] = value
				}
			}
		}
		changed := program.Changed(ctx, h, in.Main, in.files)
		a.Taken = program.Group{Main: p, Changed: changed}.TakenAtStart() == program.Yes
	}
	return a, nil
}

func query(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a, err := started(ctx, h, in)
	if err != nil {
		return nil, err
	}
	page, err := get(ctx, h, in, a, "/metrics")
	if err != nil {
		a.Silent = err.Error()
		return a, nil
	}
	m := metrics.Read(page)
	for _, name := range kept {
		if v, ok := m.Values[name]; ok {
			a.Values[name] = v
		}
	}
	for name, short := range histograms {
		for _, b := range m.Histograms[name] {
			if v, ok := b.Quantile(0.99); ok {
				a.P99[short] = max(a.P99[short], v) // the worst of the other members
			}
		}
	}
	a.Version = m.Labels["etcd_server_version"]["server_version"]
	health, err := get(ctx, h, in, a, "/health")
	var said struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal([]byte(health), &said) == nil && said.Health != "" {
		a.Healthy = strings.TrimSpace(said.Health + " " + said.Reason)
	} else if err != nil {
		a.Healthy = err.Error()
	}
	return a, nil
}

// value is what an option is in the running member, as it was told.
func (a *answer) value(in *instance, name string) (text, unknown string) {
	switch {
	case in.pod():
		return "", "it runs in a container"
	case in.file != nil && !a.Taken:
		return "", "its configuration file was changed since it was started, and it does not say what it runs with"
	case in.file != nil:
		if in.unread != "" {
			return "", in.unread
		}
		return in.file[name].text, ""
	}
	if t, ok := readFlags(a.Process.Argv, "")[name]; ok {
		return t.text, ""
	}
	if !a.Whole {
		return "", "its environment cannot be read"
	}
	return a.Env[name], ""
}

// maxPage caps what a server may answer.
const maxPage = 8 << 20

// get asks it for a page: where it tells metrics, else where it hears clients.
func get(ctx context.Context, h *host.Host, in *instance, a *answer, page string) (string, error) {
	all, problems := reached(in, a, "listen-metrics-urls", "listen-client-urls")
	for _, at := range all {
		text, err := fetch(ctx, h, in, at+page)
		if err == nil || text != "" {
			return text, err
		}
		problems = append(problems, err)
	}
	return "", errors.Join(problems...)
}

// reached is where it can be asked: by the first of the options that is set.
func reached(in *instance, a *answer, options ...string) (all []string, problems []error) {
	urls := ""
	for _, name := range options {
		if urls != "" {
			break
		}
		t, _, _ := in.option(name)
		if urls = t.text; !in.pod() {
			if text, unknown := a.value(in, name); unknown == "" {
				urls = text
			}
		}
	}
	if urls == "" {
		urls = parameters.Named("listen-client-urls").Default
	}
	for u := range strings.SplitSeq(urls, ",") {
		at, err := address(strings.TrimSpace(u))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, at)
	}
	return all, problems
}

// address is where a URL that is listened on can be reached from here.
func address(listen string) (string, error) {
	u, err := url.Parse(listen)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is nothing that can be asked", listen)
	}
	name, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(name); ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	if port == "" {
		port = "2379"
	}
	return u.Scheme + "://" + net.JoinHostPort(name, port), nil
}

// fetch reads a page.
func fetch(ctx context.Context, h *host.Host, in *instance, page string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	c := client(h, in)
	defer c.CloseIdleConnections()
	return answered(c, req)
}

// client asks a member. One that wants certificates gets its own: what it shows to
// other members.
func client(h *host.Host, in *instance) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: certificates(h, in)}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answered is what a member says to a request, also where it refuses it.
func answered(c *http.Client, req *http.Request) (string, error) {
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return string(b), fmt.Errorf("%s: %s", req.URL, res.Status)
	}
	return string(b), nil
}

// certificates are the authority and the member's own certificate.
func certificates(h *host.Host, in *instance) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	file := func(name string) []byte {
		t, ok, _ := in.option(name)
		if !ok {
			return nil
		}
		b, err := h.Files.ReadFile(t.text)
		if err != nil {
			return nil
		}
		return b
	}
	if ca := file("trusted-ca-file"); ca != nil {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(ca)
	}
	if own, err := tls.X509KeyPair(file("cert-file"), file("key-file")); err == nil {
		c.Certificates = []tls.Certificate{own}
	}
	return c
}
