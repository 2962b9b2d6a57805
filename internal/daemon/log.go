package daemon

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Level is a message's level as a number of Python's logging, as in log_capture_start.
type Level int

// The levels of the daemon's messages.
const (
	LevelDebug   Level = 10
	LevelInfo    Level = 20
	LevelNotice  Level = 25
	LevelWarning Level = 30
	LevelError   Level = 40
)

// levels maps each level to its name in Python and its number in syslog(3).
var levels = map[Level]struct {
	word   string
	syslog int
}{
	LevelDebug: {"DEBUG", 7}, LevelInfo: {"INFO", 6}, LevelNotice: {"INFO", 5}, LevelWarning: {"WARNING", 4}, LevelError: {"ERROR", 3},
}

// messages is the daemon's log. Each line goes to one writer and to all current captures.
type messages struct {
	mu       sync.Mutex
	out      io.Writer
	prefixed bool // the writer is the system journal, which expects a level such as "<6>" first
	captures map[string]*capture
}

type capture struct {
	level Level
	text  strings.Builder
	timer *time.Timer
}

// maxCapture is the maximum size of one capture in bytes, maxCaptures the maximum number of
// captures. A client may never fetch its capture.
const (
	maxCapture  = 256 << 10
	maxCaptures = 16
)

func newMessages(out io.Writer) *messages {
	return &messages{out: out, prefixed: isJournal(out, os.Getenv("JOURNAL_STREAM")), captures: map[string]*capture{}}
}

// isJournal reports whether a writer is the stream that systemd connected to the journal. It
// compares device and inode with $JOURNAL_STREAM (systemd.exec(5)), because standard error may
// have been redirected.
func isJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func (m *messages) say(l Level, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if l > LevelDebug {
		if m.prefixed {
			fmt.Fprintf(m.out, "<%d>%s\n", levels[l].syslog, text)
		} else {
			fmt.Fprintf(m.out, "fettle: %s\n", text)
		}
	}
	for _, c := range m.captures {
		if l >= c.level && c.text.Len() < maxCapture {
			fmt.Fprintf(&c.text, "%-8s fettle: %s\n", levels[l].word, text)
		}
	}
}

// begin starts a capture and returns its token, or "" if there are too many captures.
func (m *messages) begin(l Level, limit time.Duration) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.captures) >= maxCaptures {
		return ""
	}
	token := rand.Text()
	c := &capture{level: l}
	m.captures[token] = c
	if limit > 0 {
		c.timer = time.AfterFunc(limit, func() { m.end(token) })
	}
	return token
}

// end ends a capture and returns its text.
func (m *messages) end(token string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.captures[token]
	if !ok {
		return ""
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	delete(m.captures, token)
	return c.text.String()
}
