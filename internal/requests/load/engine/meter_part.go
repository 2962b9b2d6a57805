package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/HdrHistogram/hdrhistogram-go"

	internaltext "fettle.dev/fettle/internal/text"
)

// Part is the state of a meter, to be added to another process's meter: counts, and histograms
// in HdrHistogram's lossless V2 encoding.
type Part struct {
	Slices   []PartSlice        `json:"slices"`
	Delay    string             `json:"delay"`
	Requests []MeteredRequest   `json:"requests"`
	Examples map[Failure]string `json:"examples"`
}

// PartSlice is a slice with its encoded histograms; empty ones are omitted.
type PartSlice struct {
	Slice
	Latency string `json:"latency,omitempty"`
	Service string `json:"service,omitempty"`
}

// Part returns all counts of the meter.
func (m *Meter) Part() (*Part, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &Part{Requests: m.requests, Examples: m.examples}
	for _, s := range m.slices {
		one := PartSlice{Slice: *s}
		if s.latency != nil {
			latency, err := s.latency.EncodeV2()
			if err != nil {
				return nil, err
			}
			service, err := s.service.EncodeV2()
			if err != nil {
				return nil, err
			}
			one.Latency, one.Service = string(latency), string(service)
		}
		p.Slices = append(p.Slices, one)
	}
	delay, err := m.delay.EncodeV2()
	p.Delay = string(delay)
	return p, err
}

// errOther is returned for a part with different slices or requests.
var errOther = errors.New("not a part of this run: slices or requests differ")

// Merge adds a part of the same run.
func (m *Meter) Merge(p *Part) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(p.Slices) != len(m.slices) || len(p.Requests) != len(m.requests) {
		return errOther
	}
	for i := range p.Slices {
		if err := m.merge(m.slices[i], &p.Slices[i]); err != nil {
			return fmt.Errorf("slice %d: %w", i+1, err)
		}
	}
	for i, r := range p.Requests {
		to := &m.requests[i]
		to.Starts += r.Starts
		to.Wrong += r.Wrong
		to.Failed += r.Failed
		to.In += r.In
	}
	examples := maps.Clone(p.Examples)
	maps.Copy(examples, m.examples) // the first example is kept
	if m.examples = examples; m.examples == nil {
		m.examples = map[Failure]string{}
	}
	return into(m.delay.Merge, p.Delay)
}

func (m *Meter) merge(to *Slice, from *PartSlice) error {
	if from.From != to.From || from.To != to.To || from.Stage != to.Stage {
		return errOther
	}
	to.Tally.add(&from.Tally)
	to.CPU, to.Wanted = max(to.CPU, from.CPU), max(to.Wanted, from.Wanted)
	if from.Latency == "" {
		return nil
	}
	if to.latency == nil {
		to.latency, to.service = m.packed(), m.packed()
	}
	return errors.Join(into(to.latency.MergeFrom, from.Latency), into(to.service.MergeFrom, from.Service))
}

// into decodes a histogram and merges it. It returns an error if any value is out of range.
func into(merge func(*hdrhistogram.Histogram) int64, encoded string) error {
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return err
	}
	if h.LowestTrackableValue() != int64(Resolution) || h.SignificantFigures() != Digits {
		return errOther
	}
	if dropped := merge(h); dropped > 0 {
		return fmt.Errorf("%s above the maximum duration of this run", internaltext.Count(dropped, "duration"))
	}
	return nil
}
