package fact

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// NumaMapping is a line of /proc/PID/numa_maps (numa(7)): a mapping and the nodes of its pages.
type NumaMapping struct {
	Address uint64
	Policy  string // default, bind:0-1, interleave:0-3, prefer (many):0-1, ...
	// Huge, Heap and Stack report the words of these names.
	Huge, Heap, Stack bool
	PageBytes         int64 // size of the counted pages
	Nodes             []NodePages
}

// NodePages is a number of pages on a node.
type NodePages struct {
	Node  int
	Pages int64
}

// ParseNumaMaps calls each for every mapping in the text of a numa_maps file. The mapping is valid
// only during the call. pageSize is the page size of lines without kernelpagesize_kB, in bytes.
func ParseNumaMaps(text string, pageSize int64, each func(*NumaMapping)) {
	var m NumaMapping
	for line := range strings.Lines(text) {
		if m.parse([]byte(line), pageSize) {
			each(&m)
		}
	}
}

// ReadNumaMaps applies ParseNumaMaps to the numa_maps file of a process. It keeps only one line in
// memory, because the file may have many megabytes.
func ReadNumaMaps(h *host.Host, pid int, each func(*NumaMapping)) error {
	var m NumaMapping
	pageSize := h.PageSize()
	return h.EachLine(fmt.Sprintf("/proc/%d/numa_maps", pid), func(line []byte) {
		if m.parse(line, pageSize) {
			each(&m)
		}
	})
}

// parse reads a line into m. ok is false if it is not the line of a mapping.
func (m *NumaMapping) parse(line []byte, pageSize int64) (ok bool) {
	address, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	at, err := strconv.ParseUint(string(address), 16, 64)
	if err != nil {
		return false
	}
	size := bytes.IndexByte(rest, ' ')
	if text := rest[:max(size, 0)]; string(text) == "prefer" || string(text) == "weighted" {
		// prefer (many):0-1, weighted interleave:0-1
		if more := bytes.IndexByte(rest[size+1:], ' '); more < 0 {
			size = -1
		} else {
			size += 1 + more
		}
	}
	if size < 0 {
		size = len(rest)
	}
	policy := m.Policy
	if string(rest[:size]) != policy { // most mappings have the policy of the one before
		policy = string(rest[:size])
	}
	*m = NumaMapping{Address: at, Policy: policy, PageBytes: pageSize, Nodes: m.Nodes[:0]}
	for word := range bytes.SplitSeq(rest[size:], []byte(" ")) {
		m.add(word)
	}
	return true
}

func (m *NumaMapping) add(word []byte) {
	switch string(word) {
	case "huge":
		m.Huge = true
	case "heap":
		m.Heap = true
	case "stack":
		m.Stack = true
	}
	if pages, ok := bytes.CutPrefix(word, []byte("kernelpagesize_kB=")); ok {
		if kb, err := strconv.ParseInt(string(pages), 10, 64); err == nil && kb > 0 && kb <= 1<<30 {
			m.PageBytes = kb << 10
		}
		return
	}
	if len(word) < len("N0=0") || word[0] != 'N' {
		return
	}
	key, value, _ := bytes.Cut(word, []byte("="))
	node, err := strconv.ParseUint(string(key[1:]), 10, 16)
	pages, err2 := strconv.ParseInt(string(value), 10, 50)
	if err == nil && err2 == nil && pages >= 0 {
		m.Nodes = append(m.Nodes, NodePages{int(node), pages})
	}
}
