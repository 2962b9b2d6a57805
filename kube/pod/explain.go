package pod

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/pod/admission"
)

// Explanation is a prediction with its headline.
type Explanation struct {
	admission.Document
	Headline ui.Headline `json:"headline"`
}

// Explain prints a prediction in the screen's format: verdict, advice and CPUs; with details also
// the steps of the decision and what predictions do not cover. The document contains exitCode.
func Explain(s *ui.Screen, p *admission.Prediction, exitCode int, details bool) error {
	e := Explanation{Document: p.Document()}
	w := &writer{s: s, d: &e.Document, details: details}
	e.Headline = w.headline()
	if s.Format == ui.JSON || s.Format == ui.YAML {
		return ui.Data(s, e, exitCode)
	}
	ui.PrintHeadline(s, &e.Headline)
	w.advice()
	w.containers()
	w.rules()
	w.hints()
	w.pages()
	w.weights()
	w.list("Worth knowing", w.d.Notes)
	w.list("Assumptions, because these facts are unknown", w.d.Assumed)
	if details {
		w.list("What this does not cover", w.d.Limits)
		w.sources()
	} else {
		w.left(len(w.d.Limits), "limit of the prediction", "limits of the prediction")
		w.left(len(w.d.Sources), "source", "sources")
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "Not shown: %s (--details)", strings.Join(w.folded, ", "))
	}
	return nil
}

// left counts lines that only --details shows.
func (w *writer) left(n int, one, more string) {
	if n > 0 {
		w.folded = append(w.folded, text.CountPlural(uint64(n), one, more))
	}
}

// weights prints the CPU weights that the pod's groups will get.
func (w *writer) weights() {
	if !w.details {
		w.left(len(w.d.Weights), "CPU weight", "CPU weights")
		return
	}
	var lines []string
	for _, x := range w.d.Weights {
		lines = append(lines, x.Says())
	}
	w.list("CPU weights, by versions: nothing of the pod runs yet", lines)
}

// sources prints the sources of the node's data.
func (w *writer) sources() {
	var lines []string
	for _, x := range w.d.Sources {
		lines = append(lines, x.What+": "+x.From)
	}
	w.list("Read from", lines)
}

type writer struct {
	s       *ui.Screen
	d       *admission.Document
	details bool
	// folded counts the parts that only --details shows.
	folded []string
}

// title prints a section's title.
func (w *writer) title(text string) { ui.Heading(w.s, ui.Line(text)) }

// headline summarizes the verdict, violated rules, and the smallest change that helps.
func (w *writer) headline() (h ui.Headline) {
	d := w.d
	name := d.Pod.Name
	if d.Pod.Namespace != "" {
		name = d.Pod.Namespace + "/" + name
	}
	if d.Pod.Kind != "" && d.Pod.Kind != "Pod" {
		name += " (" + d.Pod.Kind + ")"
	}
	verdict := words(d.Verdict)
	if d.Newer != "" {
		verdict += fmt.Sprintf(" by the rules of Kubernetes %s (%s is newer than all known versions)", d.Kubernetes, d.Newer)
	}
	if d.Verdict.Outcome != admission.Admitted {
		if d.Verdict.Container != "" {
			verdict += ": container " + d.Verdict.Container
		}
		verdict += ": " + d.Verdict.Message
	}
	h.Line("pod %s on %s: %s", name, cmp.Or(d.Node, "the node"), verdict)
	if k := d.Kubelet; k != nil {
		h.Line("with spec.nodeName, which bypasses the scheduler: %s", strings.TrimSuffix(words(*k)+": "+k.Message, ": "))
	}
	var next []string
	if broken := w.broken(); len(broken) > 0 {
		next = append(next, fmt.Sprintf("%s of %s not met: %s", h.Count("huge_page_rules_broken", len(broken), ""), h.Count("huge_page_rules", len(d.Pages), "huge page rule"), broken[0].Why))
	}
	helps := slices.DeleteFunc(slices.Clone(d.Advice), func(a admission.Advice) bool { return !strings.HasPrefix(a.Then, admission.Admitted) })
	if d.Verdict.Outcome != admission.Admitted && len(helps) > 0 {
		next = append(next, fmt.Sprintf("%s would make the node admit the pod; the smallest (%s): %s", h.Count("changes", len(helps), "change"), helps[0].Where, helps[0].Change))
	}
	if len(next) > 0 {
		h.Line("%s", strings.Join(next, ". "))
	}
	return h
}

// broken returns the violated huge page rules.
func (w *writer) broken() []admission.PageRule {
	return slices.DeleteFunc(slices.Clone(w.d.Pages), func(r admission.PageRule) bool { return r.Result == Pass })
}

// rules prints further problems, the class and the policies.
func (w *writer) rules() {
	d := w.d
	if len(d.Problems) > 1 { // the first is in the message
		w.list("More problems", d.Problems[1:])
	}
	why := ""
	if w.details {
		why = ": " + strings.Join(d.QoS.Why, "; ")
	}
	fmt.Fprintln(w.s.Out)
	p := d.Policies
	rules := ""
	if d.Kubernetes != "" {
		rules = " (rules of Kubernetes " + d.Kubernetes + ")"
	}
	ui.PrintLine(w.s, "Class %s%s; CPU manager %s%s, topology manager %s%s%s, memory manager %s%s",
		d.QoS.Class, why, p.CPUManager, set(p.CPUManagerOptions), p.TopologyManager, scope(p), set(p.TopologyManagerOptions), p.MemoryManager, rules)
}

func scope(p admission.Policies) string {
	if p.TopologyManager == admission.PolicyNone {
		return ""
	}
	return " for each " + p.TopologyManagerScope
}

func set(options map[string]string) string {
	if len(options) == 0 {
		return ""
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out = append(out, name+"="+options[name])
	}
	return " (" + strings.Join(out, ", ") + ")"
}

func words(v admission.Verdict) string {
	outcome := v.Outcome
	if outcome == admission.Pending {
		outcome = "stays Pending"
	}
	if v.Reason == "" {
		return outcome
	}
	return outcome + ", " + v.Reason
}

// containers prints a table of each container's resources in the first course, and the
// differences in the others.
func (w *writer) containers() {
	others := 0
	for i, c := range w.d.Courses {
		title := "Containers, in the order in which the kubelet serves them"
		if i > 0 {
			if !different(w.d.Courses[0], c) {
				continue
			}
			if others++; !w.details || others > 4 { // the document has all of them
				continue
			}
			title = fmt.Sprintf("If other devices are taken (%s)", words(c.Verdict))
		}
		if len(c.Containers) == 0 {
			continue
		}
		w.title(title)
		g := ui.Grid{Columns: []ui.Column{{Head: "container"}, {Head: "kind"}, {Head: "cpus"}, {Head: "numa"}, {Head: "memory"}, {Head: "devices"}, {Head: "because", Wide: !w.details, Cut: true}}}
		for _, x := range c.Containers {
			cpus := "shared"
			if x.CPUs != "" {
				cpus = x.CPUs
			} else if x.Exclusive {
				cpus = "none"
			}
			var memory, devices []string
			for _, b := range x.Memory {
				memory = append(memory, fmt.Sprintf("%s %s on %s", b.Resource, admission.Bytes(b.SizeBytes), nodes(b.Nodes)))
			}
			for _, v := range x.Devices {
				list := strings.Join(v.Devices, " ")
				if !v.Certain {
					list += " or others"
				}
				devices = append(devices, v.Resource+" "+list)
			}
			g.Rows = append(g.Rows, []string{x.Name, x.Kind, cpus, nodes(x.CPUNodes), dash(memory), dash(devices), x.Why})
		}
		g.Write(w.s)
		if c.Shared != "" && c.Verdict.Outcome == admission.Admitted {
			if w.s.Format == ui.Markdown {
				fmt.Fprintln(w.s.Out)
			}
			ui.PrintLine(w.s, "CPUs of the shared pool afterwards: %s", c.Shared)
		}
	}
	if w.details {
		others = max(others-4, 0)
	}
	w.left(others, "other outcome if other devices are taken", "other outcomes if other devices are taken")
}

// different reports whether two courses have different results.
func different(a, b admission.Course) bool {
	if a.Verdict.Outcome != b.Verdict.Outcome || a.Verdict.Reason != b.Verdict.Reason || len(a.Containers) != len(b.Containers) {
		return true
	}
	for i := range a.Containers {
		if a.Containers[i].CPUs != b.Containers[i].CPUs {
			return true
		}
	}
	return false
}

func dash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// nodes formats a list of NUMA nodes.
func nodes(list []int) string {
	if len(list) == 0 {
		return "-"
	}
	return admission.NodesOf(list).String()
}

// hints prints the hints of the pod or of each container, and their merge.
func (w *writer) hints() {
	if len(w.d.Courses) == 0 {
		return
	}
	c := w.d.Courses[0]
	folded := 0
	show := func(title string, al *admission.AlignmentDoc) {
		switch {
		case al == nil:
		case w.details:
			w.alignment(title, al)
		default:
			folded++
		}
	}
	show("Hints for the pod as a whole", c.Pod)
	for _, x := range c.Containers {
		show("Hints for container "+x.Name, x.Alignment)
	}
	w.left(folded, "table of NUMA hints", "tables of NUMA hints")
}

func (w *writer) alignment(title string, al *admission.AlignmentDoc) {
	w.title(title)
	g := ui.Grid{Columns: []ui.Column{{Head: "manager"}, {Head: "resource"}, {Head: "nodes (* preferred)"}, {Head: "because", Below: true}}}
	for _, a := range al.Answers {
		resource := a.Resource
		if resource == "" {
			resource = "-"
		}
		g.Rows = append(g.Rows, []string{a.Provider, resource, sets(a), a.Why})
	}
	merged := "anywhere"
	if al.Nodes != nil {
		merged = nodes(al.Nodes)
	}
	if al.Preferred {
		merged += "*"
	}
	decision := "the policy admits this alignment"
	if !al.Admit {
		decision = "the policy refuses this alignment"
	}
	g.Rows = append(g.Rows, []string{"merged", "-", merged, decision})
	g.Write(w.s)
}

// sets formats an answer's hints: the preferred ones, and the first of the others.
func sets(a admission.AnswerDoc) string {
	switch a.Opinion {
	case "any":
		return "any"
	case "none":
		return "nowhere"
	}
	const room = 8
	var out []string
	for _, preferred := range []bool{true, false} {
		for _, h := range a.Hints {
			if h.Preferred != preferred || len(out) == room {
				continue
			}
			word := nodes(h.Nodes)
			if h.Preferred {
				word += "*"
			}
			out = append(out, word)
		}
	}
	if more := a.HintsCount - len(out); more > 0 {
		out = append(out, text.Sprintf("and %d more", more))
	}
	return strings.Join(out, "  ")
}

// pages prints the rules for huge pages.
func (w *writer) pages() {
	rules := w.d.Pages
	if !w.details {
		w.left(len(rules), "huge page rule", "huge page rules")
		return
	}
	if len(rules) == 0 {
		return
	}
	w.title("Huge pages")
	g := ui.Grid{Columns: []ui.Column{{Head: "result"}, {Head: "rule"}, {Head: "because", Below: true}}}
	for _, r := range rules {
		g.Rows = append(g.Rows, []string{r.Result, r.Rule, r.Why})
	}
	g.Color = func(row, col int) string {
		switch {
		case col != 0:
			return ""
		case rules[row].Result == Pass:
			return ui.Green
		}
		return ui.Red
	}
	g.Write(w.s)
}

func (w *writer) advice() {
	if len(w.d.Advice) == 0 {
		return
	}
	w.title("What to change, the smallest change first")
	g := ui.Grid{Columns: []ui.Column{{Head: "where"}, {Head: "change"}, {Head: "then", Below: true}}}
	for _, a := range w.d.Advice {
		g.Rows = append(g.Rows, []string{a.Where, a.Change, a.Then})
	}
	g.Write(w.s)
}

func (w *writer) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	w.title(title)
	for _, l := range lines {
		ui.PrintLine(w.s, "- %s", l)
	}
}
