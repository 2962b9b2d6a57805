package mqtt

import (
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// Schema names the JSON form of Result, Kind the kind of its run.
const (
	Schema = "fettle/load-mqtt/v1"
	Kind   = "load-mqtt"
)

// Word is the verdict of a load.
type Word string

// Verdicts of a load.
const (
	Sustained    Word = "sustained"         // all hosts connected and did their jobs
	NotSustained Word = "not-sustained"     // hosts were refused, or jobs were lost
	Limited      Word = "generator-limited" // the generator could not keep the load
	Silent       Word = "nobody-connected"
)

// Result is the result of a load.
type Result struct {
	Schema string                 `json:"schema"`        // fettle/load-mqtt/v1
	Cut    *evidence.Interruption `json:"cut,omitempty"` // set if the load ended before its plan
	Series []evidence.Series      `json:"series"`
	Curves []evidence.Curve       `json:"curves"`
	Word   Word                   `json:"result"`
	Text   string                 `json:"verdict"`

	Broker   Broker  `json:"broker"`
	Hosts    int     `json:"hosts"`
	JobRate  float64 `json:"jobs_per_s"`
	TimeoutS float64 `json:"timeout_s"`
	WaitS    float64 `json:"wait_s"` // a round ends after this time without events
	Pull     *PullBy `json:"pull,omitempty"`

	Connect   Connect   `json:"connect"`
	Rounds    []Round   `json:"rounds"`
	Gates     []Gate    `json:"gates"`
	Generator Generator `json:"generator"`
	// ErrorShare and ResolutionS bound the error of a latency; the larger bound applies.
	ErrorShare  float64 `json:"latency_error_share"`
	ResolutionS float64 `json:"latency_resolution_s"`
}

// JSONBody marks Result as the body of a run.
func (Result) JSONBody() {}

// Broker is the broker under load.
type Broker struct {
	URL string `json:"url"`
	engine.Probe
}

// PullBy describes the hosts' requests for jobs and their reports.
type PullBy struct {
	URL          string  `json:"url"`
	OutputEveryS float64 `json:"output_every_s"`
	JobS         float64 `json:"job_s"`
	OutputBytes  int     `json:"output_bytes"` // per report
}

// Connect describes the connection phase of the hosts.
type Connect struct {
	AskedRate float64 `json:"asked_per_s"`
	// Rate is the rate of successful connections up to the last one.
	Rate      float64 `json:"connected_per_s"`
	DurationS float64 `json:"duration_s"`
	Connected int     `json:"connected"`
	Refused   int     `json:"refused"`
	// FirstRefused is the number of connected hosts at the first refusal; nil without a refusal.
	FirstRefused *int                           `json:"connected_at_first_refusal,omitempty"`
	Failures     map[string]engine.FailureCount `json:"failures"`
	// Lost counts the connections that the broker closed after accepting them.
	Lost         int                            `json:"lost"`
	LostFailures map[string]engine.FailureCount `json:"lost_failures"`
	// Latency is the time from when a host was due to connect until it was subscribed.
	Latency engine.Times `json:"latency"`
}

// Round is one job for each host, with given settings of the proxy.
type Round struct {
	Settings string  `json:"settings"` // ttl=5s,resend=15m,limit=none
	TTLS     float64 `json:"ttl_s"`
	ResendS  float64 `json:"resend_s"`
	Limit    int     `json:"rate_limit"` // 0 means unlimited

	DurationS    float64 `json:"duration_s"`
	Jobs         int     `json:"jobs"`
	NotConnected int     `json:"host_not_connected"` // jobs whose host was not connected at the start
	// Published counts the notifications that the broker accepted, SentAgain those after a
	// job's first, NotPublished failed attempts. The proxy retries one job at each event,
	// including clock ticks, so there may be more attempts than jobs.
	Published        int                            `json:"published"`
	SentAgain        int                            `json:"sent_again"`
	NotPublished     int64                          `json:"not_published"`
	PublishFailures  map[string]engine.FailureCount `json:"publish_failures"`
	Notified         int                            `json:"notified"` // jobs whose host got a notification
	NotifiedRate     float64                        `json:"notified_per_s"`
	Undelivered      int                            `json:"undelivered"` // jobs not notified; with pull, not fetched
	UndeliveredShare float64                        `json:"undelivered_share"`
	// Latency is the time from when a notification was due until it reached the host.
	// Connected hosts without a notification count with the time waited.
	Latency   engine.Times `json:"latency"`
	Histogram string       `json:"latency_hdrhistogram_v2_ns"`
	Pull      *PullRound   `json:"pull,omitempty"`
}

// PullRound describes how the hosts fetched their jobs and reported.
type PullRound struct {
	Fetched  int `json:"fetched"`  // jobs
	Finished int `json:"finished"` // the final report was accepted
	// Failed counts fetched jobs whose reports are incomplete at the proxy. Unresponsive
	// counts jobs without a final report, OutputLost jobs that lack output.
	Failed       int     `json:"failed"`
	FailedShare  float64 `json:"failed_share"`
	Unresponsive int     `json:"unresponsive"`
	OutputLost   int     `json:"output_lost"`
	StartedTwice int     `json:"started_twice"`
	MostUnderWay int     `json:"most_under_way"`
	Reports      int     `json:"reports"` // accepted
	// PickUp is the time from when a job was due until its host had it. Fetch counts from the
	// arrival of the notification. Report is the time from when a report was due until it was
	// accepted.
	PickUp         engine.Times                   `json:"pick_up"`
	Fetch          engine.Times                   `json:"fetch"`
	Report         engine.Times                   `json:"report"`
	FetchFailures  map[string]engine.FailureCount `json:"fetch_failures"`
	ReportFailures map[string]engine.FailureCount `json:"report_failures"`
}

// Gate is an evaluated threshold, with its round if there are several.
type Gate struct {
	Round string `json:"round,omitempty"`
	engine.Result
}

func (g Gate) parts() (string, engine.Result) { return g.Round, g.Result }

// Generator describes the generator of the load.
type Generator struct {
	Limited    bool    `json:"limited"`
	Processors int     `json:"processors"`
	CPUShare   float64 `json:"cpu_share"` // mean share of its processors
	BusiestS   float64 `json:"cpu_share_of_busiest_second"`
	CPUS       float64 `json:"cpu_s"`
	// MemoryPerHostBytes is the memory of this process per connected host, without the
	// kernel's memory for the connections.
	MemoryPerHostBytes int64    `json:"memory_per_host_bytes"`
	SharesMachine      bool     `json:"shares_machine"` // with the broker
	Foreign            int      `json:"foreign_messages"`
	Texts              []string `json:"texts"`
}

// measured provides the values of a round for thresholds (engine.Measured).
type measured struct {
	*engine.Distribution
	round *Round
}

func (m measured) MeanS() float64   { return m.Times().MeanS }
func (m measured) MaxS() float64    { return m.Times().MaxS }
func (m measured) Latencies() int64 { return m.Times().N }
func (m measured) Rate() float64    { return m.round.NotifiedRate }
func (m measured) Errors() float64  { return float64(m.round.lost()) / float64(max(1, m.round.Jobs)) }

// Observed returns false: the broker's machine is not observed.
func (measured) Observed(string) (float64, bool) { return 0, false }

// lost returns the number of jobs that were not delivered or failed.
func (r *Round) lost() int {
	if r.Pull != nil {
		return r.Undelivered + r.Pull.Failed
	}
	return r.Undelivered
}

// Failed returns the missed thresholds.
func (r *Result) Failed() []Gate {
	var out []Gate
	for _, g := range r.Gates {
		if !g.Met {
			out = append(out, g)
		}
	}
	return out
}

// connected returns a result with the figures of the connection phase.
func (r *Prepared) connected() *Result {
	p := &r.plan
	x := &Result{Schema: Schema, Hosts: len(r.hosts), JobRate: p.JobRate, TimeoutS: p.Timeout.Seconds(), WaitS: p.Wait.Seconds(), ErrorShare: 0.001, ResolutionS: engine.Resolution.Seconds(),
		Series: []evidence.Series{}, Curves: []evidence.Curve{}, Rounds: []Round{}, Gates: []Gate{},
		Broker: Broker{p.Broker.String(), r.broker}}
	if p.Pull != nil {
		x.Pull = &PullBy{p.Pull.Base.URL.Redacted(), p.Pull.Every.Seconds(), p.Pull.JobTime.Seconds(), outputBytes}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &x.Connect
	c.AskedRate, c.Connected, c.Refused, c.Failures = p.ConnectRate, r.taken, r.refused, r.why
	if r.firstRefused >= 0 {
		first := r.firstRefused
		c.FirstRefused = &first
	}
	all, last := engine.NewDistribution(longest), time.Duration(0)
	for i, h := range r.hosts {
		if h.latency >= 0 {
			all.Add(h.latency)
			last = max(last, r.due(i)+h.latency)
		}
	}
	c.Latency, c.DurationS = all.Times(), r.now().Seconds()
	if last > 0 {
		c.Rate = float64(c.Connected) / last.Seconds()
	}
	return x
}

// result adds a finished round to the result.
func (o *round) result(x *Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := o.now()
	s := o.settings
	r := Round{Settings: s.String(), TTLS: s.TTL.Seconds(), ResendS: s.Resend.Seconds(), Limit: s.Limit, DurationS: (end - o.began).Seconds(), Jobs: len(o.jobs),
		Published: o.published, SentAgain: o.sentAgain, PublishFailures: o.notPublished, Notified: o.heardOf}
	for _, f := range o.notPublished {
		r.NotPublished += f.N
	}
	latency, pickUp := engine.NewDistribution(longest), engine.NewDistribution(longest)
	last := o.began
	q := &PullRound{Fetched: o.fetched, Finished: o.finished, MostUnderWay: o.mostUnderWay, Reports: o.reported, Fetch: o.fetches.Times(), Report: o.reports.Times(), FetchFailures: o.notFetched, ReportFailures: o.notReported}
	for i := range o.jobs {
		j := &o.jobs[i]
		switch {
		case j.heard >= 0:
			latency.Add(j.heard)
			last = max(last, j.heardAt)
		case j.connected && len(j.intended) > 0:
			latency.Add(end - j.intended[0])
		}
		if !j.connected {
			r.NotConnected++
		}
		q.count(j, pickUp)
	}
	q.Failed, q.PickUp = q.Unresponsive+q.OutputLost, pickUp.Times()
	r.Undelivered = r.Jobs - r.Notified
	if o.plan.Pull != nil {
		r.Undelivered = r.Jobs - q.Fetched
		q.FailedShare = float64(q.Failed) / float64(r.Jobs)
		r.Pull = q
	}
	r.UndeliveredShare = float64(r.Undelivered) / float64(r.Jobs)
	if last > o.began {
		r.NotifiedRate = float64(r.Notified) / (last - o.began).Seconds()
	}
	var err error
	if r.Histogram, err = latency.Encoded(); err != nil {
		return err
	}
	r.Latency = latency.Times()
	x.Rounds = append(x.Rounds, r)
	for _, g := range o.plan.Gates {
		judged := Gate{Result: g.Judge(measured{latency, &r})}
		if len(o.plan.Settings) > 1 {
			judged.Round = r.Settings
		}
		x.Gates = append(x.Gates, judged)
	}
	return o.series(x)
}

// count adds a job to the figures.
func (q *PullRound) count(j *job, pickUp *engine.Distribution) {
	if j.fetched < 0 {
		return
	}
	pickUp.Add(j.fetched)
	if j.starts > 1 {
		q.StartedTwice++
	}
	switch {
	case !j.finished:
		q.Unresponsive++
	case j.lost > 0:
		q.OutputLost++
	}
}
