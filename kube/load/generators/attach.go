package generators

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ssh"
)

// Places returns the pods as places of a fleet.
func (s *Set) Places(pods []Pod) (all []fleet.Place) {
	for _, pod := range pods {
		all = append(all, fleet.Place{Name: pod.Name, Open: func(ctx context.Context, maxLine int) (fleet.Session, error) { return s.attach(ctx, pod, maxLine) }})
	}
	return all
}

// toKnow is the time after which the API server knows why a pod has ended.
const toKnow = 5 * time.Second

// toEnd is the time in which a generator ends after its input.
const toEnd = 5 * time.Second

// session is the stream to a pod's standard input and output.
type session struct {
	set     *Set
	pod     Pod
	maxLine int
	in      *io.PipeWriter
	out     *bufio.Reader
	cancel  context.CancelFunc
	killed  atomic.Bool
	done    chan struct{}
	err     error // of the stream, once done is closed
}

// attach connects to a pod. If the connection fails, the session's first line is the error.
func (s *Set) attach(ctx context.Context, pod Pod, maxLine int) (fleet.Session, error) {
	base, _, err := rest.DefaultServerUrlFor(s.Config)
	if err != nil {
		return nil, err
	}
	at := base.JoinPath(s.path("/api/v1", "pods/"+pod.Name+"/attach"))
	at.RawQuery = url.Values{"container": {"generator"}, "stdin": {"true"}, "stdout": {"true"}}.Encode()
	executor, err := remotecommand.NewWebSocketExecutor(s.Config, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	// The library's messages about a lost connection add nothing to the session's error.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	c := &session{set: s, pod: pod, maxLine: maxLine, in: in, out: bufio.NewReaderSize(out, 64<<10), cancel: cancel, done: make(chan struct{})}
	go func() {
		c.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout})
		close(c.done)
		cancel()
		_ = stdin.Close()
		_ = stdout.Close()
	}()
	return c, nil
}

// Write sends bytes to the generator.
func (c *session) Write(text []byte) (int, error) {
	n, err := c.in.Write(text)
	if errors.Is(err, io.ErrClosedPipe) {
		err = c.failure(err)
	}
	return n, err
}

// Line reads one line of the generator.
func (c *session) Line() ([]byte, error) {
	line, err := ssh.ReadLine(c.out, c.maxLine)
	if errors.Is(err, io.EOF) {
		err = c.failure(err)
	}
	return line, err
}

// failure says why the stream ended.
func (c *session) failure(err error) error {
	<-c.done
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		err = c.err
	}
	wait := toKnow
	if c.killed.Load() { // the generator was silent before, or the caller is interrupted
		wait = 0
	}
	return c.set.why(c.pod, wait, err)
}

// Kill closes the connection, which ends the generator's input.
func (c *session) Kill() {
	c.killed.Store(true)
	c.cancel()
}

// Close ends the generator's input and waits for the generator to end.
func (c *session) Close() {
	_ = c.in.Close()
	select {
	case <-c.done:
	case <-time.After(toEnd):
		c.cancel()
		<-c.done
	}
}
