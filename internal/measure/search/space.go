// Package search decides which combination of values to measure next when several settings are
// tuned at once, and which combination looks best in the end. It is the whole method, without a
// machine: a Course proposes a point, and takes the measured cost of it. What looks best here must
// still be proved by an experiment of its own, because the best of many noisy runs looks better
// than it is.
package search

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/text"
)

// Knob is a setting, or several that get the same value, with the values that the search may give
// it.
type Knob struct {
	Name string `json:"name"`
	// Settings are the settings that the knob sets.
	Settings []string `json:"settings"`
	Levels   []string `json:"values"`
	// Default is the index of the value that the machine has now.
	Default int `json:"default"`
	// Ordered reports that the levels are numbers in ascending order. The cost is then expected to
	// be a smooth function of the position in the list.
	Ordered bool `json:"ordered"`
}

// Sort puts levels that are all numbers in ascending order, and marks the knob as ordered.
func (k *Knob) Sort(number func(string) (float64, error)) {
	type level struct {
		text  string
		value float64
		isNow bool
	}
	var all []level
	for i, text := range k.Levels {
		v, err := number(text)
		if err != nil {
			return
		}
		all = append(all, level{text, v, i == k.Default})
	}
	slices.SortStableFunc(all, func(a, b level) int { return cmp.Compare(a.value, b.value) })
	for i, l := range all {
		k.Levels[i] = l.text
		if l.isNow {
			k.Default = i
		}
	}
	k.Ordered = true
}

// Point is a combination: the index of a level for each knob.
type Point []int

// Equal reports whether two points are the same.
func (p Point) Equal(q Point) bool { return slices.Equal(p, q) }

// Space is what may be searched.
type Space struct {
	Knobs []Knob `json:"knobs"`
	// Allowed reports whether a rule permits a combination. nil permits all.
	Allowed func(Point) bool `json:"-"`
}

// Bounds of a space: with more knobs or levels a search has no chance within a day.
const (
	mostKnobs  = 20
	mostLevels = 16
)

// Check returns an error unless the space can be searched.
func (s Space) Check() error {
	var errs []error
	if len(s.Knobs) == 0 || len(s.Knobs) > mostKnobs {
		errs = append(errs, fmt.Errorf("want 1 to %d settings, not %d", mostKnobs, len(s.Knobs)))
	}
	seen := map[string]bool{}
	for _, k := range s.Knobs {
		switch n := len(k.Levels); {
		case seen[k.Name]:
			errs = append(errs, fmt.Errorf("%s: named twice; give all values at once", k.Name))
		case n < 2:
			errs = append(errs, fmt.Errorf("%s: want at least one value that differs from the present one", k.Name))
		case n > mostLevels:
			errs = append(errs, fmt.Errorf("%s: want at most %s, not %d", k.Name, text.Count(mostLevels, "value"), n))
		case len(k.Settings) == 0:
			errs = append(errs, fmt.Errorf("%s: no setting", k.Name))
		case k.Default < 0 || k.Default >= n:
			errs = append(errs, fmt.Errorf("%s: the present value is not among the values", k.Name))
		}
		seen[k.Name] = true
	}
	return errors.Join(errs...)
}

// Default returns the point at which nothing is changed.
func (s Space) Default() Point {
	p := make(Point, len(s.Knobs))
	for i, k := range s.Knobs {
		p[i] = k.Default
	}
	return p
}

// Size returns the number of permitted combinations, at most limit. It counts those that a rule
// forbids too if there are more than fit into memory.
func (s Space) Size(limit int) int {
	n := 1
	for _, k := range s.Knobs {
		if n *= len(k.Levels); n >= limit {
			return limit
		}
	}
	if s.Allowed != nil && n <= mostListed {
		n = len(s.all())
	}
	return n
}

// mostListed is the largest number of combinations that are listed.
const mostListed = 100_000

// all returns each permitted combination.
func (s Space) all() (out []Point) {
	p := make(Point, len(s.Knobs))
	for {
		if s.Allowed == nil || s.Allowed(p) {
			out = append(out, slices.Clone(p))
		}
		i := 0
		for ; i < len(p); i++ {
			if p[i]++; p[i] < len(s.Knobs[i].Levels) {
				break
			}
			p[i] = 0
		}
		if i == len(p) {
			return out
		}
	}
}

// beyond reports whether p changes every knob that q changes, in the same direction and at least
// as far: where q was stopped by a brake, p would be too.
func (s Space) beyond(p, q Point) bool {
	changed := false
	for i, k := range s.Knobs {
		switch far, farther := q[i]-k.Default, p[i]-k.Default; {
		case far == 0:
			continue
		case !k.Ordered && far != farther,
			far > 0 && farther < far,
			far < 0 && farther > far:
			return false
		}
		changed = true
	}
	return changed
}

// features returns the position of a point for the model: for an ordered knob the distance x from
// the default, between -1 and 1, and its square; for any other knob a 1 at its level. All are 0 at
// the default.
func (s Space) features(p Point) (x []float64) {
	for i, k := range s.Knobs {
		x = append(x, k.features(p[i])...)
	}
	return x
}

func (k Knob) features(level int) []float64 {
	if k.Ordered {
		x := float64(level-k.Default) / float64(max(k.Default, len(k.Levels)-1-k.Default))
		return []float64{x, x * x}
	}
	x := make([]float64, 0, len(k.Levels)-1)
	for l := range k.Levels {
		switch {
		case l == k.Default:
		case l == level:
			x = append(x, 1)
		default:
			x = append(x, 0)
		}
	}
	return x
}
