package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// setsOne activates each option separately with CONFIG SET, because Redis does not reload its file.
// The activation's program name contains the option: "redis-server.service (maxmemory)".
func setsOne(c *product.Control, p *conf.Product) {
	activation, activate := p.Activation, p.Activate
	p.Activation = func(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
		a, ok := activation(ctx, h, main, key)
		if !a.Restart {
			a.Program += " (" + key + ")"
		}
		return a, ok
	}
	p.Activate = func(ctx context.Context, h *host.Host, a setting.Activation) error {
		name, key, one := strings.Cut(a.Program, " (")
		a.Program = name
		if !one {
			return activate(ctx, h, a)
		}
		main, err := c.Of(ctx, h, name)
		if err != nil {
			return err
		}
		return set(ctx, h, main, strings.TrimSuffix(key, ")"))
	}
}

func running(ctx context.Context, h *host.Host, main string) (product.Process, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Process{}, err
	}
	a, err := question(ctx, h, main, s)
	if err != nil {
		return product.Process{}, err
	}
	return a.Process, nil
}

// ready waits until the server responds to PING; while it loads its data, it responds with LOADING.
func ready(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return err
	}
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.do("PING")
	return err
}

// set changes one option of a running server to the value in its files, or to the default if no
// line sets it.
func set(ctx context.Context, h *host.Host, main, key string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return err
	}
	a, err := question(ctx, h, main, s)
	if errors.Is(err, product.ErrStopped) {
		return nil // the server has stopped meanwhile, and reads its files at its next start
	}
	if err != nil {
		return err
	}
	value, _, ok := s.value(key)
	if !ok {
		if value, ok = defaultOf(key, a.Info["redis_version"]); !ok {
			return fmt.Errorf("%s is no longer set, and its default is unknown", key)
		}
	}
	if a.NoConfig != "" {
		return errors.New(a.NoConfig)
	}
	if same(key, a.Config[key], value) {
		return nil
	}
	if err := evicts(a, key, value); err != nil {
		return err
	}
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.do("CONFIG", "SET", key, value); err != nil {
		return fmt.Errorf("CONFIG SET %s %s: %w", key, value, err)
	}
	_, err = c.do("PING")
	return err
}

// evicts returns an error for a memory limit that would delete data, which undo cannot restore.
func evicts(a *answer, key, value string) error {
	limit, err := readMemory(value)
	used, known := a.number("used_memory")
	if key != "maxmemory" || err != nil || limit == 0.0 {
		return nil
	}
	if policy := a.Config["maxmemory-policy"]; policy != "noeviction" && (!known || limit.(float64) < used) {
		return fmt.Errorf("maxmemory %s is below the %.0f bytes in use; with maxmemory-policy %s keys would be deleted for good", value, used, policy)
	}
	return nil
}

// defaultOf returns an option's default in a version; ok is false if it is unknown.
func defaultOf(key, version string) (string, bool) {
	if key == "save" {
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			return "900 1 300 10 60 10000", true
		}
		return "3600 1 300 100 60 10000", true
	}
	p := parameters.Named(key)
	if p == nil {
		return "", false
	}
	return p.Default, p.Default != ""
}

// keepsData returns an error for a restart that would lose data: without save and appendonly, Redis
// writes no snapshot on SIGTERM.
func keepsData(ctx context.Context, h *host.Host, main string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return err
	}
	a, err := question(ctx, h, main, s)
	if errors.Is(err, product.ErrStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	if n := a.keys(); n > 0 && a.Config["save"] == "" && a.Config["appendonly"] != "yes" {
		return fmt.Errorf("a restart would lose %d keys; neither save nor appendonly is set", n)
	}
	return nil
}

// start returns the command that starts the server without systemd, as its previous user.
func start(h *host.Host, main string, before product.Process) (product.Start, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return product.Start{}, err
	}
	name := "redis-server"
	if !host.HasProgram(h, name) {
		name = "valkey-server"
	}
	return product.Start{
		Argv: []string{name, main}, UID: before.UID, GID: before.GID,
		Background: s.text("daemonize", "no") != "yes",
	}, nil
}
