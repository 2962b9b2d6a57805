package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// answer is the report of a running server.
type answer struct {
	Config map[string]string `json:"config"` // response to CONFIG GET *
	Info   map[string]string `json:"info"`   // response to INFO
	// NoConfig says why Config is missing: the command is renamed or forbidden.
	NoConfig string          `json:"no_config,omitempty"`
	Process  product.Process `json:"process"`
}

// secrets are options whose values fettle does not read.
var secrets = []string{"requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"}

// infos are the lines of INFO that fettle records.
var infos = []string{
	"redis_version", "process_id", "config_file", "uptime_in_seconds", "connected_clients", "used_memory", "used_memory_rss", "mem_fragmentation_ratio",
	"evicted_keys", "rejected_connections", "loading", "role", "rdb_last_bgsave_status", "aof_last_write_status", "rdb_changes_since_last_save",
	"aof_rewrite_in_progress",
}

// question queries an instance's server for its options and infos. The error is product.ErrStopped
// if no server responds.
func question(ctx context.Context, h *host.Host, main string, s settings) (*answer, error) {
	return host.QueryJSON(ctx, h, "redis "+main, func(ctx context.Context, live *host.Host) (*answer, error) { return query(ctx, live, main, s) })
}

func query(ctx context.Context, h *host.Host, main string, s settings) (*answer, error) {
	c, err := dial(ctx, s)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, product.ErrStopped
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	a := &answer{Config: map[string]string{}, Info: map[string]string{}}
	all, err := c.do("INFO")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.Join(all, ""), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		for _, i := range infos {
			if name == i {
				a.Info[name] = value
			}
		}
		if strings.HasPrefix(name, "db") && strings.HasPrefix(value, "keys=") {
			a.Info[name] = value
		}
	}
	if file := a.Info["config_file"]; file != "" {
		if real, err := h.Files.Resolve(file); err != nil || real != main {
			return nil, fmt.Errorf("the server at this address uses another file, %s", file)
		}
	}
	if config, err := c.do("CONFIG", "GET", "*"); err != nil {
		a.NoConfig = "CONFIG GET: " + err.Error()
	} else {
		for i := 0; i+1 < len(config); i += 2 {
			a.Config[config[i]] = config[i+1]
		}
	}
	for _, name := range secrets {
		delete(a.Config, name)
	}
	pid, _ := strconv.Atoi(a.Info["process_id"])
	processes, err := product.Find(ctx, h, "redis-server", "valkey-server")
	if err != nil {
		return a, nil //nolint:nilerr // what it says itself is worth having
	}
	for _, p := range processes {
		if p.PID == pid {
			a.Process = p
		}
	}
	return a, nil
}

// keys returns the total number of keys in all databases.
func (a *answer) keys() int {
	n := 0
	for name, value := range a.Info {
		if strings.HasPrefix(name, "db") {
			count, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			k, _ := strconv.Atoi(count)
			n += k
		}
	}
	return n
}

// number returns the number in a line of INFO; ok is false if the line is missing.
func (a *answer) number(name string) (float64, bool) {
	n, err := strconv.ParseFloat(a.Info[name], 64)
	return n, err == nil
}
