package scenario

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// Schema names the JSON form of Result, Kind the kind of its run.
const (
	Schema = "fettle/load-scenario/v1"
	Kind   = "load-scenario"
)

// Word is the verdict of a run.
type Word string

// Verdicts of a run.
const (
	Sustained    Word = "sustained"         // open model: nearly all hosts did all steps
	Measured     Word = "measured"          // closed model
	NotSustained Word = "not-sustained"     // open model: hosts failed
	Limited      Word = "generator-limited" // the generator could not keep the load
	Silent       Word = "nothing-answered"
	Partial      Word = "client-lost" // one of several generators was lost
	// NotDetermined means that a ladder has no answer.
	NotDetermined Word = "not-determined"
)

// Result is the result of a run.
type Result struct {
	Schema string                 `json:"schema"`        // fettle/load-scenario/v1
	Cut    *evidence.Interruption `json:"cut,omitempty"` // set if the run ended before its plan
	Series []evidence.Series      `json:"series"`
	Curves []evidence.Curve       `json:"curves"`
	Word   Word                   `json:"result"`
	Text   string                 `json:"verdict"`

	Scenario string `json:"scenario"`
	Title    string `json:"title,omitempty"`
	// StandIn names the stand-in that answered instead of the product, if one did.
	StandIn string  `json:"stand_in,omitempty"`
	Model   string  `json:"model"` // open or closed
	Hosts   int     `json:"hosts"`
	Repeat  int     `json:"repeat,omitempty"` // closed model
	Rate    float64 `json:"hosts_per_s,omitempty"`
	ForS    float64 `json:"for_s,omitempty"`
	// Seed determines data and think times. RunID is the value of ${run}.
	Seed     uint64  `json:"seed"`
	RunID    string  `json:"run_id"`
	TimeoutS float64 `json:"timeout_s"`
	Duration float64 `json:"duration_s"`
	// Stopped reports whether the run of a ladder ended before its hosts did, because it had
	// failed already.
	Stopped bool `json:"stopped,omitempty"`

	Servers []Target `json:"servers"`
	// Whole counts whole hosts: one pass of a host is one run.
	Whole Figures  `json:"whole"`
	Steps []Step   `json:"steps"`
	Gates []Judged `json:"gates"`
	// Ladder is the search for the highest number of hosts. The other fields then describe the
	// last run with that number.
	Ladder *Ladder `json:"ladder,omitempty"`
	// Created counts the recorded objects; nil if the scenario creates none.
	Created   *Created  `json:"created,omitempty"`
	Generator Generator `json:"generator"`
	// ErrorShare and ResolutionS bound the error of a latency; the larger bound applies.
	ErrorShare  float64 `json:"latency_error_share"`
	ResolutionS float64 `json:"latency_resolution_s"`
}

// JSONBody marks Result as the body of a run.
func (Result) JSONBody() {}

// Figures are the figures of a step, or of whole hosts.
type Figures struct {
	Runs        int64   `json:"runs"`
	Errors      int64   `json:"errors"`
	ErrorShare  float64 `json:"error_share"`
	Interrupted int64   `json:"interrupted"`
	Rate        float64 `json:"runs_per_s"` // that ended without an error
	Requests    int64   `json:"requests"`
	BytesIn     int64   `json:"bytes_in"`
	// Statuses counts the answers of all requests, also those of redirects and polls.
	Statuses map[string]int64               `json:"statuses"`
	Causes   map[string]engine.FailureCount `json:"failures"`
	// Latency is the time from the intended start to the end of the answer, of runs without an
	// error, and of those that timed out.
	Latency   engine.Times `json:"latency"`
	Histogram string       `json:"latency_hdrhistogram_v2_ns"`
}

// Step holds the figures of one step.
type Step struct {
	Name  string `json:"name"`
	Setup bool   `json:"setup,omitempty"`
	Kind  string `json:"kind"` // http, wait, mqtt, command
	Figures
}

// Judged is an evaluated threshold with its step; "" means whole hosts.
type Judged struct {
	Step string `json:"step,omitempty"`
	engine.Result
}

// parts returns the subject of a threshold and its result, for tables.
func (g Judged) parts() (string, engine.Result) {
	r := g.Result
	r.Gate = g.Name()
	return "", r
}

// Name returns the threshold with its subject.
func (g Judged) Name() string {
	if g.Step == "" {
		return wholeHost + " " + g.Gate
	}
	return g.Step + " " + g.Gate
}

// Created counts the objects that a run recorded.
type Created struct {
	Intended int64 `json:"intended"` // recorded before the request
	Known    int64 `json:"known"`    // recorded with their id
}

// Generator describes the generators of the load.
type Generator struct {
	Limited bool `json:"limited"`
	// StartDelay is the time by which requests were sent after they were due.
	StartDelay     engine.Times `json:"start_delay"`
	Processors     int          `json:"processors"`
	CPUShare       float64      `json:"cpu_share"`
	CPUWanted      float64      `json:"cpu_wanted_share"`
	CPUPerRequestS float64      `json:"cpu_per_request_s"`
	Opened         int64        `json:"connections_opened"`
	Reopened       int64        `json:"connections_reopened"`
	Handshakes     int64        `json:"tls_handshakes"`
	SharesMachine  bool         `json:"shares_machine"` // with a server
	Texts          []string     `json:"texts"`
	Clients        []Client     `json:"clients,omitempty"` // if there are several generators
}

// Client is one of several generators.
type Client struct {
	Name string `json:"name"`
	// Passes are the passes of hosts that were planned, Ended those that ended.
	Passes      int64   `json:"passes"`
	Ended       int64   `json:"ended"`
	Processors  int     `json:"processors"`
	CPUShare    float64 `json:"cpu_share"`
	ClockErrorS float64 `json:"clock_error_s"`
	LateBeginS  float64 `json:"late_begin_s"`
	// Lost is why the client's counts are unknown, or why it ended before its plan.
	Lost string `json:"lost,omitempty"`
}

// Unanswered reports whether no server sent an answer.
func (x *Result) Unanswered() bool {
	for status := range x.Whole.Statuses {
		if status != "0" {
			return false
		}
	}
	return x.Whole.Requests > 0
}

// Failed returns the missed thresholds.
func (x *Result) Failed() (out []Judged) {
	for _, g := range x.Gates {
		if !g.Met {
			out = append(out, g)
		}
	}
	return out
}

// measured provides the values of a tally for thresholds (engine.Measured).
type measured struct {
	*engine.Distribution
	f *Figures
}

func (m measured) MeanS() float64                { return m.Times().MeanS }
func (m measured) MaxS() float64                 { return m.Times().MaxS }
func (m measured) Latencies() int64              { return m.Times().N }
func (m measured) Errors() float64               { return m.f.ErrorShare }
func (m measured) Rate() float64                 { return m.f.Rate }
func (measured) Observed(string) (float64, bool) { return 0, false }

// figures returns the figures of a tally over a time.
func (t *tally) figures(seconds float64) (f Figures, err error) {
	n := t.copied()
	f = Figures{Runs: n.Runs, Errors: n.Failed, Interrupted: n.Interrupted, Requests: n.Requests, BytesIn: n.In, Statuses: map[string]int64{}, Causes: n.Causes, Latency: t.latency.Times()}
	if counted := n.Good + n.Failed; counted > 0 {
		f.ErrorShare = float64(n.Failed) / float64(counted)
	}
	if seconds > 0 {
		f.Rate = float64(n.Good) / seconds
	}
	for status, count := range n.Statuses {
		f.Statuses[fmt.Sprint(status)] = count
	}
	f.Histogram, err = t.latency.Encoded()
	return f, err
}

func (s *step) kind() string {
	switch {
	case s.http != nil:
		return "http"
	case s.wait != nil:
		return "wait"
	case s.mqtt != nil:
		return "mqtt"
	}
	return "command"
}
