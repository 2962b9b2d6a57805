package job

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

// toKnow is the time after which the API server knows why a pod has ended.
const toKnow = 5 * time.Second

// toEnd is the time in which a container ends after its input.
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

// Attach connects to the standard input and output of a pod. A line of it has at most maxLine bytes.
// If the connection fails, the session's first line is the error.
func (s *Set) Attach(ctx context.Context, pod Pod, maxLine int) (fleet.Session, error) {
	base, _, err := rest.DefaultServerUrlFor(s.Config)
	if err != nil {
		return nil, err
	}
	at := base.JoinPath(s.Path("/api/v1", "pods/"+pod.Name+"/attach"))
	at.RawQuery = url.Values{"container": {s.Container}, "stdin": {"true"}, "stdout": {"true"}}.Encode()
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

// Write sends bytes to the pod.
func (c *session) Write(text []byte) (int, error) {
	n, err := c.in.Write(text)
	if errors.Is(err, io.ErrClosedPipe) {
		err = c.failure(err)
	}
	return n, err
}

// Line reads one line of the pod.
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
	if c.killed.Load() { // the pod was silent before, or the caller is interrupted
		wait = 0
	}
	return c.set.why(c.pod, wait, err)
}

// Kill closes the connection, which ends the pod's input.
func (c *session) Kill() {
	c.killed.Store(true)
	c.cancel()
}

// Close ends the pod's input and waits for its process to end.
func (c *session) Close() {
	_ = c.in.Close()
	select {
	case <-c.done:
	case <-time.After(toEnd):
		c.cancel()
		<-c.done
	}
}
