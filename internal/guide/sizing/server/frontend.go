package server

import (
	"embed"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

//go:embed templates
var templates embed.FS

var fill = sizing.Templates(templates)

// Traffic summarizes a log of requests.
type Traffic struct {
	Logs        string // as the user named them
	SpanSeconds float64
	Count       uint64
	Timed       bool // the log has durations
	// Most is the mean number of requests in progress in the busiest StepSeconds, which
	// begin at MostAt.
	Most        float64
	StepSeconds float64
	MostAt      time.Time
	// Rate is the number of arrivals per second in the busiest RateSeconds: a minute, or the whole
	// log if it is shorter.
	Rate          float64
	RateSeconds   float64
	Longest       float64           // seconds
	Slow          float64           // p99.9 of the durations, seconds
	Connections   float64           // maximum of concurrent connections, as HAProxy logs it; 0 if unknown
	PerConnection float64           // mean number of requests per client connection; 0 if unknown
	Timeouts      map[string]uint64 // requests ended by a timeout: "server", "client", "queue"
}

// rateOf returns the period of Rate in words.
func (l *Traffic) rateOf() string {
	if l.RateSeconds < 60 {
		return text.Sprintf("the %.0f s that the log spans", l.RateSeconds)
	}
	return "the busiest minute"
}

// frontEnd has the parts common to the requests for both front ends.
type frontEnd struct {
	Log      sizing.Log
	Headroom float64
	Traffic  *Traffic // set by the caller

	inputs []*sizing.Input
}

func (w *frontEnd) common(doc string) []*sizing.Input {
	w.Headroom = 2
	return append(w.Log.Inputs(doc), sizing.Number(&w.Headroom, "headroom", "capacity, as a multiple of the load in the busiest moment of the log", 1, 100))
}

// Inputs implements sizing.Request.
func (w *frontEnd) Inputs() []*sizing.Input { return w.inputs }

// missing returns an error if the request has no usable log. usual is the server's usual log.
func (w *frontEnd) missing(usual string) error {
	switch l := w.Traffic; {
	case l == nil:
		return sizing.Instead("log", usual, "not given; name a log of requests with durations, such as /var/log/httpd/access_log or /var/log/haproxy.log")
	case l.Count == 0:
		return sizing.Bad("log", "%s has no requests", l.Logs)
	case !l.Timed:
		return sizing.Bad("log", "%s has no durations, so the number of requests in progress is unknown: add %%D to httpd's LogFormat, $request_time to nginx's log_format, or option httplog to HAProxy's configuration", l.Logs)
	}
	return nil
}

// summary adds the figures of the log.
func (w *frontEnd) summary(r *sizing.Result) {
	l := w.Traffic
	add := func(name string, value any, unit, why string) {
		r.Add(sizing.Value{Group: "log", Name: name, Value: value, Unit: unit, Why: why})
	}
	add("requests", l.Count, "", text.Sprintf("in %.0f s of %s", l.SpanSeconds, l.Logs))
	add("at_work", sizing.Round(l.Most), "requests", text.Sprintf("in progress, mean of the busiest %.0f s, from %s on", l.StepSeconds, l.MostAt.UTC().Format("2006-01-02 15:04:05 UTC")))
	add("rate", sizing.Round(l.Rate), "1/s", "in "+l.rateOf())
	add("longest", sizing.Round(l.Longest), "s", fmt.Sprintf("p99.9: %s s", unit.Digits(l.Slow)))
	if l.SpanSeconds < day {
		r.Note("the log covers less than a day: it may lack daily peaks, such as all hosts at once")
	}
}

// day is the minimum span of a log that shows daily peaks, in seconds.
const day = 86_400

// caveats adds the tightest limit to the headline, and then worse. If worse is "", it warns if the
// log covers less than a day.
func (w *frontEnd) caveats(r *sizing.Result, worse string) {
	r.TightestInHeadline()
	if worse != "" {
		r.Headline.Line("%s", worse)
	} else if h := &r.Headline; w.Traffic.SpanSeconds < day {
		h.Line("The log covers %s, less than a day: daily peaks may be missing", h.Figure("log_span_s", w.Traffic.SpanSeconds, "s"))
	}
}
