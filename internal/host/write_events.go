package host

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// writeEvent is one fanotify event. The caller closes the descriptors.
type writeEvent struct {
	fd    int // descriptor of the file; -1 if none
	pid   int
	pidfd int  // -1 if none
	gone  bool // the process had ended before the event was read
	lost  bool // the queue overflowed before this event
}

var errWriteEvent = errors.New("fanotify: invalid event")

// parseWrites parses struct fanotify_event_metadata and the records after each
// (include/uapi/linux/fanotify.h). Events returned with an error are valid.
func parseWrites(b []byte) ([]writeEvent, error) {
	const head = 24
	var out []writeEvent
	for len(b) > 0 {
		if len(b) < head {
			return out, errWriteEvent
		}
		size, meta := int(native.Uint32(b)), int(native.Uint16(b[6:]))
		if b[4] != unix.FANOTIFY_METADATA_VERSION || size < head || size > len(b) || meta < head || meta > size {
			return out, errWriteEvent
		}
		e := writeEvent{fd: int(int32(native.Uint32(b[16:]))), pid: int(int32(native.Uint32(b[20:]))), pidfd: -1}
		e.lost = native.Uint64(b[8:])&unix.FAN_Q_OVERFLOW != 0
		for info := b[meta:size]; len(info) >= 4; {
			n := int(native.Uint16(info[2:]))
			if n < 4 || n > len(info) {
				break
			}
			if info[0] == unix.FAN_EVENT_INFO_TYPE_PIDFD && n >= 8 {
				e.pidfd = max(-1, int(int32(native.Uint32(info[4:]))))
				e.gone = int32(native.Uint32(info[4:])) == unix.FAN_NOPIDFD
			}
			info = info[n:]
		}
		out = append(out, e)
		b = b[size:]
	}
	return out, nil
}

// writerOf identifies a process. If the process has ended, writerOf uses the recorded tasks.
func writerOf(e writeEvent, known func() recordedTasks) Writer {
	w := Writer{PID: e.pid, UID: -1}
	if e.pid <= 0 {
		w.PID = 0
		return w
	}
	if !e.gone {
		dir := "/proc/" + strconv.Itoa(e.pid)
		t, err := readTask(dir, e.pid, readCmdline(dir))
		uid := readUID(dir)
		// The data belongs to the writer only if its process id was not reused.
		if err == nil && (e.pidfd < 0 || !errors.Is(unix.PidfdSendSignal(e.pidfd, 0, nil, 0), unix.ESRCH)) {
			w.Comm, w.Parent, w.UID = printable(t.Comm), t.Parent, uid
			if t.Cmdline != "["+t.Comm+"]" { // has a command line, so it still exists
				w.Command = redactedCommand(t.Cmdline)
			}
		}
	}
	var seen recordedTasks
	if w.Comm == "" || commOf(w.Parent) == "" {
		seen = known()
	}
	if w.Comm == "" {
		w.Comm, w.Parent = seen.name(e.pid), seen.tasks[e.pid].parent
	}
	if w.Parent > 0 {
		if w.ParentComm = commOf(w.Parent); w.ParentComm == "" {
			w.ParentComm = seen.name(w.Parent)
		}
	}
	return w
}

func commOf(pid int) string {
	b, err := readCapped("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return printable(trimLine(b))
}

// printable replaces control characters: processes choose their own names.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// readUID returns the effective user of a process, or -1 if unknown.
func readUID(dir string) int {
	b, err := readCapped(dir + "/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(ids); len(f) > 1 {
				if uid, err := strconv.Atoi(f[1]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

// maxCommand is the maximum length of a recorded command line, in bytes.
const maxCommand = 400

func redactedCommand(line string) string {
	line = printable(string(Redact("", []byte(line))))
	if len(line) > maxCommand {
		line = strings.ToValidUTF8(line[:maxCommand], "") + "…"
	}
	return line
}
