// Connections, with or without TLS, to an address resolved before the run. Nothing is resolved
// here: a DNS answer cannot redirect a running load.

package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/ui"
)

// Counts counts the connections of all dialers of a run.
type Counts struct {
	Opened     atomic.Int64 // connections
	Handshakes atomic.Int64 // of TLS
	Resumed    atomic.Int64 // resumed TLS sessions
	Reopened   atomic.Int64 // connections that the server closed while they were idle
}

// Dialer opens connections to one origin.
type Dialer struct {
	To netip.AddrPort
	// TLS is nil for a connection without TLS.
	TLS    *tls.Config
	Counts *Counts
	// Context cancels connection attempts.
	Context context.Context
	// Certificate returns the client certificate of the connections. It needs a TLS whose
	// GetClientCertificate is OwnCertificate.
	Certificate func() (*tls.Certificate, error)
	// Turns, if not nil, limits the TLS handshakes at a time to its capacity. Further ones wait
	// after they have connected.
	Turns chan struct{}

	asked *atomic.Bool
}

// WithoutCertificate makes d record whether the server requests a client certificate, although
// none is configured.
func (d *Dialer) WithoutCertificate() {
	asked := &atomic.Bool{}
	d.asked = asked
	d.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		return &tls.Certificate{}, nil // sends none
	}
}

// certificateKey is the key of Dialer.Certificate in the context of a handshake.
type certificateKey struct{}

// OwnCertificate returns the certificate of the Dialer that makes the handshake. Dialers so share
// one tls.Config, and neither keeps the certificate and its key, which need several KiB.
func OwnCertificate(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return asked.Context().Value(certificateKey{}).(func() (*tls.Certificate, error))()
}

// Ended returns the error of a connection that the server closed before any answer. With TLS
// 1.3 it rejects a client without a certificate only after the handshake (RFC 8446, 4.4.2.4),
// and the client may read the alert or the end of the connection first.
func (d *Dialer) Ended(err error) error {
	if d.asked == nil || !d.asked.Load() {
		return err
	}
	return &TLSError{Err: fmt.Errorf("the server requested a certificate, got none and closed the connection: %w", err)}
}

// Dial opens a connection, including the TLS handshake.
func (d *Dialer) Dial(until time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(d.Context, until)
	defer cancel()
	var dialer net.Dialer
	// There is only one address, so no fallback to another one.
	dialer.FallbackDelay = -1
	conn, err := dialer.DialContext(ctx, "tcp", d.To.String())
	if err != nil {
		return nil, err
	}
	d.Counts.Opened.Add(1)
	conn = newDirect(conn)
	if d.TLS == nil {
		return conn, nil
	}
	if d.Certificate != nil {
		ctx = context.WithValue(ctx, certificateKey{}, d.Certificate)
	}
	secured := tls.Client(conn, d.TLS)
	if err := d.shake(ctx, secured); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if want := d.TLS.NextProtos; len(want) > 0 && secured.ConnectionState().NegotiatedProtocol != want[0] {
		return nil, errors.Join(ProtocolError("the server does not offer HTTP/2 (ALPN "+want[0]+")"), conn.Close())
	}
	d.Counts.Handshakes.Add(1)
	if secured.ConnectionState().DidResume {
		d.Counts.Resumed.Add(1)
	}
	return secured, nil
}

// shake makes the handshake of a connection.
func (d *Dialer) shake(ctx context.Context, conn *tls.Conn) error {
	if d.Turns != nil {
		select {
		case d.Turns <- struct{}{}:
			defer func() { <-d.Turns }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// A handshake needs a deep stack, which would remain that of the caller: 16 KiB for each of
	// thousands of virtual hosts.
	done := make(chan error, 1)
	go func() { done <- conn.HandshakeContext(ctx) }()
	if err := <-done; err != nil {
		return d.explain(err)
	}
	return nil
}

// explain adds an explanation to a handshake error. The standard library's "remote error"
// means that the server refused the handshake, often because of the certificate.
func (d *Dialer) explain(err error) error {
	var op *net.OpError
	text := "TLS handshake: %w"
	if errors.As(err, &op) && op.Op == "remote error" {
		text = "the server refused the TLS handshake: %w"
		if len(d.TLS.NextProtos) > 0 && strings.HasSuffix(err.Error(), "no application protocol") {
			text = "the server does not offer HTTP/2: %w"
		}
	}
	return &TLSError{Err: fmt.Errorf(text, err)}
}

// Probe describes a first connection.
type Probe struct {
	Address string `json:"address"`
	TLS     string `json:"tls,omitempty"`    // version, such as TLS 1.3
	Cipher  string `json:"cipher,omitempty"` // IANA name
	// ClientCertificate reports whether the server requested a certificate and got one.
	ClientCertificate bool `json:"client_certificate"`
}

// String returns the address, the TLS version and whether a client certificate was sent.
func (p Probe) String() string {
	text := p.Address
	if p.TLS != "" {
		text += ", " + p.TLS
	}
	if p.ClientCertificate {
		text += ", with client certificate"
	}
	return text
}

// Reach finds the first address that accepts a connection, and keeps it for Dial.
func (d *Dialer) Reach(sockets []netip.AddrPort, timeout time.Duration) (Probe, error) {
	var all error
	for _, socket := range sockets {
		d.To = socket
		probe, err := d.Probe(timeout)
		if err == nil {
			return probe, nil
		}
		all = errors.Join(all, err)
		if d.Context.Err() != nil {
			break
		}
	}
	return Probe{}, all
}

// unreachable returns the error for a server that cannot be reached, with its address once.
func unreachable(to fmt.Stringer, err error) error {
	var op *net.OpError
	var errno syscall.Errno
	what := fmt.Errorf("cannot connect to %s (%s): %w", to, Failed(err, true).Failure, err)
	if errors.As(err, &op) && errors.As(op.Err, &errno) {
		what = fmt.Errorf("cannot connect to %s: %w", to, errno)
	}
	return ui.Hinted(ui.Failed, what, "check the address, and that the server listens there")
}

// Probe connects once. So an invalid setup fails before the measurement.
func (d *Dialer) Probe(timeout time.Duration) (Probe, error) {
	p := Probe{Address: d.To.String()}
	again := *d
	if d.TLS != nil {
		again.TLS = d.TLS.Clone()
		again.TLS.ClientSessionCache = nil // do not resume this session: the run's first handshake is a full one
		if len(d.TLS.Certificates) > 0 {
			certificate := &d.TLS.Certificates[0]
			again.TLS.Certificates = nil
			again.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				p.ClientCertificate = true
				return certificate, nil
			}
		}
	}
	again.Counts = &Counts{}
	conn, err := again.Dial(time.Now().Add(timeout))
	if err != nil {
		return p, unreachable(d.To, err)
	}
	defer conn.Close()
	if secured, ok := conn.(*tls.Conn); ok {
		state := secured.ConnectionState()
		p.TLS, p.Cipher = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
	}
	return p, nil
}
