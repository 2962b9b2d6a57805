package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// client is a client for RESP2, the Redis protocol: a request is an array of words, a response one
// value. redis/go-redis would add 4.8 MB to the program for four commands.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// patience is the time limit of one connection.
const patience = 10 * time.Second

// dial connects to an address in the files, and logs in with the password in them.
func dial(ctx context.Context, s settings) (*client, error) {
	var conn net.Conn
	var err error
	if socket := s.text("unixsocket", ""); socket != "" {
		conn, err = host.DialUnixAs(ctx, socket, -1)
	} else {
		port := s.text("port", "6379")
		if port == "0" {
			return nil, errors.New("Redis is configured with neither a TCP port without TLS nor a unix socket")
		}
		conn, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", net.JoinHostPort(address(s.text("bind", "")), port))
	}
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	c := &client{conn, bufio.NewReader(conn)}
	if password := s.text("requirepass", ""); password != "" {
		if _, err := c.do("AUTH", password); err != nil {
			conn.Close()
			return nil, fmt.Errorf("the server rejects the password from its configuration file: %w", err)
		}
	}
	return c, nil
}

// address returns one address on which Redis listens, the loopback if possible.
func address(bind string) string {
	first := ""
	for _, a := range strings.Fields(bind) {
		a = strings.TrimPrefix(a, "-")
		ip := net.ParseIP(a)
		if a == "*" || ip != nil && (ip.IsLoopback() || ip.Equal(net.IPv4zero)) {
			if ip != nil && ip.To4() == nil {
				return a
			}
			return "127.0.0.1"
		}
		if first == "" && ip != nil {
			first = a
		}
	}
	if first == "" || first == "::" {
		return "127.0.0.1"
	}
	return first
}

func (c *client) close() { c.conn.Close() }

// do sends a command and returns the response: one string, or the elements of an array.
func (c *client) do(words ...string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return reply(c.in, 0)
}

// Limits of a response: any program may be listening.
const (
	maxText     = 1 << 20
	maxElements = 10000
	maxNesting  = 2
)

// reply parses one value, or the elements of an array.
func reply(in *bufio.Reader, depth int) ([]string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	text := strings.TrimRight(string(line), "\r\n")
	if text == "" {
		return nil, errors.New("the answer is empty; the server is not Redis")
	}
	kind, rest := text[0], text[1:]
	switch kind {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n < -1:
		return nil, fmt.Errorf("the answer %.40q is not from Redis", text)
	case n == -1:
		return []string{""}, nil
	case kind == '$' && n <= maxText:
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, fmt.Errorf("the answer: %w", err)
		}
		return []string{string(b[:n])}, nil
	case kind == '*' && n <= maxElements && depth < maxNesting:
		var all []string
		for range n {
			e, err := reply(in, depth+1)
			if err != nil {
				return nil, err
			}
			if all = append(all, e...); len(all) > maxElements {
				return nil, errors.New("the answer is too long")
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("the answer %.40q is not from Redis, or too long", text)
}
