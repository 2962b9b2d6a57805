package network

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Kind is the kind of measurement of a cell.
type Kind string

// The kinds of cells.
const (
	Send     Kind = "send"    // throughput of TCP to the peer
	Receive  Kind = "receive" // throughput of TCP from the peer
	Request  Kind = "request" // requests and their answers over one TCP connection
	Probes   Kind = "udp"     // isochronous UDP
	LoadUp   Kind = "loaded-send"
	LoadDown Kind = "loaded-receive"
)

// Cell is one measurement.
type Cell struct {
	Kind    Kind
	Streams int // of Send, Receive and the loaded cells
	Size    int // of a request and its answer, in bytes
}

// manyStreams is the number of parallel streams where none is given.
const manyStreams = 8

// maxRequest is the maximum size of a request in bytes.
const maxRequest = 1 << 20

// Name returns the name of the cell, such as send-8, request-64k, udp.
func (c Cell) Name() string {
	switch c.Kind {
	case Send, Receive:
		return fmt.Sprintf("%s-%d", c.Kind, c.Streams)
	case Request:
		if c.Size%1024 == 0 {
			return fmt.Sprintf("request-%dk", c.Size/1024)
		}
		return fmt.Sprintf("request-%d", c.Size)
	}
	return string(c.Kind)
}

// Cells are the cells that are measured by default.
func Cells() []Cell {
	return []Cell{
		{Kind: Send, Streams: 1}, {Kind: Send, Streams: manyStreams}, {Kind: Receive, Streams: 1}, {Kind: Receive, Streams: manyStreams},
		{Kind: Request, Size: 1}, {Kind: Request, Size: 1024}, {Kind: Request, Size: 64 << 10},
		{Kind: Probes}, {Kind: LoadUp, Streams: manyStreams}, {Kind: LoadDown, Streams: manyStreams},
	}
}

// ParseCell parses the name of a cell.
func ParseCell(name string) (Cell, error) {
	switch k := Kind(name); k {
	case Probes:
		return Cell{Kind: k}, nil
	case LoadUp, LoadDown:
		return Cell{Kind: k, Streams: manyStreams}, nil
	}
	kind, number, _ := strings.Cut(name, "-")
	factor := 1
	if k, is := strings.CutSuffix(number, "k"); is && Kind(kind) == Request {
		number, factor = k, 1024
	}
	n, err := strconv.Atoi(number)
	switch k := Kind(kind); {
	case err != nil || n < 1 || strings.HasPrefix(number, "+"):
	case (k == Send || k == Receive) && n <= maxStreams:
		return Cell{Kind: k, Streams: n}, nil
	case k == Request && n <= maxRequest/factor:
		return Cell{Kind: k, Size: n * factor}, nil
	}
	return Cell{}, fmt.Errorf("unknown cell %q; want send-N, receive-N (N streams, at most %d), request-BYTES, request-KIBk (at most %dk), udp, loaded-send or loaded-receive", name, maxStreams, maxRequest/1024)
}

// ParseCells parses names that are separated by commas.
func ParseCells(list string) (cells []Cell, err error) {
	for name := range strings.SplitSeq(list, ",") {
		c, err := ParseCell(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(cells, c) {
			return nil, fmt.Errorf("cell %s is given twice", c.Name())
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// Limits of a plan.
const (
	Rounds       = 10
	DefaultFor   = 10 * time.Second
	defaultBytes = 1 << 30
	LeastFor     = 2 * time.Second
	MostFor      = time.Hour
	LeastBytes   = 10 << 20
)

// Plan describes the measurements.
type Plan struct {
	Cells []Cell
	// For is the total time of a cell over all rounds. Bytes is the maximum number of bytes that it
	// transfers in streams.
	For   time.Duration
	Bytes int64
	// Every is the interval of isochronous probes, and Size their payload in bytes of UDP.
	Every time.Duration
	Size  int
	// Overlay doubles the runs: each cell is also measured inside an overlay network.
	Overlay bool
	// Changes are changes of Device; each cell is also measured with each of them. Words and Print
	// only describe them.
	Changes []Change
	Device  string
}

// Probes of a plan.
const (
	DefaultEvery = time.Millisecond
	DefaultSize  = 172 // 20 ms of G.711 with its RTP header
	LeastEvery   = 100 * time.Microsecond
)

// NewPlan returns the plan with the defaults.
func NewPlan() Plan {
	return Plan{Cells: Cells(), For: DefaultFor, Bytes: defaultBytes, Every: DefaultEvery, Size: DefaultSize}
}

// Run returns the duration of one run of a cell, which grows with the path's round trip: a short
// run over a long path would measure TCP's slow start.
func (p *Plan) Run(rtt time.Duration) time.Duration { return max(p.For/Rounds, 20*rtt) }

// warm returns the part of a run that does not count.
func (p *Plan) warm(rtt time.Duration) time.Duration {
	return max(p.Run(rtt)/4, min(10*rtt, p.Run(rtt)/2))
}

// Takes returns the duration of all cells. rtt is the round trip, 0 if unknown.
func (p *Plan) Takes(rtt time.Duration) time.Duration {
	takes := Rounds * p.Run(rtt) * time.Duration(len(p.Cells))
	sides := 1 + len(p.Changes)
	if p.Overlay {
		sides++
	}
	return takes * time.Duration(sides)
}

// Words describes the plan before it begins.
func (p *Plan) Words(peer string) string {
	words := fmt.Sprintf("%s to %s, %d runs each, at most %s and %s a cell", text.Count(len(p.Cells), "cell"), peer, Rounds, unit.FormatSeconds(p.For.Seconds()), humanBytes(p.Bytes))
	if slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Kind == LoadUp || c.Kind == LoadDown }) {
		words += "; loaded cells fill the path for half of their time, whatever the bytes"
	}
	if p.Overlay {
		words += "; each also inside the overlay"
	}
	if len(p.Changes) > 0 {
		words += fmt.Sprintf("; each also with %s of this machine", text.Count(len(p.Changes), "change"))
	}
	return words
}

// ChangeWords lists the changes, or returns "".
func (p *Plan) ChangeWords() string {
	if len(p.Changes) == 0 {
		return ""
	}
	var words []string
	for i := range p.Changes {
		words = append(words, p.Changes[i].Words())
	}
	return fmt.Sprintf("switched on %s, each on trial, %s: %s", p.Device, unit.FormatSeconds(TrialTime.Seconds()), strings.Join(words, ", "))
}

// errNothing is returned if a run transferred too little to measure.
var errNothing = errors.New("too little arrived to measure; use more time (--for) or more bytes (--bytes)")
