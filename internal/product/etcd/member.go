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

// Member is a running member on this machine, for repeated requests by its callers.
type Member struct {
	Name  string
	asker *asker
}

// Members returns the running members of this machine. It returns an error if members exist but
// none runs.
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

// Metrics requests the member's metrics.
func (m *Member) Metrics(ctx context.Context) (prometheus.Metrics, error) {
	text, err := m.asker.get(ctx, "/metrics")
	if err != nil {
		return prometheus.Metrics{}, err
	}
	return prometheus.ParseMetrics(text), nil
}

// Call calls a method, such as /v3/kv/put, through the member's JSON gateway (etcd, "gRPC
// gateway"). It reuses one connection.
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

// Close closes the member's connections.
func (m *Member) Close() { m.asker.close() }
