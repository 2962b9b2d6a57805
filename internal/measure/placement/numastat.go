package placement

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// numastatOptions are the options of numastat(8).
var numastatOptions = []option{
	{short: 'c'}, {short: 'm'}, {short: 'n'}, {short: 'p', argument: needsArgument},
	{short: 's', argument: mayHaveArgument}, {short: 'v'}, {short: 'V'}, {short: 'z'},
}

// numastat is a call of numastat(8). Its output is like numastat 2.0.16's, as observed.
type numastat struct {
	host      *host.Host
	self      int // process that patterns never match
	out       io.Writer
	say       func(format string, args ...any)
	facts     *fact.Facts
	tables    []fact.NodeTable
	layout    layout
	meminfo   bool // -m
	allocated bool // -n
	verbose   bool // -v
	original  bool // no option: counters in pages
	pids      []int
}

// Numastat prints the tables of numastat(8) for its arguments to out, and messages with say. It
// returns an error only for invalid arguments. width is the width of the terminal or the value of
// NUMASTAT_WIDTH, in columns; 0 means unlimited. self is fettle's own process, which patterns never
// match.
func Numastat(h *host.Host, args []string, width, self int, out io.Writer, say func(format string, args ...any)) error {
	n := &numastat{host: h, self: self, out: out, say: say, original: len(args) == 0, layout: layout{width: width, sort: unsorted}}
	found, rest, err := getopt(args, numastatOptions, true)
	if err != nil {
		return fmt.Errorf("numastat: %w; want [-c] [-m] [-n] [-p PID|PATTERN] [-s[NODE]] [-v] [-V] [-z] [PID|PATTERN...]", err)
	}
	for _, o := range found {
		switch o.short {
		case 'c':
			n.layout.compact = true
		case 'm':
			n.meminfo = true
		case 'n':
			n.allocated = true
		case 'p':
			n.addProcesses(o.argument)
		case 's':
			n.layout.sort = sortNode(o.argument)
		case 'v':
			n.verbose = true
		case 'V':
			fmt.Fprintln(out, "numastat version: 20130723: Dec 26 2022")
			return nil
		case 'z':
			n.layout.omitZero = true
		}
	}
	for _, word := range rest {
		n.addProcesses(word)
	}
	n.facts, n.tables = fact.CollectNodes(h)
	n.print()
	return nil
}

// sortNode returns the node of -s; anything but a number means the total.
func sortNode(text string) int {
	if node, err := strconv.Atoi(text); err == nil && node >= 0 {
		return node
	}
	return byTotal
}

func (n *numastat) print() {
	if n.original {
		n.printAllocated()
		return
	}
	if len(n.pids) > 0 {
		n.printProcesses()
	}
	if n.meminfo {
		n.printMeminfo()
	}
	if n.allocated || !n.meminfo && len(n.pids) == 0 {
		n.printAllocated()
	}
}

// addProcesses adds a process by its number, or those whose name or command line contains a text.
func (n *numastat) addProcesses(word string) {
	if strings.Trim(word, "0123456789") == "" {
		pid, _ := strconv.Atoi(word) // numastat takes "" as 0
		n.add(pid)
		return
	}
	list, err := n.host.PIDs()
	before := len(n.pids)
	found := false
	for _, pid := range list {
		command := strings.ReplaceAll(n.host.File(fmt.Sprintf("/proc/%d/cmdline", pid)).Text, "\x00", " ")
		if pid != n.self && (strings.Contains(command, word) || strings.Contains(n.name(pid), word)) {
			n.add(pid)
			found = true
		}
	}
	if err != nil || !found && before == len(n.pids) {
		fmt.Fprintf(n.out, "Found no processes containing pattern: \"%s\"\n", word)
	}
}

func (n *numastat) add(pid int) {
	if i, has := slices.BinarySearch(n.pids, pid); !has {
		n.pids = slices.Insert(n.pids, i, pid)
	}
}

// name returns the name of a process in /proc/PID/status, or "".
func (n *numastat) name(pid int) string {
	text := n.host.File(fmt.Sprintf("/proc/%d/status", pid)).Text
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "Name:\t")
}

// meminfoRows are the rows of -m in the order of numastat; others are named in a message.
var meminfoRows = strings.Fields(`MemTotal MemFree MemUsed HighTotal HighFree LowTotal LowFree
	Active Inactive Active(anon) Inactive(anon) Active(file) Inactive(file) Unevictable Mlocked
	Dirty Writeback FilePages Mapped AnonPages Shmem KernelStack PageTables NFS_Unstable Bounce
	WritebackTmp Slab SReclaimable SUnreclaim AnonHugePages ShmemHugePages ShmemPmdMapped
	HugePages_Total HugePages_Free HugePages_Surp KReclaimable`)

// allocatedRows are the counters of numastat in its order.
var allocatedRows = []string{"numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node"}

func (n *numastat) printMeminfo() {
	fmt.Fprintln(n.out, "\nPer-node system memory usage (in MBs):")
	n.nameUnknown(meminfoRows, (*fact.NodeTable).MemoryKeys)
	t := n.newTable("", "Node ", true)
	huge := n.facts.Memory.HugePageDefault.Or(2 << 20) // HugePages_Total counts pages of this size
	for _, key := range meminfoRows {
		factor := 1.0
		if strings.HasPrefix(key, "HugePages_") {
			factor = float64(huge)
		}
		t.addRow(key, n.values(func(node *fact.NodeTable) fact.Fact[int64] { return node.Memory(key) }, factor/(1<<20)))
	}
	n.layout.print(n.out, t)
}

func (n *numastat) printAllocated() {
	if !n.original {
		fmt.Fprintln(n.out, "\nPer-node numastat info (in MBs):")
	}
	n.nameUnknown(allocatedRows, (*fact.NodeTable).AllocatedKeys)
	head, factor := "Node ", float64(n.host.PageSize())/(1<<20)
	if n.original {
		head, factor = "node", 1
	}
	t := n.newTable("", head, !n.original)
	t.whole = n.original
	for _, key := range allocatedRows {
		label := key
		if !n.original {
			first, second, _ := strings.Cut(key, "_")
			label = strings.ToUpper(first[:1]) + first[1:] + "_" + strings.ToUpper(second[:1]) + second[1:]
		}
		t.addRow(label, n.values(func(node *fact.NodeTable) fact.Fact[int64] { return node.Allocated(key) }, factor))
	}
	n.layout.print(n.out, t)
}

// nameUnknown names the lines of the kernel's files that have no row, as numastat does.
func (n *numastat) nameUnknown(rows []string, keys func(*fact.NodeTable) []string) {
	for i := range n.tables {
		for _, key := range keys(&n.tables[i]) {
			if !slices.Contains(rows, key) {
				fmt.Fprintf(n.out, "Token %s not in hash table.\n", key)
			}
		}
	}
}

// values returns a value for each node, scaled; nil where a node does not have it.
func (n *numastat) values(get func(*fact.NodeTable) fact.Fact[int64], factor float64) []*float64 {
	out := make([]*float64, len(n.tables))
	for i := range n.tables {
		if v, ok := get(&n.tables[i]).Get(); ok {
			scaled := float64(v) * factor
			out[i] = &scaled
		}
	}
	return out
}
