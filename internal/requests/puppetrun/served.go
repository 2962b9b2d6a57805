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
	"fettle.dev/fettle/internal/text"
)

// Served holds the nodes' requests in a server's log.
type Served struct {
	nodes  map[string]*requests
	unread uint64 // number of unread lines
}

// requests are the requests of a node, by purpose.
type requests struct{ catalogs, reports []answered }

// answered is an answered request; times are in microseconds.
type answered struct {
	came, took int64
	failed     bool
}

// mostServed is the maximum number of kept requests, of 24 bytes each.
const mostServed = 10_000_000

// ReadServed reads the nodes' catalog requests and report submissions from logs. If a log
// cannot be read to its end, it returns the requests so far and an error that names the log.
func ReadServed(ctx context.Context, set *source.Set, formats []*logformat.Format, nodes map[string]bool, workers int) (*Served, error) {
	for i, f := range formats {
		switch {
		case f.Field(logformat.FieldDuration) < 0:
			return nil, fmt.Errorf("%s: format %s has no durations", set.Logs[i].Path, f.Name)
		case f.Field(logformat.FieldTime) < 0:
			return nil, fmt.Errorf("%s: format %s has no times", set.Logs[i].Path, f.Name)
		case f.Joined():
			return nil, fmt.Errorf("%s: format %s has no requests of Puppet agents", set.Logs[i].Path, f.Name)
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
			stop(text.Errorf("more than about %d requests for catalogs; read fewer logs at a time", mostServed))
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

// servedPart is the result of one worker.
type servedPart struct {
	wanted  map[string]bool
	most    int // number of requests that may still be kept
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

// Uncertainty of a log's seconds and a file name's minutes, in microseconds.
const (
	second = 1e6
	minute = 60 * second
)

// catalog finds the catalog request of a run among a node's requests, by the server's clock.
// The run's report is the request answered in the minute of the file name. The catalog is the
// last successful one since the previous report. asked is the number of catalog requests; used
// holds the reports of other runs.
func (r *requests) catalog(one *run, used map[int]bool) (took int64, asked int, ok bool) {
	from, to := one.stored.UnixMicro()-second, one.stored.UnixMicro()+minute+second
	at := -1
	for i, x := range r.reports {
		if !x.failed && x.came < to && x.came+x.took >= from && !used[i] {
			at = i // the server kept the last of several reports in one minute
		}
	}
	if at < 0 {
		return 0, 0, false
	}
	used[at] = true
	// Exclude an aborted run, which sent no report.
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
