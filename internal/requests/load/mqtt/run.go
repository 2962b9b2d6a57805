// Package mqtt plays the hosts of pull-based remote execution against a broker: they
// connect, are told of jobs as Foreman's smart proxy tells them, fetch them and post their
// output. It measures how many hosts the broker takes, when a notification arrives, and
// which jobs are lost for which settings of the proxy.
package mqtt

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Host is one of those that are played.
type Host struct {
	Name string // its client identifier, and in its topics
	// TLS is its identity for the broker, where that speaks TLS, and for the pull URL.
	TLS *tls.Config
}

// Pull is how hosts fetch and report.
type Pull struct {
	// Base is the request for a job, but for the job's name at the end of its path.
	Base *engine.Request
	// Origin is who is asked.
	Sockets []netip.AddrPort
	Name    string // of its host, for TLS
	// Every is the time between two reports of a job, and JobTime how long one runs.
	Every, JobTime time.Duration
}

// Plan is a load.
type Plan struct {
	Broker  *url.URL
	Sockets []netip.AddrPort
	Hosts   []Host
	// TLS is the identity of the proxy, which publishes; nil for a broker without TLS.
	TLS *tls.Config
	// ConnectRate and JobRate are hosts and jobs a second.
	ConnectRate, JobRate float64
	// Timeout is how long connecting, publishing and an HTTP request may take; Wait after
	// how long without anything new a round ends.
	Timeout, Wait time.Duration
	Pull          *Pull // nil where a notification is all that is wanted
	Settings      []Settings
	Gates         []*engine.Gate
}

// Prepared is a load whose servers were reached once.
type Prepared struct {
	plan   Plan
	broker engine.Probe
	proxy  *engine.Dialer
	hosts  []host
	begin  time.Time
	alarm  *engine.Alarm
	ids    atomic.Uint64 // of the proxy's connections

	mu sync.Mutex
	// taken are hosts that are connected or have been, lost those whose connection the
	// broker has ended.
	taken, refused, lost int
	firstRefused         int // how many were connected then; -1 for never
	why, whyLost         failures
	leaving              bool
	foreign              int // messages that are no notification of this run
	round                *round
	wait                 sync.WaitGroup
}

// keepAlive is paho's, which yggdrasil has not changed.
const keepAlive = 30 * time.Second

// now is the time since the beginning.
func (r *Prepared) now() time.Duration { return time.Since(r.begin) }

// until is the moment by which something that starts now has to be done.
func (r *Prepared) until() time.Time { return r.begin.Add(r.now() + r.plan.Timeout) }

// Prepare connects to the broker once, as the proxy, and to where the jobs are. What cannot
// work is found before anything is measured.
func Prepare(ctx context.Context, p Plan) (*Prepared, error) {
	r := &Prepared{plan: p, begin: time.Now(), firstRefused: -1, why: failures{}, whyLost: failures{}}
	counts := &engine.Counts{}
	r.proxy = &engine.Dialer{Counts: counts, Context: ctx, TLS: secured(p.TLS, p.Broker.Hostname())}
	probe, err := reach(r.proxy, p.Sockets, p.Timeout)
	if err != nil {
		return nil, err
	}
	r.broker = probe
	s, err := Open(r.proxy, r.proxyID(), keepAlive, r.until())
	if err != nil {
		return nil, fmt.Errorf("%s: the proxy, who publishes, is not let in: %w", p.Broker, err)
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
				} else if _, err := reach(both[1], p.Pull.Sockets, p.Timeout); err != nil {
					return nil, err
				}
			}
			shared[h.TLS] = both
		}
		r.hosts = append(r.hosts, host{name: h.Name, mqtt: both[0], http: both[1], latency: -1})
	}
	return r, nil
}

// secured is the configuration of a server; each host's session is its own.
func secured(c *tls.Config, name string) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.ServerName, c.SessionTicketsDisabled = name, true
	return c
}

// reach finds the first address that takes a connection, and stays with it.
func reach(d *engine.Dialer, sockets []netip.AddrPort, timeout time.Duration) (engine.Probe, error) {
	var all error
	for _, socket := range sockets {
		d.To = socket
		probe, err := d.Probe(timeout)
		if err == nil {
			return probe, nil
		}
		all = errors.Join(all, err)
		if d.Context.Err() != nil {
			break
		}
	}
	return engine.Probe{}, all
}

// proxyID is the client identifier of the proxy's next connection.
func (r *Prepared) proxyID() string { return fmt.Sprintf("fettle-proxy-%d", r.ids.Add(1)) }

// Run connects the hosts and does a round of jobs for each of the settings. When ctx ends,
// what was measured until then is the result. progress is told each second how far it is,
// if not nil.
func (r *Prepared) Run(ctx context.Context, progress func(string)) (*Result, error) {
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

// busiest are the shares of its processors that the process has taken, by second.
type busiest struct{ sum, most, n float64 }

func (b *busiest) add(share float64) { b.sum, b.most, b.n = b.sum+share, max(b.most, share), b.n+1 }

// set makes a round the one whose messages are taken.
func (r *Prepared) set(o *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round = o
}

// tick pings a part of the hosts each second, so that each is heard of often enough, and
// says how far it is.
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
				_ = s.Ping(r.begin.Add(r.now())) // Next tells that it is gone
			}
		}
		each()
	}
}

// said is how far it is, in words.
func (r *Prepared) said() string {
	r.mu.Lock()
	o := r.round
	text := fmt.Sprintf("%d of %d hosts are connected", r.taken-r.lost, len(r.hosts))
	if r.refused > 0 {
		text += fmt.Sprintf(", %d were not taken", r.refused)
	}
	r.mu.Unlock()
	if o != nil {
		text += "; " + o.said()
	}
	return text
}
