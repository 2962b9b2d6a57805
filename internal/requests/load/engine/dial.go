// dial opens connections to an address that was decided on before, with or
// without TLS, and counts them. It asks no resolver: an answer of DNS cannot lead it
// elsewhere while it runs.

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
	"time"
)

// Counts are what all dialers of a run have counted.
type Counts struct {
	Opened     atomic.Int64 // connections
	Handshakes atomic.Int64 // of TLS
	Resumed    atomic.Int64 // handshakes that took up a session
	Reopened   atomic.Int64 // connections that the server had closed while they were idle
}

// Dialer opens connections to one origin.
type Dialer struct {
	To netip.AddrPort
	// TLS is nil for plain text.
	TLS    *tls.Config
	Counts *Counts
	// Context ends what is being opened.
	Context context.Context

	asked *atomic.Bool
}

// WithoutCertificate notes whether the server asks for a certificate, of which TLS has
// none.
func (d *Dialer) WithoutCertificate() {
	asked := &atomic.Bool{}
	d.asked = asked
	d.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		return &tls.Certificate{}, nil // which sends none
	}
}

// Ended gives the error of a connection that the server has ended before any answer. With
// TLS 1.3 it refuses a client without a certificate only when the handshake is done (RFC
// 8446, 4.4.2.4), and whether its alert or the end of the connection is seen first is
// chance.
func (d *Dialer) Ended(err error) error {
	if d.asked == nil || !d.asked.Load() {
		return err
	}
	return &TLSError{Err: fmt.Errorf("the server asked for a certificate, was shown none and ended the connection: %w", err)}
}

// Dial opens a connection, its TLS handshake included.
func (d *Dialer) Dial(until time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(d.Context, until)
	defer cancel()
	var dialer net.Dialer
	// Which socket is meant is known; there is no second one to be quick with.
	dialer.FallbackDelay = -1
	conn, err := dialer.DialContext(ctx, "tcp", d.To.String())
	if err != nil {
		return nil, err
	}
	d.Counts.Opened.Add(1)
	if d.TLS == nil {
		return conn, nil
	}
	secured := tls.Client(conn, d.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(d.handshake(err), conn.Close())
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

// handshake gives the error of a handshake in words of this side: what the standard
// library calls "remote error" is the server's refusal, often of the certificate.
func (d *Dialer) handshake(err error) error {
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

// Probe is what a first connection has shown.
type Probe struct {
	Address string `json:"address"`
	TLS     string `json:"tls,omitempty"`    // the version, as TLS 1.3
	Cipher  string `json:"cipher,omitempty"` // as IANA names it
	// ClientCertificate says that the server asked for one and was given it.
	ClientCertificate bool `json:"client_certificate,omitempty"`
}

// Probe connects once, before anything is measured: what cannot work is found then.
func (d *Dialer) Probe(timeout time.Duration) (Probe, error) {
	p := Probe{Address: d.To.String()}
	again := *d
	if d.TLS != nil {
		again.TLS = d.TLS.Clone()
		again.TLS.ClientSessionCache = nil // the first one of the run is a full handshake
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
		return p, fmt.Errorf("%s cannot be connected to (%s): %w", d.To, Failed(err, true).Failure, err)
	}
	defer conn.Close()
	if secured, ok := conn.(*tls.Conn); ok {
		state := secured.ConnectionState()
		p.TLS, p.Cipher = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
	}
	return p, nil
}
