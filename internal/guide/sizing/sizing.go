// Package sizing turns a wish for a platform (so many pods, so much shared
// memory) into values, artefacts and the steps in order, from the figures of the
// catalogue's tables. It looks at no machine; what a wish needs from one is
// handed in.
//
// To add a platform:
//
//  1. A package below this one with a type that implements Wish. Its fields are
//     the inputs; Inputs lists them with their limits (see Count, Size, Choice...),
//     and the command line makes an option of each.
//  2. Size looks figures up (Figures.Of), adds what it finds to a Result, and
//     leaves what it cannot know out, with a note. What the wish asks for and no
//     machine can give, and a plan that cannot work (a budget that does not
//     suffice, hosts for which the machine is too small), is an InputError; what is
//     only beyond what was tested is a Limit that is over.
//  3. Every Value has its why and its sources: those of the edition of the table
//     that it is from. A second figure that the source gives for the same thing
//     goes into Also.
//  4. Artefacts carry the path that they have on the machine, relative to its root,
//     or the name that the source gives them, and say what they were checked
//     against.
//  5. A line in the table sizes of internal/cli/size.go, golden tests for the
//     worked examples of the source, and the tests of TestWishes: more is never
//     answered by less, artefacts are read strictly, and no input panics.
package sizing

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/guide/rule"
)

// Wish is what somebody wants of a platform.
type Wish interface {
	// Inputs lists what can be said of it. The values go into the wish.
	Inputs() []*Input
	// Size answers it. An error that is the wish's own fault is an InputError.
	Size(ctx context.Context, f Figures) (*Result, error)
}

// Result is the answer to a wish.
type Result struct {
	Schema string `json:"schema"` // fettle/size/v1
	// Platform is "openshift", "hugepages", ...; Version the product's, "" where it
	// has none.
	Platform string `json:"platform"`
	Version  string `json:"version,omitempty"`
	// NewerVersion is the version that was asked for where it is newer than those that are
	// known: the figures are those of Version, the newest known.
	NewerVersion string     `json:"newer_version,omitempty"`
	Inputs       []Said     `json:"inputs"`
	Values       []Value    `json:"values"`
	Budgets      []Budget   `json:"budgets"`
	Limits       []Limit    `json:"limits"`
	Choices      []Choice   `json:"choices,omitempty"`
	Files        []Artefact `json:"artefacts"`
	Steps        []Step     `json:"steps"`
	Notes        []string   `json:"notes"`
	Written      *Written   `json:"written,omitempty"`
	byName       map[string]int
}

// Said is an input as the answer took it.
type Said struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is "asked", "default" or "this machine".
	From string `json:"from"`
}

// Value is one thing that the wish needs.
type Value struct {
	// Group is what it belongs to: "nodes", "network", ...
	Group string `json:"group"`
	// Name is stable: "workers". Programs find the value by group and name.
	Name  string `json:"name"`
	Value any    `json:"value"`
	Unit  string `json:"unit,omitempty"`
	// Why is the formula with its figures, or the reason, in a sentence.
	Why     string        `json:"why"`
	Sources []rule.Source `json:"sources,omitempty"`
	// Also are other figures for the same thing, such as the source's own where it
	// has forgotten something.
	Also []Figure `json:"also,omitempty"`
}

// Figure is a number that stands beside a value.
type Figure struct {
	Value any    `json:"value"`
	Unit  string `json:"unit,omitempty"`
	What  string `json:"what"`
}

// Budget is something of which there is a certain amount, and who gets it.
type Budget struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Total float64 `json:"total"`
	Parts []Part  `json:"parts"`
	Used  float64 `json:"used"`
	Left  float64 `json:"left"`
}

// Part is one share of a budget.
type Part struct {
	Name   string  `json:"name"`
	Amount float64 `json:"amount"`
}

// Limit is a maximum, and how far the wish is from it.
type Limit struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"`
	Maximum float64 `json:"maximum"`
	Wanted  float64 `json:"wanted"`
	// UsedPercent is the share of the maximum that the wish takes; more than 100 is
	// over it.
	UsedPercent float64 `json:"used_percent"`
	// Fits is how many times the wish fits: the limit with the smallest is hit first.
	Fits    float64       `json:"fits"`
	Over    bool          `json:"over"`
	Why     string        `json:"why,omitempty"`
	Sources []rule.Source `json:"sources,omitempty"`
}

// Choice is a technology for a component, with the reason for each that is not
// taken.
type Choice struct {
	For     string        `json:"for"`
	Take    string        `json:"take"` // "" where none of what there is will do
	Why     string        `json:"why"`
	Options []Option      `json:"options"`
	Sources []rule.Source `json:"sources,omitempty"`
}

// Option is one technology of a choice.
type Option struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // recommended, configurable, no
	Why     string `json:"why,omitempty"`
}

// Artefact is a file for somebody else's tool.
type Artefact struct {
	// Name is its path on the machine, relative to the root, or its name in the
	// directory from which the tool is called.
	Name    string `json:"name"`
	What    string `json:"what"`
	Checked string `json:"checked"` // what the format was checked against
	Content string `json:"content"`
	// Executable is true of a program.
	Executable bool `json:"executable,omitempty"`
}

// Step is one thing to do, in the order of the list.
type Step struct {
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Restarts is what the step interrupts: "each worker, one at a time".
	Restarts string `json:"restarts,omitempty"`
	// Check is how to see that it has worked.
	Check string `json:"check,omitempty"`
}

// NewResult is an empty answer to a wish.
func NewResult(platform, version string) *Result {
	return &Result{
		Schema: "fettle/size/v1", Platform: platform, Version: version, byName: map[string]int{},
		Inputs: []Said{}, Values: []Value{}, Budgets: []Budget{}, Limits: []Limit{}, Files: []Artefact{}, Steps: []Step{}, Notes: []string{},
	}
}

// For returns an empty answer for a version, by the table of the releases of a platform.
func For(f Figures, platform, table, version string) (*Result, error) {
	row, newer, err := KnownVersion(f, table, version)
	if err != nil {
		return nil, err
	}
	r := NewResult(platform, row)
	if newer {
		r.NewerVersion = version
	}
	return r, nil
}

// Add appends a value.
func (r *Result) Add(v Value) {
	r.byName[v.Group+"/"+v.Name] = len(r.Values)
	r.Values = append(r.Values, v)
}

// Value finds a value by group and name; nil if there is none.
func (r *Result) Value(group, name string) *Value {
	i, ok := r.byName[group+"/"+name]
	if !ok {
		return nil
	}
	return &r.Values[i]
}

// Note appends what somebody has to know and no value says.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Artefact finds a file by its name; nil if there is none.
func (r *Result) Artefact(name string) *Artefact {
	for i := range r.Files {
		if r.Files[i].Name == name {
			return &r.Files[i]
		}
	}
	return nil
}

// Spend makes a budget of its parts. One that does not suffice is no answer: who
// spends refuses the wish before.
func (r *Result) Spend(name, unit string, total float64, parts ...Part) {
	b := Budget{Name: name, Unit: unit, Total: total, Parts: parts}
	for _, p := range parts {
		b.Used += p.Amount
	}
	b.Left = round(b.Total - b.Used)
	b.Used = round(b.Used)
	r.Budgets = append(r.Budgets, b)
}

// Max adds a maximum of which something is wanted. Nothing wanted is no limit.
func (r *Result) Max(l Limit) {
	if l.Wanted <= 0 || l.Maximum <= 0 {
		return
	}
	l.UsedPercent = round(100 * l.Wanted / l.Maximum)
	l.Fits = round(l.Maximum / l.Wanted)
	l.Over = l.Wanted > l.Maximum
	r.Limits = append(r.Limits, l)
}
