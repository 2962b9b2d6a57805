package qpid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

func processes(ctx context.Context, h *host.Host, _ string) (product.Group, error) {
	p, err := product.OfService(ctx, h, "qpidd", service)
	return product.Group{Main: p}, err
}

// configTest returns an error for a file with which the broker would not start.
func configTest(_ context.Context, h *host.Host, main string) error {
	in, err := read(h, main)
	return errors.Join(err, in.unread)
}

// start returns the unit's command, or the running process's command.
func start(h *host.Host, main string, before product.Process) (product.Start, error) {
	in, err := read(h, main)
	switch {
	case err != nil:
		return product.Start{}, err
	case in.unit != nil:
		return product.OfUnit(h, in.unit)
	case before.PID == 0:
		return product.Start{}, fmt.Errorf("%s not found; restart qpidd by hand", service)
	}
	daemonized := slices.Contains(before.Argv, "-d") || slices.Contains(before.Argv, "--daemon")
	return product.Start{Argv: before.Argv, Background: !daemonized, UID: before.UID, GID: before.GID}, nil
}

// ready waits until the broker accepts connections. On the port without TLS, it also waits for an
// AMQP response.
func ready(ctx context.Context, h *host.Host, main string) error {
	in, err := read(h, main)
	if err = errors.Join(err, in.unread); err != nil {
		return product.Final(err)
	}
	option := func(name string) string {
		value, _, _, _ := in.Value(name)
		return value
	}
	port := cmp.Or(option("port"), parameters.Named("port").Default)
	tls, address := option("ssl-port"), option("interface")
	ip := "127.0.0.1"
	switch parsed := net.ParseIP(address); {
	case parsed != nil && !parsed.IsUnspecified():
		ip = address
	case parsed == nil && address != "" && address != "lo":
		return nil // interface is a network device: only the process is checked
	}
	if port != "0" && option("listen-disable") != "tcp" {
		return greets(ctx, net.JoinHostPort(ip, port))
	}
	if tls != "" && tls != "0" {
		return product.Accepts(ctx, "tcp", net.JoinHostPort(ip, tls))
	}
	return nil
}

// greets tests a connection: qpidd responds to an AMQP 0-10 header with its own header, whatever
// version it supports (AMQP 0-10, 4.3; src/qpid/amqp_0_10/Connection.cpp).
func greets(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	if _, err := c.Write([]byte("AMQP\x01\x01\x00\x0a")); err != nil {
		return err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return fmt.Errorf("%s: no answer: %w", address, err)
	}
	if string(head) != "AMQP" {
		return errors.New(address + ": the answer is not AMQP")
	}
	return nil
}
