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

// The datagram sockets of systemd-journald (systemd.io, "Native Journal
// Protocol") and syslog(3).
const (
	journaldSocket = "/run/systemd/journal/socket"
	syslogSocket   = "/dev/log"
)

const facilityDaemon, severityNotice = 3, 5

// Field is one field of a systemd journal entry. Names consist of upper-case
// letters, digits and underscores.
type Field struct{ Name, Value string }

// Log writes one line to this machine's system log, with facility daemon and severity notice.
// It uses the systemd journal with fields, or syslog(3) without fields if journald does not
// listen. It returns an error if neither listens. On a copy it does nothing.
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

// send sends one datagram. It waits at most one second for a slow reader.
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

// journalEntry encodes an entry of the native protocol. A field is NAME=VALUE. A value of
// several lines is encoded as NAME, the length as 64-bit little-endian, and the value.
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

// oneLine replaces control characters with spaces: a line after a newline could appear to come
// from another program.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
