package puppetrun

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Options select reports.
type Options struct {
	// Since and Until limit the time at which the server stored a report, by the server's
	// clock and to the minute. If the file name lacks that time, they limit the begin of the
	// run. Zero means no limit.
	Since, Until time.Time
	Workers      int
	// Tell, if not nil, is called occasionally with the number of reports read so far.
	Tell func(done int)
}

// wants reports whether a period overlaps the period from Since to Until.
func (o *Options) wants(from, to time.Time) bool {
	return to.After(o.Since) && (o.Until.IsZero() || from.Before(o.Until))
}

// mostResources is the maximum number of distinct resources; further ones are added up as one.
const mostResources = 1_000_000

// Collected holds the content of reports.
type Collected struct {
	runs                     []run
	stages, types, resources *tally
	failed, changed, settled int // number of runs by status
	cached, leftOut          int
	unread                   Unread
	first, last              time.Time
	totals                   *tally // whole runs
}

// run holds the data kept about a run.
type run struct {
	node      string
	stored    time.Time
	status    string
	total     float64 // in seconds; negative: none
	retrieval float64 // config_retrieval of a catalog from the server, in seconds; negative if none
}

// Unread describes files that are not readable reports.
type Unread struct {
	Files    int          `json:"files"`
	Examples []UnreadFile `json:"examples"`
}

// UnreadFile is an example of an unread file.
type UnreadFile struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// stages lists the times in a report that are not times of resource types (Puppet::Configurer,
// Puppet::Transaction). whole marks times that contain others.
var stages = map[string]struct{ whole bool }{
	"startup_time": {}, "plugin_sync": {}, "fact_generation": {}, "node_retrieval": {}, "config_retrieval": {}, "convert_catalog": {}, "resubmit_facts": {},
	"catalog_application": {true}, "transaction_evaluation": {true}, "total": {true},
}

const (
	retrieval = "config_retrieval"
	total     = "total"
)

// large is the size in bytes above which only one report is parsed at a time. Parsing may need
// a hundred times a report's size in memory.
const large = 1 << 20

// Read reads reports.
func Read(ctx context.Context, h *host.Host, files []File, o Options) (*Collected, error) {
	c := &Collected{stages: newTally(len(stages)), types: newTally(mostParts), resources: newTally(mostResources), totals: newTally(1), unread: Unread{Examples: []UnreadFile{}}}
	type result struct {
		file   *File
		report *Report
		err    error
	}
	next, results := make(chan *File), make(chan result)
	var working sync.WaitGroup
	var one sync.Mutex
	for range o.Workers {
		working.Go(func() {
			for f := range next {
				r, err := read(h, f, &one)
				results <- result{f, r, err}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range files {
			if s := files[i].Stored; !s.IsZero() && !o.wants(s, s.Add(time.Minute)) {
				results <- result{file: &files[i]}
				continue
			}
			select {
			case next <- &files[i]:
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() { working.Wait(); close(results) }()
	done := 0
	for r := range results {
		switch {
		case r.err != nil:
			c.fail(r.file.Path, r.err)
		case r.report == nil || r.file.Stored.IsZero() && !o.wants(r.report.Began, r.report.Began.Add(1)):
			c.leftOut++
		default:
			c.add(r.file, r.report)
		}
		if done++; o.Tell != nil && done%100 == 0 {
			o.Tell(done)
		}
	}
	slices.SortFunc(c.runs, func(a, b run) int { return cmp.Or(cmp.Compare(a.node, b.node), a.stored.Compare(b.stored)) })
	slices.SortFunc(c.unread.Examples, func(a, b UnreadFile) int { return cmp.Compare(a.Path, b.Path) })
	c.unread.Examples = c.unread.Examples[:min(len(c.unread.Examples), mostExamples)]
	return c, context.Cause(ctx)
}

func read(h *host.Host, f *File, one *sync.Mutex) (*Report, error) {
	text, err := h.Files.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	if len(text) > large {
		one.Lock()
		defer one.Unlock()
	}
	return Parse(text)
}

// mostExamples is the maximum number of unread files shown, keptExamples of those kept, which
// are in any order.
const (
	mostExamples = 5
	keptExamples = 1000
)

func (c *Collected) fail(path string, err error) {
	c.unread.Files++
	if len(c.unread.Examples) < keptExamples {
		c.unread.Examples = append(c.unread.Examples, UnreadFile{path, err.Error()})
	}
}

func (c *Collected) add(f *File, r *Report) {
	one := run{node: r.Node, stored: f.Stored, status: r.Status, total: -1, retrieval: -1}
	failed, changed := r.Status == "failed", r.Status == "changed"
	switch {
	case failed:
		c.failed++
	case changed:
		c.changed++
	default:
		c.settled++
	}
	if r.Cached {
		c.cached++
	}
	if v, ok := r.part(total); ok {
		one.total = v
		c.totals.add(total, v, failed, changed, r.Node)
	}
	for _, p := range r.Parts {
		switch _, stage := stages[p.Name]; {
		case p.Name == total:
		case p.Name == retrieval && r.Cached: // a cached catalog has the time of an earlier retrieval
		case stage:
			c.stages.add(p.Name, p.Seconds, failed, changed, r.Node)
			if p.Name == retrieval {
				one.retrieval = p.Seconds
			}
		default:
			c.types.add(p.Name, p.Seconds, false, false, r.Node)
		}
	}
	for _, x := range r.Resources {
		c.resources.add(x.Name, x.Seconds, x.Failed, x.Changed, r.Node)
	}
	if c.first.IsZero() || r.Began.Before(c.first) {
		c.first = r.Began
	}
	if r.Began.After(c.last) {
		c.last = r.Began
	}
	c.runs = append(c.runs, one)
}

// Nodes returns the names of the nodes in the reports.
func (c *Collected) Nodes() map[string]bool {
	out := map[string]bool{}
	for i := range c.runs {
		out[c.runs[i].node] = true
	}
	return out
}

// spent returns the total time of all runs in seconds, or NaN if no report has a total.
func (c *Collected) spent() float64 {
	if c.totals.table.Len() > 0 {
		return float64(c.totals.table.At(0).Sum) / 1e6
	}
	return math.NaN()
}
