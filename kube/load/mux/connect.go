package mux

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"fettle.dev/fettle/kube/cluster"
)

// keepAlive is the interval of the kernel's TCP keep-alive probes.
const keepAlive = 30 * time.Second

// Connect returns a client of the API server in config, with connections for inFlight concurrent
// requests. With a proxy or without TLS it uses client-go's transport.
func Connect(config *rest.Config, inFlight int) (*cluster.Server, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	whole, err := ordinary(config)
	if err != nil {
		return nil, err
	}
	through, err := proxy(config, base)
	if err != nil {
		return nil, err
	}
	var lanes []http.RoundTripper
	for range cluster.Lanes(inFlight) {
		var lane http.RoundTripper
		if base.Scheme != "https" || through || os.Getenv("DISABLE_HTTP2") != "" {
			lane, err = ordinary(config)
		} else {
			lane, err = shared(config, base)
		}
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, lane)
	}
	return cluster.New(base, whole, lanes...).As(config.UserAgent).Within(config.Timeout), nil
}

// ordinary returns a client-go transport with its own dialer. Otherwise client-go would share one
// connection between transports of equal configurations.
func ordinary(config *rest.Config) (http.RoundTripper, error) {
	own := rest.CopyConfig(config)
	if own.Dial == nil {
		own.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: keepAlive}).DialContext
	}
	return rest.TransportFor(own)
}

// proxy reports whether a proxy handles requests to base.
func proxy(config *rest.Config, base *url.URL) (bool, error) {
	ask := config.Proxy
	if ask == nil {
		ask = http.ProxyFromEnvironment
	}
	by, err := ask(&http.Request{Method: http.MethodGet, URL: base, Header: http.Header{}})
	if err != nil {
		return false, fmt.Errorf("cannot determine the proxy: %w", err)
	}
	return by != nil, nil
}

// shared returns a Transport, which multiplexes requests over one connection.
func shared(config *rest.Config, base *url.URL) (http.RoundTripper, error) {
	plain, err := ordinary(config)
	if err != nil {
		return nil, err
	}
	c, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	secure, err := transport.TLSConfigFor(c)
	if err != nil {
		return nil, err
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12} // the system's CAs
	}
	if secure.ServerName == "" {
		secure.ServerName = base.Hostname()
	}
	if len(secure.NextProtos) == 0 {
		secure.NextProtos = []string{"h2", "http/1.1"}
	}
	dial := (&net.Dialer{KeepAlive: keepAlive}).DialContext
	if c.DialHolder != nil {
		dial = c.DialHolder.Dial
	}
	port := base.Port()
	if port == "" {
		port = "443"
	}
	address := net.JoinHostPort(base.Hostname(), port)
	return transport.HTTPWrappersForConfig(c, &Transport{Plain: plain, Dial: func(ctx context.Context) (*tls.Conn, error) {
		inner, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		outer := tls.Client(inner, secure)
		if err := outer.HandshakeContext(ctx); err != nil {
			_ = inner.Close()
			return nil, err
		}
		return outer, nil
	}})
}
