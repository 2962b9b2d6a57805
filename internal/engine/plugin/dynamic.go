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

// Loop is a part of a unit that follows the load: dynamic tuning. A plug-in only
// reads and decides; the daemon keeps the before-images and writes.
type Loop struct {
	Device string // "" where it is the whole machine
	// Places are what Next may set, each with every value it may get.
	Places []Varying
	// Next takes a sample and says what the places are to hold from now on; a
	// place that it does not name stays as it is. elapsed is the time since the
	// last call, 0 at the first. fs.ErrNotExist says that the device has gone.
	Next func(ctx context.Context, elapsed time.Duration) ([]Wish, error)
}

// Varying is a place that follows the load, and the values between which it
// moves beside the one that it had before. Any of them in the place is fettle's
// own doing, also after a crash; another one is somebody else's.
type Varying struct {
	Setting setting.Setting
	Values  []setting.Value
	Reason  setting.Reason
}

// Wish is the value that a place is to hold.
type Wish struct {
	Setting setting.Setting
	Want    setting.Value
	Back    bool // what the place held before; Want is empty
}

// Ladder is the rule by which devices follow their load: after some intervals
// at rest a level up, towards saving, with each further one another; with each
// interval that has load one down again.
type Ladder struct {
	Top      int     // the highest level; 0 is full speed
	Patience int     // intervals at rest in a row before a level up
	Rest     float64 // share of the highest load known below which an interval is one at rest
}

// Standing is where a device stands on a ladder. Its two loads are of one unit
// each: what is read or received, what is written or sent.
type Standing struct {
	Level int
	Idle  [2]int     // intervals at rest in a row
	Most  [2]float64 // the highest load known, greater than 0
}

// Next is the standing after one more interval.
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

// Counters turns two counters that only rise into what they rose by in ten
// seconds, the interval that TuneD's thresholds are made for. The first sample,
// and one after which a counter has fallen (the device was made anew), are only
// where counting begins.
type Counters struct {
	last [2]uint64
	from bool
}

// Load is the load since the sample before; ok is false where there is none.
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

// LoadAverage is the mean number of tasks that ran or waited in the last minute
// (proc_loadavg(5)). It is of the whole machine: 1 is one busy CPU, however many
// there are.
func LoadAverage(h *host.Host) (float64, error) {
	b, err := h.Files.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/loadavg: %q is no load", first)
	}
	return load, nil
}

// Dynamic says whether a unit lets its devices follow the load, and whether its
// profile says so itself. A value that is neither true nor false, which
// CheckDynamic rejects, lets nothing follow.
func (r *Request) Dynamic() (on, given bool) {
	o, given := r.Option("dynamic")
	if !given {
		return true, false
	}
	on, _ = Truth(o.Value)
	return on, true
}

// CheckDynamic is the Check of the option dynamic.
func CheckDynamic(o profile.Option) error {
	if _, ok := Truth(o.Value); !ok {
		return Invalid("%q is no value for %s: want true or false", o.Value, o.Name)
	}
	return nil
}

// Threshold is the value of an option that is a load, or its default. A value
// that is none is an item, about the place that the option decides on.
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

// UnitReason makes a unit the reason of a change that no option of it asks for.
func UnitReason(u profile.Unit, text string) setting.Reason {
	return setting.Reason{File: u.Pos.File, Line: u.Pos.Line, Text: text}
}
