package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// Asks puts questions to programs of the machine that answer over a connection,
// as a database does.
type Asks interface {
	// Ask answers with what ask returns, which gets the machine itself to look at.
	// question names it, without secrets: a recording keeps the answer under that
	// name, redacted, and an archive answers from there. A copy returns
	// ErrNotRecorded and asks nobody.
	Ask(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error)
}

// Ask puts a question; a host without Asks has recorded none.
func (h *Host) Ask(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	if h.Asks == nil {
		return noAsks{}.Ask(ctx, question, ask)
	}
	return h.Asks.Ask(ctx, question, ask)
}

// AskFor is Ask for a value, which is kept as JSON.
func AskFor[T any](ctx context.Context, h *Host, question string, ask func(context.Context, *Host) (T, error)) (T, error) {
	var answer T
	text, err := h.Ask(ctx, question, func(ctx context.Context, live *Host) ([]byte, error) {
		found, err := ask(ctx, live)
		if err != nil {
			return nil, err
		}
		return json.Marshal(found)
	})
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("the answer of %s: %w", question, err)
	}
	return answer, nil
}

type liveAsks struct{}

func (liveAsks) Ask(ctx context.Context, _ string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	return ask(ctx, Live())
}

type noAsks struct{}

func (noAsks) Ask(_ context.Context, question string, _ func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	return nil, fmt.Errorf("%s: %w", question, ErrNotRecorded)
}

// recordingAsks keeps the answers.
type recordingAsks struct {
	r     *recorder
	inner Asks
}

func (x recordingAsks) Ask(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	answer, err := (&Host{Asks: x.inner}).Ask(ctx, question, ask)
	if err != nil {
		return nil, err
	}
	answer = Redact("", answer)
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	if len(answer) <= MaxRecorded {
		x.r.asks[question] = answer
	}
	return answer, nil
}

// archivedAsks answers as was recorded.
type archivedAsks struct{ a *archive }

func (x archivedAsks) Ask(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	answer, ok := x.a.asks[question]
	if !ok {
		return noAsks{}.Ask(ctx, question, ask)
	}
	return answer, nil
}

// DialUnixAs connects to a unix socket as another user. Only the thread that
// connects has that user's effective id, and only while it does: the other side
// sees the id of that moment (SO_PEERCRED, unix(7)). uid -1 connects as oneself.
func DialUnixAs(ctx context.Context, path string, uid int) (net.Conn, error) {
	var conn net.Conn
	var err error
	connect := func() { conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path) }
	if uid < 0 || uid == unix.Geteuid() {
		connect()
		return conn, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The runtime ends a thread whose goroutine ends without unlocking it: one
		// that could not become itself again serves nobody else.
		runtime.LockOSThread()
		if err = setThreadUID(uid); err != nil {
			return
		}
		connect()
		if back := setThreadUID(unix.Getuid()); back != nil {
			if conn != nil {
				conn.Close()
			}
			conn, err = nil, back
			return
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return conn, err
}

// setThreadUID sets the effective user of this thread alone; syscall.Setresuid
// would change all of them.
func setThreadUID(uid int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("setresuid(%d): %w", uid, errno)
	}
	return nil
}
