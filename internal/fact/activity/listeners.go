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

// parseListeners parses /proc/net/tcp and tcp6: the number of connections in the accept queue of
// each listening port. The kernel reports it as the socket's receive queue. It adds each socket
// with waiting connections to sockets, by its inode.
func parseListeners(text string, c counters, sockets map[string]float64) error {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 10 || w[3] != "0A" {
			continue
		}
		at := strings.LastIndexByte(w[1], ':')
		port, err := strconv.ParseUint(w[1][at+1:], 16, 16)
		_, rx, ok := strings.Cut(w[4], ":")
		waiting, err2 := strconv.ParseUint(rx, 16, 32)
		if at < 0 || !ok || err != nil || err2 != nil {
			return errFormat
		}
		c[counter{"listen.waiting", strconv.FormatUint(port, 10)}] += float64(waiting)
		if waiting > 0 {
			sockets[w[9]] = float64(waiting)
		}
	}
	return nil
}
