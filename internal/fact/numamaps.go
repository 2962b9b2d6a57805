package fact

import (
	"strconv"
	"strings"
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

// ParseNumaMaps calls each for every mapping in the text of a numa_maps file. The mapping is
// valid only during the call. pageSize is that of lines without kernelpagesize_kB, in bytes.
func ParseNumaMaps(text string, pageSize int64, each func(*NumaMapping)) {
	var m NumaMapping
	for line := range strings.Lines(text) {
		address, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := strconv.ParseUint(address, 16, 64)
		if err != nil {
			continue
		}
		policy, rest, _ := strings.Cut(rest, " ")
		if next, after, _ := strings.Cut(rest, " "); policy == "prefer" || policy == "weighted" {
			policy, rest = policy+" "+next, after // prefer (many):0-1, weighted interleave:0-1
		}
		m = NumaMapping{Address: at, Policy: policy, PageBytes: pageSize, Nodes: m.Nodes[:0]}
		for word := range strings.SplitSeq(rest, " ") {
			m.add(word)
		}
		each(&m)
	}
}

func (m *NumaMapping) add(word string) {
	key, value, ok := strings.Cut(word, "=")
	switch {
	case !ok:
		m.Huge, m.Heap, m.Stack = m.Huge || key == "huge", m.Heap || key == "heap", m.Stack || key == "stack"
		return
	case key == "kernelpagesize_kB":
		if kb, err := strconv.ParseInt(value, 10, 64); err == nil && kb > 0 && kb <= 1<<30 {
			m.PageBytes = kb << 10
		}
		return
	case len(key) < 2 || key[0] != 'N':
		return
	}
	node, err := strconv.ParseUint(key[1:], 10, 16)
	pages, err2 := strconv.ParseInt(value, 10, 50)
	if err == nil && err2 == nil && pages >= 0 {
		m.Nodes = append(m.Nodes, NodePages{int(node), pages})
	}
}
