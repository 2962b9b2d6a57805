package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// agrees returns an error if the member's cluster is unhealthy: a restart could lose the quorum.
func agrees(ctx context.Context, h *host.Host, main string) error {
	in, err := of(h, main)
	if err != nil {
		return err
	}
	a, err := question(ctx, h, in)
	switch {
	case errors.Is(err, product.ErrStopped):
		return nil
	case err != nil:
		return err
	case a.Silent == "" && a.Healthy != "true":
		return fmt.Errorf("the cluster is not healthy (/health: %s); restarting this member could lose quorum", a.Healthy)
	}
	return nil
}

// ready requests the member's health, as a load balancer does. If the member rejects fettle's
// client certificate, an accepted connection is enough: etcd listens once it has joined the
// cluster.
func ready(ctx context.Context, h *host.Host, main string) error {
	in, err := of(h, main)
	if err != nil {
		return product.Final(err)
	}
	a, err := question(ctx, h, in)
	switch {
	case err != nil:
		return err
	case a.Guarded:
		return nil
	case a.Silent != "":
		return errors.New(a.Silent)
	case a.Healthy != "true":
		return fmt.Errorf("/health: %s", a.Healthy)
	}
	return nil
}

// start returns the unit's command, for machines without a running systemd.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	in, err := of(h, main)
	if err != nil {
		return product.Start{}, err
	}
	s, err := product.OfUnit(h, in.unit)
	if name, err := h.Files.ReadFile("/proc/sys/kernel/hostname"); err == nil {
		for i, v := range s.Env { // Debian sets ETCD_NAME=%H
			s.Env[i] = strings.ReplaceAll(v, "%H", strings.TrimSpace(string(name)))
		}
	}
	return s, err
}

// holds returns an error for a quota below the database's size. Such a quota raises an alarm that
// an administrator must disarm, even after undo.
func holds(h *host.Host, key, text string) error {
	if key != "quota-backend-bytes" {
		return nil
	}
	n, err := readInteger(text)
	if err != nil {
		return err
	}
	quota := n.(float64)
	if quota == 0 {
		quota = defaultQuota
	}
	all, err := instances(h)
	if err != nil {
		return err
	}
	for _, in := range all {
		if in.pod() {
			continue
		}
		a, err := question(context.Background(), h, in)
		switch {
		case errors.Is(err, product.ErrStopped), host.Unknown(err):
			continue
		case err != nil:
			return err
		}
		if size, ok := a.Values["etcd_mvcc_db_total_size_in_bytes"]; ok && size >= quota {
			return fmt.Errorf("the database has %.0f bytes; at its quota the cluster rejects writes until the alarm is disarmed", size)
		}
	}
	return nil
}
