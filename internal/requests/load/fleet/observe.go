// Observers sample the processors, run queue, memory and network of a machine during a
// measurement, from kernel counters. They need only /proc on that machine and, over ssh, a shell.

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
	internaltext "fettle.dev/fettle/internal/text"
)

// Source reads the concatenated Files of a machine. After a canceled Read the source may be
// unusable.
type Source interface {
	Read(ctx context.Context) ([]byte, error)
	Close()
}

// local reads files of this machine, or of a mounted root.
type local struct{ files host.Files }

// Local returns a source for the machine of h.
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

// observeMaxLine is the longest accepted line of /proc, in bytes. One line of /proc/stat
// counts all interrupts of the machine.
const (
	observeMaxLine = 1 << 20
	maxText        = 16 << 20
)

// script answers each input line with the contents of Files and a dot. It ends with the
// connection and leaves no files on the machine.
var script = "exec sh -c 'while read -r x; do cat " + strings.Join(Files, " ") + " 2>/dev/null; echo .; done'"

// shell reads files of a remote machine through a shell.
type shell struct{ session *ssh.Session }

// SSH returns a source for a host. The caller must close it.
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

// readTimeout is the time limit for one sample, even of a busy machine.
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
			return nil, internaltext.Errorf("more than %d MiB from /proc", maxText>>20)
		}
		all = append(append(all, line...), '\n')
	}
}

func (s shell) Close() { s.session.Close() }

// Observer samples one machine.
type Observer struct {
	Name   string // local, or the host
	source Source
	kept   bool // the kernel records run queue times
}

// New reads a machine once, so an invalid setup fails before the measurement.
func New(ctx context.Context, name string, source Source) (*Observer, error) {
	o := &Observer{Name: name, source: source}
	s, err := o.read(ctx)
	if err != nil {
		source.Close()
		return nil, fmt.Errorf("cannot observe %s: %w", name, err)
	}
	o.kept = len(s.queued) > 0
	return o, nil
}

// Close closes the source, such as an ssh session.
func (o *Observer) Close() { o.source.Close() }

// RunQueueSource describes the source of the run queue figures.
func (o *Observer) RunQueueSource() string {
	if o.kept {
		return "/proc/schedstat: the time in which tasks ran or waited on each processor"
	}
	return "/proc/stat: procs_running at each sample, without the reader; this kernel lacks /proc/schedstat, so values between samples are unknown"
}

func (o *Observer) read(ctx context.Context) (*snapshot, error) {
	text, err := o.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// Course holds the observations of a period.
type Course struct {
	*Observer
	stop func()
	done chan struct{}

	mu    sync.Mutex
	at    []time.Duration // since the beginning
	seen  []*snapshot
	ended error
}

// Watch samples from begin on, at intervals of every, until Stop.
func (o *Observer) Watch(ctx context.Context, begin time.Time, every time.Duration) *Course {
	reading := context.WithoutCancel(ctx) // canceling a read would break the connection
	ctx, stop := context.WithCancel(ctx)
	c := &Course{Observer: o, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		next := time.NewTimer(time.Until(begin))
		defer next.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				c.sample(reading, begin) // end of the last interval
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
	// Assume that the files were read halfway between request and answer.
	c.at = append(c.at, asked.Add(time.Since(asked)/2).Sub(begin))
	c.seen = append(c.seen, s)
	return true
}

// Stop takes a last sample and ends the observation.
func (c *Course) Stop() {
	c.stop()
	<-c.done
}

// Err returns why the observation ended early, or nil.
func (c *Course) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Between returns the figures from the first sample at or after from to the last sample at or
// before to. It returns false if they are unknown. If only one sample is in between, the next
// one counts too, unless it came more than half of the period after to. Both limits have a
// tolerance of a tenth of a second.
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

// Samples returns the figures between consecutive samples.
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

// errRestarted is returned if counters went backwards.
var errRestarted = errors.New("counters went backwards: the machine was restarted, or its processors changed")
