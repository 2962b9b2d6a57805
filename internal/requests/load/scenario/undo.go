package scenario

import (
	"context"
	"fmt"
	"slices"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// UndoSchema names the JSON form of Undone.
const UndoSchema = "fettle/scenario-undo/v1"

// Undone is the result of an undo: what became of each recorded object.
type Undone struct {
	Schema   string         `json:"schema"` // fettle/scenario-undo/v1
	Headline ui.Headline    `json:"headline"`
	Run      string         `json:"run"`
	Scenario string         `json:"scenario"`
	Removed  int            `json:"removed"`
	Objects  []UndoneObject `json:"objects"` // all but removed ones
}

// State says what became of an object.
type State string

// States of objects.
const (
	StateRemoved State = "removed"
	StateGone    State = "already-gone"
	StateChanged State = "changed-since" // kept
	StateUnknown State = "id-unknown"    // intended; it may exist
	StateFailed  State = "failed"
)

// UndoneObject is an object that an undo did not remove.
type UndoneObject struct {
	Step  string `json:"step"`
	Name  string `json:"name"`
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	Text  string `json:"text"`
}

// Left returns the objects that may still exist.
func (u *Undone) Left() int {
	return len(slices.DeleteFunc(slices.Clone(u.Objects), func(o UndoneObject) bool { return o.State == StateGone }))
}

// Undo removes the objects of a journal, latest first, by their recorded ids only. An object
// whose state differs from the recorded one is kept. It calls tell for each object.
func Undo(ctx context.Context, p *Plan, j *Journal, x *Objects, tell func(done, all int)) (*Undone, error) {
	u := &Undone{Schema: UndoSchema, Run: x.Run, Scenario: p.Name, Objects: []UndoneObject{}}
	r := newRun(ctx, p)
	defer context.AfterFunc(ctx, r.interrupt)()
	hosts := map[int]*virtual{}
	open := map[int]int{} // objects of a host that still need its connection
	for _, o := range x.all {
		if !o.Undone && o.left() {
			open[o.Host]++
		}
	}
	for i, o := range slices.Backward(x.all) {
		tell(len(x.all)-i, len(x.all))
		if o.Undone || !o.left() && !o.maybe() {
			continue
		}
		one := UndoneObject{Step: o.Step, Name: o.Name, ID: o.ID, State: StateUnknown, Text: "recorded before the request; the answer is not known: look for it by its name"}
		if o.left() {
			h := hosts[o.Host]
			if h == nil {
				h = r.host(o.Host)
				hosts[o.Host] = h
			}
			one.State, one.Text = h.remove(&o)
			if ctx.Err() != nil {
				return u, ctx.Err()
			}
			// An idle connection holds a thread of Puma 5 for 0.2 s.
			if open[o.Host]--; open[o.Host] == 0 {
				h.close()
				delete(hosts, o.Host)
			}
		}
		said := object{N: o.N, Undone: one.State == StateRemoved || one.State == StateGone, Named: one.State == StateUnknown}
		if said.Undone || said.Named {
			if err := j.append(said); err != nil {
				return u, err
			}
		}
		if one.State == StateRemoved {
			u.Removed++
			continue
		}
		u.Objects = append(u.Objects, one)
	}
	for _, h := range hosts {
		h.close()
	}
	u.headline()
	return u, nil
}

// remove removes an object unless it was changed.
func (h *virtual) remove(o *object) (State, string) {
	i := slices.IndexFunc(h.plan.all(), func(s *step) bool { return s.name == o.Step && s.creates != nil })
	if i < 0 {
		return StateFailed, "the scenario has no step of this name"
	}
	s := h.plan.all()[i]
	if s.creates.unchanged != nil {
		if !o.Read {
			return StateChanged, "its state after the creation is not known; compare " + o.Show
		}
		status, a, err := h.ask("GET", o.Show, s)
		switch {
		case err != nil:
			return StateFailed, err.Error()
		case status == 404 || status == 410:
			return StateGone, fmt.Sprintf("status %d", status)
		case status >= 400:
			return StateFailed, fmt.Sprintf("%s answers with status %d", o.Show, status)
		}
		texts, err := a.texts(s.creates.unchanged)
		switch {
		case err != nil || len(texts) == 0:
			return StateFailed, fmt.Sprintf("%s: %s not found", o.Show, s.creates.unchanged.text)
		case texts[0] != o.Unchanged:
			return StateChanged, internaltext.Sprintf("%s is %.100q, not %.100q as this run left it; remove it yourself if it is not needed", s.creates.unchanged.text, texts[0], o.Unchanged)
		}
	}
	status, _, err := h.ask("DELETE", o.Remove, s)
	switch {
	case err != nil:
		return StateFailed, err.Error()
	case status == 404 || status == 410:
		return StateGone, fmt.Sprintf("status %d", status)
	case status >= 400:
		return StateFailed, fmt.Sprintf("%s answers with status %d", o.Remove, status)
	}
	return StateRemoved, ""
}

// ask sends a request with the header of a step.
func (h *virtual) ask(method, to string, s *step) (status int, a *answer, err error) {
	b := &scratch{}
	x := httpAction{method: method, url: &template{parts: []part{{literal: to}}}, header: s.http.header}
	var o outcome
	a = h.request(&x, b, h.now(), true, &o)
	if o.cause != "" {
		return 0, nil, o.reason()
	}
	return a.status, a, nil
}

func (s *Scenario) all() []*step { return slices.Concat(s.setup, s.steps) }

func (u *Undone) headline() {
	h := &u.Headline
	h.Line("%s removed", h.Count("removed", u.Removed, "object"))
	left := h.Count("left", u.Left(), "object")
	if u.Left() > 0 {
		h.Line("%s left: see the reasons below", left)
	}
}

// Print prints the result of an undo.
func (u *Undone) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &u.Headline)
	if len(u.Objects) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "step"}, {Head: "name"}, {Head: "id"}, {Head: "state"}, {Head: "why", Below: true}}}
	for _, o := range u.Objects {
		g.Rows = append(g.Rows, []string{o.Step, o.Name, o.ID, string(o.State), o.Text})
	}
	g.Write(s)
}
