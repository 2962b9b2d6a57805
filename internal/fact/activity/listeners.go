package activity

import (
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// maxDescriptors is the maximum number of descriptors read to find the processes that listen.
const maxDescriptors = 100_000

// addListeners adds the number of connections in the accept queue of each listening port, and
// sets it for the processes that listen. The tables are long, so they are read only if
// connections were dropped.
func (s *snapshot) addListeners(h *host.Host, all []Consumer) {
	sockets := map[string]float64{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		s.read(h, source{file, func(text string, c counters) error { return parseListeners(text, c, sockets) }})
	}
	left := maxDescriptors
	for i := range all {
		dir := "/proc/" + strconv.Itoa(all[i].PID) + "/fd"
		list, _ := h.Files.ReadDir(dir)
		if left -= len(list); left < 0 || len(sockets) == 0 {
			return
		}
		for _, d := range list {
			to, _ := h.Files.Readlink(path.Join(dir, d.Name()))
			inode, _ := strings.CutPrefix(to, "socket:[")
			inode = strings.TrimSuffix(inode, "]")
			all[i].ListenWaiting += sockets[inode]
			delete(sockets, inode) // its other processes have inherited it
		}
	}
}

// parseListeners adds the accept queues of a table to the counters by port, and to sockets, by
// inode, if connections wait.
func parseListeners(text string, c counters, sockets map[string]float64) error {
	return ListenQueues(text, func(port uint16, inode string, waiting int) {
		c[counter{"listen.waiting", strconv.Itoa(int(port))}] += float64(waiting)
		if waiting > 0 {
			sockets[inode] = float64(waiting)
		}
	})
}

// ListenQueues parses /proc/net/tcp or tcp6. It calls each for each listening socket with the number
// of connections in its accept queue, which the kernel reports as the socket's receive queue.
func ListenQueues(text string, each func(port uint16, inode string, waiting int)) error {
	const listen = "0A" // include/net/tcp_states.h
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 10 || w[3] != listen {
			continue
		}
		at := strings.LastIndexByte(w[1], ':')
		port, err := strconv.ParseUint(w[1][at+1:], 16, 16)
		_, rx, ok := strings.Cut(w[4], ":")
		waiting, err2 := strconv.ParseUint(rx, 16, 31)
		if at < 0 || !ok || err != nil || err2 != nil {
			return errFormat
		}
		each(uint16(port), w[9], int(waiting))
	}
	return nil
}
