// observe samples how busy a machine is while something else is measured, on the
// same axis of time: its processors, its run queue, its memory and its network, as its
// kernel counts them. It needs nothing there but /proc, and over ssh a shell.

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ssh"
)

// Source reads the files of a machine behind each other. When ctx ends while it reads, the
// source may be of no further use.
type Source interface {
	Read(ctx context.Context) ([]byte, error)
	Close()
}

// local is a machine whose files can be read.
type local struct{ files host.Files }

// Local reads this machine, or one that is seen through h.
func Local(h *host.Host) Source { return local{h.Files} }

func (l local) Read(context.Context) ([]byte, error) {
	var all []byte
	for _, name := range Files {
		text, err := l.files.ReadFile(name)
		if err != nil && name != "/proc/schedstat" {
			return nil, err
		}
		all = append(all, text...)
	}
	return all, nil
}

func (local) Close() {}

// maxLine is the longest line of /proc that is taken, in bytes: one of /proc/stat counts
// each interrupt of the machine.
const (
	observeMaxLine = 1 << 20
	maxText        = 16 << 20
)

// script answers each line with the files and a dot. It ends when the connection does:
// nothing is left behind over there.
var script = "exec sh -c 'while read -r x; do cat " + strings.Join(Files, " ") + " 2>/dev/null; echo .; done'"

// shell is a machine with a shell at the other end of a session.
type shell struct{ session *ssh.Session }

// SSH reads a host, until Close.
func SSH(name string) (Source, error) {
	words, err := ssh.Command(name, script)
	if err != nil {
		return nil, err
	}
	session, err := ssh.Start(context.Background(), words, observeMaxLine)
	if err != nil {
		return nil, err
	}
	return shell{session}, nil
}

// readTimeout is how long a machine may take to answer, however busy it is.
const readTimeout = 20 * time.Second

func (s shell) Read(ctx context.Context) ([]byte, error) {
	slow := time.AfterFunc(readTimeout, s.session.Kill)
	defer slow.Stop()
	kill := context.AfterFunc(ctx, s.session.Kill)
	defer kill()
	if _, err := s.session.Write([]byte("\n")); err != nil {
		return nil, err
	}
	var all []byte
	for {
		line, err := s.session.Line()
		switch {
		case err != nil:
			return nil, err
		case string(line) == ".":
			return all, nil
		case len(all)+len(line) > maxText:
			return nil, fmt.Errorf("it says more than %d MiB", maxText>>20)
		}
		all = append(append(all, line...), '\n')
	}
}

func (s shell) Close() { s.session.Close() }

// Observer is a machine that is watched.
type Observer struct {
	Name   string // local, or the host
	source Source
	kept   bool // the kernel keeps the time of the run queue
}

// New reads a machine once: what cannot work is found before anything is measured.
func New(ctx context.Context, name string, source Source) (*Observer, error) {
	o := &Observer{Name: name, source: source}
	s, err := o.read(ctx)
	if err != nil {
		source.Close()
		return nil, fmt.Errorf("%s cannot be observed: %w", name, err)
	}
	o.kept = len(s.queued) > 0
	return o, nil
}

// Close ends the connection.
func (o *Observer) Close() { o.source.Close() }

// RunQueueSource says where the figures of the run queue come from.
func (o *Observer) RunQueueSource() string {
	if o.kept {
		return "/proc/schedstat: the time in which tasks ran or waited on each processor"
	}
	return "/proc/stat: procs_running each time it was read, without the reader; this kernel has no /proc/schedstat, so what happens in between is not seen"
}

func (o *Observer) read(ctx context.Context) (*snapshot, error) {
	text, err := o.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// Course is what was seen over a time.
type Course struct {
	*Observer
	stop func()
	done chan struct{}

	mu    sync.Mutex
	at    []time.Duration // since the beginning
	seen  []*snapshot
	ended error
}

// Watch samples from a moment on, now and then, until Stop.
func (o *Observer) Watch(ctx context.Context, begin time.Time, every time.Duration) *Course {
	reading := context.WithoutCancel(ctx) // an end is no reason to break a connection off
	ctx, stop := context.WithCancel(ctx)
	c := &Course{Observer: o, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		next := time.NewTimer(time.Until(begin))
		defer next.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				c.sample(reading, begin) // the end of the last stretch
				return
			case <-next.C:
			}
			if !c.sample(reading, begin) {
				return
			}
			next.Reset(time.Until(begin.Add(time.Duration(n) * every)))
		}
	}()
	return c
}

func (c *Course) sample(ctx context.Context, begin time.Time) bool {
	asked := time.Now()
	s, err := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.ended = err
		return false
	}
	// The moment is in the middle of the way there and back.
	c.at = append(c.at, asked.Add(time.Since(asked)/2).Sub(begin))
	c.seen = append(c.seen, s)
	return true
}

// Stop ends it, with a last look.
func (c *Course) Stop() {
	c.stop()
	<-c.done
}

// Err is why nothing more was seen.
func (c *Course) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Between are the figures from the first sample at or after a moment to the last one at or
// before another. Where a machine was so slow to answer that there are not two, the next
// one counts, if it came within half of the time after it; else they are not known (false).
// A sample counts for a moment that it missed by less than a tenth of a second.
func (c *Course) Between(from, to time.Duration) (Figures, bool) {
	const slack = 100 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	first := slices.IndexFunc(c.at, func(at time.Duration) bool { return at >= from-slack })
	last := len(c.at) - 1
	for last >= 0 && c.at[last] > to+slack {
		last--
	}
	if next := first + 1; first >= 0 && last == first && next < len(c.at) && c.at[next] <= to+(to-from)/2 {
		last = next
	}
	if first < 0 || last <= first {
		return Figures{}, false
	}
	return c.figures(first, last)
}

// Samples are the figures between samples that follow each other.
func (c *Course) Samples() []Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []Figures{}
	for i := 1; i < len(c.seen); i++ {
		if f, ok := c.figures(i-1, i); ok {
			out = append(out, f)
		}
	}
	return out
}

// errRestarted is a machine whose counters began again.
var errRestarted = errors.New("its counters began again: it was restarted, or its processors changed")
