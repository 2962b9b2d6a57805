// Package mqtt simulates the hosts of pull-based remote execution at a broker. The hosts
// connect, receive Foreman's notifications of jobs, fetch the jobs and post their output. It
// measures how many hosts the broker accepts, how long notifications take, and how many jobs
// are lost with given settings of the smart proxy.
package mqtt

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// Host is a simulated host.
type Host struct {
	Name string // client identifier, also part of its topics
	// TLS is the host's identity for the broker, if the broker uses TLS, and for the pull URL.
	TLS *tls.Config
}

// Pull describes how hosts fetch their jobs and report.
type Pull struct {
	// Base is the request for a job, without the job's identifier at the end of the path.
	Base    *engine.Request
	Sockets []netip.AddrPort
	Name    string // server name for TLS
	// Every is the time between two reports of a job. JobTime is the duration of a job.
	Every, JobTime time.Duration
}

// Plan describes a load: the broker, the hosts, their jobs, and the thresholds.
type Plan struct {
	Broker  *url.URL
	Sockets []netip.AddrPort
	Hosts   []Host
	// TLS is the identity of the publishing proxy; nil for a broker without TLS.
	TLS *tls.Config
	// ConnectRate and JobRate are in hosts and jobs a second.
	ConnectRate, JobRate float64
	// Timeout limits each connection and request. A round ends after Wait without events.
	Timeout, Wait time.Duration
	Pull          *Pull // nil: a job ends with its notification
	Settings      []Settings
	Gates         []*engine.Gate
}

// Prepared is a load that is connected to its servers.
type Prepared struct {
	plan   Plan
	broker engine.Probe
	proxy  *engine.Dialer
	hosts  []host
	begin  time.Time
	alarm  *engine.Alarm
	ids    atomic.Uint64 // of the proxy's connections

	mu sync.Mutex
	// taken counts connected hosts, lost the connections that the broker closed later.
	taken, refused, lost int
	firstRefused         int // hosts connected at the first refusal; -1 without a refusal
	why, whyLost         failures
	leaving              bool
	foreign              int // received messages that are not notifications of this run
	round                *round
	wait                 sync.WaitGroup
}

// keepAlive is the default of paho, which yggdrasil uses.
const keepAlive = 30 * time.Second

// now returns the time since the beginning.
func (r *Prepared) now() time.Duration { return time.Since(r.begin) }

// until returns the deadline for an operation that starts now.
func (r *Prepared) until() time.Time { return r.begin.Add(r.now() + r.plan.Timeout) }

// Prepare connects once to the broker, as the proxy, and to the server of the jobs. So an
// invalid setup fails before the measurement.
func Prepare(ctx context.Context, p Plan) (*Prepared, error) {
	r := &Prepared{plan: p, begin: time.Now(), firstRefused: -1, why: failures{}, whyLost: failures{}}
	counts := &engine.Counts{}
	r.proxy = &engine.Dialer{Counts: counts, Context: ctx, TLS: secured(p.TLS, p.Broker.Hostname())}
	probe, err := r.proxy.Reach(p.Sockets, p.Timeout)
	if err != nil {
		return nil, err
	}
	r.broker = probe
	s, err := Open(r.proxy, r.proxyID(), keepAlive, r.until())
	if err != nil {
		return nil, fmt.Errorf("%s does not accept the publishing proxy: %w", p.Broker, err)
	}
	s.Leave(r.begin.Add(r.now()))
	shared := map[*tls.Config][2]*engine.Dialer{}
	for _, h := range p.Hosts {
		both, known := shared[h.TLS]
		if !known {
			both[0] = &engine.Dialer{To: r.proxy.To, Counts: counts, Context: ctx}
			if p.TLS != nil {
				both[0].TLS = secured(h.TLS, p.Broker.Hostname())
			}
			if p.Pull != nil {
				both[1] = &engine.Dialer{Counts: &engine.Counts{}, Context: ctx}
				if p.Pull.Base.URL.Scheme == "https" {
					both[1].TLS = secured(h.TLS, p.Pull.Name)
				}
				if len(shared) > 0 {
					both[1].To = r.hosts[0].http.To
				} else if _, err := both[1].Reach(p.Pull.Sockets, p.Timeout); err != nil {
					return nil, err
				}
			}
			shared[h.TLS] = both
		}
		r.hosts = append(r.hosts, host{name: h.Name, mqtt: both[0], http: both[1], latency: -1})
	}
	return r, nil
}

// secured returns the TLS configuration for a server, without session resumption.
func secured(c *tls.Config, name string) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.ServerName, c.SessionTicketsDisabled = name, true
	return c
}

// proxyID returns the client identifier of the proxy's next connection.
func (r *Prepared) proxyID() string { return fmt.Sprintf("fettle-proxy-%d", r.ids.Add(1)) }

// Run connects the hosts and runs a round of jobs for each of the settings. When ctx ends, it
// returns the measurements so far. It calls progress, if not nil, each second with the elapsed and
// the total time of the plan.
func (r *Prepared) Run(ctx context.Context, progress func(text string, done, all time.Duration)) (*Result, error) {
	clock, err := engine.NewAlarm()
	if err != nil {
		return nil, err
	}
	r.alarm = clock
	running, end := context.WithCancel(ctx)
	defer end()
	context.AfterFunc(running, clock.Close)
	use, began, before := engine.Now(), engine.Now(), engine.MemoryBytes()
	r.begin = time.Now()
	var busy busiest
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		r.tick(running, func() {
			took, _ := use.Share()
			busy.add(took)
			if progress != nil {
				progress(r.said())
			}
		})
	}()
	r.connectAll(running)
	x := r.connected()
	x.Generator.MemoryPerHostBytes = (engine.MemoryBytes() - before) / int64(max(1, r.taken))
	id := numbering{}
	if _, err := rand.Read(id.run[:]); err != nil {
		return nil, err
	}
	for i, s := range r.plan.Settings {
		if running.Err() != nil || r.taken == 0 {
			break
		}
		id.round = uint16(i)
		o := newRound(running, r, id, s)
		r.set(o)
		o.run()
		r.set(nil)
		if err := o.result(x); err != nil {
			return nil, err
		}
	}
	r.leave(running)
	end()
	<-ticking
	r.wait.Wait()
	return r.judge(x, ctx.Err() != nil, busy, engine.Now().CPU()-began.CPU())
}

// busiest adds up the CPU share of this process each second.
type busiest struct{ sum, most, n float64 }

func (b *busiest) add(share float64) { b.sum, b.most, b.n = b.sum+share, max(b.most, share), b.n+1 }

// set selects the round that receives messages.
func (r *Prepared) set(o *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round = o
}

// tick pings some of the hosts each second, often enough for their keep-alive time. It also
// calls each.
func (r *Prepared) tick(ctx context.Context, each func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	const turns = int(keepAlive/time.Second) * 2 / 3
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i := turn % turns; i < len(r.hosts); i += turns {
			if s := r.session(i); s != nil {
				_ = s.Ping(r.begin.Add(r.now())) // Next reports a broken connection
			}
		}
		each()
	}
}

// said returns the progress in words, and in time of the plan: hosts connect and jobs start at
// given rates.
func (r *Prepared) said() (text string, done, all time.Duration) {
	r.mu.Lock()
	o := r.round
	text = internaltext.Sprintf("%d of %s are connected", r.taken-r.lost, internaltext.Count(len(r.hosts), "host"))
	if r.refused > 0 {
		text += internaltext.Sprintf(", %d were refused", r.refused)
	}
	connected := r.taken + r.refused
	r.mu.Unlock()
	jobs := 0
	if o != nil {
		said, settled := o.said()
		text, connected = text+"; "+said, len(r.hosts)
		jobs = int(o.id.round)*len(r.hosts) + settled
	}
	of := func(hosts, jobs int) time.Duration {
		return perSecond(hosts, r.plan.ConnectRate) + perSecond(jobs, r.plan.JobRate)
	}
	return text, of(connected, jobs), of(len(r.hosts), len(r.plan.Settings)*len(r.hosts))
}
