package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
)

// Input is the input for deciding about one check.
type Input struct {
	Now      time.Time
	Check    *HealthCheck
	Machines []Machine
	// Nodes are all nodes of the cluster.
	Nodes []core.Node
	// Checks are all MachineHealthChecks of the cluster, this one included.
	Checks []HealthCheck
	// Others are controllers of other kinds that remediate nodes.
	Others []Other
	// Pauses are the reasons for remediation to wait, as sentences: a rollout of the kubelet's
	// settings, scaling, an upgrade of the cluster.
	Pauses []string
	// ReportOnly names another controller of the checks, for which fettle only reports, or "".
	ReportOnly string
	// Adopt remediates machines even if Others handle their nodes; the result still names these.
	Adopt bool
	// ControlPlane allows remediation of control plane machines.
	ControlPlane bool
	// External is when machine.ExternalAnnotation was first seen on each machine, by UID.
	External map[types.UID]time.Time

	known *known
}

// Other is a controller that remediates nodes itself.
type Other struct {
	// Who is the controller's kind and name, such as NodeHealthCheck workers.
	Who string
	// Selects reports whether the controller handles a node.
	Selects func(*core.Node) bool
}

// Skipped is an unhealthy machine that is not remediated. Reason is one of Refused's reasons.
type Skipped struct{ Machine, Reason, Why string }

// Decision is the result of a check for its machines.
type Decision struct {
	// Machines are the machines that the check selects, by name.
	Machines []Judged
	// Expected is the number of machines, Healthy of healthy ones, Unhealthy of all others,
	// including pending and leaving ones.
	Expected, Healthy, Unhealthy int
	// Allowed is how many more machines may become unhealthy before remediation stops.
	Allowed int
	Limit   Limit
	// Sentence shows the arithmetic of the limit.
	Sentence string
	// Waits are reasons to wait although the limit allows remediation.
	Waits []string
	// ReportOnly names the controller for which fettle only reports, or "".
	ReportOnly string
	// Leaving are machines that are being deleted, or remediated by the bare-metal provider.
	Leaving []Judged
	// Remediate is the machine to replace now, the one unhealthy the longest; at most one.
	Remediate []Judged
	// Queued are the machines to replace later.
	Queued []Judged
	// Skipped are unhealthy machines that are left alone.
	Skipped []Skipped
	// Overlaps are sentences about machines that other checks select too.
	Overlaps []string
	// Next is when to decide again even without a change; zero means never.
	Next time.Time

	// behind reports whether the check waits only for another check's machine.
	behind bool
}

// known is data shared by the decisions about all checks.
type known struct {
	nodes map[string]*core.Node
	// checks are the checks that can be read.
	checks []readable
}

type readable struct {
	namespace, name string
	labels.Selector
}

func knownOf(nodes []core.Node, checks []HealthCheck) *known {
	k := &known{nodes: make(map[string]*core.Node, len(nodes))}
	for i := range nodes {
		k.nodes[nodes[i].Name] = &nodes[i]
	}
	for i := range checks {
		if s, err := meta.LabelSelectorAsSelector(&checks[i].Spec.Selector); err == nil && checks[i].Unread == "" {
			k.checks = append(k.checks, readable{checks[i].Namespace, checks[i].Name, s})
		}
	}
	return k
}

// Decide judges a check's machines and chooses the one to replace now, for this check alone;
// Cluster decides about several. It returns an error if the check is invalid.
func Decide(in Input) (*Decision, error) {
	if in.Check.Unread != "" {
		return nil, fmt.Errorf("MachineHealthCheck %s: %s", in.Check.Name, in.Check.Unread)
	}
	selector, err := meta.LabelSelectorAsSelector(&in.Check.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("MachineHealthCheck %s: spec.selector: %w", in.Check.Name, err)
	}
	if in.known == nil {
		in.known = knownOf(in.Nodes, in.Checks)
	}
	d := &Decision{ReportOnly: in.ReportOnly}
	var ill []Judged
	for i := range in.Machines {
		m := &in.Machines[i]
		if m.Namespace != in.Check.Namespace || !selector.Matches(labels.Set(m.Labels)) {
			continue
		}
		j := Judge(in.Check, m, in.known.nodes[m.Node()], in.External[m.UID], in.Now)
		d.Machines = append(d.Machines, j)
		switch j.State {
		case Healthy:
			d.Healthy++
		case Unhealthy:
			ill = append(ill, j)
		}
		if !j.Due.IsZero() && (d.Next.IsZero() || j.Due.Before(d.Next)) {
			d.Next = j.Due
		}
	}
	slices.SortFunc(d.Machines, func(a, b Judged) int { return strings.Compare(a.Machine.Name, b.Machine.Name) })
	d.Expected = len(d.Machines)
	d.Unhealthy = d.Expected - d.Healthy
	d.Limit = LimitOf(in.Check.Spec.MaxUnhealthy, d.Expected)
	d.Allowed = max(d.Limit.Machines-d.Unhealthy, 0)
	d.Sentence = d.Limit.Sentence(d.Unhealthy)
	d.Overlaps = overlaps(in, d.Machines)
	d.waits(in)
	d.choose(in, ill)
	return d, nil
}

// Stuck returns the number of machines that have been leaving for too long.
func (d *Decision) Stuck() (n int) {
	for _, j := range d.Leaving {
		if j.Stuck {
			n++
		}
	}
	return n
}

// waits sets the reasons for remediating nothing now.
func (d *Decision) waits(in Input) {
	if _, ok := in.Check.Annotations[PausedAnnotation]; ok {
		d.Waits = append(d.Waits, "the check is paused ("+PausedAnnotation+")")
	}
	d.Waits = append(d.Waits, in.Pauses...)
	if t := in.Check.Spec.RemediationTemplate; t != nil {
		d.Waits = append(d.Waits, fmt.Sprintf("the controller of %s %s remediates machines (spec.remediationTemplate)", t.Kind, t.Name))
	}
}

// choose selects the machines to remediate from the unhealthy ones.
func (d *Decision) choose(in Input, ill []Judged) {
	slices.SortFunc(ill, func(a, b Judged) int {
		// A zero time, as for a phase or a missing node, sorts first.
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Machine.Name, b.Machine.Name))
	})
	holds := 0
	for _, j := range d.Machines {
		if j.State == Leaving {
			d.Leaving = append(d.Leaving, j)
		}
		if j.holds() {
			holds++
		}
	}
	for _, j := range ill {
		if reason, why := in.leave(&j); why != "" {
			d.Skipped = append(d.Skipped, Skipped{j.Machine.Name, reason, why})
			continue
		}
		if d.ReportOnly != "" || len(d.Waits) > 0 || !d.Limit.Open(d.Unhealthy) || holds+len(d.Remediate) > 0 {
			d.Queued = append(d.Queued, j)
			continue
		}
		d.Remediate = append(d.Remediate, j)
	}
}

// leave returns why an unhealthy machine is not remediated, or "".
func (in *Input) leave(j *Judged) (reason, why string) {
	m := j.Machine
	if m.ControlPlane(j.Node) && !in.ControlPlane {
		return ControlPlane, "control plane machine, not remediated unless the operator runs with --remediate-control-plane"
	}
	if in.Check.Annotations[StrategyAnnotation] == StrategyExternal && m.Phase() != PhaseFailed {
		return ExternalStrategy, fmt.Sprintf("its check has the %s %s, so the bare-metal provider can power-cycle the machine; fettle does not request that; to request it: kubectl -n %s annotate machines.machine.openshift.io %s %s=", StrategyAnnotation, StrategyExternal, m.Namespace, m.Name, ExternalAnnotation)
	}
	if m.Controller() == "" {
		return NoController, "no machine set or other controller owns it, so nothing would replace it"
	}
	if others := in.alsoBy(m); len(others) > 0 {
		return AnotherCheck, "MachineHealthCheck " + strings.Join(others, ", ") + " also selects it, so neither check's maxUnhealthy would be respected"
	}
	if j.Node != nil && !in.Adopt {
		for _, o := range in.Others {
			if o.Selects(j.Node) {
				return AnotherRemedy, o.Who + " handles its node " + j.Node.Name
			}
		}
	}
	return "", ""
}

// alsoBy returns the names of the other checks that select a machine.
func (in *Input) alsoBy(m *Machine) (names []string) {
	for _, c := range in.known.checks {
		if c.namespace == m.Namespace && (c.name != in.Check.Name || c.namespace != in.Check.Namespace) && c.Matches(labels.Set(m.Labels)) {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return names
}

// overlaps returns sentences about machines, healthy or not, that other checks or controllers
// handle too.
func overlaps(in Input, machines []Judged) (out []string) {
	by := map[string][]string{}
	add := func(who, machine string) { by[who] = append(by[who], machine) }
	for _, j := range machines {
		for _, name := range in.alsoBy(j.Machine) {
			add("MachineHealthCheck "+name, j.Machine.Name)
		}
		if j.Node == nil {
			continue
		}
		for _, o := range in.Others {
			if o.Selects(j.Node) {
				add(o.Who, j.Machine.Name)
			}
		}
	}
	for who, names := range by {
		out = append(out, who+" also covers "+cluster.First(names, shown))
	}
	slices.Sort(out)
	return out
}

// shown is the maximum number of machines listed per state.
const shown = 5

// Words describe the decision in a few sentences for a status. They stay constant while nothing
// changes.
func (d *Decision) Words() []string {
	out := []string{d.Sentence}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if d.ReportOnly != "" {
		add("nothing remediated by fettle: %s", d.ReportOnly)
	}
	for _, w := range d.Waits {
		add("nothing is remediated: %s", w)
	}
	some(len(d.Leaving), "being replaced", add, func(i int) string {
		return fmt.Sprintf("machine %s is being replaced: %s", d.Leaving[i].Machine.Name, d.Leaving[i].Cause)
	})
	if slices.ContainsFunc(d.Leaving, func(j Judged) bool { return j.Stuck && j.holds() }) {
		add("nothing else is remediated until this replacement ends, or no check selects the machine")
	}
	for _, j := range d.Remediate {
		add("machine %s will be replaced: %s", j.Machine.Name, j.Cause)
	}
	if n := len(d.Queued); n > 0 && d.ReportOnly == "" && len(d.Waits) == 0 && d.Limit.Open(d.Unhealthy) {
		add("%s more after that", text.Count(n, "machine"))
	}
	some(len(d.Skipped), "not remediated", add, func(i int) string {
		return fmt.Sprintf("machine %s not remediated: %s", d.Skipped[i].Machine, d.Skipped[i].Why)
	})
	return append(out, d.Overlaps...)
}

// some adds the sentences of the first of n machines, at most the number shown, and then how many
// machines follow.
func some(n int, what string, add func(string, ...any), sentence func(int) string) {
	for i := range min(n, shown) {
		add("%s", sentence(i))
	}
	if n > shown {
		add("%s more %s %s", text.Count(n-shown, "machine"), ifOne(n-shown, "is", "are"), what)
	}
}
