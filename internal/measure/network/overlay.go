package network

import (
	"math"

	"fettle.dev/fettle/internal/evidence"
)

// Overlay compares an overlay network (inside) with the network that carries its tunnels
// (outside).
type Overlay struct {
	Peer   string    `json:"peer"` // address inside
	Local  End       `json:"local"`
	Remote End       `json:"remote"`
	Path   *Path     `json:"path"`
	Cells  []Summary `json:"cells"` // inside
	Costs  []Cost    `json:"costs"`
	// Forecast are the MTUs that size network calculates for the outside device.
	Forecast []Forecast `json:"forecast,omitempty"`
}

// Cost is the effect of the overlay on a cell, from the differences between runs of the same round.
type Cost struct {
	Cell    string   `json:"cell"`
	Figures []Figure `json:"figures"`
}

// Forecast is a calculated MTU inside an overlay.
type Forecast struct {
	Overlay string `json:"overlay"` // vxlan or geneve
	MTU     int    `json:"mtu_bytes"`
	IPsec   int    `json:"ipsec_mtu_bytes"` // with IPsec
}

// The quantities of a cost.
const (
	goodputFactor = "goodput_factor"
	headersFactor = "segment_factor" // what the headers alone leave of the goodput
	cpuFactor     = "cpu_factor"     // CPU time of both ends for a gigabit
)

// overlayOf compares the runs inside and outside.
func overlayOf(outside, inside *side) (*Overlay, []evidence.Series, error) {
	c := inside.client
	o := &Overlay{Peer: c.Peer.String(), Local: c.Local, Remote: c.Remote, Path: &inside.path}
	var series []evidence.Series
	var err error
	if o.Cells, series, err = inside.sum("overlay-"); err != nil {
		return nil, nil, err
	}
	for _, cell := range inside.plan.Cells {
		if cost := costOf(cell, outside.runs[cell], inside.runs[cell]); len(cost.Figures) > 0 {
			o.Costs = append(o.Costs, cost)
		}
	}
	return o, series, nil
}

// costOf compares the runs of a cell by round.
func costOf(cell Cell, outside, inside []sample) Cost {
	quantity := func(name string, compare func(outside, inside sample) float64) (f Figure, known bool) {
		var values []float64
		for i := range min(len(outside), len(inside)) {
			v := compare(outside[i], inside[i])
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return f, false
			}
			values = append(values, v)
		}
		return figure(name, values), len(values) > 0
	}
	ratio := func(names ...string) func(outside, inside sample) float64 {
		return func(outside, inside sample) float64 {
			var in, out float64
			for _, name := range names {
				i, known := inside[name]
				o, knownToo := outside[name]
				if !known || !knownToo {
					return math.NaN()
				}
				in, out = in+i, out+o
			}
			return in / out
		}
	}
	compare := map[string]func(outside, inside sample) float64{}
	switch cell.Kind {
	case Send, Receive:
		compare[goodputFactor], compare[headersFactor], compare[cpuFactor] = ratio(goodput), ratio(mssBytes), ratio(cpuHere, cpuThere)
	case Request, Probes:
		compare[addedP50] = func(outside, inside sample) float64 { return inside[p50] - outside[p50] }
	}
	cost := Cost{Cell: cell.Name()}
	for _, name := range []string{goodputFactor, headersFactor, cpuFactor, addedP50} {
		if compare[name] == nil {
			continue
		}
		if f, known := quantity(name, compare[name]); known {
			cost.Figures = append(cost.Figures, f)
		}
	}
	return cost
}

// Figure returns a quantity of the cost.
func (c *Cost) Figure(name string) (Figure, bool) {
	return (&Summary{Figures: c.Figures}).Figure(name)
}

// OverlayCells are the cells that are compared by default.
func OverlayCells() []Cell {
	return []Cell{{Kind: Send, Streams: 1}, {Kind: Send, Streams: manyStreams}, {Kind: Receive, Streams: 1}, {Kind: Request, Size: 1}, {Kind: Probes}}
}
