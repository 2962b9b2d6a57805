package host

import (
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"
)

// Log writes one line to this machine's system log (the datagram socket of
// syslog(3), facility daemon, severity notice). Where nobody listens it returns
// the error; a copy logs nothing.
func (h *Host) Log(line string) error {
	if _, live := h.Files.(liveFiles); !live {
		return nil
	}
	c, err := net.Dial("unixgram", "/dev/log")
	if err != nil {
		return err
	}
	defer c.Close()
	const facilityDaemon, severityNotice = 3, 5
	_, err = fmt.Fprintf(c, "<%d>fettle[%d]: %s", facilityDaemon<<3|severityNotice, os.Getpid(), oneLine(line))
	return err
}

// oneLine puts a space where a control character stands: a newline in a name or
// a reason would begin a line that looks like somebody else's.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
