package plan

import "context"

// counted is what is counted: objects of a kind in a namespace, or everywhere.
type counted struct{ kind, space string }

// standing counts what there is while a plan goes on: what is made, what patches change, and
// what is gone when the plan goes on only behind that.
type standing struct {
	p         *Plan
	now, most map[counted]int
	pods      []int // of each object
	there     []bool
}

// standingOf goes through a plan.
func standingOf(ctx context.Context, p *Plan) (*standing, error) {
	s := &standing{p: p, now: map[counted]int{}, most: map[counted]int{}, pods: make([]int, p.Len()), there: make([]bool, p.Len())}
	deleted := map[*Action][]int{}
	for _, op := range p.Ops {
		for i := op.From; i < op.To; i++ {
			if i%1024 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			switch {
			case op.Do == Create:
				s.made(i)
			case op.Do == Act:
				a, object := p.Action(i)
				if n, ok := p.Patched(i); ok {
					s.have(object, n)
				}
				if a.Do == Remove {
					deleted[a] = append(deleted[a], object)
				}
			case op.Do == Settle && !op.Acted && p.Waits(i) && p.Finished(i) > 0:
				s.have(i, 0) // it is waited for until it is complete
			}
		}
		if op.Do == Gone {
			s.remove(deleted[op.Action])
		}
	}
	return s, nil
}

// add counts so many more of a kind.
func (s *standing) add(kind, space string, n int) {
	for _, of := range []counted{{kind, ""}, {kind, space}} {
		s.now[of] += n
		s.most[of] = max(s.most[of], s.now[of])
		if space == "" {
			break
		}
	}
}

func (s *standing) made(i int) {
	s.there[i] = true
	if kind := s.p.Kind(i).Kind; kind != "Pod" { // which is its own pod
		s.add(kind, s.p.Namespace(i), 1)
	}
	n, _ := s.p.Pods(i)
	s.have(i, n)
}

// have sets how many pods an object has.
func (s *standing) have(i, n int) {
	if n != s.pods[i] && s.there[i] {
		s.add("Pod", s.p.Namespace(i), n-s.pods[i])
		s.pods[i] = n
	}
}

// remove takes away objects, and what is in those that are namespaces.
func (s *standing) remove(objects []int) {
	spaces := map[string]bool{}
	take := func(i int) {
		if !s.there[i] {
			return
		}
		if s.have(i, 0); s.p.Kind(i).Kind != "Pod" {
			s.add(s.p.Kind(i).Kind, s.p.Namespace(i), -1)
		}
		s.there[i] = false
	}
	for _, i := range objects {
		if take(i); s.p.Kind(i).Kind == "Namespace" {
			spaces[s.p.Name(i)] = true
		}
	}
	if len(spaces) == 0 {
		return
	}
	for i := range s.pods {
		if s.there[i] && spaces[s.p.Namespace(i)] {
			take(i)
		}
	}
}
