package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
)

// PeerLife is the maximum time for which a peer runs, waiting for its client included.
const PeerLife = 30 * time.Minute

// ErrLife is returned by a peer whose time is over.
var ErrLife = errors.New("the time of this peer is over")

// errServed is returned for a second client.
var errServed = errors.New("this peer already has a client")

// Peer serves the measurements of one client.
type Peer struct {
	host   *host.Host
	key    string
	tcp    *net.TCPListener
	udp    *net.UDPConn
	sender *sender             // of udp
	Served func(client string) // called when the client has connected; may be nil
	// Overlay serves the same client at an address inside an overlay network, until this peer ends;
	// may be nil.
	Overlay *Peer

	mu        sync.Mutex
	session   *session
	reflector reflector
	data      chan *net.TCPConn // connections of the client, for streams
}

// Listen binds one address, TCP and UDP. Port 0 takes a free one.
func Listen(h *host.Host, at netip.AddrPort, key string) (*Peer, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	bound := tcp.Addr().(*net.TCPAddr).AddrPort()
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(bound))
	if err != nil {
		tcp.Close()
		return nil, err
	}
	v6 := at.Addr().Is6() && !at.Addr().Is4In6()
	sender, err := newSender(udp)
	if err := errors.Join(err, stampArrivals(udp), dontFragment(udp, v6)); err != nil {
		tcp.Close()
		udp.Close()
		return nil, err
	}
	return &Peer{host: h, key: key, tcp: tcp, udp: udp, sender: sender, data: make(chan *net.TCPConn, maxStreams)}, nil
}

// Address returns the bound address.
func (p *Peer) Address() netip.AddrPort { return p.tcp.Addr().(*net.TCPAddr).AddrPort() }

// Close ends a peer that does not serve.
func (p *Peer) Close() { p.tcp.Close(); p.udp.Close() }

// Serve serves one client until that disconnects, ctx ends, or PeerLife is over (ErrLife).
func (p *Peer) Serve(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, PeerLife, ErrLife)
	defer cancel()
	var conns sync.WaitGroup
	defer conns.Wait()
	if p.Overlay != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		conns.Go(func() { _ = p.Overlay.Serve(ctx) })
	}
	stop := context.AfterFunc(ctx, p.Close)
	defer func() {
		if stop() {
			p.Close()
		}
	}()
	served := make(chan error, 1)
	go func() {
		for {
			c, err := p.tcp.AcceptTCP()
			if err != nil {
				return
			}
			conns.Go(func() { p.accept(ctx, c, served) })
		}
	}()
	select {
	case err := <-served:
		cancel()
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// accept handles a connection: the client's control connection, or one with its token.
func (p *Peer) accept(ctx context.Context, c *net.TCPConn, served chan<- error) {
	keep := false
	defer func() {
		if !keep {
			c.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	if s != nil {
		keep = p.acceptData(c, s)
		return
	}
	end := ends(p.host, c)
	name, _ := os.Hostname()
	control := newControl(c)
	admitted := false
	err := greetAsPeer(control, p.key, name, end, func(s session) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.session != nil {
			return errServed
		}
		admitted, p.session = true, &s
		p.reflector = reflector{conn: p.udp, sender: p.sender, tag: s.tag(), mtu: end.MTU}
		return nil
	})
	if !admitted {
		return // only the first client with the key counts
	}
	if err != nil {
		served <- err
		return
	}
	go p.reflector.serve()
	if p.Served != nil {
		p.Served(c.RemoteAddr().String())
	}
	served <- p.converse(ctx, control)
}

// acceptData accepts a connection with the session's token. It reports whether it passed the
// connection to another goroutine.
func (p *Peer) acceptData(c *net.TCPConn, s *session) bool {
	_ = c.SetDeadline(time.Now().Add(greeting))
	var head [21]byte
	if _, err := io.ReadFull(c, head[:]); err != nil || [16]byte(head[:]) != s.token() {
		return false
	}
	_ = c.SetDeadline(time.Time{})
	size := int(binary.BigEndian.Uint32(head[17:]))
	switch {
	case head[16] == 'S':
		select {
		case p.data <- c:
			return true
		default:
		}
	case head[16] == 'R' && size > 0 && size <= maxRequest:
		echoRequests(c, size)
	}
	return false
}

// converse answers the messages of the client. The end of its connection is the normal end.
func (p *Peer) converse(ctx context.Context, c *control) error {
	var job *streamJob
	for {
		var q request
		if err := c.read(&q); err != nil {
			return ctx.Err()
		}
		var a answer
		switch {
		case q.Stream != nil:
			if err := q.Stream.check(); err != nil {
				a.Error = err.Error()
				break
			}
			job, a.Ready = q.Stream, true
			p.dropData() // of a run that the client gave up
		case q.Go && job != nil:
			conns, err := p.streams(ctx, job.Streams)
			if err != nil {
				a.Error = err.Error()
				break
			}
			if err := c.write(answer{Ready: true}); err != nil {
				return ctx.Err()
			}
			a.Stream, job = job.transfer(ctx, p.host, conns, job.Down), nil
		case q.Train != 0:
			a.Train = p.logOf(ctx, q.Train, q.From)
		case q.Path:
			told := toldMTU(p.udp)
			a.Told = &told
		default:
			a.Error = "unexpected message"
		}
		if err := c.write(a); err != nil {
			return ctx.Err()
		}
	}
}

// logOf waits until all arrived probes of a train are logged and answered, but at most half as long
// as the client waits. It then returns the log of the train from a probe on.
func (p *Peer) logOf(ctx context.Context, id uint32, from int) *trainLog {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for before, end := -1, time.Now().Add(greeting/2); ; <-tick.C {
		n, sending := p.reflector.state()
		if n == before && !sending && !queued(p.udp) || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		before = n
	}
	return p.reflector.log(id, from)
}

// dropData closes connections that no run has used.
func (p *Peer) dropData() {
	for {
		select {
		case c := <-p.data:
			c.Close()
		default:
			return
		}
	}
}

// streams waits for the client's connections.
func (p *Peer) streams(ctx context.Context, n int) (conns []*net.TCPConn, err error) {
	late := time.NewTimer(greeting)
	defer late.Stop()
	for len(conns) < n {
		select {
		case c := <-p.data:
			conns = append(conns, c)
			continue
		case <-late.C:
			err = fmt.Errorf("only %d of %d connections arrived within %v", len(conns), n, greeting)
		case <-ctx.Done():
			err = ctx.Err()
		}
		for _, c := range conns {
			c.Close()
		}
		return nil, err
	}
	return conns, nil
}
