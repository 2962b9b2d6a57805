package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// agrees refuses to restart a member whose cluster is not well: one fewer, and
// nobody writes.
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
		return fmt.Errorf("the cluster is not well (/health: %s): a restart of this member would make it worse", a.Healthy)
	}
	return nil
}

// ready asks for its health, as a load balancer does. A member that tells strangers
// nothing is ready when it takes connections: it does so once it has joined.
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

// start is what the unit does, where no systemd runs that could.
func start(h *host.Host, main string, _ product.Process) (product.Start, error) {
	in, err := of(h, main)
	if err != nil {
		return product.Start{}, err
	}
	s, err := product.OfUnit(h, in.unit)
	if name, err := h.Files.ReadFile("/proc/sys/kernel/hostname"); err == nil {
		for i, v := range s.Env { // ETCD_NAME=%H is Debian's
			s.Env[i] = strings.ReplaceAll(v, "%H", strings.TrimSpace(string(name)))
		}
	}
	return s, err
}

// holds refuses a quota that the database has already: the alarm that it raises
// stays until somebody disarms it, also when the quota is back.
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
			return fmt.Errorf("the database has %.0f bytes already: at its quota the cluster takes no more writes, until the alarm is disarmed", size)
		}
	}
	return nil
}
