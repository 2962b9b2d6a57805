package product

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// tcpListen is the state of a listening socket in /proc/net/tcp (include/net/tcp_states.h).
const tcpListen = "0A"

// ConnectionsWaiting answers with the number of connections that wait in the listen queues of a
// process's TCP sockets until the program accepts them.
func ConnectionsWaiting(h *host.Host, pid int) fact.Answer {
	dir := "/proc/" + strconv.Itoa(pid)
	queues := map[string]int{} // by inode
	for _, file := range []string{dir + "/net/tcp", dir + "/net/tcp6"} {
		text, err := h.Files.ReadFile(file)
		if err != nil {
			return fact.Answer{Unknown: host.Why(file, err), At: file}
		}
		if err := listenQueues(string(text), queues); err != nil {
			return fact.Answer{Unknown: file + ": " + err.Error(), At: file}
		}
	}
	files, err := h.Files.ReadDir(dir + "/fd")
	if err != nil {
		return fact.Answer{Unknown: host.Why(dir+"/fd", err), At: dir}
	}
	waiting := 0
	for _, f := range files {
		to, err := h.Files.Readlink(path.Join(dir, "fd", f.Name()))
		if err != nil {
			continue // closed since
		}
		if inode, is := strings.CutPrefix(to, "socket:["); is {
			waiting += queues[strings.TrimSuffix(inode, "]")]
		}
	}
	return fact.Answer{Value: float64(waiting), At: dir + "/net/tcp"}
}

// listenQueues adds the listen queues in a table such as /proc/net/tcp to queues, by inode. The
// kernel shows the number of waiting connections as the receive queue.
func listenQueues(text string, queues map[string]int) error {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 10 || w[3] != tcpListen {
			continue
		}
		_, receive, _ := strings.Cut(w[4], ":")
		n, err := strconv.ParseUint(receive, 16, 32)
		if err != nil {
			return fmt.Errorf("queues %q: want two hexadecimal numbers", w[4])
		}
		queues[w[9]] += int(n)
	}
	return nil
}
