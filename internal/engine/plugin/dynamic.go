package plugin

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Loop is a load-dependent part of a unit (dynamic tuning). The plug-in only reads and decides.
// The daemon records the before-images and writes.
type Loop struct {
	Device string // "" for the whole machine
	// Places are the settings that Next may set, each with every possible value.
	Places []Varying
	// Next samples the load and returns the values to set; other settings stay unchanged. elapsed
	// is the time since the last call, 0 at the first. The error is fs.ErrNotExist if the device
	// was removed.
	Next func(ctx context.Context, elapsed time.Duration) ([]Wish, error)
}

// Varying is a load-dependent setting, with the values that it may get in addition to its original
// one. If the setting has one of these values, it counts as set by fettle, even after a crash.
type Varying struct {
	Setting setting.Setting
	Values  []setting.Value
	Reason  setting.Reason
}

// Wish is a value to set, or the request to restore the original one.
type Wish struct {
	Setting setting.Setting
	Want    setting.Value
	Back    bool // restore the original value; Want is empty
}

// Ladder is the rule by which a device follows its load. It goes one level up, toward power
// saving, after Patience idle intervals and after each further one. It goes one level down after
// each busy interval.
type Ladder struct {
	Top      int     // highest level; level 0 is full speed
	Patience int     // consecutive idle intervals before the first level up
	Rest     float64 // an interval is idle below this share of the highest load so far
}

// Standing is a device's position on a ladder. The two loads are data read or received, and data
// written or sent.
type Standing struct {
	Level int
	Idle  [2]int     // consecutive idle intervals
	Most  [2]float64 // highest load so far, greater than 0
}

// Next returns the standing after an interval with this load.
func (l Ladder) Next(s Standing, load [2]float64) Standing {
	for i := range load {
		s.Most[i] = max(s.Most[i], load[i])
		if load[i]/s.Most[i] < l.Rest {
			s.Idle[i]++
		} else {
			s.Idle[i] = 0
		}
	}
	switch {
	case s.Level < l.Top && s.Idle[0] >= l.Patience && s.Idle[1] >= l.Patience:
		s.Level++
	case s.Level > 0 && (s.Idle[0] == 0 || s.Idle[1] == 0):
		s.Level--
	}
	return s
}

// Counters converts two monotonic counters to their increase per ten seconds, the interval of
// TuneD's thresholds. Counting starts at the first sample, and again after a counter has decreased
// (the device was recreated).
type Counters struct {
	last [2]uint64
	from bool
}

// Load returns the load since the previous sample. ok is false if there is no previous sample.
func (c *Counters) Load(now [2]uint64, elapsed time.Duration) (load [2]float64, ok bool) {
	last, from := c.last, c.from
	c.last, c.from = now, true
	if !from || elapsed <= 0 || now[0] < last[0] || now[1] < last[1] {
		return load, false
	}
	for i := range now {
		load[i] = float64(now[i]-last[i]) * (10 * time.Second).Seconds() / elapsed.Seconds()
	}
	return load, true
}

// LoadAverage returns the mean number of tasks that ran or waited on the whole machine in the last
// minute (proc_loadavg(5)): 1 means one busy CPU.
func LoadAverage(h *host.Host) (float64, error) {
	b, err := h.Files.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/loadavg: %q is not a load", first)
	}
	return load, nil
}

// Dynamic reports whether a unit's devices follow the load (on), and whether the profile sets that
// (given). An invalid value, which CheckDynamic rejects, counts as false.
func (r *Request) Dynamic() (on, given bool) {
	o, given := r.Option("dynamic")
	if !given {
		return true, false
	}
	on, _ = Truth(o.Value)
	return on, true
}

// CheckDynamic is the Check function of the option dynamic.
func CheckDynamic(o profile.Option) error {
	if _, ok := Truth(o.Value); !ok {
		return Invalid("%q is not a value for %s: want true or false", o.Value, o.Name)
	}
	return nil
}

// Threshold returns the value of a load option, or standard if the unit lacks the option. For an
// invalid value it returns an item for s.
func (r *Request) Threshold(s setting.Setting, option string, standard float64) (float64, []Item) {
	o, given := r.Option(option)
	if !given {
		return standard, nil
	}
	load, err := strconv.ParseFloat(strings.TrimSpace(o.Value), 64)
	if err != nil || load < 0 || load > 1e6 {
		return 0, BadValue(s, o, "a load, such as 0.2")
	}
	return load, nil
}

// UnitReason returns the unit's position as the reason of a change that no option requests.
func UnitReason(u profile.Unit, text string) setting.Reason {
	return setting.Reason{File: u.Pos.File, Line: u.Pos.Line, Text: text}
}
