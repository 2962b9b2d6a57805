package cli

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/tuned"
)

// Limits of nodes and warnings shown without --details.
const (
	shownNodes    = 12
	shownWarnings = 6
)

// statusHeadline counts the nodes by state, most harmful first.
func statusHeadline(d *nodestatus.Document) (h ui.Headline) {
	var counts []string
	for _, w := range nodestatus.States {
		if n := d.Counts[w]; n > 0 {
			counts = append(counts, h.Count(strings.ReplaceAll(string(w), "-", "_"), n, "")+" "+string(w))
		}
	}
	h.Line("%s: %s", h.Count("nodes", len(d.Nodes), "node"), dash(strings.Join(counts, ", ")))
	return h
}

// printStatus prints the document, the most harmful state first. If the user named nodes, it
// prints their history too.
func (a *app) printStatus(d *nodestatus.Document, named, details bool) {
	s := a.screen
	ui.PrintHeadline(s, &d.Headline)
	nodes := slices.Clone(d.Nodes)
	rank := func(n nodestatus.Node) int { return slices.Index(nodestatus.States, n.State) }
	slices.SortStableFunc(nodes, func(x, y nodestatus.Node) int { return rank(x) - rank(y) })
	warnings := statusWarnings(d, nodes)
	folded := []string{"0 nodes", "0 warnings"}
	if !details && !named {
		folded = []string{text.CountPlural(uint64(max(len(nodes)-shownNodes, 0)), "node", "nodes"), text.Count(max(len(warnings)-shownWarnings, 0), "warning")}
		nodes, warnings = nodes[:min(len(nodes), shownNodes)], warnings[:min(len(warnings), shownWarnings)]
	}
	g := ui.Grid{
		Columns: []ui.Column{{Head: "node"}, {Head: "state"}, {Head: "wanted"}, {Head: "applied"}, {Head: "rule", Cut: true, Optional: true}},
		Color: func(row, col int) string {
			if col != 1 {
				return ""
			}
			switch nodes[row].State {
			case nodestatus.OK:
				return ui.Green
			case nodestatus.Failed, nodestatus.Degraded, nodestatus.NoAgent:
				return ui.Red
			}
			return ui.Yellow
		},
	}
	for _, n := range nodes {
		g.Rows = append(g.Rows, []string{n.Node, string(n.State), dash(n.Wanted), dash(n.Applied), n.Rule})
	}
	section(s, "Nodes", &g)
	if len(warnings) > 0 {
		ui.Heading(s, "Warnings")
	}
	for _, w := range warnings {
		ui.PrintLine(s, "%s", w)
	}
	notShown(s, folded...)
	if named {
		a.printHistory(d.Nodes)
	}
	a.printNext(d, nodes, named)
}

// printNext prints the command that explains the first node that is not ok.
func (a *app) printNext(d *nodestatus.Document, nodes []nodestatus.Node, named bool) {
	if slices.ContainsFunc(nodes, func(n nodestatus.Node) bool { return n.Absent() != "" }) {
		ui.Heading(a.screen, "Nodes without a running agent show their last report. To find out why the agent is missing:")
		ui.PrintCommand(a.screen, fmt.Sprintf("kubectl -n %s get daemonset,pods -l %s -o wide", d.Namespace, labels.Set(nodestatus.AgentSelector)))
		return
	}
	if len(nodes) > 0 && nodes[0].State != nodestatus.OK && !named {
		ui.Heading(a.screen, "To see the values and last switches of one node:")
		ui.PrintCommand(a.screen, "kubectl fettle status "+text.Quote(nodes[0].Node))
	}
}

// statusWarnings returns the warnings: first those of the cluster, then those of single nodes, then
// those of Tuned objects.
func statusWarnings(d *nodestatus.Document, nodes []nodestatus.Node) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if d.Management != tuned.Managed {
		add("! managementState of Tuned %s is %s", tuned.DefaultName, d.Management)
	}
	for _, text := range together(nodes, absent) {
		add("! %s", text)
	}
	for _, n := range nodes {
		for _, c := range n.Conditions {
			if c.Message != "" && (c.Type == tuned.Degraded) == (c.Status == string(metav1.ConditionTrue)) {
				add("! node %s: %s is %s (%s): %s", n.Node, c.Type, c.Status, c.Reason, c.Message)
			}
		}
		for i, v := range n.Values {
			if i == maxValues {
				add("! node %s: %s not in force; see --output json", n.Node, text.Count(len(n.Values)-i, "more value"))
				break
			}
			why := ""
			if v.Why != "" {
				why = " (" + v.Why + ")"
			}
			add("! node %s: %s: want %s, has %s: %s%s", n.Node, v.Setting, dash(v.Want), dash(v.Now), v.Verdict, why)
		}
	}
	for _, o := range d.Objects {
		switch c := o.Condition(); {
		case !o.Valid:
			add("! Tuned %s is not valid: %s", o.Name, c.Message)
		case c.Message != "":
			add("- Tuned %s: %s", o.Name, c.Message)
		}
	}
	for _, tie := range together(nodes, ties) {
		add("! %s", tie)
	}
	for _, name := range d.Stray {
		add("! Profile %s: node not found", name)
	}
	return all
}
