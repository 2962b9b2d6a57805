package findings

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// Fleet has the audits of several hosts, and their differences.
type Fleet struct {
	Schema   string      `json:"schema"` // fettle/fleet/v1
	Headline ui.Headline `json:"headline"`
	Time     time.Time   `json:"time"`
	Hosts    []Asked     `json:"hosts"`
	// Differ has the findings that are bad on some hosts but differ between hosts.
	Differ []Difference `json:"differ"`
}

// Asked is a host with its audit, or with the error.
type Asked struct {
	Host  string `json:"host"`
	Error string `json:"error,omitempty"`
	Audit *Audit `json:"audit,omitempty"`
}

// Difference compares one finding on all hosts that were reached.
type Difference struct {
	ID       string `json:"id"`
	Instance string `json:"instance,omitempty"`
	Title    string `json:"title"`
	// States has the state per host that has the item.
	States   map[string]rule.State `json:"states"`
	Measured map[string]string     `json:"measured"`
}

// NewFleet returns the audits of hosts with the differences between them.
func NewFleet(when time.Time, hosts []Asked) *Fleet {
	f := &Fleet{Schema: "fettle/fleet/v1", Time: when, Hosts: hosts, Differ: []Difference{}}
	type key struct{ id, instance string }
	at := map[key]int{}
	var all []Difference
	reached := 0
	for _, h := range hosts {
		if h.Audit == nil {
			continue
		}
		reached++
		for _, x := range h.Audit.Findings {
			k := key{x.ID, x.Instance}
			i, ok := at[k]
			if !ok {
				i = len(all)
				at[k] = i
				all = append(all, Difference{x.ID, x.Instance, x.Title, map[string]rule.State{}, map[string]string{}})
			}
			all[i].States[h.Host] = x.State
			if x.Measured != nil {
				all[i].Measured[h.Host] = printed(x.Measured, x.Unit)
			}
		}
	}
	for _, d := range all {
		bad, states := false, map[rule.State]bool{}
		for _, s := range d.States {
			bad = bad || Bad(s)
			states[s] = true
		}
		if bad && (len(states) > 1 || len(d.States) < reached) {
			f.Differ = append(f.Differ, d)
		}
	}
	f.Headline = f.headline()
	return f
}

// Audits returns the audits of the hosts that were reached.
func (f *Fleet) Audits() []*Audit {
	var out []*Audit
	for _, h := range f.Hosts {
		if h.Audit != nil {
			out = append(out, h.Audit)
		}
	}
	return out
}

// says describes the finding on one host.
func (d Difference) says(host string) string {
	s, ok := d.States[host]
	if !ok {
		return "-"
	}
	sign, _ := findingSign(s)
	text := sign + " " + string(s)
	if m := d.Measured[host]; m != "" {
		text += " (" + m + ")"
	}
	return text
}

// differences returns the hosts' findings side by side.
func (f *Fleet) differences() ui.Grid {
	g := ui.Grid{Columns: ui.Columns("rule", "what")}
	for _, h := range f.Hosts {
		if h.Audit != nil {
			g.Columns = append(g.Columns, ui.Columns(h.Host)...)
		}
	}
	for _, d := range f.Differ {
		what := d.Title
		if d.Instance != "" {
			what = d.Instance + ": " + what
		}
		row := []string{d.ID, what}
		for _, h := range f.Hosts {
			if h.Audit != nil {
				row = append(row, d.says(h.Host))
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// PrintFleet prints the audits one after the other, then the differences between hosts.
func PrintFleet(s *ui.Screen, f *Fleet, v View) {
	ui.PrintHeadline(s, &f.Headline)
	if g := f.differences(); len(g.Rows) > 0 {
		g.Write(s)
	}
	for _, h := range f.Hosts {
		fmt.Fprintln(s.Out)
		fmt.Fprintln(s.Out, ui.Printable("== "+h.Host+" =="))
		if h.Audit == nil {
			fmt.Fprintln(s.Out, s.Paint(ui.Red, "✗ not checked")+": "+ui.Printable(h.Error))
			continue
		}
		Print(s, h.Audit, v)
	}
}

// headline counts the hosts and the findings that differ.
func (f *Fleet) headline() (h ui.Headline) {
	n := len(f.Audits())
	differ := h.Count("findings_differ", len(f.Differ), "finding")
	switch {
	case n < 2:
		differ = "nothing to compare"
		delete(h.Figures, "findings_differ")
	case len(f.Differ) == 1:
		differ += " differs"
	default:
		differ += " differ"
	}
	h.Line("%s of %s checked: %s", h.Count("hosts_asked", n, ""), h.Count("hosts", len(f.Hosts), "host"), differ)
	return h
}

// FleetMarkdown writes the audits of a fleet for a ticket.
func FleetMarkdown(out io.Writer, f *Fleet, all bool) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n\n", MarkdownText(strings.Join(f.Headline.Lines, "\n")))
	if g := f.differences(); len(g.Rows) > 0 {
		row := func(cells []string) {
			cells = slices.Clone(cells)
			for i := range cells {
				cells[i] = MarkdownText(cells[i])
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		}
		row(g.Heads())
		fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(g.Columns)))
		for _, r := range g.Rows {
			row(r)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range f.Hosts {
		if h.Audit == nil {
			if _, err := fmt.Fprintf(out, "# %s\n\nNot checked: %s\n\n", MarkdownText(h.Host), MarkdownText(h.Error)); err != nil {
				return err
			}
			continue
		}
		if err := Markdown(out, h.Audit, all); err != nil {
			return err
		}
	}
	return nil
}
