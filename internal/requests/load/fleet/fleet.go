package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/ssh"
)

// Place is a machine or container in which a worker is started.
type Place struct {
	Name  string   // for messages
	Words []string // command line that starts the worker
	// Open, if not nil, connects to a worker that runs already, instead of Words. A line of the
	// worker has at most maxLine bytes.
	Open func(ctx context.Context, maxLine int) (Session, error)
}

// Session is a connection to a worker's standard input and output.
type Session interface {
	io.Writer
	// Line reads one line, without its newline. Its error says why the worker is gone.
	Line() ([]byte, error)
	// Kill ends the connection at once.
	Kill()
	// Close ends the worker's input and waits a few seconds for the worker to end.
	Close()
}

// Client is the coordinator's side of a worker.
type Client struct {
	Name  string
	Ready Ready
	// Off bounds the error of the clock offset: half of the shortest round trip.
	Off time.Duration

	session Session
	check   string        // what to check if the worker does not answer
	ahead   time.Duration // offset of the worker's clock, positive if it is ahead
	mu      sync.Mutex    // protects writing
}

// Fleet is a set of workers that are ready.
type Fleet struct {
	Clients []*Client
	// Quiet, if not nil, is called for a client that has been silent for a few seconds.
	Quiet func(client string, since time.Time)
	// Record, if not nil, stores what a client sends to record. The client waits for it.
	Record func(client int, text json.RawMessage) error
	// Patience is the time without a report until a client counts as lost; 0 means 30 seconds.
	Patience time.Duration
}

// pings is the number of clock queries per worker. The one with the shortest round trip counts.
const pings = 20

// ToStart is the time limit for starting a worker, in addition to the time for preparing its
// job. ssh alone tries to connect for 30 seconds.
const ToStart = time.Minute

// Start starts all workers and sends them the job. If any worker is not ready in time, it
// stops all and returns an error.
func Start(ctx context.Context, places []Place, job any, within time.Duration) (*Fleet, error) {
	f, err := Connect(ctx, places)
	if err != nil {
		return nil, err
	}
	if err := f.Prepare(ctx, job, within); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Connect starts all workers. If any cannot be started, it stops all and returns an error.
func Connect(ctx context.Context, places []Place) (*Fleet, error) {
	f := &Fleet{Clients: make([]*Client, len(places))}
	failed := make([]error, len(places))
	var wait sync.WaitGroup
	for i, place := range places {
		wait.Go(func() {
			c := &Client{Name: place.Name, check: "the command runs fettle load worker with its standard input and output"}
			open := func(ctx context.Context, maxLine int) (Session, error) { return ssh.Start(ctx, place.Words, maxLine) }
			if place.Open != nil {
				open, c.check = place.Open, "its image has the same version of fettle"
			}
			// An interrupted load still collects the workers' counts, so ctx kills workers only
			// while they connect.
			var err error
			if c.session, err = open(context.WithoutCancel(ctx), maxLine); err != nil {
				failed[i] = fmt.Errorf("client %s: %w", place.Name, err)
				return
			}
			f.Clients[i] = c
		})
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Prepare sends the job to all workers, which connect to the servers, and compares the clocks.
func (f *Fleet) Prepare(ctx context.Context, job any, within time.Duration) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	failed := make([]error, len(f.Clients))
	var wait sync.WaitGroup
	for i, c := range f.Clients {
		wait.Go(func() {
			if err := c.limited(ctx, within, func() error { return c.prepare(text) }); err != nil {
				failed[i] = fmt.Errorf("client %s: %w", c.Name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// limited calls a function that exchanges messages, and kills the worker when ctx or the time
// ends.
func (c *Client) limited(ctx context.Context, within time.Duration, exchange func() error) error {
	kill := context.AfterFunc(ctx, c.session.Kill)
	defer kill()
	var late atomic.Bool
	slow := time.AfterFunc(within, func() {
		late.Store(true)
		c.session.Kill()
		c.session.Close() // a remote process may hold its output open
	})
	err := exchange()
	if !slow.Stop() && late.Load() {
		err = fmt.Errorf("not ready within %v; check that %s", within, c.check)
	}
	if err != nil {
		c.session.Close()
	}
	return err
}

func (c *Client) prepare(job []byte) error {
	if err := c.say(toWorker{Job: job}); err != nil {
		return err
	}
	m, err := c.hear()
	switch {
	case err != nil:
		return err
	case m.Ready == nil || m.Ready.Schema != Schema:
		return fmt.Errorf("no answer in protocol %s; check that the client has the same version of fettle", Schema)
	}
	c.Ready = *m.Ready
	return c.clock()
}

// toResolve is the time limit for resolving one name.
const toResolve = 30 * time.Second

// LookupNetIP resolves a host name on the worker's machine, which may know other names than
// this one. It implements engine.Resolver.
func (c *Client) LookupNetIP(ctx context.Context, network, host string) (found []netip.Addr, err error) {
	err = c.limited(ctx, toResolve, func() error {
		if err := c.say(toWorker{Resolve: &Name{network, host}}); err != nil {
			return err
		}
		m, err := c.hear()
		if err == nil {
			found = m.Addresses
		}
		return err
	})
	return found, err
}

// clock measures the offset of the worker's clock (Cristian 1989).
func (c *Client) clock() error {
	for i := range pings {
		asked := time.Now()
		if err := c.say(toWorker{Ping: true}); err != nil {
			return err
		}
		m, err := c.hear()
		if err != nil {
			return err
		}
		way := time.Since(asked)
		if half := way / 2; i == 0 || half < c.Off {
			c.Off, c.ahead = half, time.Duration(m.Pong-asked.Add(half).UnixNano())
		}
	}
	return nil
}

func (c *Client) say(m toWorker) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.session.Write(append(text, '\n'))
	return err
}

// hear waits for a message. If the worker reports an error, hear returns it.
func (c *Client) hear() (*fromWorker, error) {
	line, err := c.session.Line()
	if err != nil {
		return nil, err
	}
	var m fromWorker
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("not a message of %s: %.100q", Schema, line)
	}
	if m.Error != "" {
		return nil, errors.New(m.Error)
	}
	return &m, nil
}

// Close ends the connections to the workers, which stops them.
func (f *Fleet) Close() {
	var wait sync.WaitGroup
	for _, c := range f.Clients {
		if c != nil {
			wait.Go(c.session.Close)
		}
	}
	wait.Wait()
}

// Begin returns a start time far enough ahead for all clients.
func (f *Fleet) Begin() time.Time {
	lead := 200 * time.Millisecond
	for _, c := range f.Clients {
		lead = max(lead, 20*c.Off)
	}
	return time.Now().Add(lead)
}

// Run makes each client generate its share from begin on, for length, and returns each client's
// counts. When ctx ends, all clients stop and return their counts so far. The same happens if
// one client is lost or stopped on its machine. A lost client has a Lost instead of a part.
func (f *Fleet) Run(ctx context.Context, begin time.Time, length time.Duration, shares []Share, now func(client int, n Now)) ([]*Part, []*Lost) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parts, lost := make([]*Part, len(f.Clients)), make([]*Lost, len(f.Clients))
	var wait sync.WaitGroup
	for i, c := range f.Clients {
		share := shares[i]
		share.At = begin.Add(c.ahead).UnixNano()
		heard := c.listen(begin, length, cmp.Or(f.Patience, patience), func(since time.Time) {
			if f.Quiet != nil {
				f.Quiet(c.Name, since)
			}
		})
		wait.Go(func() {
			defer heard.end()
			part, err := c.run(ctx, share, heard, Coordinator{Now: func(n Now) { now(i, n) }, Record: func(text json.RawMessage) error {
				if f.Record == nil {
					return errors.New("this run records nothing")
				}
				return f.Record(i, text)
			}})
			if parts[i] = part; err != nil {
				lost[i] = heard.lost(err)
				stop()
			} else if parts[i].Stopped {
				stop() // end the other clients' load too
			}
		})
	}
	wait.Wait()
	return parts, lost
}

func (c *Client) run(ctx context.Context, share Share, heard *hearing, to Coordinator) (*Part, error) {
	if err := c.say(toWorker{Run: &share}); err != nil {
		return nil, err
	}
	told := context.AfterFunc(ctx, func() {
		heard.stop()
		_ = c.say(toWorker{Stop: true})
	})
	defer told()
	for {
		m, err := c.hear()
		switch {
		case err != nil:
			return nil, err
		case m.Now != nil:
			heard.heard(*m.Now)
			to.Now(*m.Now)
		case m.Record != nil:
			var done recorded
			if err := to.Record(m.Record); err != nil {
				done.Error = err.Error()
			}
			if err := c.say(toWorker{Recorded: &done}); err != nil {
				return nil, err
			}
		case m.Part != nil && (m.Part.Meter != nil || m.Part.Scenario != nil):
			return m.Part, nil
		}
	}
}
