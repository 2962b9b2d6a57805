package live

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/prometheus"
)

// Set holds the metrics of an experiment on running work and their sources.
type Set struct {
	Host *host.Host
	// Format detects a log's format from its path and a part of its text. nil detects it from the
	// text.
	Format func(path string, text []byte) (*logformat.Format, error)
	// Pattern, if not nil, finds the number in a line of a log. It replaces the format.
	Pattern *regexp.Regexp
	// Unit is the unit of the numbers that Pattern finds.
	Unit string
	// Token is the bearer token for Prometheus; it may be empty.
	Token string
	// WindowS is the length of a window in seconds, for $window in expressions.
	WindowS int
	// Recent limits the age of a log's last line; 0: no limit.
	Recent time.Duration

	logs    map[string]*log
	sources []Source
}

// Sources returns the sources of the metrics.
func (s *Set) Sources() []Source { return s.sources }

// Rate names the rate of requests in a log, as a statistic and as the covariate of a metric
// from the same log.
const Rate = "rate"

// Metric parses a metric:
//
//	pressure:cpu|memory|io[:some|full]   share of the time in which tasks wait, %
//	logs:FILE:mean|median|pNN|max|rate   statistic of the durations, or requests a second;
//	                                     followed by (FIELD) for another duration, and by
//	                                     where CONDITION for some requests
//	prometheus:URL:EXPRESSION            one number; $window is the window's length.
func (s *Set) Metric(text string) (prove.Metric, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "pressure":
		return s.pressure(text, rest)
	case "logs":
		return s.ofLog(text, rest)
	case "prometheus":
		address, expression, ok := prometheus.CutAddress(rest)
		if !ok {
			return prove.Metric{}, fmt.Errorf("%q: want prometheus:URL:EXPRESSION, such as prometheus:http://localhost:9090:sum(rate(node_disk_io_time_seconds_total[$window]))", text)
		}
		server, err := prometheus.Open(address, s.Token)
		if err != nil {
			return prove.Metric{}, err
		}
		s.sources = append(s.sources, &prometheusSource{server: server, name: text, expression: strings.ReplaceAll(expression, "$window", strconv.Itoa(s.WindowS)+"s")})
		return prove.Metric{Name: text}, nil
	}
	return prove.Metric{}, fmt.Errorf("%q: with --live want pressure:RESOURCE, logs:FILE:STATISTIC or prometheus:URL:EXPRESSION", text)
}

// Covariate parses a covariate: a metric, or Rate for the requests per second in the log of metric
// of.
func (s *Set) Covariate(text string, of prove.Metric) (prove.Metric, error) {
	if text != Rate {
		return s.Metric(text)
	}
	rest, is := strings.CutPrefix(of.Name, "logs:")
	if !is {
		return prove.Metric{}, fmt.Errorf("--covariate rate needs a --metric of a log, but --metric is %s; give --covariate as a full metric", of.Name)
	}
	file, _, _, _, _ := logMetric(rest)
	return s.Metric("logs:" + file + ":" + Rate)
}
