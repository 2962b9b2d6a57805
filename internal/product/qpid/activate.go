package qpid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// newControl restarts the broker: it reads everything when it starts.
func newControl() *product.Control {
	return &product.Control{
		Name:  "qpidd",
		Unit:  func(h *host.Host, main string) string { return product.Unit(h, main, service) },
		Mains: func(h *host.Host) ([]string, error) { return conf.Mains(settable(h)) },
		Running: func(ctx context.Context, h *host.Host, _ string) (product.Process, error) {
			return product.OfService(ctx, h, "qpidd", service)
		},
		Check: func(_ context.Context, h *host.Host, main string) error {
			in, err := of(h, main)
			if err == nil {
				_, _, err = in.file(h, "port")
			}
			return err
		},
		Ready: ready,
		Start: func(h *host.Host, main string, before product.Process) (product.Start, error) {
			in, err := of(h, main)
			switch {
			case err != nil:
				return product.Start{}, err
			case in.unit == nil && before.PID > 0:
				return product.Start{Argv: before.Argv, Background: !slices.Contains(before.Argv, "-d") && !slices.Contains(before.Argv, "--daemon"), UID: before.UID, GID: before.GID}, nil
			case in.unit == nil:
				return product.Start{}, fmt.Errorf("%s not found, so how qpidd is started is unknown", service)
			}
			return product.OfUnit(h, in.unit)
		},
		Patience: 90 * time.Second, // it reads the journals of durable queues
	}
}

// ready wants the broker to take a connection, and at the port without TLS to speak
// AMQP.
func ready(ctx context.Context, h *host.Host, main string, _ product.Process) error {
	in, err := of(h, main)
	if err != nil {
		return product.Final(err)
	}
	port, ok, err := in.option(h, "port")
	if err != nil {
		return product.Final(err)
	}
	if !ok {
		port.text = parameters.Named("port").Default
	}
	tls, hasTLS, err := in.option(h, "ssl-port")
	if err != nil {
		return product.Final(err)
	}
	only, restricted, err := in.option(h, "listen-disable")
	if err != nil {
		return product.Final(err)
	}
	address, _, err := in.option(h, "interface")
	if err != nil {
		return product.Final(err)
	}
	ip := "127.0.0.1"
	switch parsed := net.ParseIP(address.text); {
	case parsed != nil && !parsed.IsUnspecified():
		ip = address.text
	case parsed == nil && address.text != "" && address.text != "lo":
		return nil // a device: that its process is there is all that is known
	}
	if port.text != "0" && (!restricted || only.text != "tcp") {
		return greets(ctx, net.JoinHostPort(ip, port.text))
	}
	if hasTLS && tls.text != "0" {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, tls.text))
		if err != nil {
			return err
		}
		return c.Close()
	}
	return nil
}

// greets is the beginning of a connection: qpidd answers to the header of AMQP 0-10
// with one of its own, whether it has that version or another (AMQP 0-10, 4.3;
// src/qpid/amqp_0_10/Connection.cpp).
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
		return fmt.Errorf("%s: it does not answer: %w", address, err)
	}
	if string(head) != "AMQP" {
		return errors.New(address + ": what answers there speaks no AMQP")
	}
	return nil
}

// effect says whether the running broker has read the file.
func effect(ctx context.Context, h *host.Host, main, _, _ string) (plugin.Verdict, string) {
	p, err := product.OfService(ctx, h, "qpidd", service)
	g := product.Group{Main: p}
	if err == nil {
		g.Changed = product.Changed(ctx, h, main, []string{main})
	}
	return product.Effect(g.TakenAtStart(), err)
}
