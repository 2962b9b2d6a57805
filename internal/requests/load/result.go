package load

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Schema names the JSON form of Result, Kind the kind of its run.
const (
	Schema = "fettle/load-http/v1"
	Kind   = "load-http"
)

// Word is the verdict of a load.
type Word string

// Verdicts of a load.
const (
	Sustained    Word = "sustained"         // open model: the answers kept up with the starts
	Measured     Word = "measured"          // closed model: throughput was measured
	NotSustained Word = "not-sustained"     // the answers did not keep up with the starts
	Limited      Word = "generator-limited" // the generator could not keep the rate
	Warming      Word = "not-settled"       // the server became faster until the end
	Silent       Word = "nothing-answered"
	Partial      Word = "client-lost"     // one of several generators was lost, and its counts are unknown
	TooSlow      Word = "fails-at-lowest" // --find-knee: the lowest rate misses the thresholds
	NonMonotonic Word = "not-monotonic"   // --find-knee: results are not monotonic in the rate
)

// Result is the result of a load.
type Result struct {
	Schema string                 `json:"schema"`        // fettle/load-http/v1
	Cut    *evidence.Interruption `json:"cut,omitempty"` // set if the load ended before its plan
	Series []evidence.Series      `json:"series"`
	Curves []evidence.Curve       `json:"curves"`
	Word   Word                   `json:"result"`
	Text   string                 `json:"verdict"`

	Model    string `json:"model"`    // open or closed
	Protocol string `json:"protocol"` // HTTP/1.1, HTTP/1.1 with a connection for each request, HTTP/2
	// Connections is the number of opened connections, limited by MaxConnections.
	Connections    int `json:"connections"`
	MaxConnections int `json:"max_connections"`
	Streams        int `json:"streams_per_connection,omitempty"`
	// RequestsEach is the number of requests per connection (or stream), RequestsAsked the
	// total. Both are 0 if a duration was given instead.
	RequestsEach  int64    `json:"requests_per_connection,omitempty"`
	RequestsAsked int64    `json:"requests_asked,omitempty"`
	TimeoutS      float64  `json:"timeout_s"`
	Seed          uint64   `json:"seed"` // determines the order of the requests
	Servers       []Server `json:"servers"`
	TLS           *TLS     `json:"tls,omitempty"`

	// Knee describes the search for the highest rate. The other fields then describe the last
	// stage at the rate that decided the verdict.
	Knee *Knee `json:"knee,omitempty"`
	// Replay describes the log that was replayed.
	Replay *Told `json:"replay,omitempty"`
	// Observed holds the observed servers. Their times are on the axis of Slices.
	Observed []Observed `json:"observed,omitempty"`

	WarmUp WarmUp  `json:"warm_up"`
	Stages []Stage `json:"stages"`
	// Whole covers all stages, without the warm-up.
	Whole     Figures   `json:"whole"`
	Generator Generator `json:"generator"`
	Gates     []Gate    `json:"gates"`
	Requests  []Request `json:"requests"`
	Slices    []Slice   `json:"slices"`
	// Histogram holds the latencies of Whole in nanoseconds: HdrHistogram's V2 encoding,
	// compressed, in base64.
	Histogram string `json:"latency_hdrhistogram_v2_ns"`
	// ErrorShare and ResolutionS bound the error of a latency; the larger bound applies.
	ErrorShare  float64 `json:"latency_error_share"`
	ResolutionS float64 `json:"latency_resolution_s"`
}

// JSONBody marks Result as the body of a run.
func (Result) JSONBody() {}

// Server is one server of the load.
type Server struct {
	Origin string `json:"origin"` // https://web1:8140
	engine.Probe
}

// TLS counts handshakes over the whole run.
type TLS struct {
	Resume       bool    `json:"resume"` // whether TLS sessions were resumed
	Handshakes   int64   `json:"handshakes"`
	Resumed      int64   `json:"resumed"`
	ResumedShare float64 `json:"resumed_share"`
}

// Figures are the results of a period of time.
type Figures struct {
	FromS float64 `json:"from_s"`
	ToS   float64 `json:"to_s"`
	// Starts is the number of requests due in the period.
	Starts    int64   `json:"starts"`
	AskedRate float64 `json:"asked_per_s,omitempty"` // open model
	// AnswerRate is the rate of complete answers that arrived in the period.
	AnswerRate float64 `json:"answers_per_s"`
	// Errors counts starts with a status of 400 or above (Wrong) or without a complete answer.
	// Requests cut off by an interruption are not errors: they are in Failures only.
	Errors     int64                          `json:"errors"`
	ErrorShare float64                        `json:"error_share"`
	Wrong      int64                          `json:"wrong_status"`
	Statuses   map[string]int64               `json:"statuses"`
	Failures   map[string]engine.FailureCount `json:"failures"`
	BytesIn    int64                          `json:"bytes_in"`
	// Latency is the time from when a request was due to the end of its answer. It covers
	// answers without an error, and with the time waited, requests that timed out.
	Latency engine.Times `json:"latency"`
	// Service is like Latency, but from when the request was sent.
	Service engine.Times `json:"service_time"`
	// Observed holds the figures of the observed servers in the period.
	Observed []fleet.Figures `json:"observed,omitempty"`
}

// Stage is a step of the schedule, or the whole time.
type Stage struct {
	Rate string `json:"rate,omitempty"` // 500/s, 100/s..1000/s
	Figures
	// KeptUp reports whether the answers kept up with the starts.
	KeptUp bool `json:"kept_up"`
}

// Gate is an evaluated threshold, with its stage if there are several.
type Gate struct {
	Stage string `json:"stage,omitempty"`
	engine.Result
}

func (g Gate) parts() (string, engine.Result) { return g.Stage, g.Result }

// Request holds the figures of a line of the request list, over the whole run.
type Request struct {
	Weight  int    `json:"weight"`
	Method  string `json:"method"`
	URL     string `json:"url"`
	Starts  int64  `json:"starts"`
	Errors  int64  `json:"errors"`
	BytesIn int64  `json:"bytes_in"`
}

// Slice is a short period of time.
type Slice struct {
	FromS      float64 `json:"from_s"`
	ToS        float64 `json:"to_s"`
	Counts     bool    `json:"counts"` // false during warm-up
	Starts     int64   `json:"starts"`
	Errors     int64   `json:"errors"`
	AnswerRate float64 `json:"answers_per_s"`
	P50S       float64 `json:"p50_s"`
	P99S       float64 `json:"p99_s"`
	CPUShare   float64 `json:"generator_cpu_share"`
}

// Generator describes the generator of the load, in the period that counts.
type Generator struct {
	Limited bool `json:"limited"`
	// StartDelay is the delay of requests that had a free connection, over the whole run.
	StartDelay engine.Times `json:"start_delay"`
	// LateShare is the share of starts more than 1 ms late although a connection was free.
	LateShare float64 `json:"late_share"`
	// WaitedShare is the share of starts for which no connection was free.
	WaitedShare float64 `json:"waited_share"`
	// CPUShare is the mean share of its processors that the process used. CPUWanted also
	// includes the time waited for a processor: from 1 on, the process was never idle.
	Processors      int      `json:"processors"`
	CPUShare        float64  `json:"cpu_share"`
	CPUWanted       float64  `json:"cpu_wanted_share"`
	CPUPerAnswerS   float64  `json:"cpu_per_answer_s"` // over the whole run
	Opened          int64    `json:"connections_opened"`
	Reopened        int64    `json:"connections_reopened"`
	SharesProcessor bool     `json:"shares_machine"` // with a server
	Texts           []string `json:"texts"`
	Clients         []Client `json:"clients,omitempty"` // if there are several generators
}

// Client is one of several generators.
type Client struct {
	Name        string `json:"name"`
	Starts      int64  `json:"starts"` // excluding warm-up
	Connections int    `json:"connections"`
	Processors  int    `json:"processors"`
	// CPUShare is the mean share of its processors, as in Generator.
	CPUShare       float64 `json:"cpu_share"`
	CPUWanted      float64 `json:"cpu_wanted_share"`
	LateShare      float64 `json:"late_share"`
	StartDelayP99S float64 `json:"start_delay_p99_s"`
	// ClockErrorS bounds the error of the clock offset. LateBeginS is the delay of the
	// client's start.
	ClockErrorS float64 `json:"clock_error_s"`
	LateBeginS  float64 `json:"late_begin_s"`
	// EndedEarly reports whether the client, and therefore the load, ended before its plan.
	EndedEarly bool `json:"ended_early,omitempty"`
	// Lost is why the client's counts are unknown. All figures then cover the other clients,
	// up to the lost client's last report.
	Lost string `json:"lost,omitempty"`
}

// measured provides the values of a period for thresholds (engine.Measured).
type measured struct {
	*engine.Total
	rate     float64
	observed []fleet.Figures
	watched  int // number of observed servers
}

func (m measured) MeanS() float64   { return m.Latency().MeanS }
func (m measured) MaxS() float64    { return m.Latency().MaxS }
func (m measured) Latencies() int64 { return m.Latency().N }
func (m measured) Rate() float64    { return m.rate }

// Observed returns the highest value of all servers. It returns false if the figure is unknown.
func (m measured) Observed(name string) (most float64, ok bool) {
	for _, f := range m.observed {
		switch name {
		case engine.CPU:
			most = max(most, f.CPUShare)
		case engine.RunQueue:
			most = max(most, f.RunQueue)
		case engine.Memory:
			most = max(most, f.MemoryShare)
		case engine.Network:
			most = max(most, f.BusiestNetwork())
		}
	}
	return most, m.watched > 0 && len(m.observed) == m.watched
}

// Failed returns the missed thresholds.
func (r *Result) Failed() []Gate {
	return slices.DeleteFunc(slices.Clone(r.Gates), func(g Gate) bool { return g.Met })
}

// Early returns an error if the load ended early: a client was lost or ended before its plan,
// or --for was too short for all requests. Otherwise it returns nil.
func (r *Result) Early() error {
	var names, lost []string
	for _, c := range r.Generator.Clients {
		if c.EndedEarly {
			names = append(names, c.Name)
		}
		if c.Lost != "" {
			lost = append(lost, fmt.Sprintf("client %s: %s", c.Name, c.Lost))
		}
	}
	if len(lost) > 0 {
		left, end := "this client", "it"
		if len(lost) > 1 {
			left, end = "these clients", "the first of them"
		}
		return fmt.Errorf("the load ended early: %s. The figures leave out %s, and end when %s last reported; the other clients were stopped. Check the machine and the network, then start the load again", strings.Join(lost, "; "), left, end)
	}
	if len(names) == 0 {
		if x := r.Cut; x != nil && r.RequestsAsked > 0 {
			return text.Errorf("the load ended early: only %d of %s were made within --for; raise --for to make all", x.Done, text.Count(x.Planned, "request"))
		}
		return nil
	}
	return fmt.Errorf("the load ended early: client %s was stopped on its machine; the figures of all clients end then", strings.Join(names, ", client "))
}

// figuresOf returns the figures of a total.
func (c *course) figuresOf(t *engine.Total) Figures {
	f := Figures{FromS: t.From.Seconds(), ToS: t.To.Seconds(), Starts: t.Starts, Errors: t.Wrong + t.Failed, ErrorShare: t.Errors(), Wrong: t.Wrong,
		Statuses: map[string]int64{}, Failures: map[string]engine.FailureCount{}, BytesIn: t.In, Latency: t.Latency(), Service: t.Service(), AnswerRate: perSecond(t.Answered, t.To-t.From)}
	for status, n := range t.Statuses {
		f.Statuses[fmt.Sprint(status)] = n
	}
	for failure, n := range t.Failures {
		f.Failures[string(failure)] = engine.FailureCount{N: n, Example: evidence.EscapeInvalidUTF8(c.meter.Example(failure))}
	}
	for _, server := range c.seen {
		if o, ok := server.Between(t.From, t.To); ok {
			f.Observed = append(f.Observed, o)
		}
	}
	return f
}

// summary formats the latency and the errors of a period.
func (f *Figures) summary() string {
	if f.Latency.N == 0 {
		return f.errors()
	}
	return fmt.Sprintf("p50 %s, p99 %s, %s", unit.FormatSeconds(f.Latency.P50S), unit.FormatSeconds(f.Latency.P99S), f.errors())
}

// waitedInVain returns the number of starts that timed out or got no connection.
func waitedInVain(t *engine.Total) int64 {
	return t.Failures[engine.Timeout] + t.Failures[engine.Unsent]
}
