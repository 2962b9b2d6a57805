package trend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/unit"
)

// Query asks a Prometheus for the points of a series.
type Query struct {
	Over time.Duration // until now
	Step time.Duration // between two points; 0: Over has 200 points
	Unit string
	More bool // higher values are better
	// Token is the bearer token; it may be empty.
	Token string
}

// QueryPrefix begins a query: prometheus:URL:EXPRESSION.
const QueryPrefix = "prometheus:"

const (
	queryPoints    = 200
	maxQueryPoints = 11_000 // Prometheus rejects more
	queryPatience  = time.Minute
)

// ErrQuery is returned for a query that is invalid, before anything is asked.
var ErrQuery = errors.New("invalid query")

// Samples returns the points of a query. $window in its expression is the time between two points.
func (q *Query) Samples(ctx context.Context, words string, now time.Time) ([]Sample, error) {
	address, expression, ok := prometheus.CutAddress(strings.TrimPrefix(words, QueryPrefix))
	if !ok {
		return nil, fmt.Errorf("%w %q: want prometheus:URL:EXPR, such as prometheus:http://localhost:9090:sum(rate(node_disk_io_time_seconds_total[$window]))", ErrQuery, words)
	}
	step := q.Step
	if step == 0 {
		step = max(time.Second, (q.Over / queryPoints).Round(time.Second))
	}
	if n := q.Over / step; n >= maxQueryPoints {
		return nil, fmt.Errorf("%w: %s values, and Prometheus returns at most 11,000; increase --step", ErrQuery, unit.Thousands(uint64(n)))
	}
	server, err := prometheus.Open(address, q.Token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	ctx, stop := prometheus.WithTimeout(ctx, queryPatience)
	defer stop()
	window := strconv.Itoa(int(step.Seconds())) + "s"
	values, err := server.Range(ctx, strings.ReplaceAll(expression, "$window", window), now.Add(-q.Over), now, step)
	if err != nil {
		return nil, err
	}
	var out []Sample
	for _, v := range values {
		if !isMeasurement(v.Value) {
			return nil, fmt.Errorf("%s answers a value above 1e100 to the query %s, which is not a measurement", server.Host(), expression)
		}
		out = append(out, Sample{Of: server.Host(), Name: expression, Unit: q.Unit, More: q.More,
			Point: Point{Label: v.Time.UTC().Format(time.RFC3339), Time: v.Time, Value: v.Value}})
	}
	return out, nil
}
