package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Client is the connection to a peer.
type Client struct {
	Peer    netip.AddrPort
	Local   End
	Remote  End
	Name    string        // host name of the peer
	RTT     time.Duration // of the connection's beginning
	host    *host.Host
	session session
	control *control
	udp     *net.UDPConn
	sender  *sender // of udp
	trains  uint32
}

// Dial connects to a peer.
func Dial(ctx context.Context, h *host.Host, peer netip.AddrPort, key string) (*Client, error) {
	d := net.Dialer{Timeout: greeting}
	conn, err := d.DialContext(ctx, "tcp", peer.String())
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoPeer, peer, err)
	}
	c := &Client{Peer: peer, host: h, control: newControl(conn)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var greeted hello
	if c.session, greeted, err = greetAsClient(c.control, key); err != nil {
		conn.Close()
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	c.Local, c.Remote, c.Name = ends(h, tcp), greeted.End, greeted.Name
	if s, err := tcpInfo(tcp, 0); err == nil {
		c.RTT = time.Duration(s.MinRTTS * float64(time.Second))
	}
	if c.udp, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(peer)); err == nil {
		v6 := peer.Addr().Is6() && !peer.Addr().Is4In6()
		c.sender, err = newSender(c.udp)
		err = errors.Join(err, stampArrivals(c.udp), dontFragment(c.udp, v6))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the session, which ends the peer.
func (c *Client) Close() {
	c.control.conn.Close()
	if c.udp != nil {
		c.udp.Close()
	}
}

// ask sends a message and waits for the answer up to a time limit.
func (c *Client) ask(ctx context.Context, q request, within time.Duration) (a answer, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.control.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = c.control.conn.SetDeadline(time.Now().Add(within))
	if err := c.control.write(q); err != nil {
		return a, c.lost(ctx, err)
	}
	return c.read(ctx)
}

// await waits for another answer to the last message.
func (c *Client) await(ctx context.Context, within time.Duration) (answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.control.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = c.control.conn.SetDeadline(time.Now().Add(within))
	return c.read(ctx)
}

func (c *Client) read(ctx context.Context) (a answer, err error) {
	if err := c.control.read(&a); err != nil {
		return a, c.lost(ctx, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("peer: %s", a.Error)
	}
	return a, nil
}

func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the peer %s is lost: %w", c.Peer, err)
}

// open makes a connection for data.
func (c *Client) open(ctx context.Context, kind byte, size int) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: greeting}
	conn, err := d.DialContext(ctx, "tcp", c.Peer.String())
	if err != nil {
		return nil, err
	}
	token := c.session.token()
	head := append(token[:], kind)
	if _, err := conn.Write(binary.BigEndian.AppendUint32(head, uint32(size))); err != nil {
		conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// streamRun holds the reports of both ends about a run of streams.
type streamRun struct {
	sender, receiver *streamReport
	here, there      *streamReport
}

// stream runs streams. started, if not nil, is called when they begin.
func (c *Client) stream(ctx context.Context, j streamJob, started func()) (r streamRun, err error) {
	if _, err := c.ask(ctx, request{Stream: &j}, greeting); err != nil {
		return r, err
	}
	conns := make([]*net.TCPConn, 0, j.Streams)
	for range j.Streams {
		conn, err := c.open(ctx, 'S', 0)
		if err != nil {
			for _, o := range conns {
				o.Close()
			}
			return r, err
		}
		conns = append(conns, conn)
	}
	// The peer has all connections, and sends or receives, when it answers.
	if _, err := c.ask(ctx, request{Go: true}, 2*greeting); err != nil {
		for _, o := range conns {
			o.Close()
		}
		return r, err
	}
	if started != nil {
		started()
	}
	r.here = j.transfer(ctx, c.host, conns, !j.Down)
	a, err := c.await(ctx, j.For+3*greeting)
	if err != nil {
		return r, err
	}
	if r.there = a.Stream; r.there == nil {
		return r, fmt.Errorf("the peer %s did not report the run", c.Peer)
	}
	r.sender, r.receiver = r.here, r.there
	if j.Down {
		r.sender, r.receiver = r.there, r.here
	}
	return r, nil
}

// requests are the times of requests and their answers.
type requests struct {
	rate   float64   // a second, one after the other
	timesS []float64 // from the intended start, at half of that rate at most
	late   float64   // share of the paced requests that this program started late
}

// request sends requests of size bytes, which have answers of the same size: for half of the time
// one after the other, then at half of that rate.
func (c *Client) request(ctx context.Context, run time.Duration, size int) (r requests, err error) {
	conn, err := c.open(ctx, 'R', size)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	buffer := make([]byte, size)
	once := func() error {
		_ = conn.SetDeadline(time.Now().Add(2 * greeting))
		if _, err := conn.Write(buffer); err != nil {
			return c.lost(ctx, err)
		}
		if _, err := io.ReadFull(conn, buffer); err != nil {
			return c.lost(ctx, err)
		}
		return nil
	}
	if err := once(); err != nil { // the first one includes the peer's start
		return r, err
	}
	begin, n := time.Now(), 0
	for ; n == 0 || time.Since(begin) < run/2; n++ {
		if err := once(); err != nil {
			return r, err
		}
	}
	took := time.Since(begin)
	r.rate = float64(n) / took.Seconds()
	p, err := newPacer(ctx, 2*took/time.Duration(n))
	if err != nil {
		return r, err
	}
	defer p.close()
	due := time.Now()
	for end := due.Add(run / 2); !due.After(end); due = due.Add(p.every) {
		start := due // the answer before came too late: the wait counts
		if time.Until(due) > 0 {
			if !p.until(due) {
				return r, c.lost(ctx, net.ErrClosed)
			}
			// A delay of this program is not the network's, so no request counts it as a wait.
			start = time.Now()
			p.started(due, start)
			due = start
		}
		if err := once(); err != nil {
			return r, err
		}
		r.timesS = append(r.timesS, time.Since(start).Seconds())
	}
	r.late = float64(p.late) / float64(max(1, len(r.timesS)))
	return r, nil
}
