// Package plan compiles a load into the ordered list of a run's operations: which objects it
// creates, under reproducible names, and where it waits. It sends no requests: the kinds of a
// server are an argument.
package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Missing is a kind that the server lacks.
type Missing struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
}

// Plan is the ordered list of a run's operations.
type Plan struct {
	Run  string
	Load *Load
	Ops  []Op
	// Missing are kinds that the server lacks, or that are unknown without a server.
	Missing []Missing
	Kinds   []Kind // that the objects are of
	// Notes are warnings.
	Notes []string

	objects []object
	actions []action
	stages  []stage
	removed map[int32]bool // objects that a stage deletes
	// Effects of patches on the number of pods: by object at the end and at most, and after an
	// action.
	scales  map[int32]scale
	most    map[int32]int32
	patched map[int32]int32
	kinds   map[Kind]bool
	spaces  map[string]bool // the namespaces that are made
}

type stage struct {
	of         *Stage
	groups     []*group
	namespaces []string
	spaceBody  *Skeleton
	patches    []patch // of its actions
}

// object is an object to create; group is -1 for a namespace of the stage, whose index is
// iteration.
type object struct {
	stage, group, iteration, replica, body int32
}

// Do is the kind of an operation.
type Do int

// Kinds of operations.
const (
	// Create creates the objects From up to before To, one unit every Every, or one object if
	// Each.
	Create Do = iota
	// Drain waits for the answers to all requests.
	Drain
	// Settle waits until the objects From up to before To are ready, at most for Timeout.
	Settle
	// Pause waits for Timeout.
	Pause
	// Listen starts the server of a later Sync.
	Listen
	// Sync synchronizes the pods of the objects From up to before To.
	Sync
	// Act carries out the actions From up to before To, all for Action.
	Act
	// Gone waits until no object of the run that Action selects is left, at most for Timeout.
	Gone
)

// Op is one operation.
type Op struct {
	Do       Do
	From, To int
	Every    time.Duration
	Each     bool
	Timeout  time.Duration
	Sync     *SyncPoint
	Action   *Action
	// Acted reports whether From and To of Settle index actions, whose objects are meant.
	Acted bool
	// At is where in the file it comes from.
	At string
	// Must reports whether the run fails if Settle exceeds its time limit.
	Must bool
}

// Versions returns the apiVersions of the objects of a load.
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

// Compile compiles a load for a run. kinds are the server's kinds, nil without a server. It
// returns ErrTooLarge for more than MaxObjects objects, and ErrTwice for two objects with the
// same name. A large load takes seconds; ctx cancels it.
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
	if p.Len() > 0 { // what is not made need not be known
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
				continue // a stage before this one makes it
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

// waitsFor reports whether a stage that waits for its iterations waits for this one.
// kube-burner waits once per namespace (pkg/burner/create.go of 2.7, namespacesWaited): after
// its first iteration, or once in a job where no object needs a namespace of its own, and after
// all iterations of a job without namespaced iterations.
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

// elsewhere reports whether all objects of a group name their namespace: kube-burner waits for
// these at its first wait, and never again (pkg/burner/waiters.go of 2.7, object.ready).
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

// pauseAfter adds the pause at the end of a stage.
func (p *Plan) pauseAfter(s *Stage) {
	if s.After > 0 {
		p.add(Op{Do: Drain})
		p.add(Op{Do: Pause, Timeout: s.After, At: s.At})
	}
}

// put adds an object.
func (p *Plan) put(o object, k Kind) {
	p.objects = append(p.objects, o)
	if p.kinds[k] = true; k == namespaceKind {
		p.spaces[p.Name(len(p.objects)-1)] = true
	}
}

// group adds the objects of a group in one iteration.
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

// at returns the bodies of a replica.
func (g *group) at(iteration, replica int) []body {
	if g.each == nil {
		return g.bodies
	}
	return g.each[iteration*g.of.Count+replica]
}
