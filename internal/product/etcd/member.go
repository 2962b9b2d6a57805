package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/prometheus"
)

// Member is a member that runs here, for who asks it again and again.
type Member struct {
	Name  string
	asker *asker
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
		if errors.Is(err, product.ErrStopped) {
			stopped = fmt.Errorf("%s: %w", in.Name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, &Member{Name: in.Name, asker: newAsker(h, in, a)})
	}
	if len(out) == 0 && stopped != nil {
		return nil, stopped
	}
	return out, nil
}

// Metrics is what it tells of itself now.
func (m *Member) Metrics(ctx context.Context) (prometheus.Metrics, error) {
	text, err := m.asker.get(ctx, "/metrics")
	if err != nil {
		return prometheus.Metrics{}, err
	}
	return prometheus.ParseMetrics(text), nil
}

// Call calls a method of the member's through its JSON gateway (etcd, "gRPC gateway"),
// as /v3/kv/put. The connection is kept for the next call.
func (m *Member) Call(ctx context.Context, method string, asked, answer any) error {
	text, err := m.asker.call(ctx, method, asked)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		return fmt.Errorf("the answer to %s: %w", method, err)
	}
	return nil
}

// Close ends its connections.
func (m *Member) Close() { m.asker.close() }
