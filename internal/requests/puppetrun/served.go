package puppetrun

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
)

// Served is what a server's log of requests says of nodes.
type Served struct {
	nodes  map[string]*requests
	unread uint64 // lines
}

// requests are those of a node, by what they were for.
type requests struct{ catalogs, reports []answered }

// answered is one of them, in microseconds.
type answered struct {
	came, took int64
	failed     bool
}

// mostServed is the most requests that are kept, 24 bytes each.
const mostServed = 10_000_000

// ReadServed reads what nodes asked for in logs, each of which has a format: catalogs, and
// to take their reports. Logs that could not be read to their ends are named by the error;
// what came before that counts, and is there beside it.
func ReadServed(ctx context.Context, set *source.Set, formats []*logformat.Format, nodes map[string]bool, workers int) (*Served, error) {
	for i, f := range formats {
		switch {
		case f.Field(logformat.FieldDuration) < 0:
			return nil, fmt.Errorf("%s: %s does not say how long requests took", set.Logs[i].Path, f.Name)
		case f.Field(logformat.FieldTime) < 0:
			return nil, fmt.Errorf("%s: %s does not say when requests came", set.Logs[i].Path, f.Name)
		case f.Joined():
			return nil, fmt.Errorf("%s: %s has no requests of Puppet's agents", set.Logs[i].Path, f.Name)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parts := make([]*servedPart, workers)
	for w := range parts {
		parts[w] = &servedPart{wanted: nodes, most: mostServed / workers, nodes: map[string]*requests{}}
		for _, f := range formats {
			parts[w].readers = append(parts[w].readers, logs.NewReader(f))
		}
	}
	err := set.Read(ctx, workers, func(w int, b *source.Block) {
		if parts[w].block(b); parts[w].most < 0 {
			stop(fmt.Errorf("more than about %d requests for catalogs: read fewer logs at a time", mostServed))
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	out := &Served{nodes: map[string]*requests{}}
	for _, p := range parts {
		out.unread += p.unread
		for name, r := range p.nodes {
			all := out.nodes[name]
			if all == nil {
				all = &requests{}
				out.nodes[name] = all
			}
			all.catalogs, all.reports = append(all.catalogs, r.catalogs...), append(all.reports, r.reports...)
		}
	}
	for _, r := range out.nodes {
		for _, list := range [][]answered{r.catalogs, r.reports} {
			slices.SortFunc(list, func(a, b answered) int { return cmp.Or(cmp.Compare(a.came, b.came), cmp.Compare(a.took, b.took)) })
		}
	}
	return out, err
}

// servedPart is what one worker has read.
type servedPart struct {
	wanted  map[string]bool
	most    int // requests that it may still keep
	readers []*logs.Reader
	r       logs.Request
	nodes   map[string]*requests
	unread  uint64
}

func (p *servedPart) block(b *source.Block) {
	p.unread += uint64(b.Skipped)
	for line := range bytes.Lines(b.Data) {
		switch p.readers[b.Log].Read(bytes.TrimRight(line, "\r\n"), &p.r) {
		case logformat.RequestLine:
			p.take()
		case logformat.BadLine:
			p.unread++
		}
	}
}

func (p *servedPart) take() {
	what := p.r.Puppet()
	catalog := string(what.Indirector) == "catalog"
	if !catalog && string(what.Indirector) != "report" || p.r.Duration < 0 || !p.wanted[string(what.Key)] {
		return
	}
	of := p.nodes[string(what.Key)]
	if of == nil {
		of = &requests{}
		p.nodes[string(what.Key)] = of
	}
	if p.most--; p.most < 0 {
		return
	}
	one := answered{p.r.Time, p.r.Duration, p.r.Status >= 400}
	if catalog {
		of.catalogs = append(of.catalogs, one)
	} else {
		of.reports = append(of.reports, one)
	}
}

// What a log's second and a name's minute leave open, in microseconds.
const (
	second = 1e6
	minute = 60 * second
)

// catalog finds in a node's requests the one for the catalog of a run, all by the clock of
// the server: the run's report is the request that was answered in the minute of its
// file's name, and its catalog the last good one since the report of the run before. asked
// is how many there were. used are the reports that other runs have.
func (r *requests) catalog(one *run, used map[int]bool) (took int64, asked int, ok bool) {
	from, to := one.stored.UnixMicro()-second, one.stored.UnixMicro()+minute+second
	at := -1
	for i, x := range r.reports {
		if !x.failed && x.came < to && x.came+x.took >= from && !used[i] {
			at = i // of several in one minute the last was kept
		}
	}
	if at < 0 {
		return 0, 0, false
	}
	used[at] = true
	// A run that was ended before its report is none of this one.
	begin := r.reports[at].came - int64(1.5*second*max(one.total, 0)) - minute
	if at > 0 {
		begin = max(begin, r.reports[at-1].came)
	}
	for _, x := range r.catalogs {
		if x.came <= begin || x.came > r.reports[at].came {
			continue
		}
		asked++
		if !x.failed {
			took, ok = x.took, true
		}
	}
	return took, asked, ok
}
