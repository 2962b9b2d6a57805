package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Metric describes a metric for Prometheus and the manual.
type Metric struct {
	// Name ends with the base unit, and with _total for counters (prometheus.io, practices/naming).
	Name string
	// Type is gauge, counter or histogram.
	Type   string
	Labels []string
	// Doc is the help text.
	Doc string
}

// Described maps metric names to descriptions. A prometheus.Collector embeds it.
type Described map[string]*prometheus.Desc

// Descriptions returns the descriptions of all metrics.
func Descriptions(all []Metric) Described {
	out := Described{}
	for _, m := range all {
		out[m.Name] = prometheus.NewDesc(m.Name, m.Doc, m.Labels, nil)
	}
	return out
}

// Describe implements prometheus.Collector.
func (d Described) Describe(out chan<- *prometheus.Desc) {
	for _, m := range d {
		out <- m
	}
}

// Gauge sends a gauge's value.
func (d Described) Gauge(out chan<- prometheus.Metric, name string, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d[name], prometheus.GaugeValue, v, labels...)
}

// Counter sends a counter's value.
func (d Described) Counter(out chan<- prometheus.Metric, name string, n int, labels ...string) {
	out <- prometheus.MustNewConstMetric(d[name], prometheus.CounterValue, float64(n), labels...)
}

// OneIf returns 1 for true and 0 for false.
func OneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Options configure where and to whom metrics are served.
type Options struct {
	// Address is host:port; "0" disables the server.
	Address string
	// Open serves plain HTTP to all clients. Otherwise metrics are served over HTTPS, and the API
	// server authorizes each client.
	Open bool
	// CertDir contains tls.crt and tls.key, which are reloaded when they change. With "" the
	// process uses a self-signed certificate, which controller-runtime creates.
	CertDir string
}

// Files in Options.CertDir, with the names of cert-manager and of TLS secrets.
const certFile, keyFile = "tls.crt", "tls.key"

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	if o.Address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("--metrics-address %s: want HOST:PORT, or 0 to turn metrics off: %w", o.Address, err)
	}
	if o.CertDir == "" {
		return nil
	}
	if o.Open {
		return fmt.Errorf("--metrics-open serves plain HTTP; leave out --metrics-cert-dir %s", o.CertDir)
	}
	for _, name := range []string{certFile, keyFile} {
		if _, err := os.Stat(filepath.Join(o.CertDir, name)); err != nil {
			return fmt.Errorf("--metrics-cert-dir: %w", err)
		}
	}
	return nil
}

// Server returns the options of controller-runtime's metrics server.
func (o Options) Server() server.Options {
	out := server.Options{BindAddress: o.Address, SecureServing: !o.Open, CertDir: o.CertDir}
	if o.Open {
		return out
	}
	out.FilterProvider = func(config *rest.Config, client *http.Client) (server.Filter, error) {
		g, err := newGuard(config, client)
		if err != nil {
			return nil, err
		}
		return func(log logr.Logger, next http.Handler) (http.Handler, error) { return g.around(log, next), nil }, nil
	}
	out.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		c.NextProtos = []string{"http/1.1"} // HTTP/2 has no advantage for a scrape every 30 s
	}}
	return out
}

// Serve serves the metrics of controller-runtime's registry until ctx ends.
func Serve(ctx context.Context, config *rest.Config, o Options, l logr.Logger) error {
	log.SetLogger(l)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	s, err := server.NewServer(o.Server(), config, client)
	if err != nil || s == nil { // nil means that the server is disabled
		return err
	}
	return s.Start(ctx)
}
