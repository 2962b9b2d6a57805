// Package plan compiles a load into a run's ordered operations: which objects to create, under
// reproducible names, and where to wait. It sends no requests; a server's kinds are an argument.
package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Missing is a kind that the server lacks, and where it is used.
type Missing struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
}

// Plan is the ordered list of a run's operations and objects.
type Plan struct {
	Run  string
	Load *Load
	Ops  []Op
	// Missing lists the kinds that the server does not have, or that cannot be looked up without a
	// server.
	Missing []Missing
	Kinds   []Kind // kinds of the objects
	// Notes are warnings.
	Notes []string

	objects []object
	actions []action
	stages  []stage
	removed map[int32]bool // objects that a stage deletes
	// Effects of patches on pod counts: per object at the end and at the maximum, and after each
	// action.
	scales  map[int32]scale
	most    map[int32]int32
	patched map[int32]int32
	kinds   map[Kind]bool
	spaces  map[string]bool // namespaces that the plan creates
}

type stage struct {
	of         *Stage
	groups     []*group
	namespaces []string
	spaceBody  *Skeleton
	patches    []patch // templates of the actions
}

// object is one object to create. For a stage's namespace, group is -1 and iteration is the
// namespace's index.
type object struct {
	stage, group, iteration, replica, body int32
}

// Do is an operation's kind.
type Do int

// Kinds of operations.
const (
	// Create creates the objects from From to To-1, one unit per Every, or one object per Every if
	// Each is set.
	Create Do = iota
	// Drain waits for the answers to all requests.
	Drain
	// Settle waits at most Timeout until the objects from From to To-1 are ready.
	Settle
	// Pause waits for the duration Timeout.
	Pause
	// Listen starts the server for a later Sync.
	Listen
	// Sync synchronizes the pods of the objects from From to To-1.
	Sync
	// Act carries out the actions From to To-1. All of them belong to Action.
	Act
	// Gone waits at most Timeout until no object of the run that Action selects exists.
	Gone
)

// Op is one operation of a plan.
type Op struct {
	Do       Do
	From, To int
	Every    time.Duration
	Each     bool
	Timeout  time.Duration
	Sync     *SyncPoint
	Action   *Action
	// Acted means that From and To of Settle index actions rather than objects.
	Acted bool
	// At is the position in the file that requests the operation.
	At string
	// Must means that the run fails if Settle times out.
	Must bool
}

// Versions returns the apiVersions of a load's objects.
func Versions(ctx context.Context, load *Load) ([]string, error) {
	p, err := Compile(ctx, load, "run", nil)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, k := range p.Kinds {
		if !slices.Contains(all, k.APIVersion) {
			all = append(all, k.APIVersion)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Compile compiles a load for a run. kinds are the server's kinds, nil without a server. The error
// is ErrTooLarge for more than MaxObjects objects, ErrTwice for two objects with one name. A large
// load takes seconds; ctx cancels it.
func Compile(ctx context.Context, load *Load, run string, kinds Kinds) (*Plan, error) {
	if err := bounded(load); err != nil {
		return nil, err
	}
	p := &Plan{Run: run, Load: load, kinds: map[Kind]bool{}, spaces: map[string]bool{}, removed: map[int32]bool{}, scales: map[int32]scale{}, most: map[int32]int32{}, patched: map[int32]int32{}}
	c := &compiler{load: load, run: run, kinds: kinds}
	var all []error
	if load.Sync != nil && load.Sync.Server {
		p.add(Op{Do: Listen, Sync: load.Sync, At: load.Sync.At})
	}
	for i := range load.Stages {
		if err := p.stage(ctx, c, i); err != nil {
			all = append(all, err)
		}
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	if load.Sync != nil {
		p.add(Op{Do: Sync, To: len(p.objects), Sync: load.Sync, Timeout: load.Sync.Timeout, At: load.Sync.At})
	}
	p.add(Op{Do: Drain})
	if load.Wait > 0 && len(p.objects) > 0 {
		p.add(Op{Do: Settle, To: len(p.objects), Timeout: load.Wait})
	}
	if p.Len() > 0 { // without objects, the kind does not matter
		p.Missing = c.missing
	}
	for k := range p.kinds {
		p.Kinds = append(p.Kinds, k)
	}
	slices.SortFunc(p.Kinds, func(a, b Kind) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return p, p.unique(ctx)
}

func (p *Plan) add(o Op) { p.Ops = append(p.Ops, o) }

func (p *Plan) stage(ctx context.Context, c *compiler, number int) error {
	s := &c.load.Stages[number]
	st := stage{of: s}
	var all []error
	index := 0
	for g := range s.Groups {
		compiled, err := c.compile(s, &s.Groups[g], index)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", s.Groups[g].At, err))
			continue
		}
		st.groups = append(st.groups, compiled)
		index += compiled.documents()
	}
	if len(all) > 0 {
		return errors.Join(all...)
	}
	n := len(p.objects) + s.Namespaces()
	for _, g := range st.groups {
		if n += g.objects(s); n > MaxObjects {
			return tooLarge(g.of.At, n)
		}
	}
	needed, err := st.needsSpaces(c)
	if err == nil && needed {
		err = st.spaces(c)
	}
	if err != nil {
		return err
	}
	p.stages = append(p.stages, st)
	begin := len(p.objects)
	every, each := time.Duration(0), false
	if s.Rate > 0 {
		every, each = time.Duration(float64(time.Second)/s.Rate), true
	}
	if len(s.Actions) > 0 {
		if err := p.act(ctx, number, &st, every, each); err != nil {
			return err
		}
		p.pauseAfter(s)
		return nil
	}
	if s.Iterations > 0 {
		for i, name := range st.namespaces {
			if p.spaces[name] && s.IfExists == Reuse {
				continue // an earlier stage creates it
			}
			p.put(object{int32(number), -1, int32(i), 0, 0}, namespaceKind)
		}
		p.add(Op{Do: Create, From: begin, To: len(p.objects), Every: every, Each: each, At: s.At})
		p.add(Op{Do: Drain})
	}
	for i := range s.Iterations {
		if err := ctx.Err(); err != nil {
			return err
		}
		var waits []Op
		for g, compiled := range st.groups {
			if !compiled.of.Made(i) {
				continue
			}
			from := len(p.objects)
			p.group(number, g, i, compiled, every, each)
			switch last := len(waits) - 1; {
			case s.WaitEach == 0 || !st.waitsFor(i) || s.Burner && i > 0 && compiled.elsewhere():
			case last >= 0 && waits[last].To == from:
				waits[last].To = len(p.objects)
			default:
				waits = append(waits, Op{Do: Settle, From: from, To: len(p.objects), Timeout: s.WaitEach, At: s.At, Must: true})
			}
		}
		p.Ops = append(p.Ops, waits...)
		if s.Between > 0 {
			p.add(Op{Do: Drain})
			p.add(Op{Do: Pause, Timeout: s.Between, At: s.At})
		}
	}
	if s.Wait > 0 && len(p.objects) > begin {
		p.add(Op{Do: Settle, From: begin, To: len(p.objects), Timeout: s.Wait, At: s.At, Must: true})
	}
	p.pauseAfter(s)
	return nil
}

// waitsFor reports whether a stage with waits waits after this iteration. kube-burner waits once
// per namespace, after its first iteration; once in a job whose objects need no own namespace; and
// after every iteration without namespaced iterations (2.7, pkg/burner/create.go,
// namespacesWaited).
func (st *stage) waitsFor(iteration int) bool {
	switch s := st.of; {
	case !s.Burner || s.Single:
		return true
	case len(st.namespaces) == 0:
		return iteration == 0
	default:
		return iteration%s.PerNamespace == 0
	}
}

// elsewhere reports whether all of a group's objects name their namespace. kube-burner waits for
// these only at its first wait (2.7, pkg/burner/waiters.go, object.ready).
func (g *group) elsewhere() bool {
	for _, bodies := range append(slices.Clip(g.each), g.bodies) {
		for _, b := range bodies {
			if b.namespace == nil {
				return false
			}
		}
	}
	return true
}

// pauseAfter adds a stage's final pause.
func (p *Plan) pauseAfter(s *Stage) {
	if s.After > 0 {
		p.add(Op{Do: Drain})
		p.add(Op{Do: Pause, Timeout: s.After, At: s.At})
	}
}

// put adds an object to the plan.
func (p *Plan) put(o object, k Kind) {
	p.objects = append(p.objects, o)
	if p.kinds[k] = true; k == namespaceKind {
		p.spaces[p.Name(len(p.objects)-1)] = true
	}
}

// group adds a group's objects for one iteration.
func (p *Plan) group(stage, number, iteration int, g *group, every time.Duration, each bool) {
	pace := g.of.Pace
	begin, from := len(p.objects), len(p.objects)
	flush := func() {
		if to := len(p.objects); to > from {
			op := Op{Do: Create, From: from, To: to, Every: every, Each: each, At: g.of.At}
			if pace != nil && pace.Delay > 0 {
				op.Every, op.Each = pace.Delay, false
			}
			p.add(op)
			from = to
		}
	}
	if g.of.Sync != nil && g.of.Sync.Server && g.of.Count > 0 {
		p.add(Op{Do: Listen, Sync: g.of.Sync, At: g.of.Sync.At})
	}
	step := begin
	for r := range g.of.Count {
		for b, body := range g.at(iteration, r) {
			p.put(object{int32(stage), int32(number), int32(iteration), int32(r), int32(b)}, body.kind)
		}
		if pace != nil && pace.Step > 0 && (r+1)%pace.Step == 0 {
			flush()
			p.add(Op{Do: Settle, From: step, To: len(p.objects), Timeout: pace.Timeout, At: g.of.At, Must: true})
			if pace.Pause > 0 {
				p.add(Op{Do: Pause, Timeout: pace.Pause, At: g.of.At})
			}
			step = len(p.objects)
		}
	}
	flush()
	if g.of.Sync != nil && len(p.objects) > begin {
		p.add(Op{Do: Sync, From: begin, To: len(p.objects), Sync: g.of.Sync, Timeout: g.of.Sync.Timeout, At: g.of.Sync.At})
	}
}

// at returns a replica's bodies.
func (g *group) at(iteration, replica int) []body {
	if g.each == nil {
		return g.bodies
	}
	return g.each[iteration*g.of.Count+replica]
}
