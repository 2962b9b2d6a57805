package mqtt

import (
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// Schema names the JSON form of Result, and Kind that of its run.
const (
	Schema = "fettle/load-mqtt/v1"
	Kind   = "load-mqtt"
)

// Word is the verdict.
type Word string

// The verdicts.
const (
	Held    Word = "held"              // all hosts were connected and did their jobs
	NotHeld Word = "not-held"          // hosts were not taken, or jobs were lost
	Limited Word = "generator-limited" // the generator could not do what was asked of it
	Silent  Word = "nobody-connected"
)

// Result is what a load has found.
type Result struct {
	Schema string                 `json:"schema"`        // fettle/load-mqtt/v1
	Cut    *evidence.Interruption `json:"cut,omitempty"` // that it ended before its plan did
	Series []evidence.Series      `json:"series"`
	Curves []evidence.Curve       `json:"curves"`
	Word   Word                   `json:"result"`
	Text   string                 `json:"verdict"`

	Broker   Broker  `json:"broker"`
	Hosts    int     `json:"hosts"`
	JobRate  float64 `json:"jobs_per_s"`
	TimeoutS float64 `json:"timeout_s"`
	WaitS    float64 `json:"wait_s"` // a round ends when for so long nothing has come
	Pull     *PullBy `json:"pull,omitempty"`

	Connect   Connect   `json:"connect"`
	Rounds    []Round   `json:"rounds"`
	Gates     []Gate    `json:"gates"`
	Generator Generator `json:"generator"`
	// ErrorShare and ResolutionS are the error of a latency: the larger of both.
	ErrorShare  float64 `json:"latency_error_share"`
	ResolutionS float64 `json:"latency_resolution_s"`
}

// JSONBody says that it is the body of a run.
func (Result) JSONBody() {}

// Broker is who was asked.
type Broker struct {
	URL     string `json:"url"`
	Address string `json:"address"` // that was connected to
	TLS     string `json:"tls,omitempty"`
	Cipher  string `json:"cipher,omitempty"`
	// ClientCertificate says that it asked for one and was given it.
	ClientCertificate bool `json:"client_certificate"`
}

// PullBy is how hosts fetched and reported.
type PullBy struct {
	URL          string  `json:"url"`
	OutputEveryS float64 `json:"output_every_s"`
	JobS         float64 `json:"job_s"`
	OutputBytes  int     `json:"output_bytes"` // of a report
}

// Failure is how often something failed for a reason.
type Failure struct {
	N       int64  `json:"n"`
	Example string `json:"example,omitempty"`
}

// Connect is how the hosts were connected.
type Connect struct {
	AskedRate float64 `json:"asked_per_s"`
	// Rate is that of the connections that came to be, until the last of them.
	Rate      float64 `json:"connected_per_s"`
	DurationS float64 `json:"duration_s"`
	Connected int     `json:"connected"`
	Refused   int     `json:"refused"`
	// FirstRefused is how many were connected when the first one was refused; absent
	// where none was.
	FirstRefused *int               `json:"connected_at_first_refusal,omitempty"`
	Failures     map[string]Failure `json:"failures"`
	// Lost are connections that the broker has ended later, in the whole time.
	Lost         int                `json:"lost"`
	LostFailures map[string]Failure `json:"lost_failures"`
	// Latency is from when a host was meant to connect until it was subscribed.
	Latency engine.Times `json:"latency"`
}

// Round is a job for each host with settings of the proxy.
type Round struct {
	Settings string  `json:"settings"` // ttl=5s,resend=15m,limit=none
	TTLS     float64 `json:"ttl_s"`
	ResendS  float64 `json:"resend_s"`
	Limit    int     `json:"rate_limit"` // 0 is none

	DurationS    float64 `json:"duration_s"`
	Jobs         int     `json:"jobs"`
	NotConnected int     `json:"host_not_connected"` // jobs of hosts that were not, when it began
	// Published are notifications that the broker has taken, SentAgain those of them
	// that were not the first of their job, NotPublished attempts that failed: the proxy
	// tries one job again with each thing that happens, and its clock's ticks are such too,
	// so that there may be more of them than jobs.
	Published        int                `json:"published"`
	SentAgain        int                `json:"sent_again"`
	NotPublished     int64              `json:"not_published"`
	PublishFailures  map[string]Failure `json:"publish_failures"`
	Notified         int                `json:"notified"` // jobs whose host has heard of it
	NotifiedRate     float64            `json:"notified_per_s"`
	Undelivered      int                `json:"undelivered"` // jobs: not notified, or with pull not fetched
	UndeliveredShare float64            `json:"undelivered_share"`
	// Latency is from when a notification was meant to be published until it was at the
	// host; of those that a connected host has waited for in vain, with the time waited.
	Latency   engine.Times `json:"latency"`
	Histogram string       `json:"latency_hdrhistogram_v2_ns"`
	Pull      *PullRound   `json:"pull,omitempty"`
}

// PullRound is what hosts did with their jobs.
type PullRound struct {
	Fetched  int `json:"fetched"`  // jobs
	Finished int `json:"finished"` // the report of their end was taken
	// Failed are jobs that were fetched and that the proxy does not know all of:
	// Unresponsive ones whose end was not reported, OutputLost others that lack output.
	Failed       int     `json:"failed"`
	FailedShare  float64 `json:"failed_share"`
	Unresponsive int     `json:"unresponsive"`
	OutputLost   int     `json:"output_lost"`
	StartedTwice int     `json:"started_twice"`
	MostUnderWay int     `json:"most_under_way"`
	Reports      int     `json:"reports"` // that were taken
	// PickUp is from a job being due until its host had it, Fetch from the notification's
	// arrival, Report from when a report was due until it was taken.
	PickUp         engine.Times       `json:"pick_up"`
	Fetch          engine.Times       `json:"fetch"`
	Report         engine.Times       `json:"report"`
	FetchFailures  map[string]Failure `json:"fetch_failures"`
	ReportFailures map[string]Failure `json:"report_failures"`
}

// Gate is a threshold, in a round where there are several.
type Gate struct {
	Round string `json:"round,omitempty"`
	engine.Result
}

// Generator is how this side did.
type Generator struct {
	Limited    bool    `json:"limited"`
	Processors int     `json:"processors"`
	CPUShare   float64 `json:"cpu_share"` // mean, of its processors
	BusiestS   float64 `json:"cpu_share_of_busiest_second"`
	CPUS       float64 `json:"cpu_s"`
	// MemoryPerHostBytes is what this process has taken for each connected host, once all
	// were; what the kernel holds for its connection is not in it.
	MemoryPerHostBytes int64    `json:"memory_per_host_bytes"`
	SharesMachine      bool     `json:"shares_machine"` // with the broker
	Foreign            int      `json:"foreign_messages"`
	Texts              []string `json:"texts"`
}

// measured is what gates ask of a round.
type measured struct {
	*engine.Distribution
	round *Round
}

func (m measured) MeanS() float64   { return m.Times().MeanS }
func (m measured) MaxS() float64    { return m.Times().MaxS }
func (m measured) Latencies() int64 { return m.Times().N }
func (m measured) Rate() float64    { return m.round.NotifiedRate }
func (m measured) Errors() float64  { return float64(m.round.lost()) / float64(max(1, m.round.Jobs)) }

// Observed says that nobody looks at the broker's machine.
func (measured) Observed(string) (float64, bool) { return 0, false }

// lost are the jobs that were not delivered, or failed.
func (r *Round) lost() int {
	if r.Pull != nil {
		return r.Undelivered + r.Pull.Failed
	}
	return r.Undelivered
}

// Failed says which gates were not met.
func (r *Result) Failed() []Gate {
	var out []Gate
	for _, g := range r.Gates {
		if !g.Met {
			out = append(out, g)
		}
	}
	return out
}

// connected begins a result: how the hosts were connected.
func (r *Prepared) connected() *Result {
	p := &r.plan
	x := &Result{Schema: Schema, Hosts: len(r.hosts), JobRate: p.JobRate, TimeoutS: p.Timeout.Seconds(), WaitS: p.Wait.Seconds(), ErrorShare: 0.001, ResolutionS: engine.Resolution.Seconds(),
		Series: []evidence.Series{}, Curves: []evidence.Curve{}, Rounds: []Round{}, Gates: []Gate{},
		Broker: Broker{p.Broker.String(), r.broker.Address, r.broker.TLS, r.broker.Cipher, r.broker.ClientCertificate}}
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

// result adds a round to the result, once it is over.
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

// count counts a job.
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
