package memory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Asked holds the options of a bench. The zero value measures everything, with sizes that fit.
type Asked struct {
	Cells  []Cell // nil: all that the machine supports
	Bytes  int64  // 0: the largest size that fits
	Rounds int    // 0: Rounds
	Reads  int64  // 0: Reads
	// Unreserved omits cells with reserved pages.
	Unreserved bool
}

// Rounds is the number of measurements per cell. It suffices for verdicts on five pairs in two
// measures with 95 % confidence together, even if one round was disturbed.
const Rounds = 13

// Reads is the number of random reads of a sample.
const Reads = 3_000_000

// Limits of the options.
const (
	mostRounds = 1000
	mostReads  = 1_000_000_000
)

// sizes are tried in this order; bytes.
var sizes = []int64{1 << 30, 512 << 20, 256 << 20, 128 << 20, 64 << 20, 32 << 20}

// Plan describes the measurements of a bench.
type Plan struct {
	Bytes  int64
	Reads  int64
	Rounds int
	Cells  []Cell
	Left   []LeftOut
	// Reserve lists the pages to reserve during the bench.
	Reserve []Reservation
	// CPUs and Node run the work on a machine with several nodes. Far is the node furthest from
	// Node.
	CPUs      []int
	Node, Far int
	// THP is the machine's mode of transparent huge pages: always, madvise, never.
	THP string
	// Finished, if not nil, is called with the result so far after each round except the last. An
	// error ends the run.
	Finished func(*Result) error
}

// LeftOut is a cell that is not measured.
type LeftOut struct {
	Cell string `json:"cell"`
	Why  string `json:"why"`
}

// Reservation grows a pool of huge pages.
type Reservation struct {
	Pages Pages
	// File sets the number of pages: To during the bench, From before and after it.
	File     string
	From, To int64
}

// ErrTooLarge is returned if a size is more than a quarter of the available memory.
var ErrTooLarge = errors.New("more than a quarter of the available memory")

// ErrAsked is returned if an option is out of range on any machine.
var ErrAsked = errors.New("not accepted")

// Make plans a bench for a machine.
func Make(f *fact.Facts, a Asked) (*Plan, error) {
	available, ok := f.Memory.AvailableBytes.Get()
	if !ok {
		return nil, fmt.Errorf("the available memory is unknown: %s", f.Memory.AvailableBytes.Unknown())
	}
	p := &Plan{Bytes: a.Bytes, Reads: a.Reads, Rounds: a.Rounds, THP: f.Memory.THP.Enabled.Or("")}
	if p.Reads == 0 {
		p.Reads = Reads
	}
	if p.Rounds == 0 {
		p.Rounds = Rounds
	}
	switch {
	case p.Rounds < 1 || p.Rounds > mostRounds:
		return nil, fmt.Errorf("--rounds %d: %w: want 1 to %s", p.Rounds, ErrAsked, unit.Digits(mostRounds))
	case p.Reads < 1000 || p.Reads > mostReads:
		return nil, fmt.Errorf("--reads %d: %w: want 1,000 to %s", p.Reads, ErrAsked, unit.Digits(mostReads))
	case p.Bytes < 0 || p.Bytes%huge != 0:
		return nil, fmt.Errorf("--size of %s: %w: want a multiple of 2 MiB", text.Count(p.Bytes, "byte"), ErrAsked)
	}
	p.nodes(f)
	all := a.Cells
	if len(all) == 0 {
		all = []Cell{{Small, p.near()}, {THP, p.near()}, {HugeTLB2M, p.near()}, {HugeTLB1G, p.near()}, {Small, Remote}, {THP, Remote}}
	}
	for _, c := range all {
		if c.Place != Remote {
			c.Place = p.near()
		}
		why := p.cannot(f, c)
		if why == "" && a.Unreserved && c.Pages.reserved() {
			why = "--no-reserve: no huge pages are reserved"
		}
		if why == "" {
			p.Cells = append(p.Cells, c)
		} else {
			p.Left = append(p.Left, LeftOut{c.String(), why})
		}
	}
	if err := p.fit(f, available/4); err != nil {
		return nil, err
	}
	if len(p.Cells) == 0 {
		return nil, p.nothing()
	}
	return p, nil
}

func (p *Plan) nothing() error {
	var why []string
	for _, l := range p.Left {
		why = append(why, l.Cell+": "+l.Why)
	}
	return fmt.Errorf("nothing can be measured: %s", strings.Join(why, "; "))
}

// LeaveOut removes all cells of a kind of pages from the plan. why is the reason in the result.
func (p *Plan) LeaveOut(pages Pages, why string) {
	p.Cells = slices.DeleteFunc(p.Cells, func(c Cell) bool {
		if c.Pages == pages {
			p.Left = append(p.Left, LeftOut{c.String(), why})
		}
		return c.Pages == pages
	})
}

// near returns the place of a cell that is not remote.
func (p *Plan) near() Place {
	if len(p.CPUs) > 0 {
		return Local
	}
	return Anywhere
}

// nodes selects, on a machine with several nodes, the node with CPUs that has the most free
// memory, and the node with memory furthest from it.
func (p *Plan) nodes(f *fact.Facts) {
	p.Node, p.Far = -1, -1
	var withMemory []int
	most := int64(0)
	for _, name := range f.NUMA.Node.Names() {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		n := f.NUMA.Node.Get(name)
		if err != nil || n.TotalBytes.Or(0) == 0 {
			continue
		}
		withMemory = append(withMemory, id)
		cpus, err := unit.ParseCPUList(n.CPUList.Or(""))
		if free := n.FreeBytes.Or(0); err == nil && cpus.Len() > 0 && free > most {
			most, p.Node, p.CPUs = free, id, cpus.Numbers()
		}
	}
	if len(withMemory) < 2 || p.Node < 0 {
		p.Node, p.CPUs = -1, nil
		return
	}
	distances := f.NUMA.Node.Get("node" + strconv.Itoa(p.Node)).Distance.Or(nil)
	furthest := int64(-1)
	for i, name := range f.NUMA.Node.Names() {
		id, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if err != nil || id == p.Node || !slices.Contains(withMemory, id) {
			continue
		}
		d := int64(0)
		if i < len(distances) {
			d = distances[i]
		}
		if d > furthest {
			furthest, p.Far = d, id
		}
	}
}

// cannot returns the reason why a cell cannot be measured on this machine in any size, or "".
func (p *Plan) cannot(f *fact.Facts, c Cell) string {
	switch {
	case c.Place == Remote && p.Far < 0:
		return "the machine has one node of memory"
	case c.Place == Remote && c.Pages.reserved():
		return "remote memory is measured in 4k and thp"
	case c.Pages == Small && f.Memory.PageBytes.Or(small) != small:
		return fmt.Sprintf("the pages of this kernel are of %s", unit.Size(f.Memory.PageBytes.Or(0)).Human())
	case c.Pages == THP && p.THP != "" && f.Memory.THP.SizeBytes.Or(huge) != huge:
		return fmt.Sprintf("the transparent huge pages of this kernel are of %s, not of 2 MiB", unit.Size(f.Memory.THP.SizeBytes.Or(0)).Human())
	case c.Pages == THP && p.THP == "":
		return "the kernel has no transparent huge pages"
	case c.Pages == THP && p.THP == "never":
		return "transparent huge pages are off (never); allow them with fettle tune --set sysfs:/sys/kernel/mm/transparent_hugepage/enabled=madvise, and undo it with fettle undo"
	case c.Pages.reserved() && pool(f, c.Pages) == nil:
		return "the processor or the kernel does not support these pages"
	}
	return ""
}

// pool returns the machine's pool of huge pages of a size, or nil.
func pool(f *fact.Facts, p Pages) *fact.HugePages {
	return f.Memory.HugePages.Get(strconv.FormatInt(p.Page()>>10, 10) + "kB")
}

// fit sets the largest size for which the reserved pages and one other mapping together take at
// most limit bytes.
func (p *Plan) fit(f *fact.Facts, limit int64) error {
	try := sizes
	if p.Bytes > 0 {
		try = []int64{p.Bytes}
	}
	cells := p.Cells
	for _, size := range try {
		p.Bytes, p.Cells, p.Reserve = size, nil, nil
		taken := int64(0)
		left := slices.Clone(p.Left)
		plain := slices.ContainsFunc(cells, func(c Cell) bool { return !c.Pages.reserved() })
		if plain {
			taken = size
		}
		for _, c := range cells {
			if !c.Pages.reserved() {
				p.Cells = append(p.Cells, c)
				continue
			}
			if size%c.Pages.Page() != 0 {
				left = append(left, LeftOut{c.String(), fmt.Sprintf("the page size is %s, and %s is not a multiple of it; set --size", unit.Size(c.Pages.Page()).Human(), unit.Size(size).Human())})
				continue
			}
			taken += size
			p.Cells = append(p.Cells, c)
			p.Reserve = append(p.Reserve, p.reservation(f, c.Pages, size/c.Pages.Page()))
		}
		if taken <= limit {
			p.Left = left
			return nil
		}
		if len(try) == 1 {
			return fmt.Errorf("%w: %s needed (including %s reserved as huge pages); a quarter is %s", ErrTooLarge, unit.Size(taken).Human(), unit.Size(int64(len(p.Reserve))*size).Human(), unit.Size(limit).Human())
		}
	}
	return fmt.Errorf("the measurement needs %w; a quarter is %s", ErrTooLarge, unit.Size(limit).Human())
}

// reservation returns the growth of a pool by n pages. The pool's free pages stay available to
// other programs.
func (p *Plan) reservation(f *fact.Facts, pages Pages, n int64) Reservation {
	name := "hugepages-" + strconv.FormatInt(pages.Page()>>10, 10) + "kB/nr_hugepages"
	r := Reservation{Pages: pages, File: "/sys/kernel/mm/hugepages/" + name, From: pool(f, pages).Total.Or(0)}
	if len(p.CPUs) > 0 {
		node := "node" + strconv.Itoa(p.Node)
		r.File, r.From = "/sys/devices/system/node/"+node+"/hugepages/"+name, 0
		if on := pool(f, pages).Node.Get(node); on != nil {
			r.From = on.Total.Or(0)
		}
	}
	r.To = r.From + n
	return r
}

// Task returns the task for a cell in a round.
func (p *Plan) Task(c Cell, seed uint64) Task {
	v := Task{Pages: c.Pages, Bytes: p.Bytes, Reads: p.Reads, CPUs: p.CPUs, Node: p.Node, Seed: seed}
	if c.Place == Remote {
		v.Node = p.Far
	}
	return v
}

// TakesS estimates the duration in seconds. On the machines measured so far, touching a GiB takes
// about 0.6 s (done twice), and a read 300 ns.
func (p *Plan) TakesS() float64 {
	each := 1.2*float64(p.Bytes)/(1<<30) + 300e-9*float64(p.Reads) + 0.1
	return each * float64(len(p.Cells)*p.Rounds)
}
