package plan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
)

// Len returns the number of objects in the plan.
func (p *Plan) Len() int { return len(p.objects) }

// body returns an object's body; nil for a stage's namespace.
func (p *Plan) body(i int) *body {
	o := p.objects[i]
	if o.group < 0 {
		return nil
	}
	return &p.stages[o.stage].groups[o.group].at(int(o.iteration), int(o.replica))[o.body]
}

// Kind returns the i-th object's kind.
func (p *Plan) Kind(i int) Kind {
	if b := p.body(i); b != nil {
		return b.kind
	}
	return namespaceKind
}

// StageSpace reports whether an object is a stage's namespace, and returns what to do if the
// namespace exists.
func (p *Plan) StageSpace(i int) (ifExists string, ok bool) {
	o := p.objects[i]
	return p.stages[o.stage].of.IfExists, o.group < 0
}

// Waits reports whether waits for ready objects include this one.
func (p *Plan) Waits(i int) bool {
	o := p.objects[i]
	return o.group < 0 || !p.stages[o.stage].of.Groups[o.group].NoWait
}

// Removes reports whether a stage of the plan deletes an object.
func (p *Plan) Removes(i int) bool { return p.removed[int32(i)] }

// At returns the position in the file that defines an object.
func (p *Plan) At(i int) string {
	o := p.objects[i]
	s := p.stages[o.stage]
	if o.group < 0 {
		return s.of.At
	}
	return s.of.Groups[o.group].At
}

// Unit returns a number that objects of one replica share, and that differs from the next
// replica's.
func (p *Plan) Unit(i int) int {
	o := p.objects[i]
	if o.group < 0 {
		return int(o.iteration)
	}
	return int(o.replica)
}

func (p *Plan) values(i int) []string {
	o := p.objects[i]
	s := &p.stages[o.stage]
	return s.groups[o.group].values(p.Load.Seed, s.of, int(o.iteration), int(o.replica), i)
}

// Namespace returns an object's namespace; "" for a cluster-wide object.
func (p *Plan) Namespace(i int) string {
	o, b := p.objects[i], p.body(i)
	switch {
	case b == nil || !b.kind.Namespaced:
		return ""
	case b.namespace != nil:
		return string(b.namespace.Text(p.values(i)))
	}
	s := &p.stages[o.stage]
	switch {
	case len(s.namespaces) == 0:
		return "" // the kind is unknown
	case s.of.Single:
		return s.namespaces[0]
	}
	return s.namespaces[int(o.iteration)/s.of.PerNamespace]
}

// Name returns the i-th object's name.
func (p *Plan) Name(i int) string {
	o, b := p.objects[i], p.body(i)
	if b == nil {
		return p.stages[o.stage].namespaces[o.iteration]
	}
	return string(b.name.Text(p.values(i)))
}

// Body returns an object's JSON.
func (p *Plan) Body(i int) []byte {
	b := p.body(i)
	if b == nil {
		o := p.objects[i]
		return p.stages[o.stage].spaceBody.Text([]string{varReplica: p.Name(i), varIteration: "", varObject: fmt.Sprint(i)})
	}
	return b.text.Text(p.values(i))
}

// Pods returns the number of concurrent pods of a newly created object. perNode means one pod on
// each node.
func (p *Plan) Pods(i int) (n int, perNode bool) {
	if b := p.body(i); b != nil {
		return b.scale.pods(), b.scale.of == onNodes
	}
	return 0, false
}

// Describe returns an object's display name.
func (p *Plan) Describe(i int) string {
	name := p.Name(i)
	if space := p.Namespace(i); space != "" {
		name = space + "/" + name
	}
	return p.Kind(i).Kind + " " + name
}

// unique returns ErrTwice if two objects have the same name.
func (p *Plan) unique(ctx context.Context) error {
	seed := maphash.MakeSeed()
	seen := make(map[uint64]int32, len(p.objects))
	for i := range p.objects {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := p.Kind(i).Path(p.Namespace(i)) + "/" + p.Name(i)
		h := maphash.String(seed, key)
		j, twice := seen[h]
		if twice && p.Kind(int(j)).Path(p.Namespace(int(j)))+"/"+p.Name(int(j)) == key {
			hint := ""
			if o := p.objects[i]; o.group >= 0 && p.stages[o.stage].of.Groups[o.group].Template != nil {
				hint = "; use ${IDENTIFIER} in the name to make it unique"
			}
			return fmt.Errorf("%s: %s %w (also by %s)%s", p.At(i), p.Describe(i), ErrTwice, p.At(int(j)), hint)
		}
		seen[h] = int32(i)
	}
	return nil
}

// Sum returns a checksum that is equal for equal objects at equal paths.
func (p *Plan) Sum() string {
	h := sha256.New()
	var text []byte
	for i := range p.objects {
		text = append(text[:0], p.Kind(i).Path(p.Namespace(i))...)
		text = append(text, ' ')
		text = append(text, p.Body(i)...)
		text = append(text, '\n')
		h.Write(text)
	}
	for i := range p.actions {
		a, object := p.Action(i)
		fmt.Fprintf(h, "%s %d\n", a.Do, object)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Skeleton is a JSON text with holes. Thousands of objects that differ in a few texts can be built
// from it without JSON encoding.
type Skeleton struct {
	pieces [][]byte // one more than holes
	holes  []int    // variable of each hole
	size   int      // approximate length of the text, in bytes
}

// Cut makes a skeleton from a JSON text. Each mark in the text stands for the variable with the
// same index. Marks are letters and digits that occur nowhere else in the text.
func Cut(text []byte, marks []string) *Skeleton {
	s := &Skeleton{size: len(text)}
	for {
		at, which := len(text), -1
		for i, mark := range marks {
			if k := bytes.Index(text, []byte(mark)); k >= 0 && k < at {
				at, which = k, i
			}
		}
		s.pieces = append(s.pieces, bytes.Clone(text[:at]))
		if which < 0 {
			return s
		}
		s.holes = append(s.holes, which)
		text = text[at+len(marks[which]):]
	}
}

// Text returns the JSON text with the values inserted, escaped for strings.
func (s *Skeleton) Text(values []string) []byte {
	dst := make([]byte, 0, s.size)
	for i, hole := range s.holes {
		dst = append(dst, s.pieces[i]...)
		dst = appendEscaped(dst, values[hole])
	}
	return append(dst, s.pieces[len(s.pieces)-1]...)
}

// appendEscaped appends a value escaped for a JSON string.
func appendEscaped(dst []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; c < 0x20 || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
			text, _ := json.Marshal(value) // encoding a string cannot fail
			return append(dst, text[1:len(text)-1]...)
		}
	}
	return append(dst, value...)
}

// Mark returns the i-th mark for a text in which it does not occur. Marks are decimal digits, so
// they can replace numbers.
func Mark(text string, i int) string {
	for n := 7346210937 + 1009*i; ; n += 1_000_003 {
		if m := fmt.Sprint(n); !strings.Contains(text, m) {
			return m
		}
	}
}
