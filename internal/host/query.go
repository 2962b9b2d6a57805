package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// Querier puts questions to programs of the machine that answer over a connection,
// as a database does.
type Querier interface {
	// Query answers with what ask returns, which gets the machine itself to look at.
	// question names it, without secrets: a recording keeps the answer under that
	// name, redacted, and an archive answers from there. A copy returns
	// ErrNotRecorded and asks nobody.
	Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error)
}

// Query puts a question; a host without Asks has recorded none.
func (h *Host) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	if h.Querier == nil {
		return noQuerier{}.Query(ctx, question, ask)
	}
	return h.Querier.Query(ctx, question, ask)
}

// QueryJSON is Ask for a value, which is kept as JSON.
func QueryJSON[T any](ctx context.Context, h *Host, question string, ask func(context.Context, *Host) (T, error)) (T, error) {
	var answer T
	text, err := h.Query(ctx, question, func(ctx context.Context, live *Host) ([]byte, error) {
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

type liveQuerier struct{}

func (liveQuerier) Query(ctx context.Context, _ string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	return ask(ctx, Live())
}

type noQuerier struct{}

func (noQuerier) Query(_ context.Context, question string, _ func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	return nil, NotRecorded(question)
}

// recordingQuerier keeps the answers.
type recordingQuerier struct {
	r     *answerRecorder
	inner Querier
}

func (x recordingQuerier) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	answer, err := (&Host{Querier: x.inner}).Query(ctx, question, ask)
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

// archivedQuerier answers as was recorded.
type archivedQuerier struct{ a *archive }

func (x archivedQuerier) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	answer, ok := x.a.asks[question]
	if !ok {
		return noQuerier{}.Query(ctx, question, ask)
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
