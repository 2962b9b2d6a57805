package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// Queue is one Sidekiq job queue.
type Queue struct {
	Name   string `json:"name"`
	Length int    `json:"length"`
	// OldestS is the waiting time of the next job in seconds: 0 without jobs, -1 if the job has no
	// time.
	OldestS float64 `json:"oldest_s"`
}

// errElsewhere is returned if the Redis server is not on this machine.
var errElsewhere = errors.New("the server runs on another machine")

// Queues returns the Sidekiq queues in the Redis at redis://HOST:PORT/DATABASE, which must be an
// instance of this machine. The set "queues" has the names; the last item of the list "queue:NAME"
// is taken first (lib/sidekiq/api.rb, Queue). The password comes from the server's file.
func Queues(ctx context.Context, h *host.Host, address string) ([]Queue, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "redis" {
		return nil, errors.New("invalid Redis address; want redis://HOST:PORT/DATABASE")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("queues of Sidekiq in Redis: %w", errElsewhere)
	}
	port, database := u.Port(), strings.Trim(u.Path, "/")
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.Atoi(database); database != "" && (err != nil || n < 0) {
		return nil, fmt.Errorf("database %.20q of Redis is not a number", database)
	}
	return host.QueryJSON(ctx, h, "queues of Sidekiq in Redis at "+port+"/"+database, func(ctx context.Context, live *host.Host) ([]Queue, error) {
		s, err := listening(live, port)
		if err != nil {
			return nil, err
		}
		c, err := dial(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", product.ErrStopped, err)
		}
		defer c.close()
		return c.queues(database, live.Clock.Now())
	})
}

// listening returns the settings of the instance that listens on a port.
func listening(h *host.Host, port string) (settings, error) {
	all, err := instances(h)
	if err != nil {
		return settings{}, err
	}
	for _, in := range all {
		if s, err := readSettings(h, in.Main); err == nil && s.text("port", "6379") == port {
			return s, nil
		}
	}
	return settings{}, fmt.Errorf("no Redis on this machine is configured with port %s", port)
}

func (c *client) queues(database string, now time.Time) ([]Queue, error) {
	if database != "" {
		if _, err := c.do("SELECT", database); err != nil {
			return nil, fmt.Errorf("SELECT %s: %w", database, err)
		}
	}
	names, err := c.do("SMEMBERS", "queues")
	if err != nil {
		return nil, fmt.Errorf("SMEMBERS queues: %w", err)
	}
	slices.Sort(names)
	out := []Queue{}
	for _, name := range names {
		length, err := c.do("LLEN", "queue:"+name)
		if err != nil {
			return nil, fmt.Errorf("LLEN queue:%s: %w", name, err)
		}
		q := Queue{Name: name}
		q.Length, _ = strconv.Atoi(strings.Join(length, ""))
		if q.Length > 0 {
			job, err := c.do("LINDEX", "queue:"+name, "-1")
			if err != nil {
				return nil, fmt.Errorf("LINDEX queue:%s: %w", name, err)
			}
			q.OldestS = waits(strings.Join(job, ""), now)
		}
		out = append(out, q)
	}
	return out, nil
}

// waits returns how long a job has waited, in seconds: 0 without a job, -1 if it has no time.
// Sidekiq 8 stores milliseconds, earlier versions seconds.
func waits(job string, now time.Time) float64 {
	if job == "" {
		return 0 // the job has just been taken
	}
	var j struct {
		At float64 `json:"enqueued_at"`
	}
	if json.Unmarshal([]byte(job), &j) != nil || j.At <= 0 {
		return -1
	}
	if j.At > 1e11 {
		j.At /= 1000
	}
	return max(0, float64(now.UnixNano())/1e9-j.At)
}
