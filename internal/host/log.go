package host

import (
	"fmt"
	"net"
	"os"
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
	_, err = fmt.Fprintf(c, "<%d>fettle[%d]: %s", facilityDaemon<<3|severityNotice, os.Getpid(), line)
	return err
}
