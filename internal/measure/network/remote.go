package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ssh"
	"fettle.dev/fettle/internal/ui"
)

// ServeSchema names the JSON form of Served.
const ServeSchema = "fettle/bench-network-serve/v1"

// Served is the output of a peer that is ready.
type Served struct {
	Schema   string      `json:"schema"` // fettle/bench-network-serve/v1
	Headline ui.Headline `json:"headline"`
	Address  string      `json:"address"`
	Overlay  string      `json:"overlay,omitempty"` // address inside an overlay network
	Key      string      `json:"key"`
}

// Target names a peer: an address and its key, or a host on which ssh starts one.
type Target struct {
	Host    string // address[:port], name[:port], or ssh:[USER@]HOST
	Key     string // not with ssh
	Overlay string // address[:port] of the same machine inside an overlay network; may be empty
}

// Connection is a connection to a peer.
type Connection struct {
	Client  *Client
	Overlay *Client // nil without an overlay
	stop    func()  // ends a peer that was started through ssh
}

// Close ends the sessions, which ends the peer.
func (c *Connection) Close() {
	if c.Overlay != nil {
		c.Overlay.Close()
	}
	if c.Client != nil {
		c.Client.Close()
	}
	c.stop()
}

// ErrNoKey is returned if the key of a peer is missing.
var ErrNoKey = errors.New("the key of the peer is missing; start fettle bench network --serve there, and copy the call that it prints")

// ErrNoPeer is returned if nothing answers at the address.
var ErrNoPeer = errors.New("no peer")

// ErrNoOverlay is returned if nothing answers at the address inside the overlay. The peer was not
// contacted, so it still waits for its client.
var ErrNoOverlay = errors.New("no peer inside the overlay")

// ErrPort is returned for an invalid port.
var ErrPort = errors.New("the port is not a number from 1 to 65535")

// remoteStart is the time limit of ssh and the peer's start.
const remoteStart = time.Minute

// Connect connects to the peer. With ssh it starts the peer first.
func (t Target) Connect(ctx context.Context, h *host.Host) (_ *Connection, err error) {
	name, remote := ssh.ParseHost(t.Host)
	if !remote && strings.HasPrefix(t.Host, "ssh:") {
		return nil, ui.Exit(ui.Usage, fmt.Errorf("%q is not a host of ssh: want ssh:HOST or ssh:USER@HOST", t.Host))
	}
	c := &Connection{stop: func() {}}
	at, overlay, key := t.Host, t.Overlay, t.Key
	if remote {
		s, served, err := start(ctx, name, t.Overlay)
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", name, err)
		}
		c.stop, at, overlay, key = s.Close, served.Address, served.Overlay, served.Key
	}
	if key == "" {
		return nil, ErrNoKey
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if overlay != "" && !remote {
		if err := listens(ctx, overlay); err != nil {
			return nil, err
		}
	}
	if c.Client, err = dialName(ctx, h, at, key); err != nil || overlay == "" {
		return c, err
	}
	c.Overlay, err = dialName(ctx, h, overlay, key)
	return c, err
}

// listens returns ErrNoOverlay if no connection can be made to the address. It sends nothing, so
// the peer does not count the connection as its client.
func listens(ctx context.Context, overlay string) error {
	at, err := resolve(ctx, overlay)
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: greeting}
	conn, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("%w at %s: %w", ErrNoOverlay, at, err)
	}
	return conn.Close()
}

func dialName(ctx context.Context, h *host.Host, word, key string) (*Client, error) {
	address, err := resolve(ctx, word)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, h, address, key)
}

// Device returns the network device of this machine through which it would reach the target, or ""
// if that is unknown before ssh has connected. It sends nothing except to resolve the name.
func (t Target) Device(ctx context.Context) string {
	name, _ := ssh.ParseHost(t.Host)
	at, err := resolve(ctx, name[strings.Index(name, "@")+1:])
	if err != nil {
		return ""
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return ""
	}
	defer c.Close()
	local := c.LocalAddr().(*net.UDPAddr)
	if i := interfaceOf(&net.TCPAddr{IP: local.IP}); i != nil {
		return i.Name
	}
	return ""
}

// start runs a peer through ssh, which also binds an address inside an overlay unless that is "",
// and waits until it is ready.
func start(ctx context.Context, host, overlay string) (_ *ssh.Session, served Served, err error) {
	call := []string{"fettle", "bench", "network", "--serve", "--until-input-ends", "--output", "json"}
	if overlay != "" {
		call = append(call, "--overlay", overlay)
	}
	words, err := ssh.Command(host, call...)
	if err != nil {
		return nil, served, err
	}
	s, err := ssh.Start(context.WithoutCancel(ctx), words, maxMessage)
	if err != nil {
		return nil, served, err
	}
	late := time.AfterFunc(remoteStart, s.Kill)
	stop := context.AfterFunc(ctx, s.Kill)
	defer func() { late.Stop(); stop() }()
	var text strings.Builder
	for {
		line, err := s.Line()
		if err != nil {
			s.Close()
			return nil, served, err
		}
		text.Write(line)
		if json.Unmarshal([]byte(text.String()), &served) == nil {
			break
		}
	}
	if served.Schema != ServeSchema {
		s.Close()
		return nil, served, fmt.Errorf("no answer of %s; install the same version of fettle there", ServeSchema)
	}
	return s, served, nil
}

// resolve returns the address of HOST[:PORT].
func resolve(ctx context.Context, word string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(word)
	if err != nil {
		host, port = strings.Trim(word, "[]"), fmt.Sprint(defaultPort)
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s: %w", word, ErrPort)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the name %s has no address: %w", host, err)
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(n)), nil
}

// ServeAt returns the address to bind: the given one, or else the address at which an ssh client
// reached this machine.
func ServeAt(word string) (netip.AddrPort, error) {
	at, err := serveAt(word)
	if err == nil && at.Addr().IsUnspecified() {
		return at, fmt.Errorf("%s means all addresses; name the address that the other machine can reach", at.Addr())
	}
	return at, err
}

func serveAt(word string) (netip.AddrPort, error) {
	if word == "" {
		words := strings.Fields(os.Getenv("SSH_CONNECTION")) // client, its port, server, its port
		if len(words) != 4 {
			return netip.AddrPort{}, errors.New("address missing; name an address of this machine that the other machine can reach")
		}
		at, err := netip.ParseAddr(words[2])
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("SSH_CONNECTION: %w", err)
		}
		return netip.AddrPortFrom(at.Unmap(), 0), nil
	}
	if at, err := netip.ParseAddrPort(word); err == nil {
		return at, nil
	}
	at, err := netip.ParseAddr(strings.Trim(word, "[]"))
	if h, _, split := net.SplitHostPort(word); err != nil && split == nil {
		if _, is := netip.ParseAddr(h); is == nil {
			return netip.AddrPort{}, fmt.Errorf("%s: %w", word, ErrPort)
		}
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address of this machine: want ADDRESS or ADDRESS:PORT, such as 192.0.2.7 or [2001:db8::7]:%d", word, defaultPort)
	}
	return netip.AddrPortFrom(at, defaultPort), nil
}
