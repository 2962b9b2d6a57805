// Package sizing turns a request (so many pods, so much shared memory) into values, files
// and the steps in order, from the tables of the catalog. It reads no machine: the caller
// passes in the facts that a request needs.
//
// To add a platform:
//
//  1. A package below this one with a type that implements Request. Inputs lists its
//     inputs with their ranges (see Count, Size, Word...); the command line makes an
//     option of each.
//  2. Size looks figures up (Result.Table), adds values to a Result, and replaces unknown
//     values by notes. A request that no machine can meet, or whose plan cannot
//     work (a budget that does not suffice, a machine too small for the hosts), is an
//     InputError; one beyond what was tested exceeds a Limit.
//  3. Every Value has its reason and sources: those of the edition of its table. A second
//     figure of the source for the same value goes into Also.
//     A headline has the answer in numbers, the tightest limit and the most important
//     caveat (Result.InHeadline, TightestInHeadline); First selects the values that are
//     printed without --details.
//  4. Files have their path on the machine, relative to its root, or the name that the
//     source gives them, and name the program that checked their format.
//  5. A line in the table sizes of internal/cli/size.go, golden tests of the worked
//     examples of the source, and tests: more input never gives a smaller result, files
//     are parsed strictly, no input panics.
package sizing

import (
	"cmp"
	"context"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Request is the load to size for: so many pods, or connections, or hosts.
type Request interface {
	// Inputs lists the inputs. Setting one changes the request.
	Inputs() []*Input
	// Size calculates the result. An error caused by an input is an InputError.
	Size(ctx context.Context, f Figures) (*Result, error)
}

// Result is the answer to a request.
type Result struct {
	Schema   string      `json:"schema"` // fettle/size/v1
	Headline ui.Headline `json:"headline"`
	// Platform is the sized product: "openshift", "hugepages", ... Version is its version, or "".
	Platform string `json:"platform"`
	Version  string `json:"version,omitempty"`
	// NewerVersion is the requested version if it is newer than all known ones. Version is then
	// the newest known one, whose figures are used.
	NewerVersion string       `json:"newer_version,omitempty"`
	Inputs       []InputValue `json:"inputs"`
	Values       []Value      `json:"values"`
	Budgets      []Budget     `json:"budgets"`
	Limits       []Limit      `json:"limits"`
	Choices      []Choice     `json:"choices,omitempty"`
	Files        []Artefact   `json:"artefacts"`
	Steps        []Step       `json:"steps"`
	Notes        []string     `json:"notes"`
	Written      *Written     `json:"written,omitempty"`

	byName  map[string]int
	first   []string // keys of the values in the default output
	figures Figures
	err     error // the first missing table or figure
}

// InputValue is an input with the value that the calculation used.
type InputValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is "asked" (by the user), "default" or "this machine".
	From string `json:"from"`
}

// Value is one calculated value.
type Value struct {
	// Group is the subject: "nodes", "network", ...
	Group string `json:"group"`
	// Name is stable, such as "workers". Programs find the value by group and name.
	Name  string `json:"name"`
	Value any    `json:"value"`
	Unit  string `json:"unit,omitempty"`
	// Why is the formula with its figures, or the reason.
	Why     string        `json:"why"`
	Sources []rule.Source `json:"sources,omitempty"`
	// Also has other figures for the same value, such as the source's figure if the source ignores
	// a cost.
	Also []Figure `json:"also,omitempty"`
}

// Figure is an alternative to a value.
type Figure struct {
	Value any    `json:"value"`
	Unit  string `json:"unit,omitempty"`
	What  string `json:"what"`
}

// Budget is a limited amount and its consumers.
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

// Limit is a maximum, with the share that the request uses.
type Limit struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"`
	Maximum float64 `json:"maximum"`
	Wanted  float64 `json:"wanted"`
	// UsedPercent is the used share of the maximum in percent; above 100 it is exceeded.
	UsedPercent float64 `json:"used_percent"`
	// Fits is how many times the request fits into the maximum. The limit with the smallest Fits
	// is reached first.
	Fits    float64       `json:"fits"`
	Over    bool          `json:"over"`
	Why     string        `json:"why,omitempty"`
	Sources []rule.Source `json:"sources,omitempty"`
}

// Choice is the selected technology for a component, with the reasons against the alternatives.
type Choice struct {
	For     string        `json:"for"`
	Take    string        `json:"take"` // "" if no available technology is suitable
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

// Artefact is a file for another program.
type Artefact struct {
	// Name is the file's path on the machine, relative to the root, or its name in the program's
	// working directory.
	Name       string `json:"name"`
	What       string `json:"what"`
	Checked    string `json:"checked"` // the program or types that checked the format
	Content    string `json:"content"`
	Executable bool   `json:"executable,omitempty"`
}

// Step is one action; steps are listed in order.
type Step struct {
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Restarts names the programs that the step interrupts: "each worker, one at a time".
	Restarts string `json:"restarts,omitempty"`
	// Check describes how to verify the step.
	Check string `json:"check,omitempty"`
}

// NewResult returns an empty result that uses the figures in f. The version "" means the newest.
func NewResult(f Figures, platform, version string) *Result {
	return &Result{
		Schema: "fettle/size/v1", Platform: platform, Version: version, byName: map[string]int{}, figures: f,
		Inputs: []InputValue{}, Values: []Value{}, Budgets: []Budget{}, Limits: []Limit{}, Files: []Artefact{}, Steps: []Step{}, Notes: []string{},
	}
}

// For returns an empty result for a version. The version must be in a table of releases or newer
// than all its rows.
func For(f Figures, platform, table, version string) (*Result, error) {
	row, newer, err := KnownVersion(f, table, version)
	if err != nil {
		return nil, err
	}
	r := NewResult(f, platform, row)
	if newer {
		r.NewerVersion = version
		r.Headline.Line("%s %s is newer than all known versions; the figures of %s are used", platform, version, row)
	}
	return r, nil
}

// Add appends a value.
func (r *Result) Add(v Value) {
	r.byName[v.Group+"/"+v.Name] = len(r.Values)
	r.Values = append(r.Values, v)
}

// Table returns the edition of a table for the result's version. If the table is missing, Err
// returns the error, and the edition is empty.
func (r *Result) Table(name string) *Edition { return r.edition(name, r.Version) }

// HasTable reports whether a table has an edition for the version of the result.
func (r *Result) HasTable(name string) bool {
	_, err := Of(r.figures, name, r.Version)
	return err == nil
}

// Newest returns the newest edition of a table; it is for tables without versions.
func (r *Result) Newest(name string) *Edition { return r.edition(name, "") }

func (r *Result) edition(name, version string) *Edition {
	e, err := Of(r.figures, name, version)
	if err != nil {
		e = &Edition{Edition: &rule.Edition{}, table: name}
		r.err = cmp.Or(r.err, err)
	}
	e.err = &r.err
	return e
}

// Err returns the error about the first missing table or figure.
func (r *Result) Err() error { return r.err }

// Value returns a value by group and name, or nil.
func (r *Result) Value(group, name string) *Value {
	i, ok := r.byName[group+"/"+name]
	if !ok {
		return nil
	}
	return &r.Values[i]
}

// Note appends a sentence about something that no value covers.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, text.Sprintf(format, args...))
}

// Artefact returns a file by its name, or nil.
func (r *Result) Artefact(name string) *Artefact {
	for i := range r.Files {
		if r.Files[i].Name == name {
			return &r.Files[i]
		}
	}
	return nil
}

// Spend adds a budget and its consumers. The caller must reject a request that exceeds the budget.
func (r *Result) Spend(name, unit string, total float64, parts ...Part) {
	b := Budget{Name: name, Unit: unit, Total: total, Parts: parts}
	for _, p := range parts {
		b.Used += p.Amount
	}
	b.Left = Round(b.Total - b.Used)
	b.Used = Round(b.Used)
	r.Budgets = append(r.Budgets, b)
}

// Max adds a limit. It ignores a limit with nothing used.
func (r *Result) Max(l Limit) {
	if l.Wanted <= 0 || l.Maximum <= 0 {
		return
	}
	l.UsedPercent = Round(100 * l.Wanted / l.Maximum)
	l.Fits = Round(l.Maximum / l.Wanted)
	l.Over = l.Wanted > l.Maximum
	r.Limits = append(r.Limits, l)
}
