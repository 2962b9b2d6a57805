package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Worker generates loads for a coordinator.
type Worker interface {
	// Prepare connects to the servers of a job.
	Prepare(ctx context.Context, job []byte) (*Ready, error)
	// Run generates a share. When ctx ends, it returns the counts so far.
	Run(ctx context.Context, s Share, to Coordinator) (*Part, error)
}

// Coordinator is what a worker calls during a run.
type Coordinator struct {
	// Now reports the state of the load, each second.
	Now func(Now)
	// Record returns when the coordinator has stored a JSON value durably. It does so also
	// after the run's ctx has ended. Only one call at a time is in progress.
	Record func(json.RawMessage) error
}

// served is a worker with its connection to the coordinator.
type served struct {
	Worker
	mu  sync.Mutex
	out *json.Encoder

	recording sync.Mutex
	recorded  chan recorded
	gone      chan struct{} // closed at the end of the input
}

func (s *served) say(m fromWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(m) // on a broken connection the input ends too
}

// Serve processes messages until the input ends. It also ends if the first message does not arrive
// within the given time; 0 means no limit, which keeps the process forever if no caller connects to
// the input.
func Serve(ctx context.Context, in io.Reader, out io.Writer, w Worker, within time.Duration) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &served{Worker: w, out: json.NewEncoder(out), recorded: make(chan recorded, 1), gone: make(chan struct{})}
	messages := make(chan toWorker)
	var broken error
	go func() {
		defer close(messages)
		defer close(s.gone)
		broken = s.read(ctx, in, messages)
	}()
	stop, running := context.CancelFunc(func() {}), make(chan struct{})
	close(running)
	var late <-chan time.Time
	if within > 0 {
		late = time.After(within)
	}
	for {
		select {
		case <-late:
			stop()
			return fmt.Errorf("no caller within %v", within)
		case <-ctx.Done():
			stop()
			<-running
			return ctx.Err()
		case m, more := <-messages:
			if !more {
				stop()
				<-running
				return broken
			}
			late = nil
			switch {
			case m.Ping:
				s.say(fromWorker{Pong: time.Now().UnixNano()})
			case m.Stop:
				stop()
			case m.Resolve != nil:
				s.resolve(ctx, *m.Resolve)
			case m.Job != nil:
				s.prepare(ctx, m.Job)
			case m.Run != nil:
				<-running
				var turn context.Context
				turn, stop = context.WithCancel(ctx)
				done := make(chan struct{})
				running = done
				go func() {
					defer close(done)
					s.run(turn, ctx, *m.Run)
				}()
			}
		}
	}
}

// read passes messages on until ctx ends. It handles the answers to Record itself, also after that:
// a run that is ending still records what it has created.
func (s *served) read(ctx context.Context, in io.Reader, messages chan<- toWorker) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var m toWorker
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("not a message of %s: %w; only fettle load http or load scenario --clients starts this command", Schema, err)
		}
		if m.Recorded != nil {
			select {
			case s.recorded <- *m.Recorded:
			default: // nothing was sent to record
			}
			continue
		}
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	}
	return lines.Err()
}

// record sends a value to the coordinator and waits until it is stored.
func (s *served) record(text json.RawMessage) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	s.say(fromWorker{Record: text})
	select {
	case r := <-s.recorded:
		if r.Error != "" {
			return errors.New(r.Error)
		}
		return nil
	case <-s.gone:
		return errors.New("the connection to the coordinator, which records, is lost")
	}
}

// resolve answers with the addresses of a name. An empty answer is not an error here; the caller
// reports it.
func (s *served) resolve(ctx context.Context, n Name) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, n.Network, n.Host)
	if err != nil {
		s.say(fromWorker{Error: err.Error()})
		return
	}
	s.say(fromWorker{Addresses: found})
}

func (s *served) prepare(ctx context.Context, job []byte) {
	ready, err := s.Prepare(ctx, job)
	if err != nil {
		s.say(fromWorker{Error: err.Error()})
		return
	}
	ready.Schema = Schema
	s.say(fromWorker{Ready: ready})
}

// run waits for the start and generates the load until ctx ends. all is the worker's context.
func (s *served) run(ctx, all context.Context, share Share) {
	begin := time.Unix(0, share.At)
	wait := time.NewTimer(time.Until(begin))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		s.say(fromWorker{Error: "stopped before it began"})
		return
	}
	late := time.Since(begin)
	part, err := s.Run(ctx, share, Coordinator{Now: func(n Now) { s.say(fromWorker{Now: &n}) }, Record: s.record})
	if err == nil && part == nil {
		err = errors.New("nothing was counted")
	}
	if err != nil {
		s.say(fromWorker{Error: err.Error()})
		return
	}
	part.Late, part.Stopped = late, all.Err() != nil
	s.say(fromWorker{Part: part})
}
