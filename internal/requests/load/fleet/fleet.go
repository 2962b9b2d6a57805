package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/ssh"
)

// Place is where a worker is started.
type Place struct {
	Name  string   // as messages have it
	Words []string // the command line that starts it
}

// Client is a worker, from this side.
type Client struct {
	Name  string
	Ready Ready
	// Off is how far its clock may be off what this side takes it for: half of the
	// quickest way there and back.
	Off time.Duration

	session *ssh.Session
	ahead   time.Duration // of this side's clock
	mu      sync.Mutex    // of writing
}

// Fleet are workers that are ready.
type Fleet struct {
	Clients []*Client
	// Quiet is told of one that has said nothing for some seconds while it should drive; nil:
	// nobody is.
	Quiet func(client string, since time.Time)
	// Patience is how long one may say nothing until it is given up; 0 is half a minute.
	Patience time.Duration
}

// pings are how often the clock of a worker is asked; the quickest answer counts.
const pings = 20

// ToStart is how long a worker may take until it speaks, beyond what its job takes: ssh
// itself tries for half a minute to connect.
const ToStart = time.Minute

// Start starts a worker at each place, all at once, and gives each the job. One that is not
// ready within a time is ended, and none is then started.
func Start(ctx context.Context, places []Place, job any, within time.Duration) (*Fleet, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Clients: make([]*Client, len(places))}
	failed := make([]error, len(places))
	var wait sync.WaitGroup
	for i, place := range places {
		wait.Go(func() {
			if f.Clients[i], failed[i] = start(ctx, place, text, within); failed[i] != nil {
				failed[i] = fmt.Errorf("client %s: %w", place.Name, failed[i])
			}
		})
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func start(ctx context.Context, place Place, job []byte, within time.Duration) (_ *Client, err error) {
	// A load that is interrupted is told so, and says what it has: ctx does not kill it.
	session, err := ssh.Start(context.WithoutCancel(ctx), place.Words, maxLine)
	if err != nil {
		return nil, err
	}
	kill := context.AfterFunc(ctx, session.Kill) // but while it connects
	defer kill()
	var late atomic.Bool
	slow := time.AfterFunc(within, func() {
		late.Store(true)
		session.Kill()
		session.Close() // what it has started elsewhere may hold its output open
	})
	c := &Client{Name: place.Name, session: session}
	defer func() {
		if !slow.Stop() && late.Load() {
			err = fmt.Errorf("it was not ready within %v: does that start fettle load worker, and leave it standard input and output?", within)
		}
		if err != nil {
			session.Close()
		}
	}()
	if err := c.say(toWorker{Job: job}); err != nil {
		return nil, err
	}
	m, err := c.hear()
	switch {
	case err != nil:
		return nil, err
	case m.Ready == nil || m.Ready.Schema != Schema:
		return nil, fmt.Errorf("it does not speak %s: is its fettle of another version?", Schema)
	}
	c.Ready = *m.Ready
	return c, c.clock()
}

// clock finds how far the worker's clock is ahead (Cristian 1989).
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

// hear waits for a message. What a worker has to say of an error is one here.
func (c *Client) hear() (*fromWorker, error) {
	line, err := c.session.Line()
	if err != nil {
		return nil, err
	}
	var m fromWorker
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("it does not speak %s, but says %.100q", Schema, line)
	}
	if m.Error != "" {
		return nil, errors.New(m.Error)
	}
	return &m, nil
}

// Close ends the workers.
func (f *Fleet) Close() {
	var wait sync.WaitGroup
	for _, c := range f.Clients {
		if c != nil {
			wait.Go(c.session.Close)
		}
	}
	wait.Wait()
}

// Begin is a moment at which all can begin that are told now.
func (f *Fleet) Begin() time.Time {
	lead := 200 * time.Millisecond
	for _, c := range f.Clients {
		lead = max(lead, 20*c.Off)
	}
	return time.Now().Add(lead)
}

// Run lets each client drive its share from a moment on, and gives what each has counted.
// length is how long that takes. When ctx ends they stop, and give what they have; when one
// is lost, or is stopped where it runs, the others stop too; of a lost one there is why in
// place of a part.
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
			part, err := c.run(ctx, share, heard, func(n Now) { now(i, n) })
			if parts[i] = part; err != nil {
				lost[i] = heard.lost(err)
				stop()
			} else if parts[i].Stopped {
				stop() // the others would count no longer than it
			}
		})
	}
	wait.Wait()
	return parts, lost
}

func (c *Client) run(ctx context.Context, share Share, heard *hearing, now func(Now)) (*Part, error) {
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
			now(*m.Now)
		case m.Part != nil && m.Part.Meter != nil:
			return m.Part, nil
		}
	}
}
