package load

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/unit"
)

// Schema names the JSON form of Result, and Kind that of its run.
const (
	Schema = "fettle/load-http/v1"
	Kind   = "load-http"
)

// Word is the verdict.
type Word string

// The verdicts.
const (
	Held     Word = "held"              // open model: the rate was asked and answered
	Measured Word = "measured"          // closed model: so much was answered
	NotHeld  Word = "not-held"          // the answers did not keep up with the rate
	Limited  Word = "generator-limited" // the generator could not do what was asked of it
	Warming  Word = "not-settled"       // the server was getting faster until the end
	Silent   Word = "nothing-answered"
	Partial  Word = "client-lost"     // of several generators one was lost: what it has counted is missing
	TooSlow  Word = "fails-at-lowest" // --find-knee: already the lowest rate does not meet the thresholds
	Wavers   Word = "not-monotone"    // --find-knee: what holds is no matter of the rate alone
)

// Result is what a load has found.
type Result struct {
	Schema string                 `json:"schema"`        // fettle/load-http/v1
	Cut    *evidence.Interruption `json:"cut,omitempty"` // that it ended before its plan did
	Series []evidence.Series      `json:"series"`
	Curves []evidence.Curve       `json:"curves"`
	Word   Word                   `json:"result"`
	Text   string                 `json:"verdict"`

	Model    string `json:"model"`    // open or closed
	Protocol string `json:"protocol"` // HTTP/1.1, HTTP/1.1 with a connection for each request, HTTP/2
	// Connections are how many there were; at most MaxConnections in the open model.
	Connections    int `json:"connections"`
	MaxConnections int `json:"max_connections"`
	Streams        int `json:"streams_per_connection,omitempty"`
	// RequestsEach are those that each connection (or stream) was to make, and
	// RequestsAsked those of all; 0 where the time decided.
	RequestsEach  int64    `json:"requests_per_connection,omitempty"`
	RequestsAsked int64    `json:"requests_asked,omitempty"`
	TimeoutS      float64  `json:"timeout_s"`
	Seed          uint64   `json:"seed"` // of the order of the requests
	Servers       []Server `json:"servers"`
	TLS           *TLS     `json:"tls,omitempty"`

	// Knee is how the highest rate was searched for; everything else is then of the last
	// stage of the search at the rate that the verdict is about.
	Knee *Knee `json:"knee,omitempty"`
	// Replay is what was made again of a log.
	Replay *Told `json:"replay,omitempty"`
	// Observed are the servers that were looked at, on the axis of time of Slices.
	Observed []Observed `json:"observed,omitempty"`

	WarmUp WarmUp  `json:"warm_up"`
	Stages []Stage `json:"stages"`
	// Whole is of all stages together, without the warm-up.
	Whole     Figures   `json:"whole"`
	Generator Generator `json:"generator"`
	Gates     []Gate    `json:"gates"`
	Requests  []Request `json:"requests"`
	Slices    []Slice   `json:"slices"`
	// Histogram are the latencies of Whole in nanoseconds: HdrHistogram's V2 encoding,
	// compressed, in base64.
	Histogram string `json:"latency_hdrhistogram_v2_ns"`
	// ErrorShare and ResolutionS are the error of a latency: the larger of both.
	ErrorShare  float64 `json:"latency_error_share"`
	ResolutionS float64 `json:"latency_resolution_s"`
}

// JSONBody says that it is the body of a run.
func (Result) JSONBody() {}

// Server is one that was asked.
type Server struct {
	Origin  string `json:"origin"`  // https://web1:8140
	Address string `json:"address"` // that was connected to
	TLS     string `json:"tls,omitempty"`
	Cipher  string `json:"cipher,omitempty"`
	// ClientCertificate says that it asked for one and was given it.
	ClientCertificate bool `json:"client_certificate"`
}

// TLS is what came of the handshakes, over the whole time.
type TLS struct {
	Resume       bool    `json:"resume"` // that it was tried
	Handshakes   int64   `json:"handshakes"`
	Resumed      int64   `json:"resumed"`
	ResumedShare float64 `json:"resumed_share"`
}

// Figures are those of a stretch of time.
type Figures struct {
	FromS float64 `json:"from_s"`
	ToS   float64 `json:"to_s"`
	// Starts are the requests that were meant to start in it.
	Starts    int64   `json:"starts"`
	AskedRate float64 `json:"asked_per_s,omitempty"` // open model
	// AnswerRate counts whole answers that came in it.
	AnswerRate float64 `json:"answers_per_s"`
	// Errors are starts with a status from 400 on (Wrong) or without a whole answer. What
	// was under way when the load was interrupted is none: it is in Failures alone.
	Errors     int64              `json:"errors"`
	ErrorShare float64            `json:"error_share"`
	Wrong      int64              `json:"wrong_status"`
	Statuses   map[string]int64   `json:"statuses"`
	Failures   map[string]Failure `json:"failures"`
	BytesIn    int64              `json:"bytes_in"`
	// Latency is from when the request was meant to start to the end of its answer; of
	// answers without an error, and of what was waited for in vain, with the time waited.
	Latency engine.Times `json:"latency"`
	// Service is from when the request was sent.
	Service engine.Times `json:"service_time"`
	// Observed are the servers that were looked at in that time.
	Observed []fleet.Figures `json:"observed,omitempty"`
}

// Failure is how often there was no whole answer for a reason.
type Failure struct {
	N       int64  `json:"n"`
	Example string `json:"example,omitempty"`
}

// Stage is a step of the schedule, or all of the time.
type Stage struct {
	Rate string `json:"rate,omitempty"` // 500/s, 100/s..1000/s
	Figures
	// KeptUp says that the answers kept up with the starts.
	KeptUp bool `json:"kept_up"`
}

// Gate is a threshold, in a stage where there are several.
type Gate struct {
	Stage string `json:"stage,omitempty"`
	engine.Result
}

// Request is a line of the list, over the whole time.
type Request struct {
	Weight  int    `json:"weight"`
	Method  string `json:"method"`
	URL     string `json:"url"`
	Starts  int64  `json:"starts"`
	Errors  int64  `json:"errors"`
	BytesIn int64  `json:"bytes_in"`
}

// Slice is a short stretch of time.
type Slice struct {
	FromS      float64 `json:"from_s"`
	ToS        float64 `json:"to_s"`
	Counts     bool    `json:"counts"` // for the figures; else it is warm-up
	Starts     int64   `json:"starts"`
	Errors     int64   `json:"errors"`
	AnswerRate float64 `json:"answers_per_s"`
	P50S       float64 `json:"p50_s"`
	P99S       float64 `json:"p99_s"`
	CPUShare   float64 `json:"generator_cpu_share"`
}

// Generator is how this side did, in the time that counts.
type Generator struct {
	Limited bool `json:"limited"`
	// StartDelay is how far behind requests were sent for which a connection was free,
	// over the whole time.
	StartDelay engine.Times `json:"start_delay"`
	// LateShare are starts that were more than a millisecond behind for no other reason.
	LateShare float64 `json:"late_share"`
	// WaitedShare are starts for which no connection was free.
	WaitedShare float64 `json:"waited_share"`
	// CPUShare is the mean share of its processors that the process took, and CPUWanted
	// that which it took and waited for because others had them: 1 and above where it was
	// never idle.
	Processors      int      `json:"processors"`
	CPUShare        float64  `json:"cpu_share"`
	CPUWanted       float64  `json:"cpu_wanted_share"`
	CPUPerAnswerS   float64  `json:"cpu_per_answer_s"` // over the whole time
	Opened          int64    `json:"connections_opened"`
	Reopened        int64    `json:"connections_reopened"`
	SharesProcessor bool     `json:"shares_machine"` // with a server
	Texts           []string `json:"texts"`
	Clients         []Client `json:"clients,omitempty"` // where several generate
}

// Client is one of several generators.
type Client struct {
	Name        string `json:"name"`
	Starts      int64  `json:"starts"` // in the time that counts
	Connections int    `json:"connections"`
	Processors  int    `json:"processors"`
	// CPUShare, CPUWanted, LateShare and StartDelayP99S are as those of Generator.
	CPUShare       float64 `json:"cpu_share"`
	CPUWanted      float64 `json:"cpu_wanted_share"`
	LateShare      float64 `json:"late_share"`
	StartDelayP99S float64 `json:"start_delay_p99_s"`
	// ClockErrorS is how far its clock may be off, and LateBeginS how much later it began
	// than it should.
	ClockErrorS float64 `json:"clock_error_s"`
	LateBeginS  float64 `json:"late_begin_s"`
	// EndedEarly says that it stopped before the end of its plan, and the load with it.
	EndedEarly bool `json:"ended_early,omitempty"`
	// Lost is why nothing is known of what it has done: all figures are those of the others,
	// until it was last heard of.
	Lost string `json:"lost,omitempty"`
}

// measured is what gates ask of a stretch of time.
type measured struct {
	*engine.Total
	rate     float64
	observed []fleet.Figures
	watched  int // how many servers should have been seen
}

func (m measured) MeanS() float64   { return m.Latency().MeanS }
func (m measured) MaxS() float64    { return m.Latency().MaxS }
func (m measured) Latencies() int64 { return m.Latency().N }
func (m measured) Rate() float64    { return m.rate }

// Observed is that of the server which has the highest.
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

// Failed says that a gate was not met.
func (r *Result) Failed() []Gate {
	var out []Gate
	for _, g := range r.Gates {
		if !g.Met {
			out = append(out, g)
		}
	}
	return out
}

// Early is why a load that nobody has interrupted is not whole: a client was lost, or ended
// before its plan did. nil where none has.
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
		return fmt.Errorf("the load ended early: %s. Is its machine up, and the way there? Its requests are in no figure; the other clients were stopped, and theirs are kept until it was last heard of. Start the load again, with it or without it", strings.Join(lost, "; "))
	}
	if len(names) == 0 {
		if x := r.Cut; x != nil && r.RequestsAsked > 0 {
			return fmt.Errorf("the load ended early: %d of %d requests were made until the time of --for was over; a longer --for lets it make all", x.Done, x.Planned)
		}
		return nil
	}
	return fmt.Errorf("the load ended early: client %s was stopped where it runs, and the others count no longer than it", strings.Join(names, ", client "))
}

// figuresOf are those of slices that follow each other.
func (c *course) figuresOf(t *engine.Total) Figures {
	length := (t.To - t.From).Seconds()
	f := Figures{FromS: t.From.Seconds(), ToS: t.To.Seconds(), Starts: t.Starts, Errors: t.Wrong + t.Failed, ErrorShare: t.Errors(), Wrong: t.Wrong,
		Statuses: map[string]int64{}, Failures: map[string]Failure{}, BytesIn: t.In, Latency: t.Latency(), Service: t.Service()}
	if length > 0 {
		f.AnswerRate = float64(t.Answered) / length
	}
	for status, n := range t.Statuses {
		f.Statuses[fmt.Sprint(status)] = n
	}
	for failure, n := range t.Failures {
		f.Failures[string(failure)] = Failure{n, evidence.EscapeInvalidUTF8(c.meter.Example(failure))}
	}
	for _, server := range c.seen {
		if o, ok := server.Between(t.From, t.To); ok {
			f.Observed = append(f.Observed, o)
		}
	}
	return f
}

// said is what came of a stretch of time in a few words.
func (f *Figures) said() string {
	var out []string
	if f.Latency.N > 0 {
		out = append(out, "p50 "+unit.FormatSeconds(f.Latency.P50S), "p99 "+unit.FormatSeconds(f.Latency.P99S))
	}
	if f.Errors > 0 {
		out = append(out, fmt.Sprintf("%.3g %% errors", 100*f.ErrorShare))
	} else {
		out = append(out, "no errors")
	}
	return strings.Join(out, ", ")
}

// waitedInVain are starts that ended with the time that was waited for them.
func waitedInVain(t *engine.Total) int64 {
	return t.Failures[engine.Timeout] + t.Failures[engine.Unsent]
}
