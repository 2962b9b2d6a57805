package network

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"time"
)

// How a path MTU was found.
const (
	ByInterface = "interface"  // the path carries what the sender's interface carries
	ByICMP      = "icmp"       // a router reported it
	BlackHole   = "black hole" // larger packets disappear, and no router says so
	NoAnswer    = "no answer"  // not even small packets came back
)

// Way is the path MTU of one direction.
type Way struct {
	// MTU is the size of the largest IP packet that arrives, in bytes; 0 without an answer.
	MTU int    `json:"mtu_bytes"`
	How string `json:"found_by"`
	// Interface is the MTU of the sender's interface.
	Interface int `json:"interface_mtu_bytes,omitempty"`
}

// Path has the path MTUs of both directions.
type Path struct {
	Up   Way `json:"send"`
	Down Way `json:"receive"`
}

// What happened to a probe of a size.
type fate int

const (
	lostProbe fate = iota
	arrived
	refused // by the sender's own interface
	told    // a router reported its MTU
)

// isLoss reports whether an error of a connected socket means a lost datagram: an ICMP message about
// an earlier one, or this machine's own queue or packet filter dropped it.
func isLoss(err error) bool {
	if errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EPERM) {
		return true
	}
	return errors.Is(err, syscall.EMSGSIZE) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// path finds the path MTU of both directions.
func (c *Client) path(ctx context.Context) (p Path, err error) {
	if p.Up, err = c.way(ctx, c.Local.MTU, func(size int) (fate, int, error) { return c.probeSize(ctx, smallReply, size) }); err != nil {
		return p, err
	}
	p.Down, err = c.way(ctx, c.Remote.MTU, func(size int) (fate, int, error) { return c.probeSize(ctx, sizedReply, size) })
	return p, err
}

// headers is the size of the IP and UDP headers, and smallest the MTU that each path must carry.
func (c *Client) headers() (headers, smallest int) {
	if c.Peer.Addr().Is6() && !c.Peer.Addr().Is4In6() {
		return 48, 1280
	}
	return 28, 576
}

// way searches the path MTU, up to the MTU of the interface.
func (c *Client) way(ctx context.Context, most int, probe func(size int) (fate, int, error)) (w Way, err error) {
	_, least := c.headers()
	if most <= 0 {
		most = 1500
	}
	w = Way{Interface: most, How: ByInterface}
	most = min(most, 65535)
	// The search ends when least passes and most is one byte more than it.
	if f, _, err := probe(least); err != nil || f != arrived {
		w.How = NoAnswer
		return w, err
	}
	next := most
	for most++; most-least > 1; next = (least + most) / 2 {
		if err := ctx.Err(); err != nil {
			return w, err
		}
		f, mtu, err := probe(next)
		if err != nil {
			return w, err
		}
		switch {
		case f == arrived:
			least = next
			continue
		case f == told && w.How != BlackHole:
			w.How = ByICMP
		case f == lostProbe:
			w.How = BlackHole
		}
		most = next
		if f != lostProbe && mtu >= least && mtu < next {
			if f, _, err := probe(mtu); err != nil {
				return w, err
			} else if f == arrived {
				least, most = mtu, mtu+1
			}
		}
	}
	w.MTU = least
	return w, nil
}

// tries is the number of attempts before a probe size counts as lost, or a run in which too little
// arrived as failed: on a busy machine, one of the programs may not have run in time.
const tries = 3

// probeSize sends probes of which one direction has the size, in bytes of IP.
func (c *Client) probeSize(ctx context.Context, kind byte, size int) (fate, int, error) {
	headers, _ := c.headers()
	payload := size - headers
	tag := c.session.tag()
	p := make([]byte, probeSize)
	if kind == smallReply {
		p = make([]byte, max(probeSize, payload))
	}
	copy(p, tag[:])
	p[atKind] = kind
	binary.BigEndian.PutUint16(p[atSize:], uint16(payload))
	c.trains++
	binary.BigEndian.PutUint32(p[atTrain:], c.trains)
	if _, err := c.ask(ctx, request{Path: true}, greeting); err != nil { // empties the peer's error queue
		return 0, 0, err
	}
	toldMTU(c.udp)
	buffer := make([]byte, 64<<10)
	for range tries {
		_, err := c.udp.Write(p)
		if errors.Is(err, syscall.EMSGSIZE) {
			if mtu := toldMTU(c.udp); mtu > 0 {
				return told, mtu, nil
			}
			return refused, 0, nil
		}
		if err != nil && !isLoss(err) {
			return 0, 0, err
		}
		_ = c.udp.SetReadDeadline(time.Now().Add(tail + 4*c.RTT))
		for {
			n, err := c.udp.Read(buffer)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				break
			}
			if err != nil {
				if !isLoss(err) {
					return 0, 0, err
				}
				if mtu := toldMTU(c.udp); mtu > 0 && kind == smallReply {
					return told, mtu, nil
				}
				continue
			}
			if n < probeSize || [8]byte(buffer) != tag || binary.BigEndian.Uint32(buffer[atTrain:]) != c.trains {
				continue
			}
			switch buffer[atKind] {
			case reply:
				return arrived, 0, nil
			case tooBig:
				return refused, int(binary.BigEndian.Uint32(buffer[atTold:])), nil
			}
		}
		if kind == sizedReply {
			a, err := c.ask(ctx, request{Path: true}, greeting)
			if err != nil {
				return 0, 0, err
			}
			if a.Told != nil && *a.Told > 0 {
				return told, *a.Told, nil
			}
		}
	}
	return lostProbe, 0, nil
}
