// Package shares reads logs by several processes and merges their results exactly: the answer is
// that of one process. A caller asks one worker for a plan of the logs, gives each worker a share of
// their bytes, and joins the results. Caller and worker exchange JSON messages, one a line, over the
// worker's standard input and output. kubectl fettle logs uses it with the pods of a Job.
//
// A log is cut at line ends, unless it is compressed or its requests take several lines: one worker
// then reads it as a whole. What depends on the order of lines (line numbers, the examples of
// unread lines, the earliest of equally slow requests) is exact, because the shares are joined in
// the order of the logs.
package shares

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Schema is the name of the protocol. Caller and worker must use the same.
const Schema = "fettle/logs-worker/v1"

// Request is what to compute from which logs.
type Request struct {
	Paths []string `json:"paths"`
	// Format, Unit and Duration are those of formats.Finder. Command is the caller's command line
	// for hints.
	Format   string `json:"format,omitempty"`
	Unit     string `json:"unit,omitempty"`
	Duration string `json:"duration,omitempty"`
	Command  string `json:"command"`
	// The others are those of logs.Options. By is empty for the default of the logs.
	By          [][]string `json:"by,omitempty"`
	Percentiles bool       `json:"percentiles"`
	Groups      int        `json:"groups"`
	Slowest     int        `json:"slowest"`
	Where       string     `json:"where,omitempty"`
	Since       time.Time  `json:"since,omitzero"`
	Until       time.Time  `json:"until,omitzero"`
	// Routes are patterns of paths; Learn derives more from the beginnings of the logs.
	Routes []string `json:"routes,omitempty"`
	Learn  bool     `json:"learn,omitempty"`
}

// Log is a log as it was when the plan was made.
type Log struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size_bytes"` // on disk
	Modified time.Time `json:"modified"`
	// Whole reports whether the log cannot be cut. Packed reports whether it is compressed.
	Whole  bool `json:"whole"`
	Packed bool `json:"packed"`
}

// Plan lists the logs of a request.
type Plan struct {
	Logs    []Log            `json:"logs"`
	By      [][]string       `json:"by"`
	NotRead []source.NotRead `json:"not_read,omitempty"`
	Copies  []source.NotRead `json:"copies,omitempty"`
	// Said are messages for the user, such as the files that were left out.
	Said []string `json:"said,omitempty"`
}

// Size returns the size of all logs on disk, in bytes.
func (p *Plan) Size() (all int64) {
	for _, l := range p.Logs {
		all += l.Size
	}
	return all
}

// Share is the part of a worker: a piece of each log, in the order of the plan.
type Share []source.Piece

// packedWeight is how much longer a byte of a compressed log takes than one of a plain log.
const packedWeight = 8

// Divide returns n shares of about the same work. In each log the pieces of earlier shares come
// first.
func (p *Plan) Divide(n int) []Share {
	out, load := make([]Share, n), make([]int64, n)
	for i := range out {
		out[i] = make(Share, len(p.Logs))
	}
	var whole, cut []int
	total := int64(0)
	for i, l := range p.Logs {
		if l.Whole || l.Size == 0 {
			whole = append(whole, i)
		} else {
			cut = append(cut, i)
			total += l.Size
		}
	}
	slices.SortStableFunc(whole, func(a, b int) int { return int(min(1, max(-1, p.Logs[b].weight()-p.Logs[a].weight()))) })
	for _, i := range whole { // the largest first, each to the share with the least
		k := slices.Index(load, slices.Min(load))
		out[k][i] = source.Whole
		load[k] += p.Logs[i].weight()
	}
	room := fill(load, total)
	for k := 0; len(cut) > 0; {
		i := cut[0]
		from := at(out, i)
		to := p.Logs[i].Size
		if k < n-1 {
			to = min(to, from+room[k])
		}
		out[k][i] = source.Piece{From: from, To: to}
		room[k] -= to - from
		if to == p.Logs[i].Size {
			cut = cut[1:]
		} else {
			k++
		}
	}
	return out
}

// weight returns the work that a log takes, in bytes of a plain log.
func (l *Log) weight() int64 {
	if l.Packed {
		return packedWeight * l.Size
	}
	return l.Size
}

// at returns the end of the last piece of a log.
func at(shares []Share, log int) (end int64) {
	for _, s := range shares {
		end = max(end, s[log].To)
	}
	return end
}

// fill distributes total over shares that have a load already, so that they become as equal as
// possible.
func fill(load []int64, total int64) []int64 {
	order := make([]int, len(load))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(1, max(-1, load[a]-load[b]))) })
	out := make([]int64, len(load))
	sum := int64(0)
	for n := 1; n <= len(order); n++ { // the n shares with the least get all
		sum += load[order[n-1]]
		level := (sum + total) / int64(n)
		if n < len(order) && level > load[order[n]] {
			continue
		}
		for _, i := range order[:n] {
			out[i] = level - load[i]
		}
		break
	}
	return out
}

// String describes a share for messages: access.log bytes 1,000 to 2,000.
func (p *Plan) String(s Share) string {
	var all []string
	for i, piece := range s {
		switch l := p.Logs[i]; {
		case piece.From >= piece.To:
		case piece == source.Whole || piece.From == 0 && piece.To == l.Size:
			all = append(all, l.Path)
		default:
			all = append(all, fmt.Sprintf("%s bytes %s to %s", l.Path, unit.Thousands(uint64(piece.From)), unit.Thousands(uint64(piece.To))))
		}
	}
	return listed(all)
}

// maxNamed is the maximum number of logs that a message names.
const maxNamed = 3

// listed joins the names of logs.
func listed(all []string) string {
	if n := len(all) - maxNamed; n > 0 {
		all = append(all[:maxNamed:maxNamed], fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}

// Empty reports whether a share has nothing to read.
func (s Share) Empty() bool {
	return !slices.ContainsFunc(s, func(p source.Piece) bool { return p.From < p.To })
}

// Task is what a worker reads.
type Task struct {
	Request
	Plan  Plan  `json:"plan"`
	Share Share `json:"share"`
}

// Sum joins the results of all shares, in their order; nil ones are of empty shares.
func (p *Plan) Sum(results []*logs.Result) (*logs.Result, error) {
	var all *logs.Result
	for _, r := range results {
		switch {
		case r == nil:
		case all == nil:
			all = r
		default:
			if err := all.Join(r); err != nil {
				return nil, &ui.Error{Code: ui.Refused, Err: err, Remedy: &ui.Remedy{}}
			}
		}
	}
	if all == nil {
		return nil, formats.ErrNoLine
	}
	if err := exact(all); err != nil {
		return nil, err
	}
	all.NotRead, all.Copies = p.NotRead, p.Copies
	all.Complete()
	return all, nil
}

// exact returns an error if the groups that a result has depend on the order of reading.
func exact(r *logs.Result) error {
	by := r.Folded()
	if by == nil {
		return nil
	}
	limit := 0
	for _, t := range r.Tables {
		limit = t.Limit
	}
	return ui.Instead(ui.Refused, fmt.Errorf("by %s: more than %s groups; which of them are kept would depend on the order in which the pods read, so the answer would not be exact", strings.Join(by, ", "), unit.Thousands(uint64(limit))), "raise --groups and --memory, or group by fewer dimensions", fmt.Sprintf("--groups=%d", 10*limit))
}
