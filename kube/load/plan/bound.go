package plan

import (
	"errors"
	"fmt"
)

// MaxObjects is how many objects a plan has at most.
const MaxObjects = 2_000_000

// ErrTooLarge means that a load has more than MaxObjects objects.
var ErrTooLarge = errors.New("the load is too large")

// ErrTwice means that two objects of a load have one name.
var ErrTwice = errors.New("would be made twice")

func tooLarge(at string, n int) error {
	return fmt.Errorf("%s: %w: %d objects, and %d is the most that is planned", at, ErrTooLarge, n, MaxObjects)
}

// bounded refuses a load of too many objects by its counts alone, of which a group's are
// taken for one object each: nothing is made, in memory either.
func bounded(l *Load) error {
	all := 0
	for i := range l.Stages {
		s := &l.Stages[i]
		if s.Iterations > MaxObjects { // and so no product below overflows
			return tooLarge(s.At, s.Iterations)
		}
		if s.Iterations <= 0 {
			continue
		}
		if all += s.Namespaces(); all > MaxObjects {
			return tooLarge(s.At, all)
		}
		for j := range s.Groups {
			g := &s.Groups[j]
			if g.Count > MaxObjects {
				return tooLarge(g.At, g.Count)
			}
			if all += s.Times(g) * max(0, g.Count); all > MaxObjects {
				return tooLarge(g.At, all)
			}
		}
	}
	return nil
}

// objects is how many a compiled group makes in all iterations of its stage.
func (g *group) objects(s *Stage) int {
	if g.each == nil {
		return s.Times(g.of) * max(0, g.of.Count) * len(g.bodies)
	}
	n := 0
	for _, bodies := range g.each {
		n += len(bodies)
	}
	return n
}
