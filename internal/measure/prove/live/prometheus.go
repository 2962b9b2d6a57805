package live

import (
	"context"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/prometheus"
)

// prometheusSource is a query to a Prometheus server.
type prometheusSource struct {
	server           *prometheus.Server
	name, expression string
}

// patience is the timeout of a query.
const patience = 20 * time.Second

func (a *prometheusSource) ask(ctx context.Context) (float64, error) {
	ctx, stop := prometheus.WithTimeout(ctx, patience)
	defer stop()
	v, known, err := a.server.Query(ctx, a.expression)
	if err == nil && !known {
		err = fmt.Errorf("%s does not return a number for the query %s: %w", a.server.Host(), a.expression, errNothing)
	}
	return v, err
}

func (a *prometheusSource) Check(ctx context.Context) error { _, err := a.ask(ctx); return err }

func (a *prometheusSource) Begin() error { return nil }

func (a *prometheusSource) Read(ctx context.Context, _ time.Duration) (prove.Measurement, error) {
	v, err := a.ask(ctx)
	return prove.Measurement{Values: prove.Values{a.name: v}}, err
}
