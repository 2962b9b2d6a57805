// frontend sizes what clients come to first - Apache httpd, HAProxy, OpenShift's
// router - from how many requests its log has at work at a time. What the log says and
// what the machine has are handed in.

package server

import (
	"fmt"
	"time"

	"fettle.dev/fettle/internal/guide/sizing"
)

// Requests are what a log says of all requests.
type Requests struct {
	Logs        string // as they were named
	SpanSeconds float64
	Count       uint64
	Timed       bool // whether it says how long they took
	// Most is how many were at work at a time in the busiest stretch of StepSeconds, on
	// average, and when that was.
	Most        float64
	StepSeconds float64
	MostAt      time.Time
	// Rate is how many came in a second of the busiest RateSeconds: a minute, or less where
	// the log spans less.
	Rate        float64
	RateSeconds float64
	Longest     float64 // in seconds
	Slow        float64 // 99.9 of 100 took no longer, in seconds
	// Connections is the most that HAProxy says it had at a time; 0 where it does not.
	Connections float64
	// PerConnection is how many requests came over one connection of a client, on
	// average; 0 where the log does not say which came over which.
	PerConnection float64
	// Timeouts are the requests that a timeout ended, by HAProxy's word for how: "sH".
	Timeouts map[string]uint64
}

// rateOf says of what Rate is.
func (l *Requests) rateOf() string {
	if l.RateSeconds < 60 {
		return fmt.Sprintf("the %.0f s that the log spans", l.RateSeconds)
	}
	return "the busiest minute"
}

// wish is what both wishes have.
type wish struct {
	Log      sizing.Log
	Headroom float64
	Requests *Requests // handed in

	inputs []*sizing.Input
}

func (w *wish) common(doc string) []*sizing.Input {
	w.Headroom = 2
	return append(w.Log.Inputs(doc), sizing.Number(&w.Headroom, "headroom", "how many times the busiest moment of the log is to fit", 1, 100))
}

// Inputs implements sizing.Wish.
func (w *wish) Inputs() []*sizing.Input { return w.inputs }

// missing says what is not there to size from.
func (w *wish) missing() error {
	switch l := w.Requests; {
	case l == nil:
		return sizing.Instead("log", "/var/log/httpd/access_log", "which? a log of requests with the time that each took, as /var/log/httpd/access_log or /var/log/haproxy.log")
	case l.Count == 0:
		return sizing.Bad("log", "%s has no request", l.Logs)
	case !l.Timed:
		return sizing.Bad("log", "%s does not say how long requests took, so that nobody knows how many were at work at a time: %%D in httpd's LogFormat does, $request_time in nginx's, option httplog in HAProxy's", l.Logs)
	}
	return nil
}

// said is what the log says.
func (w *wish) said(r *sizing.Result) {
	l := w.Requests
	add := func(name string, value any, unit, why string) {
		r.Add(sizing.Value{Group: "log", Name: name, Value: value, Unit: unit, Why: why})
	}
	add("requests", l.Count, "", fmt.Sprintf("in %.0f s of %s", l.SpanSeconds, l.Logs))
	add("at_work", sizing.Round(l.Most), "requests", fmt.Sprintf("at a time, over the busiest %.0f s, from %s on", l.StepSeconds, l.MostAt.UTC().Format("2006-01-02 15:04:05 UTC")))
	add("rate", sizing.Round(l.Rate), "1/s", "in "+l.rateOf())
	add("longest", sizing.Round(l.Longest), "s", fmt.Sprintf("99.9 of 100 took %.3g s at most", l.Slow))
	if l.SpanSeconds < 86_400 {
		r.Note("the log is of less than a day: what comes once a day, such as all hosts at once, may not be in it")
	}
}
