// target is what is asked of whom: the list of requests with their weights, the
// origins that they go to, and whether these may be loaded at all. Names are resolved here,
// once; whoever answers for them later leads a run nowhere else.

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

// Resolver finds the addresses of a name.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Allowed is whom the caller lets be loaded, beside this machine's loopback addresses.
type Allowed struct {
	networks []netip.Prefix
	sockets  []netip.AddrPort
}

// ParseAllowed reads words as 10.0.0.0/8 and web1.example:443. Names are resolved now.
func ParseAllowed(ctx context.Context, words []string, resolver Resolver) (*Allowed, error) {
	a := &Allowed{}
	for _, word := range words {
		if strings.Contains(word, "/") {
			network, err := netip.ParsePrefix(word)
			if err != nil {
				return nil, fmt.Errorf("%q is no network: want one as 10.0.0.0/8", word)
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

// may says whether a socket may be loaded.
func (a *Allowed) may(socket netip.AddrPort) bool {
	if socket.Addr().IsLoopback() {
		return true
	}
	for _, network := range a.networks {
		if network.Contains(socket.Addr()) {
			return true
		}
	}
	return slices.Contains(a.sockets, socket)
}

// NotAllowedError is a target that the caller has not allowed.
type NotAllowedError struct {
	Target string // as it was named, with its port
	Socket netip.AddrPort
}

func (e *NotAllowedError) Error() string {
	if e.Target == e.Socket.String() {
		return e.Target + " is not this machine, and not allowed: a load test is for a server of yours"
	}
	return fmt.Sprintf("%s is %s, which is not this machine, and not allowed: a load test is for a server of yours", e.Target, e.Socket.Addr())
}

// Find resolves a target, HOST:PORT, all of whose addresses have to be allowed: a
// NotAllowedError says which one is not.
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

// resolve gives the sockets of HOST:PORT, in the order that the resolver gives them.
func resolve(ctx context.Context, hostPort string, resolver Resolver) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || host == "" {
		return nil, fmt.Errorf("%q: want HOST:PORT, as web1.example:443 or [::1]:8080", hostPort)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q: %q is no port: want a number from 1 to 65535", hostPort, port)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(address.Unmap(), uint16(n))}, nil
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be resolved: %w", host, err)
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
