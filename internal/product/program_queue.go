package product

import (
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
)

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
		if err := activity.ListenQueues(string(text), func(_ uint16, inode string, waiting int) { queues[inode] += waiting }); err != nil {
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
