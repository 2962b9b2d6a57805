package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Part is the result of one process: exact counts, which add up.
type Part struct {
	// Client names the generator; empty for this process.
	Client string        `json:"client,omitempty"`
	Took   time.Duration `json:"took_ns"`
	// Passes are the passes of hosts that were planned, Ended those that ended.
	Passes  int64       `json:"passes"`
	Ended   int64       `json:"ended"`
	Cut     bool        `json:"cut,omitempty"`     // interrupted
	Stopped bool        `json:"stopped,omitempty"` // because it had failed
	Steps   []TallyPart `json:"steps"`
	Hosts   TallyPart   `json:"hosts"`
	Delay   string      `json:"delay"`
	StandIn string      `json:"stand_in,omitempty"`
	Targets []Target    `json:"targets"`

	Opened     int64         `json:"opened"`
	Reopened   int64         `json:"reopened"`
	Handshakes int64         `json:"handshakes"`
	CPU        time.Duration `json:"cpu_ns"`
	Processors int           `json:"processors"`
	CPUShare   float64       `json:"cpu_share"`
	CPUWanted  float64       `json:"cpu_wanted_share"`
	// Shared holds the values that a setup has taken, if this is the part of a setup.
	Shared []sharedValue `json:"shared,omitempty"`
}

// Target is a server that a run used.
type Target struct {
	Origin  string `json:"origin"`
	Address string `json:"address,omitempty"`
	Refused bool   `json:"refused,omitempty"` // not allowed
}

// part returns the counts of a run that has ended.
func (r *run) part(took time.Duration, passes int64, cut bool, busy busiest, cpu time.Duration) (*Part, error) {
	p := &Part{Took: took, Passes: passes, Ended: r.ended.Load(), Cut: cut, CPU: cpu, Processors: engine.Processors(),
		Opened: r.connections.Opened.Load(), Reopened: r.connections.Reopened.Load(), Handshakes: r.connections.Handshakes.Load()}
	if busy.n > 0 {
		p.CPUShare, p.CPUWanted = busy.sum/busy.n, busy.wanted/busy.n
	}
	if name := r.standIn.Load(); name != nil {
		p.StandIn = *name
	}
	for _, t := range r.tallies {
		one, err := t.part()
		if err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, one)
	}
	var err error
	if p.Hosts, err = r.hosts.part(); err != nil {
		return nil, err
	}
	p.Targets = r.used()
	p.Delay, err = r.delay.Encoded()
	return p, err
}

// include adds the counts of a setup that another turn has run. steps is the number of steps of the
// setup.
func (p *Part) include(setup *Part, steps int) {
	copy(p.Steps, setup.Steps[:min(steps, len(setup.Steps))])
	p.Targets = append(p.Targets, setup.Targets...)
	p.Opened += setup.Opened
	p.Reopened += setup.Reopened
	p.Handshakes += setup.Handshakes
	p.StandIn = cmp.Or(p.StandIn, setup.StandIn)
}

// sum is the sum of parts.
type sum struct {
	Part
	steps []*tally
	hosts *tally
	delay *engine.Distribution
}

// together adds up parts of the same run.
func together(p *Plan, parts []*Part) (*sum, error) {
	x := &sum{hosts: newTally(), delay: engine.NewDistribution(longestTime)}
	for range len(p.setup) + len(p.steps) {
		x.steps = append(x.steps, newTally())
	}
	for _, one := range parts {
		if len(one.Steps) != len(x.steps) {
			return nil, fmt.Errorf("client %s: not a part of this run: the steps differ", one.Client)
		}
		for i := range one.Steps {
			if err := x.steps[i].merge(&one.Steps[i]); err != nil {
				return nil, err
			}
		}
		if err := x.hosts.merge(&one.Hosts); err != nil {
			return nil, err
		}
		if err := x.delay.Merge(one.Delay); err != nil {
			return nil, err
		}
		x.Took, x.Cut, x.Stopped = max(x.Took, one.Took), x.Cut || one.Cut, x.Stopped || one.Stopped
		x.Passes += one.Passes
		x.Ended += one.Ended
		x.Opened += one.Opened
		x.Reopened += one.Reopened
		x.Handshakes += one.Handshakes
		x.CPU += one.CPU
		x.CPUShare += one.CPUShare * float64(one.Processors)
		x.CPUWanted += one.CPUWanted * float64(one.Processors)
		x.Processors += one.Processors
		if x.StandIn == "" {
			x.StandIn = one.StandIn
		}
		for _, t := range one.Targets {
			if !slices.Contains(x.Targets, t) {
				x.Targets = append(x.Targets, t)
			}
		}
	}
	x.CPUShare /= float64(max(1, x.Processors))
	x.CPUWanted /= float64(max(1, x.Processors))
	return x, nil
}
