package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// teller makes values take effect. Redis does not read its file again: what it
// takes while it runs is set with CONFIG SET, one option at a time, and the
// program's name says which: "redis-server.service (maxmemory)".
type teller struct{ *product.Control }

func newTeller() teller {
	return teller{&product.Control{
		Name: "redis-server",
		Unit: func(h *host.Host, main string) string {
			return product.Unit(h, main, "redis-server.service", "redis.service", "valkey.service")
		},
		Mains:    func(h *host.Host) ([]string, error) { return conf.Mains(instances(h)) },
		Running:  running,
		Check:    keepsData,
		Ready:    ready,
		Start:    start,
		Patience: 2 * time.Minute, // it reads all its data when it starts
	}}
}

func (t teller) activation(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
	restart := slices.Contains(atStart, key)
	a, ok := t.Activation(ctx, h, main, restart)
	if !restart {
		a.Program += " (" + key + ")"
	}
	return a, ok
}

func (t teller) activate(ctx context.Context, h *host.Host, a setting.Activation) error {
	name, key, one := strings.Cut(a.Program, " (")
	a.Program = name
	if !one {
		return t.Activate(ctx, h, a)
	}
	main, err := t.Of(ctx, h, name)
	if err != nil {
		return err
	}
	return set(ctx, h, main, strings.TrimSuffix(key, ")"))
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

// ready waits for PING, which a server that reads its data answers with LOADING.
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

// set makes a running server take what the files say of one option, or its
// default where they say nothing any more.
func set(ctx context.Context, h *host.Host, main, key string) error {
	s, err := readSettings(h, main)
	if err != nil {
		return err
	}
	a, err := question(ctx, h, main, s)
	if errors.Is(err, product.ErrStopped) {
		return nil // somebody has stopped it; it will read its files when it starts
	}
	if err != nil {
		return err
	}
	value, _, ok := s.value(key)
	if !ok {
		if value, ok = defaultOf(key, a.Info["redis_version"]); !ok {
			return fmt.Errorf("no file sets %s any more, and its default is not known", key)
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

// evicts refuses what would delete data that no undo brings back.
func evicts(a *answer, key, value string) error {
	limit, err := readMemory(value)
	used, known := a.number("used_memory")
	if key != "maxmemory" || err != nil || limit == 0.0 {
		return nil
	}
	if policy := a.Config["maxmemory-policy"]; policy != "noeviction" && (!known || limit.(float64) < used) {
		return fmt.Errorf("maxmemory %s is below the %.0f bytes in use: with maxmemory-policy %s keys would be deleted, and no undo would bring them back", value, used, policy)
	}
	return nil
}

// defaultOf is what Redis does where no line says so.
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

// keepsData refuses a restart that would lose data. Otherwise SIGTERM makes the
// server write its snapshot.
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
		return fmt.Errorf("a restart would lose %d keys: neither save nor appendonly keeps them", n)
	}
	return nil
}

// start is how it is started by hand, as who it ran as.
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

// effect says whether the running server has the value of its files.
func effect(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string) {
	s, err := readSettings(h, main)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	a, err := question(ctx, h, main, s)
	switch {
	case errors.Is(err, product.ErrStopped):
		return plugin.OK, "in force from the server's next start"
	case err != nil:
		return plugin.Unknown, err.Error()
	case a.NoConfig != "":
		return plugin.Unknown, a.NoConfig
	}
	v, ok := a.Config[key]
	switch {
	case !ok:
		return plugin.Unsupported, "this version of Redis has no such option"
	case same(key, v, value):
		return plugin.OK, ""
	case slices.Contains(atStart, key):
		return plugin.NeedsRestart, "the server runs with " + v + " until it is restarted"
	}
	return plugin.Drifted, "the server runs with " + v
}
