package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/pod/admission"
)

// Explain prints a prediction of an admission in the screen's format. The exit code goes into
// the document.
func Explain(s *ui.Screen, p *admission.Prediction, exitCode int) error {
	d := p.Document()
	if s.Format == ui.JSON || s.Format == ui.YAML {
		return ui.Data(s, d, exitCode)
	}
	w := &writer{s: s, d: &d}
	w.head()
	w.containers()
	w.hints()
	w.pages()
	w.weights()
	w.advice()
	w.list("Worth knowing", d.Notes)
	w.list("Assumed, because it is not known", d.Assumed)
	w.list("What this does not cover", d.Limits)
	w.sources()
	return nil
}

// weights prints the CPU weights that the pod's groups will get.
func (w *writer) weights() {
	var lines []string
	for _, x := range w.d.Weights {
		lines = append(lines, x.Says())
	}
	w.list("CPU weights, by versions: nothing of the pod runs yet", lines)
}

// sources prints where the node was read.
func (w *writer) sources() {
	var lines []string
	for _, x := range w.d.Sources {
		lines = append(lines, x.What+": "+x.From)
	}
	w.list("Read from", lines)
}

type writer struct {
	s *ui.Screen
	d *admission.Document
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintln(w.s.Out, ui.Printable(fmt.Sprintf(format, args...)))
}

// title prints the title of a section.
func (w *writer) title(text string) {
	if w.s.Format == ui.Markdown {
		fmt.Fprint(w.s.Out, "\n## "+ui.Printable(text)+"\n\n")
		return
	}
	fmt.Fprint(w.s.Out, "\n"+ui.Printable(text)+"\n")
}

// head prints the verdict, the class and the policies.
func (w *writer) head() {
	d := w.d
	name := d.Pod.Name
	if d.Pod.Namespace != "" {
		name = d.Pod.Namespace + "/" + name
	}
	if d.Pod.Kind != "" && d.Pod.Kind != "Pod" {
		name += " (" + d.Pod.Kind + ")"
	}
	node := d.Node
	if node == "" {
		node = "the node"
	}
	verdict := w.s.Paint(colour(d.Verdict.Outcome), words(d.Verdict))
	fmt.Fprintf(w.s.Out, "pod %s on %s: %s", ui.Printable(name), ui.Printable(node), verdict)
	if d.Newer != "" {
		fmt.Fprintf(w.s.Out, " by the rules of Kubernetes %s (%s is newer than all that are known)", d.Kubernetes, d.Newer)
	}
	fmt.Fprintln(w.s.Out)
	if d.Verdict.Outcome != admission.Admitted {
		where := ""
		if d.Verdict.Container != "" {
			where = "container " + d.Verdict.Container + ": "
		}
		w.line("  %s%s", where, d.Verdict.Message)
	}
	if k := d.Kubelet; k != nil {
		w.line("  if it is bound to the node directly (spec.nodeName), the kubelet's verdict: %s. %s", words(*k), k.Message)
	}
	for i, problem := range d.Problems {
		if i > 0 { // the first is the message
			w.line("  %s", problem)
		}
	}
	w.line("class %s: %s", d.QoS.Class, strings.Join(d.QoS.Why, "; "))
	p := d.Policies
	w.line("CPU manager %s%s, topology manager %s%s%s, memory manager %s (rules of Kubernetes %s)",
		p.CPUManager, set(p.CPUManagerOptions), p.TopologyManager, scope(p), set(p.TopologyManagerOptions), p.MemoryManager, d.Kubernetes)
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
	if v.Reason == "" {
		return v.Outcome
	}
	return v.Outcome + ", " + v.Reason
}

func colour(outcome string) string {
	switch outcome {
	case admission.Admitted:
		return ui.Green
	case admission.Undecided, admission.Pending:
		return ui.Yellow
	}
	return ui.Red
}

// containers prints a table of each container's resources in the first course, and the
// differences in the others.
func (w *writer) containers() {
	for i, c := range w.d.Courses {
		title := "Containers, in the order in which the kubelet serves them"
		if i > 0 {
			if !different(w.d.Courses[0], c) {
				continue
			}
			title = fmt.Sprintf("If other devices are taken (%s)", words(c.Verdict))
		}
		if len(c.Containers) == 0 {
			continue
		}
		w.title(title)
		g := ui.Grid{Columns: ui.Columns("CONTAINER", "KIND", "CPUS", "NUMA", "MEMORY", "DEVICES", "BECAUSE")}
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
				w.line("")
			}
			w.line("shared pool afterwards: CPUs %s", c.Shared)
		}
		if i == 4 {
			break // the document has all
		}
	}
}

// different reports whether two courses end differently.
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

// hints prints the hints and their merge, of the pod or of each container.
func (w *writer) hints() {
	if len(w.d.Courses) == 0 {
		return
	}
	c := w.d.Courses[0]
	if c.Pod != nil {
		w.alignment("Hints for the pod as a whole", c.Pod)
	}
	for _, x := range c.Containers {
		if x.Alignment != nil {
			w.alignment("Hints for container "+x.Name, x.Alignment)
		}
	}
}

func (w *writer) alignment(title string, al *admission.AlignmentDoc) {
	w.title(title)
	g := ui.Grid{Columns: ui.Columns("MANAGER", "RESOURCE", "NUMA NODES (* PREFERRED)", "BECAUSE")}
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
	decision := "the policy admits that"
	if !al.Admit {
		decision = "the policy refuses that"
	}
	g.Rows = append(g.Rows, []string{"merged", "-", merged, decision})
	g.Write(w.s)
}

// sets formats the hints of an answer: the preferred ones, and the first of the others.
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
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "  ")
}

func (w *writer) pages() {
	if len(w.d.Pages) == 0 {
		return
	}
	w.title("Huge pages")
	g := ui.Grid{Columns: ui.Columns("RULE", "RESULT", "BECAUSE")}
	for _, r := range w.d.Pages {
		g.Rows = append(g.Rows, []string{r.Rule, r.Result, r.Why})
	}
	g.Color = func(row, col int) string {
		switch {
		case col != 1:
			return ""
		case w.d.Pages[row].Result == "pass":
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
	w.title("What to change, that first which changes the least")
	g := ui.Grid{Columns: ui.Columns("WHERE", "CHANGE", "THEN")}
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
		w.line("- %s", l)
	}
}
