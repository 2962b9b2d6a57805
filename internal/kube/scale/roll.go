package scale

// Roll plans that every machine of the sets is made anew, as a change of a machine set
// wants it that concerns existing machines: new ones first, then as many old ones go.
func Roll(in Input) (*Plan, error) {
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	p.plan.To = p.plan.From
	ready := p.leavers()
	for _, x := range p.pools {
		for old := ready[x]; len(old) > 0; {
			n := p.exchange(x, old)
			if n == 0 {
				p.closed(len(old))
				return p.plan, nil
			}
			old = old[n:]
		}
	}
	if len(p.plan.Steps) == 0 {
		p.note("the sets have no machines: nothing is to be done")
	}
	p.together()
	return p.plan, nil
}

// exchange adds as many machines to a set as remediation bears, and removes as many of
// its old ones, the first of them first. It returns how many. With n on their way in and
// then n on their way out the check counts the same: n of machines + n.
func (p *planner) exchange(x *pool, old []*leaver) int {
	on := map[*watch]int{}
	n := 0
	for n < min(len(old), p.Batch) && p.open(x, on) {
		n++
		for _, w := range p.watched {
			if w.covers(x) {
				on[w]++
			}
		}
	}
	if n == 0 {
		return 0
	}
	before := p.replicas()
	x.replicas += n
	p.plan.Steps = append(p.plan.Steps, p.join(n, on, p.resizes(before)))
	before = p.replicas()
	x.replicas -= n
	p.plan.Steps = append(p.plan.Steps, p.drain(old[:n], on, p.resizes(before)))
	return n
}
