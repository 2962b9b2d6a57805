package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// infos are the lines of "show info" that fettle records.
var infos = []string{
	"Name", "Version", "Pid", "Uptime_sec", "Nbthread", "Memmax_MB", "PoolFailed", "Ulimit-n", "Maxsock", "Maxconn", "Hard_maxconn", "CurrConns", "CumConns",
	"MaxSslConns", "CurrSslConns", "ConnRateLimit", "ConnRate", "MaxConnRate", "Idle_pct", "Stopping", "Run_queue",
}

// reach converts an address of a configuration to one that this machine can dial, or "".
func reach(address string) (network, at string) {
	for _, prefix := range []string{"ipv4@", "ipv6@"} {
		address = strings.TrimPrefix(address, prefix)
	}
	if name, ok := strings.CutPrefix(address, "unix@"); ok {
		address = name
	}
	if strings.HasPrefix(address, "/") {
		return "unix", address
	}
	i := strings.LastIndexByte(address, ':')
	if i < 0 || strings.Contains(address, "@") {
		return "", ""
	}
	name, port := strings.Trim(address[:i], "[]"), address[i+1:]
	port, _, _ = strings.Cut(port, "-") // the first port of a range
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", ""
	}
	return "tcp", net.JoinHostPort(product.Loopback(name), port)
}

// errNoSocket is returned if HAProxy cannot be queried.
var errNoSocket = errors.New("no stats socket is configured, so HAProxy's state is unknown")

// question queries an instance's server with "show info"; the error is product.ErrStopped if none
// runs.
func question(ctx context.Context, h *host.Host, main string, s settings) (map[string]string, error) {
	network, address, _ := s.socket()
	if network == "" {
		return nil, errNoSocket
	}
	return host.QueryJSON(ctx, h, "haproxy "+main+": show info", func(ctx context.Context, _ *host.Host) (map[string]string, error) {
		return query(ctx, network, address)
	})
}

func query(ctx context.Context, network, address string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, product.ErrStopped
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if d, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(d); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(c, "show info\n"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if err != nil {
		return nil, err
	}
	return readInfo(string(text))
}

// readInfo parses a response to "show info".
func readInfo(text string) (map[string]string, error) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && slices.Contains(infos, name) {
			info[name] = strings.TrimSpace(value)
		}
	}
	if info["Pid"] == "" {
		return nil, fmt.Errorf("unexpected answer to show info on the stats socket: %.60q", strings.TrimSpace(text))
	}
	return info, nil
}
