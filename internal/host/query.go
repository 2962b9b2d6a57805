package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// Querier queries running programs of the machine over connections, such as databases.
type Querier interface {
	// Query returns the answer of ask, which gets the machine to connect to. question is a
	// name without secrets. A recording stores the redacted answer under that name, and an
	// archive returns it. A copy returns ErrNotRecorded without calling ask.
	Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error)
}

// Query calls h.Querier. A host without a Querier returns ErrNotRecorded.
func (h *Host) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	if h.Querier == nil {
		return noQuerier{}.Query(ctx, question, ask)
	}
	return h.Querier.Query(ctx, question, ask)
}

// QueryJSON is like Query, but returns any value and records it as JSON.
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

// recordingQuerier records the answers of another host's queries.
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

// archivedQuerier replays recorded answers.
type archivedQuerier struct{ a *archive }

func (x archivedQuerier) Query(ctx context.Context, question string, ask func(context.Context, *Host) ([]byte, error)) ([]byte, error) {
	answer, ok := x.a.asks[question]
	if !ok {
		return noQuerier{}.Query(ctx, question, ask)
	}
	return answer, nil
}

// DialUnixAs connects to a Unix socket as another user; -1 means the current user. Only the
// connecting thread gets that user's effective uid, and only while it connects. The peer
// receives the uid at that time (SO_PEERCRED, unix(7)).
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
		// A goroutine that ends while locked to its thread ends the thread too, so a thread
		// that could not restore its user is never reused.
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

// setThreadUID sets the effective user of the calling thread only;
// syscall.Setresuid would change all threads.
func setThreadUID(uid int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("setresuid(%d): %w", uid, errno)
	}
	return nil
}
