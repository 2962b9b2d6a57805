package cpu

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Spread is the memory of a process by node, in bytes.
type Spread map[int]int64

// Total returns the memory on all nodes.
func (s Spread) Total() (sum int64) {
	for _, n := range s {
		sum += n
	}
	return sum
}

// String returns the spread as the setting task:PID@START/pages has it: 0=1024kB 3=96kB.
func (s Spread) String() string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(s)) {
		words = append(words, fmt.Sprintf("%d=%dkB", n, s[n]>>10))
	}
	return strings.Join(words, " ")
}

// ParseSpread parses the text of String.
func ParseSpread(text string) (Spread, error) {
	s := Spread{}
	for word := range strings.FieldsSeq(text) {
		node, size, ok := strings.Cut(word, "=")
		n, err := strconv.ParseUint(node, 10, 16)
		kb, err2 := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 50)
		if !ok || err != nil || err2 != nil || kb < 0 {
			return nil, fmt.Errorf("%q: want the memory by node, such as 0=1024kB 1=96kB", text)
		}
		s[int(n)] = kb << 10
	}
	return s, nil
}

// sameSpreadPercent is the largest difference of two spreads that count as equal, in percent of the
// memory. A process keeps allocating, and pages that it shares with other processes do not move.
const sameSpreadPercent = 5

// Away returns the share of the memory, 0 to 1, that must move to other nodes until s is spread like
// other.
func (s Spread) Away(other Spread) float64 {
	all, want := float64(s.Total()), float64(other.Total())
	if all == 0 || want == 0 {
		return 0
	}
	away := 0.0
	for n, bytes := range s {
		away += max(0, float64(bytes)/all-float64(other[n])/want)
	}
	return away
}

// TaskSpread returns the setting of the memory of a process by node.
func TaskSpread(id host.TaskID) setting.Setting { return taskSetting(id, pagesOf) }

// TaskAffinity returns the setting of a thread's CPUs.
func TaskAffinity(id host.TaskID) setting.Setting { return taskSetting(id, affinityOf) }

// TaskHeirs returns the setting of the CPUs that new threads and children of a process inherit.
func TaskHeirs(id host.TaskID) setting.Setting { return taskSetting(id, heirsOf) }

// area is a mapping of a process that has pages.
type area struct {
	start, end uint64
	page       int64 // page size in bytes
	pages      int64 // pages with memory
	on         Spread
}

// ReadSpread returns the memory of a process by node. It returns host.ErrEnded for a process that
// has ended.
func ReadSpread(h *host.Host, id host.TaskID) (Spread, error) {
	areas, err := readAreas(h, id)
	all := Spread{}
	for _, a := range areas {
		for n, bytes := range a.on {
			all[n] += bytes
		}
	}
	return all, err
}

func readAreas(h *host.Host, id host.TaskID) ([]area, error) {
	dir := fmt.Sprintf("/proc/%d/", id.TID)
	text, list := h.File(dir+"numa_maps"), h.File(dir+"maps")
	t, err := h.Sched.Task(id.TID)
	switch {
	case err != nil:
		return nil, err
	case t.Start != id.Start || t.Zombie:
		return nil, host.ErrEnded
	case !text.Exists || text.Unknown != "":
		return nil, fmt.Errorf("%snuma_maps cannot be read: %s", dir, text.Unknown)
	}
	ends := map[uint64]uint64{}
	for line := range strings.Lines(list.Text) {
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err == nil && err2 == nil {
			ends[start] = end
		}
	}
	var areas []area
	fact.ParseNumaMaps(text.Text, h.PageSize(), func(m *fact.NumaMapping) {
		a := area{start: m.Address, end: ends[m.Address], page: m.PageBytes, on: Spread{}}
		for _, n := range m.Nodes {
			a.on[n.Node] += n.Pages * m.PageBytes
			a.pages += n.Pages
		}
		if a.pages > 0 {
			areas = append(areas, a)
		}
	})
	return areas, nil
}

type brakeKey struct{}

// WithBrake returns a context in which pages are moved only while stop returns "". stop is called
// before each batch of pages. Any other result is the reason to end; moved pages stay where they are.
func WithBrake(ctx context.Context, stop func() string) context.Context {
	return context.WithValue(ctx, brakeKey{}, stop)
}

// mover moves pages of one process so that its memory is spread as wanted.
type mover struct {
	sched host.Sched
	id    host.TaskID
	// total is the memory on each node at the beginning, leave the part that must move away, in bytes.
	total, leave Spread
	// left is the memory that must still leave each node, lacking the memory that each node still lacks.
	left, lacking Spread
	// due distributes the pages to move evenly over all pages of a node.
	due   Spread
	moved int64
}

// moveTo moves pages of a process until its memory is spread as wanted, in proportion: the process
// may have grown. Pages that cannot be moved are tried three times.
func moveTo(ctx context.Context, h *host.Host, id host.TaskID, want Spread) error {
	for range 3 {
		areas, err := readAreas(h, id)
		if err != nil {
			return err
		}
		m := newMover(h.Sched, id, areas, want)
		for i := range areas {
			if err := m.area(ctx, &areas[i]); err != nil {
				return err
			}
		}
		if m.moved == 0 {
			break
		}
	}
	return nil
}

func newMover(s host.Sched, id host.TaskID, areas []area, want Spread) *mover {
	m := &mover{sched: s, id: id, total: Spread{}, leave: Spread{}, left: Spread{}, lacking: Spread{}, due: Spread{}}
	for _, a := range areas {
		for n, bytes := range a.on {
			m.total[n] += bytes
		}
	}
	all, wanted := m.total.Total(), want.Total()
	if wanted == 0 {
		return m
	}
	for n := range want {
		m.total[n] += 0 // a node that has nothing yet
	}
	for n, bytes := range m.total {
		share := int64(float64(want[n]) / float64(wanted) * float64(all))
		if bytes > share {
			m.leave[n], m.left[n] = bytes-share, bytes-share
		} else {
			m.lacking[n] = share - bytes
		}
	}
	return m
}

// area moves pages of one mapping in batches.
func (m *mover) area(ctx context.Context, a *area) error {
	leaves := false
	for n := range a.on {
		leaves = leaves || m.left[n] >= a.page
	}
	if !leaves {
		return nil
	}
	found := int64(0)
	batch := make([]uint64, 0, host.MostPages)
	for at := a.start; at < a.end && found < a.pages; at += uint64(a.page) * host.MostPages {
		batch = batch[:0]
		for page := at; page < a.end && len(batch) < host.MostPages; page += uint64(a.page) {
			batch = append(batch, page)
		}
		nodes, err := m.sched.PageNodes(m.id, batch)
		if err != nil {
			return err
		}
		var pages []uint64
		var to []int32
		for i, n := range nodes {
			if n < 0 {
				continue
			}
			found++
			if d, ok := m.next(int(n), a.page); ok {
				pages, to = append(pages, batch[i]), append(to, int32(d))
			}
		}
		if len(pages) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if stop, ok := ctx.Value(brakeKey{}).(func() string); ok {
			if why := stop(); why != "" {
				return &setting.ProgramWarning{Text: why}
			}
		}
		if err := m.push(pages, to); err != nil {
			return err
		}
	}
	return nil
}

// next returns the node to which a page on node n must move; ok is false if the page stays.
func (m *mover) next(n int, size int64) (to int, ok bool) {
	if m.left[n] < size {
		return 0, false
	}
	m.due[n] += m.leave[n]
	if m.due[n] < m.total[n] {
		return 0, false
	}
	m.due[n] -= m.total[n]
	to, most := 0, int64(0)
	for _, d := range slices.Sorted(maps.Keys(m.lacking)) {
		if m.lacking[d] > most {
			to, most = d, m.lacking[d]
		}
	}
	if most < size {
		return 0, false
	}
	m.left[n] -= size
	m.lacking[to] -= size
	return to, true
}

// push moves a batch. The kernel gives up at a page that it cannot move, so the rest is tried
// again, in halves if nothing has moved.
func (m *mover) push(pages []uint64, to []int32) error {
	type batch struct {
		pages []uint64
		to    []int32
	}
	todo := []batch{{pages, to}}
	for calls := 0; len(todo) > 0 && calls < 32; calls++ {
		b := todo[0]
		todo = todo[1:]
		left, err := m.sched.MovePages(m.id, b.pages, b.to)
		if err != nil {
			return err
		}
		m.moved += int64(len(b.pages) - left)
		if left == 0 || len(b.pages) == 1 {
			continue
		}
		nodes, err := m.sched.PageNodes(m.id, b.pages)
		if err != nil {
			return err
		}
		var rest batch
		for i, n := range nodes {
			if n >= 0 && n != b.to[i] {
				rest.pages, rest.to = append(rest.pages, b.pages[i]), append(rest.to, b.to[i])
			}
		}
		switch half := len(rest.pages) / 2; {
		case len(rest.pages) == 0:
		case len(rest.pages) < len(b.pages) || half == 0:
			todo = append(todo, rest)
		default:
			todo = append(todo, batch{rest.pages[:half], rest.to[:half]}, batch{rest.pages[half:], rest.to[half:]})
		}
	}
	return nil
}
