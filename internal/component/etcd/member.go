package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fettle.dev/fettle/internal/component/metrics"
	"fettle.dev/fettle/internal/component/program"
	"fettle.dev/fettle/internal/host"
)

// Member is a member that runs here, for who asks it again and again.
type Member struct {
	Name   string
	h      *host.Host
	in     *instance
	answer *answer
	client *http.Client
}

// Members are those of this machine that run. Where there are some and none runs, that
// is the error.
func Members(ctx context.Context, h *host.Host) (out []*Member, err error) {
	all, err := instances(h)
	if err != nil {
		return nil, err
	}
	var stopped error
	for _, in := range all {
		a, err := started(ctx, h, in)
		if errors.Is(err, program.ErrStopped) {
			stopped = fmt.Errorf("%s: %w", in.Name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, &Member{Name: in.Name, h: h, in: in, answer: a, client: client(h, in)})
	}
	if len(out) == 0 && stopped != nil {
		return nil, stopped
	}
	return out, nil
}

// Metrics is what it tells of itself now.
func (m *Member) Metrics(ctx context.Context) (metrics.Page, error) {
	text, err := get(ctx, m.h, m.in, m.answer, "/metrics")
	if err != nil {
		return metrics.Page{}, err
	}
	return metrics.Read(text), nil
}

// Call calls a method of the member's through its JSON gateway (etcd, "gRPC gateway"),
// as /v3/kv/put. The connection is kept for the next call.
func (m *Member) Call(ctx context.Context, method string, asked, answer any) error {
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	all, problems := reached(m.in, m.answer, "listen-client-urls")
	for _, at := range all {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+method, strings.NewReader(string(body)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		text, err := answered(m.client, req)
		switch {
		case err != nil && text == "":
			problems = append(problems, err) // nobody hears there
			continue
		case err != nil && strings.Contains(err.Error(), "404"):
			return fmt.Errorf("%w: its JSON gateway is off (enable-grpc-gateway), or it is older than 3.4", err)
		case err != nil:
			return fmt.Errorf("%w: %.200s", err, strings.TrimSpace(text))
		}
		if err := json.Unmarshal([]byte(text), answer); err != nil {
			return fmt.Errorf("%s: %w", req.URL, err)
		}
		return nil
	}
	return errors.Join(problems...)
}

// Close ends its connections.
func (m *Member) Close() { m.client.CloseIdleConnections() }
