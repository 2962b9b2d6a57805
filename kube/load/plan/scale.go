package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale holds the fields that determine an object's number of pods; -1 means not set.
type scale struct {
	of                                 podsOf
	replicas, parallelism, completions int32
	suspended                          bool
}

// podsOf is the way in which a kind creates pods.
type podsOf int8

const (
	noPods podsOf = iota
	itself
	byReplicas
	onNodes
	untilCompleted
)

var podKinds = map[string]podsOf{
	"Pod": itself, "DaemonSet": onNodes, "Job": untilCompleted,
	"Deployment": byReplicas, "ReplicaSet": byReplicas, "StatefulSet": byReplicas, "ReplicationController": byReplicas, "DeploymentConfig": byReplicas,
}

func scaleOf(kind string, spec map[string]any) scale {
	s := scale{podKinds[kind], -1, -1, -1, false}
	s.set(spec)
	return s
}

// set applies the fields of a spec; null unsets a field.
func (s *scale) set(spec map[string]any) {
	for name, to := range map[string]*int32{"replicas": &s.replicas, "parallelism": &s.parallelism, "completions": &s.completions} {
		if value, ok := spec[name]; ok {
			*to = countOf(value)
		}
	}
	if value, ok := spec["suspend"]; ok {
		s.suspended, _ = value.(bool)
	}
}

// countOf returns a count in a spec, or -1 if it is not set. A count above a million is a
// variable's mark and counts as 1.
func countOf(value any) int32 {
	var text string
	switch v := value.(type) {
	case json.Number, int, int64, uint64:
		text = fmt.Sprint(v)
	case float64:
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	n, err := strconv.Atoi(text)
	switch {
	case text == "" || err == nil && n < 0:
		return -1
	case err != nil || n > 1_000_000:
		return 1
	}
	return int32(n)
}

// pods returns the number of concurrent pods.
func (s scale) pods() int {
	or := func(n, missing int32) int {
		if n < 0 {
			n = missing
		}
		return int(n)
	}
	switch s.of {
	case itself:
		return 1
	case byReplicas:
		return or(s.replicas, 1)
	case untilCompleted:
		if s.suspended {
			return 0
		}
		return min(or(s.parallelism, 1), or(s.completions, math.MaxInt32)) // at most as many pods run as still have to complete
	}
	return 0
}

// finished returns the number of a Job's pods that complete.
func (s scale) finished() int {
	switch {
	case s.of != untilCompleted || s.suspended || s.pods() == 0:
		return 0
	case s.completions < 0: // a work queue: assume that only the concurrent pods complete
		return s.pods()
	}
	return int(s.completions)
}

// Patched returns an object's number of pods after a patch; ok is false if the patch does not set
// it.
func (p *Plan) Patched(action int) (pods int, ok bool) {
	n, ok := p.patched[int32(action)]
	return int(n), ok
}

// Finished returns the number of a Job's ended pods, which stay until the Job is deleted.
func (p *Plan) Finished(i int) int { return p.scaleAtEnd(i).finished() }

// PodsInAll returns how many pods an object creates over time, including patches.
func (p *Plan) PodsInAll(i int) int {
	n, _ := p.Pods(i)
	return max(n, int(p.most[int32(i)]), p.Finished(i))
}

func (p *Plan) scaleAtEnd(i int) scale {
	if s, ok := p.scales[int32(i)]; ok {
		return s
	}
	if b := p.body(i); b != nil {
		return b.scale
	}
	return scale{}
}

// rescale records the patches that change an object's number of pods, for the actions from index
// from on.
func (p *Plan) rescale(ctx context.Context, st *stage, from int) error {
	type made struct{ number, iteration int32 }
	same := map[made]map[string]any{}
	for i := from; i < len(p.actions); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		x := p.actions[i]
		a := &st.of.Actions[x.number]
		if a.Do != Patch || !p.mayScale(a) {
			continue
		}
		fields, known := same[made{x.number, x.iteration}]
		if !known {
			body, media, err := p.Patch(i, "uid")
			if err != nil {
				return fmt.Errorf("%s: %w", a.At, err)
			}
			fields = specOf(body, media)
			if st.patches[x.number].text.Fixed() {
				same[made{x.number, x.iteration}] = fields
			}
		}
		was := p.scaleAtEnd(int(x.object))
		now := was
		if now.set(fields); now != was {
			p.scales[x.object], p.patched[int32(i)] = now, int32(now.pods())
			p.most[x.object] = max(p.most[x.object], int32(now.pods()))
		}
	}
	return nil
}

// mayScale reports whether a patch can change an object's number of pods.
func (p *Plan) mayScale(a *Action) bool {
	of := podKinds[a.Kind]
	return (of == byReplicas || of == untilCompleted) &&
		(len(p.Load.Helpers) > 0 || slices.ContainsFunc([]string{"replicas", "parallelism", "completions", "suspend"}, func(s string) bool { return strings.Contains(a.Text, s) }))
}

// specOf returns the spec fields that a patch sets; removed fields are null.
func specOf(body []byte, media string) map[string]any {
	if media != jsonPatch {
		var o struct{ Spec map[string]any }
		_ = json.Unmarshal(body, &o) // any other form of spec sets nothing
		return o.Spec
	}
	var steps []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(body, &steps) != nil {
		return nil
	}
	all := map[string]any{}
	for _, s := range steps {
		field, inSpec := strings.CutPrefix(s.Path, "/spec/")
		switch {
		case s.Op == "test":
		case s.Path == "/spec":
			all, _ = s.Value.(map[string]any)
		case inSpec && s.Op == "remove":
			all[field] = nil
		case inSpec:
			all[field] = s.Value
		}
	}
	return all
}

// counted is the key of a counter: objects of a kind in a namespace ("" means everywhere).
type counted struct{ kind, space string }

// standing counts the existing objects while a plan proceeds: created, patched, and deleted if the
// plan waits for deletion.
type standing struct {
	p         *Plan
	now, most map[counted]int
	pods      []int // by object
	there     []bool
}

// standingOf applies all operations of a plan to the counters.
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
				s.have(i, 0) // the plan waits until the Job is complete
			}
		}
		if op.Do == Gone {
			s.remove(deleted[op.Action])
		}
	}
	return s, nil
}

// add adds n to the counters of a kind.
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
	if kind := s.p.Kind(i).Kind; kind != "Pod" { // a Pod is counted as itself
		s.add(kind, s.p.Namespace(i), 1)
	}
	n, _ := s.p.Pods(i)
	s.have(i, n)
}

// have sets an object's number of pods.
func (s *standing) have(i, n int) {
	if n != s.pods[i] && s.there[i] {
		s.add("Pod", s.p.Namespace(i), n-s.pods[i])
		s.pods[i] = n
	}
}

// remove removes objects, and the contents of those that are namespaces.
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
