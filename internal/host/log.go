package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"unicode"
)

// The datagram sockets of systemd-journald (systemd.io, "Native Journal Protocol") and
// of syslog(3).
const (
	journaldSocket = "/run/systemd/journal/socket"
	syslogSocket   = "/dev/log"
)

const facilityDaemon, severityNotice = 3, 5

// Field is one field of a line of systemd's journal. Names are upper-case letters,
// digits and underscores.
type Field struct{ Name, Value string }

// Log writes one line to this machine's system log (facility daemon, severity
// notice): to systemd's journal with the fields, or where that does not listen to
// syslog(3) without them. Where nothing listens it returns the error; a copy logs
// nothing. It waits for neither.
func (h *Host) Log(line string, fields ...Field) error {
	if _, live := h.Files.(liveFiles); !live {
		return nil
	}
	all := append([]Field{
		{"MESSAGE", oneLine(line)}, {"PRIORITY", fmt.Sprint(severityNotice)}, {"SYSLOG_FACILITY", fmt.Sprint(facilityDaemon)},
		{"SYSLOG_IDENTIFIER", "fettle"}, {"SYSLOG_PID", fmt.Sprint(os.Getpid())},
	}, fields...)
	err := send(journaldSocket, journalEntry(all))
	if err == nil {
		return nil
	}
	if old := send(syslogSocket, fmt.Appendf(nil, "<%d>fettle[%d]: %s", facilityDaemon<<3|severityNotice, os.Getpid(), oneLine(line))); old != nil {
		return errors.Join(err, old)
	}
	return nil
}

// send sends one datagram; a reader that does not read delays it a moment only.
func send(socket string, datagram []byte) error {
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, err = c.Write(datagram)
	return err
}

// journalEntry is an entry of the native protocol: NAME=VALUE, or for a value of
// several lines NAME, its length as 64 bits little-endian, and the value.
func journalEntry(fields []Field) []byte {
	var b []byte
	for _, f := range fields {
		if f.Value == "" {
			continue
		}
		b = append(b, f.Name...)
		if strings.Contains(f.Value, "\n") {
			b = append(b, '\n')
			b = binary.LittleEndian.AppendUint64(b, uint64(len(f.Value)))
		} else {
			b = append(b, '=')
		}
		b = append(append(b, f.Value...), '\n')
	}
	return b
}

// oneLine puts a space where a control character stands: a newline in a name or
// a reason would begin a line that looks like another program's.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
