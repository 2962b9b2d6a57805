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
	Run(ctx context.Context, s Share, now func(Now)) (*Part, error)
}

// served is a worker with its connection to the coordinator.
type served struct {
	Worker
	mu  sync.Mutex
	out *json.Encoder
}

func (s *served) say(m fromWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(m) // on a broken connection the input ends too
}

// Serve processes messages until the input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, w Worker) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &served{Worker: w, out: json.NewEncoder(out)}
	messages := make(chan toWorker)
	var broken error
	go func() {
		defer close(messages)
		broken = read(ctx, in, messages)
	}()
	stop, running := context.CancelFunc(func() {}), make(chan struct{})
	close(running)
	for {
		select {
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

func read(ctx context.Context, in io.Reader, messages chan<- toWorker) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var m toWorker
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("not a message of %s: %w; only fettle load http or load scenario --clients starts this command", Schema, err)
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}

// resolve answers with the addresses of a name. They may be none, which the caller reports.
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
	part, err := s.Run(ctx, share, func(n Now) { s.say(fromWorker{Now: &n}) })
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
