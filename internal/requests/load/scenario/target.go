package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// maxTargets is the maximum number of servers of a run.
const maxTargets = 1000

// target is a server of the run.
type target struct {
	origin string // https://web1:8443
	name   string // for TLS
	port   string // HOST:PORT, as in the URL
	secure bool
	mqtt   bool
	socket netip.AddrPort
	err    error // not allowed, or not resolved
}

// targets holds the servers of a run. Each is resolved and checked once, when it is first used;
// later uses get the same answer.
type targets struct {
	allowed  *engine.Allowed
	resolver engine.Resolver

	mu  sync.Mutex
	all map[string]*target
}

// find returns the server of an origin.
func (t *targets) find(ctx context.Context, origin string) (*target, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.all[origin]; ok {
		return known, known.err
	}
	if len(t.all) == maxTargets {
		return nil, internaltext.Errorf("more than %d servers", maxTargets)
	}
	one := t.check(ctx, origin)
	if t.all == nil {
		t.all = map[string]*target{}
	}
	t.all[origin] = one
	return one, one.err
}

// check resolves an origin. The result holds an error unless the server may be loaded.
func (t *targets) check(ctx context.Context, origin string) *target {
	x := &target{origin: origin}
	u, err := url.Parse(origin)
	switch {
	case err != nil:
		x.err = errors.New("malformed URL") // the text may hold a password
		return x
	case u.User != nil:
		x.err = errors.New("a URL with a password; use a header with a value from data")
		return x
	case u.Hostname() == "" || !httpguts.ValidHostHeader(u.Host):
		x.err = fmt.Errorf("%q: invalid host", origin)
		return x
	}
	x.name, x.port = u.Hostname(), u.Host
	switch u.Scheme {
	case "http", "https", "mqtt", "mqtts":
		x.secure, x.mqtt = strings.HasSuffix(u.Scheme, "s"), strings.HasPrefix(u.Scheme, "mqtt")
	default:
		x.err = fmt.Errorf("%q: want http://, https://, mqtt:// or mqtts://", origin)
		return x
	}
	sockets, err := t.allowed.Find(ctx, hostPort(origin), t.resolver)
	if err != nil {
		x.err = err
		return x
	}
	x.socket = sockets[0]
	return x
}

// split splits a URL into its origin and the request target, without a fragment.
func split(text []byte) (origin, path []byte, err error) {
	at := bytes.Index(text, []byte("://"))
	if at <= 0 {
		return nil, nil, fmt.Errorf("%.100q: want a URL that begins with http:// or https://", text)
	}
	for _, c := range text {
		if c <= ' ' || c >= 0x7f {
			return nil, nil, fmt.Errorf("%.100q: a URL with the byte 0x%02x", text, c)
		}
	}
	if hash := bytes.IndexByte(text, '#'); hash >= 0 {
		text = text[:hash]
	}
	end := bytes.IndexAny(text[at+3:], "/?")
	if end < 0 {
		return text, nil, nil
	}
	return text[:at+3+end], text[at+3+end:], nil
}

// newDialer returns a dialer for a server.
func (r *run) newDialer(t *target) *engine.Dialer {
	d := &engine.Dialer{To: t.socket, Counts: &r.connections, Context: r.ctx, Turns: r.handshakes}
	if !t.secure {
		return d
	}
	d.TLS = r.plan.tls.Clone()
	d.TLS.ServerName = t.name
	// Hosts are different machines: no session is resumed.
	d.TLS.SessionTicketsDisabled = true
	// As OpenSSL before 3.5, without post-quantum keys: they are a third of the memory of a
	// handshake, and their answers remain in the buffers of each connection.
	d.TLS.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	switch {
	case r.plan.ownCertificates():
		d.TLS.GetClientCertificate = engine.OwnCertificate
	case len(d.TLS.Certificates) == 0:
		d.WithoutCertificate()
	}
	return d
}

// dialer returns a dialer for a server with the identity of the host. All hosts share the
// configuration of TLS.
func (h *virtual) dialer(t *target) *engine.Dialer {
	h.mu.Lock()
	d := h.dialers[t]
	if d == nil {
		d = h.newDialer(t)
		h.dialers[t] = d
	}
	h.mu.Unlock()
	if !t.secure || !h.plan.ownCertificates() {
		return d
	}
	own := *d
	own.Certificate = func() (*tls.Certificate, error) { return h.plan.certificate(h.values) }
	return &own
}

// used returns the servers in use, in order.
func (t *targets) used() (out []Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, origin := range slices.Sorted(maps.Keys(t.all)) {
		one := t.all[origin]
		x := Target{Origin: origin, Refused: one.err != nil}
		if one.err == nil {
			x.Address = one.socket.String()
		}
		out = append(out, x)
	}
	return out
}
