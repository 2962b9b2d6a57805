package compare

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Schema is the schema of Result in JSON.
const Schema = "fettle/facts-compare/v1"

// Result is a comparison of machines.
type Result struct {
	Schema   string      `json:"schema"` // fettle/facts-compare/v1
	Headline ui.Headline `json:"headline"`
	Machines []Machine   `json:"machines"`
	// NotRead lists what is not an archive or a copy of a machine, or is damaged.
	NotRead []NotRead `json:"not_read"`
	// Settings are the settings that differ, those of the fewest machines first.
	Settings []Difference `json:"settings"`
	// Facts are the properties of hardware and system that differ.
	Facts []Difference `json:"facts"`
	// Folded are the differences that are to be expected, with the reason.
	Folded []Difference `json:"folded"`
	// NotCompared is the number of values that are unknown on some machines and equal on all
	// others.
	NotCompared int `json:"not_compared"`
}

// Machine is a machine of a comparison.
type Machine struct {
	Name     string `json:"name"` // as the argument, without directory and suffix
	Hostname string `json:"hostname,omitempty"`
	// Deviates is the number of settings for which most other machines have another value.
	Deviates int `json:"deviates"`
	// Incomplete describes the missing part of a truncated archive.
	Incomplete string `json:"incomplete,omitempty"`
}

// NotRead is an argument that could not be read.
type NotRead struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// Difference is one value, or the same value of several devices, that differs between machines.
type Difference struct {
	Name string `json:"name"` // with the devices in braces
	// Names are the names that fettle facts and fettle why take.
	Names []string `json:"names"`
	// Values are the values, the most frequent one first; those of two machines in their order.
	Values []Held `json:"values"`
	// Unknown are the machines where the value is unknown.
	Unknown []string `json:"unknown,omitempty"`
	// Folded is why the difference is to be expected.
	Folded string `json:"folded,omitempty"`
	// OtherValues is the number of further values of a folded difference.
	OtherValues int `json:"other_values,omitempty"`
}

// Held is a value and the machines that have it.
type Held struct {
	Value *string `json:"value"` // null if the machines lack it
	// Majority is true if more than half of the machines have the value.
	Majority bool `json:"majority,omitempty"`
	Count    int  `json:"count"`
	// Machines are the machines with the value; empty for the majority.
	Machines []string `json:"machines,omitempty"`
	// SetBy says what sets the value on the first of the machines.
	SetBy []Source `json:"set_by,omitempty"`
}

// Source is what sets a value on a machine.
type Source struct {
	Machine string `json:"machine"`
	By      string `json:"by"` // sysctl.d, kernel command line, TuneD, ...
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	// Value is the value in the file if the machine has another one.
	Value *string `json:"value,omitempty"`
}

// Place returns FILE:LINE.
func (s Source) Place() string {
	if s.Line > 0 {
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return s.File
}

// Question asks what sets the value of a setting.
type Question struct {
	At   string // path of the setting
	Text string // the value on the machine
}

// Lookup answers questions about one machine. An answer is nil if nothing sets the value.
type Lookup func(machine int, questions []Question) []*Source

const (
	maxLookups = 64 // machines whose files are read for sources
	maxAsked   = 3  // machines of one value that are asked
	maxFolded  = 3  // values of a difference that is to be expected
)

// Result returns the differences. lookup may be nil.
func (c *Comparison) Result(ctx context.Context, lookup Lookup) *Result {
	all, notCompared := c.differences()
	if lookup != nil {
		c.lookUp(ctx, all, lookup)
	}
	c.foldFollowers(all)
	r := &Result{
		Schema: Schema, Machines: slices.Clone(c.machines), NotRead: []NotRead{}, NotCompared: notCompared,
		Settings: []Difference{}, Facts: []Difference{}, Folded: []Difference{},
	}
	deviates := make([]int, len(c.machines))
	for _, row := range rows(all) {
		d := c.exported(row)
		switch first := row[0]; {
		case first.fold != "":
			r.Folded = append(r.Folded, d)
		case first.isSetting():
			r.Settings = append(r.Settings, d)
			if first.majority(0) && len(c.machines) > 2 {
				for _, g := range first.groups[1:] {
					for _, m := range g.on {
						deviates[m]++
					}
				}
			}
		default:
			r.Facts = append(r.Facts, d)
		}
	}
	for i, n := range deviates {
		r.Machines[i].Deviates = n
	}
	for _, list := range [][]Difference{r.Settings, r.Facts} {
		slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.deviating(), b.deviating()) })
	}
	slices.SortStableFunc(r.Folded, func(a, b Difference) int { return cmp.Compare(a.Folded, b.Folded) })
	return r
}

// deviating returns the number of machines that deviate from the majority. Without a majority it is
// the number of all.
func (d Difference) deviating() (n int) {
	for _, h := range d.Values {
		if !h.Majority {
			n += h.Count
		}
	}
	return n
}

// majority reports whether more than half of the machines with a known value are in a group.
func (d *difference) majority(group int) bool {
	known := 0
	for _, g := range d.groups {
		known += len(g.on)
	}
	return len(d.groups[group].on)*2 > known
}

// lookUp finds what sets the values that differ. It asks the machines about which it has the most
// questions first.
func (c *Comparison) lookUp(ctx context.Context, all []*difference, lookup Lookup) {
	type question struct {
		Question
		to *[]Source
	}
	by := map[int][]question{}
	for _, d := range all {
		if d.fold != "" || !d.isSetting() {
			continue
		}
		for i, g := range d.groups {
			asked := maxAsked
			if d.majority(i) || len(d.groups) > 8 {
				asked = 1
			}
			for _, m := range g.on[:min(asked, len(g.on))] {
				switch {
				case g.id < idTexts:
				case d.scope == "kernel.parameters":
					d.sources[i] = append(d.sources[i], Source{Machine: c.machines[m].Name, By: "kernel command line", File: "/proc/cmdline"})
				case isFile(d.at):
					by[m] = append(by[m], question{Question{d.at, c.texts[g.id]}, &d.sources[i]})
				}
			}
		}
	}
	order := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(by[b]), len(by[a])) })
	for _, m := range order[:min(len(order), maxLookups)] {
		if ctx.Err() != nil {
			return
		}
		questions := make([]Question, len(by[m]))
		for i, q := range by[m] {
			questions[i] = q.Question
		}
		for i, s := range lookup(m, questions) {
			if s != nil {
				s.Machine = c.machines[m].Name
				*by[m][i].to = append(*by[m][i].to, *s)
			}
		}
	}
	for _, d := range all {
		for i := range d.sources {
			slices.SortFunc(d.sources[i], func(a, b Source) int { return fact.Natural(a.Machine, b.Machine) })
		}
	}
}

// rows joins the differences of devices and elements that are the same: one row stands for all.
func rows(all []*difference) (out [][]*difference) {
	at := map[string]int{}
	for _, d := range all {
		if d.item == "" {
			out = append(out, []*difference{d})
			continue
		}
		var same strings.Builder
		fmt.Fprintf(&same, "%s|%s|%v", d.pattern, d.fold, d.unknown)
		for _, g := range d.groups {
			fmt.Fprintf(&same, "|%d%v", g.id, g.on)
		}
		for _, s := range slices.Concat(d.sources...) {
			fmt.Fprintf(&same, "|%s %s", s.Machine, s.Place())
		}
		i, ok := at[same.String()]
		if !ok {
			i = len(out)
			at[same.String()] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], d)
	}
	return out
}

// exported returns a row.
func (c *Comparison) exported(row []*difference) Difference {
	first := row[0]
	d := Difference{Name: rowName(row), Folded: string(first.fold), Unknown: c.namesOf(first.unknown)}
	for _, x := range row {
		d.Names = append(d.Names, x.name)
	}
	for i, g := range first.groups {
		if first.fold != "" && i == maxFolded && len(first.groups) > maxFolded+1 {
			d.OtherValues = len(first.groups) - i
			break
		}
		h := Held{Count: len(g.on), SetBy: first.sources[i]}
		if g.id != idAbsent {
			h.Value = &c.texts[g.id]
		}
		if h.Majority = len(c.machines) > 2 && first.majority(i); !h.Majority {
			h.Machines = c.namesOf(g.on)
		}
		d.Values = append(d.Values, h)
	}
	if len(c.machines) == 2 {
		slices.SortFunc(d.Values, func(a, b Held) int {
			return cmp.Compare(slices.Index(c.namesOf([]int{0, 1}), a.Machines[0]), slices.Index(c.namesOf([]int{0, 1}), b.Machines[0]))
		})
	}
	return d
}

// rowName returns the name of a row, with its devices in braces.
func rowName(row []*difference) string {
	first := row[0]
	i := strings.LastIndex(first.pattern, "*")
	if len(row) == 1 || i < 0 {
		return first.name
	}
	var items []string
	for _, d := range row {
		if !slices.Contains(items, d.item) {
			items = append(items, d.item)
		}
	}
	all := strings.Join(items, ",")
	if len(items) > 2 {
		all = items[0] + ".." + items[len(items)-1]
	}
	return first.pattern[:i] + "{" + all + "}" + first.pattern[i+1:]
}

// Conclude sets the headline.
func (r *Result) Conclude() {
	h := ui.Headline{}
	differ := h.Count("settings_differ", len(r.Settings), "setting")
	switch n := len(r.Machines); {
	case n == 2:
		oneSided := 0
		for _, d := range r.Settings {
			if sides := d.sides(); sides == 1 {
				oneSided++
			}
		}
		line := "no setting differs"
		if len(r.Settings) > 0 {
			line = differ + differs(len(r.Settings))
		}
		if oneSided == 1 && len(r.Settings) == 1 {
			h.Count("set_on_one_side", oneSided, "")
			line += "; a file on one side sets it"
		} else if oneSided > 0 {
			line += "; " + h.Count("set_on_one_side", oneSided, "") + " of them " + isAre(oneSided) + " set by files on one side only"
		}
		h.Line("%s", line)
	default:
		h.Line("%s", r.deviations(&h, n))
	}
	if n := len(r.Facts); n > 0 {
		h.Line("hardware and system: %s", h.Count("facts_differ", n, "fact")+differs(n))
	}
	var more []string
	if n := len(r.Folded); n > 0 {
		more = append(more, h.Count("folded", n, "expected difference")+" not listed (--all)")
	}
	if r.NotCompared > 0 {
		more = append(more, h.Count("not_compared", r.NotCompared, "value")+" unknown on some machines")
	}
	if n := len(r.NotRead); n > 0 {
		more = append(more, h.Count("not_read", n, "machine")+" not read")
	}
	if len(more) > 0 {
		h.Line("%s", strings.Join(more, "; "))
	}
	r.Headline = h
}

// deviations returns the first line for more than two machines.
func (r *Result) deviations(h *ui.Headline, n int) string {
	line := h.Count("machines", n, "machine") + ": "
	deviating, split, machines, most := 0, 0, 0, 0
	for _, d := range r.Settings {
		if d.Values[0].Majority {
			deviating++
		} else {
			split++
		}
	}
	for i, m := range r.Machines {
		if m.Deviates > 0 {
			machines++
		}
		if m.Deviates > r.Machines[most].Deviates {
			most = i
		}
	}
	switch {
	case len(r.Settings) == 0:
		return line + "no setting differs"
	case deviating > 0:
		verb := " deviate on "
		if deviating == 1 {
			verb = " deviates on "
		}
		line += h.Count("settings_deviate", deviating, "setting") + verb + h.Count("machines_deviate", machines, "machine")
		if machines > 1 {
			line += "; host " + r.Machines[most].Name + " deviates most"
		} else {
			line += ", " + r.Machines[most].Name
		}
	}
	if split > 0 {
		if deviating > 0 {
			line += "; "
		}
		has := " have no majority"
		if split == 1 {
			has = " has no majority"
		}
		line += h.Count("settings_without_majority", split, "setting") + has
	}
	return line
}

// sides returns on how many of two machines a file or profile sets the value.
func (d Difference) sides() (n int) {
	for _, h := range d.Values {
		if len(h.SetBy) > 0 {
			n++
		}
	}
	return n
}

func differs(n int) string {
	if n == 1 {
		return " differs"
	}
	return " differ"
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// foldCounts returns the number of folded differences by reason.
func (r *Result) foldCounts() (lines []string) {
	counts := map[string]int{}
	for _, d := range r.Folded {
		counts[d.Folded]++
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, text.Sprintf("%s (%d)", reason, counts[reason]))
	}
	return lines
}
