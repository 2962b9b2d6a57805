package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

// kubeletHeadline counts the nodes that would change, and the refusals.
func kubeletHeadline(p *kubelet.Plan) (h ui.Headline) {
	classes := map[string]int{}
	nodes, changed, moves, refused, unread, pools := 0, 0, 0, 0, 0, 0
	for _, pool := range p.Pools {
		if pool.Refused != "" {
			pools++
		}
		for _, n := range pool.Nodes {
			nodes++
			switch {
			case n.Unread:
				unread++
			case n.Problem != "":
				refused++
			case n.Order > 0:
				changed++
				classes[n.Class]++
				moves += n.Moves
			}
		}
	}
	var takes []string
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		takes = append(takes, h.Count(strings.ReplaceAll(class, " ", "_"), classes[class], "")+" "+class)
	}
	line := fmt.Sprintf("%s of %s would change", h.Count("nodes_changed", changed, ""), h.Count("nodes", nodes, "node"))
	if len(takes) > 0 {
		line += ": " + strings.Join(takes, ", ")
	}
	if moves > 0 {
		line += "; " + h.Count("pods_moved", moves, "pod") + " would move"
	}
	h.Line("%s", line)
	var bad []string
	for _, x := range []struct {
		n                int
		name, noun, what string
	}{{pools, "pools_refused", "pool", "would be refused"}, {refused, "nodes_refused", "node", "would refuse"}, {unread, "nodes_unread", "node", "could not be read"}} {
		if x.n > 0 {
			bad = append(bad, h.Count(x.name, x.n, x.noun)+" "+x.what)
		}
	}
	if len(bad) > 0 {
		h.Line("%s", strings.Join(bad, ", "))
	}
	return h
}

// printKubeletPlan prints the pools. In each pool, nodes that would not change as planned come
// first.
func (a *app) printKubeletPlan(p *kubelet.Plan, details bool) {
	s := a.screen
	ui.PrintHeadline(s, &p.Headline)
	folded := 0
	for _, pool := range p.Pools {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "pool %s: %s", pool.Name, poolWords(pool))
		for _, n := range pool.Notes {
			ui.PrintLine(s, "! %s", n)
		}
		for _, r := range pool.Releases {
			for _, text := range releaseWords(r) {
				ui.PrintLine(s, "! %s", text)
			}
		}
		folded += printPoolNodes(s, pool.Nodes, details)
	}
	if len(p.Pools) == 0 {
		ui.PrintLine(s, "! no pool; create a KubeletPool that selects nodes (a KubeletConfig selects pools by label)")
	}
	for _, name := range p.Unselected {
		ui.PrintLine(s, "! KubeletConfig %s selects no pool", name)
	}
	for _, n := range p.Notes {
		ui.PrintLine(s, "! %s", n)
	}
	notShown(s, text.CountPlural(uint64(folded), "node", "nodes"))
}

// printPoolNodes prints a pool's nodes. It returns the number of nodes that only --details shows.
func printPoolNodes(s *ui.Screen, all []kubelet.NodePlan, details bool) (folded int) {
	nodes := slices.Clone(all)
	rank := func(n kubelet.NodePlan) int {
		switch {
		case n.Problem != "":
			return 0
		case n.Held != "":
			return 1
		case n.Order > 0:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(nodes, func(x, y kubelet.NodePlan) int { return cmp.Or(rank(x)-rank(y), x.Order-y.Order) })
	if !details {
		nodes = nodes[:min(len(nodes), shownNodes)]
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "order"}, {Head: "node"}, {Head: "takes"}, {Head: "settings"}, {Head: "why not", Below: true}}}
	for _, n := range nodes {
		order := "-"
		if n.Order > 0 {
			order = fmt.Sprint(n.Order)
		}
		if n.Now {
			order += " (at once)"
		}
		takes := n.Class
		if n.Moves > 0 {
			takes += fmt.Sprintf(" (%s)", text.Count(n.Moves, "pod"))
		}
		g.Rows = append(g.Rows, []string{order, n.Name, takes, strings.Join(n.Settings, ", "), cmp.Or(n.Problem, n.Held)})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
	return len(all) - len(nodes)
}

// releaseWords returns lines on how a release's kubelets treat the settings.
func releaseWords(r kubelet.ReleasePlan) []string {
	who := fmt.Sprintf("Kubernetes %s (%s): ", r.Kubernetes, cluster.First(r.Nodes, 3))
	if r.Kubernetes == "" {
		who = cluster.First(r.Nodes, 3) + ": "
	}
	var out []string
	for _, f := range r.Refused {
		out = append(out, who+"the kubelet would not start: "+f.String())
	}
	for _, all := range [][]kuberelease.Finding{r.Ignored, r.Changed, r.Unknown} {
		for _, f := range all {
			out = append(out, who+f.String())
		}
	}
	if r.Unjudged != "" {
		out = append(out, who+"not checked: "+r.Unjudged)
	}
	return out
}

// poolWords describes the settings that a pool gets.
func poolWords(p kubelet.PoolPlan) string {
	switch {
	case p.Refused != "":
		return "refused: " + strings.ReplaceAll(p.Refused, "\n", "; ")
	case len(p.Settings) == 0 && !slices.ContainsFunc(p.Nodes, func(n kubelet.NodePlan) bool { return n.Class != kubelet.Nothing.String() }):
		return nothingFrom(p.KubeletConfigs)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Settings)) {
		value, _ := json.Marshal(p.Settings[name])
		all = append(all, name+" "+string(value))
	}
	out := strings.Join(all, ", ") + " from " + strings.Join(p.KubeletConfigs, ", ")
	if len(all) == 0 { // the nodes restore their former values
		out = nothingFrom(p.KubeletConfigs)
	}
	out += fmt.Sprintf("; at most %s unavailable at a time", text.Count(p.MaxUnavailable, "node"))
	if p.Stopped != "" {
		out += "; " + p.Stopped
	}
	return out
}

// nothingFrom explains why a pool gets no settings.
func nothingFrom(configs []string) string {
	if len(configs) == 0 {
		return "no KubeletConfig selects it"
	}
	return "no settings from " + strings.Join(configs, ", ")
}
