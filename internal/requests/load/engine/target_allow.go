// Targets: the servers that may be loaded. Names are resolved only once, so a later DNS answer
// cannot redirect a run.

package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Resolver resolves host names.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Allowed holds the servers that may be loaded, in addition to loopback addresses.
type Allowed struct {
	// NoLoopback excludes loopback addresses too, unless they are allowed like others.
	NoLoopback bool

	networks []netip.Prefix
	sockets  []netip.AddrPort
}

// ParseAllowed parses networks and servers, such as 10.0.0.0/8 and web1.example:443. It
// resolves host names.
func ParseAllowed(ctx context.Context, words []string, resolver Resolver) (*Allowed, error) {
	a := &Allowed{}
	for _, word := range words {
		if strings.Contains(word, "/") {
			network, err := netip.ParsePrefix(word)
			if err != nil {
				return nil, fmt.Errorf("%q is not a network: want one such as 10.0.0.0/8", word)
			}
			a.networks = append(a.networks, network.Masked())
			continue
		}
		sockets, err := resolve(ctx, word, resolver)
		if err != nil {
			return nil, err
		}
		a.sockets = append(a.sockets, sockets...)
	}
	return a, nil
}

// may reports whether load to an address and port is allowed.
func (a *Allowed) may(socket netip.AddrPort) bool {
	if socket.Addr().IsLoopback() && !a.NoLoopback {
		return true
	}
	for _, network := range a.networks {
		if network.Contains(socket.Addr()) {
			return true
		}
	}
	return slices.Contains(a.sockets, socket)
}

// NotAllowedError is returned for a target that the user has not allowed.
type NotAllowedError struct {
	Target string // as given, with port
	Socket netip.AddrPort
}

func (e *NotAllowedError) Error() string {
	if e.Socket.Addr().IsLoopback() {
		return e.Target + " is a loopback address: each generator would load its own pod, not this machine"
	}
	if e.Target == e.Socket.String() {
		return e.Target + " is not a loopback address and not allowed; load only your own servers"
	}
	return fmt.Sprintf("%s is %s, not a loopback address and not allowed; load only your own servers", e.Target, e.Socket.Addr())
}

// Find resolves a target, HOST:PORT. It returns a NotAllowedError unless all of the target's
// addresses are allowed.
func (a *Allowed) Find(ctx context.Context, hostPort string, resolver Resolver) ([]netip.AddrPort, error) {
	sockets, err := resolve(ctx, hostPort, resolver)
	if err != nil {
		return nil, err
	}
	for _, s := range sockets {
		if !a.may(s) {
			return nil, &NotAllowedError{hostPort, s}
		}
	}
	return sockets, nil
}

// resolve returns the sockets of HOST:PORT in the resolver's order.
func resolve(ctx context.Context, hostPort string, resolver Resolver) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" {
		return nil, fmt.Errorf("%q: want HOST:PORT, such as web1.example:443 or [::1]:8080", hostPort)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q: port %q: want a number from 1 to 65535", hostPort, port)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(address.Unmap(), uint16(n))}, nil
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve %s: %w", host, err)
	}
	var sockets []netip.AddrPort
	for _, address := range found {
		sockets = append(sockets, netip.AddrPortFrom(address.Unmap(), uint16(n)))
	}
	if len(sockets) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return sockets, nil
}
