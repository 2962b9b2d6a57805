package operator

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// HealthMetrics are the metrics of machine health.
var HealthMetrics = []cluster.Metric{
	{Name: "fettle_operator_machine_checks", Type: "gauge", Labels: []string{"reason"}, Doc: "MachineHealthChecks by the reason of their condition Remediating"},
	{Name: "fettle_operator_machines", Type: "gauge", Labels: []string{"check", "state"}, Doc: "machines that a check (NAMESPACE/NAME) selects, by state: healthy, pending, unhealthy or leaving (being replaced); the state expected is their total"},
	{Name: "fettle_operator_machine_check_short_circuited", Type: "gauge", Labels: []string{"check"}, Doc: "1 while nothing is remediated because more machines of the check are unhealthy than its maxUnhealthy allows"},
	{Name: "fettle_operator_machines_stuck", Type: "gauge", Labels: []string{"check"}, Doc: "machines of a check that have been leaving for more than 30 minutes. A stuck deletion stops all other remediation in the cluster; a stuck host.metal3.io/external-remediation does not"},
	{Name: "fettle_operator_remediations_started_total", Type: "counter", Doc: "machines deleted for replacement"},
	{Name: "fettle_operator_remediations_finished_total", Type: "counter", Doc: "machines deleted for replacement that are gone"},
	{Name: "fettle_operator_remediations_refused_total", Type: "counter", Labels: []string{"reason"}, Doc: "unhealthy machines whose remediation was refused, by reason: TooManyUnhealthy, OtherController, Waiting, ControlPlane, ExternalStrategy, NoController, AnotherCheck, AnotherRemedy, BadCheck (a limit that cannot be read), or DeletionFailed, which is retried. Machines that only wait for another machine are not counted"},
}

// deletionFailed is the reason of a deletion that the API server refused.
const deletionFailed = "DeletionFailed"

// Label values that are always present, even at 0.
var (
	reasons = []string{
		machine.InProgress, machine.Stuck, machine.NothingToDo, machine.TooManyUnhealthy, machine.Waiting, machine.LeftAlone, machine.OtherController, machine.BadCheck,
	}
	states   = []string{machine.Healthy, machine.Pending, machine.Unhealthy, machine.Leaving}
	refusals = []string{
		machine.TooManyUnhealthy, machine.OtherController, machine.Waiting, machine.ControlPlane, machine.ExternalStrategy, machine.NoController, machine.AnotherCheck, machine.AnotherRemedy, machine.BadCheck, deletionFailed,
	}
)

// healthTally holds the values of the metrics, collected on each scrape: the last decision, and
// counts since the process started.
type healthTally struct {
	cluster.Described

	mu                 sync.Mutex
	checks             map[string]int            // by reason
	machines           map[string]map[string]int // by check and state
	closed             map[string]bool           // by check
	stuck              map[string]int            // by check
	begun              map[types.UID]bool        // deleted machines that still exist
	startedN, finished int
	refusedN           map[string]int
	now                map[refusal]bool // nil before the first decision
}

// refusal is a machine that is not remediated, and why.
type refusal struct {
	check, machine string
	of             types.UID
	reason         string
}

func healthNewTally() *healthTally {
	return &healthTally{Described: cluster.Descriptions(HealthMetrics), begun: map[types.UID]bool{}, refusedN: map[string]int{}}
}

// decided records the decision about all checks. Machines already refused at the first decision do
// not count as new.
func (t *healthTally) decided(all []machine.Answer, machines []machine.Machine, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checks, t.machines, t.closed, t.stuck = map[string]int{}, map[string]map[string]int{}, map[string]bool{}, map[string]int{}
	refused := map[refusal]bool{}
	for i := range all {
		a := &all[i]
		t.checks[condition(statusOf(a, at)).Reason]++
		if a.Decision == nil {
			continue
		}
		name := a.Check.Namespace + "/" + a.Check.Name
		count := map[string]int{}
		for _, j := range a.Machines {
			count[j.State]++
		}
		t.machines[name], t.stuck[name] = count, a.Stuck()
		t.closed[name] = !a.Limit.Unread() && !a.Limit.Open(a.Unhealthy)
		for m, reason := range a.Refused() {
			r := refusal{name, m.Name, m.UID, reason}
			refused[r] = true
			if t.now != nil && !t.now[r] {
				t.refusedN[reason]++
			}
		}
	}
	t.now = refused
	t.gone(machines)
}

// gone records which deleted machines no longer exist.
func (t *healthTally) gone(machines []machine.Machine) {
	if len(t.begun) == 0 {
		return
	}
	left := map[types.UID]bool{}
	for i := range machines {
		if uid := machines[i].UID; t.begun[uid] {
			left[uid] = true
		}
	}
	t.finished += len(t.begun) - len(left)
	t.begun = left
}

// started counts a replacement that began with the deletion of a machine.
func (t *healthTally) started(m *machine.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startedN++
	t.begun[m.UID] = true
}

// refuse counts a remediation that was refused.
func (t *healthTally) refuse(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusedN[reason]++
}

// Collect is part of prometheus.Collector.
func (t *healthTally) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range reasons {
		t.Gauge(out, "fettle_operator_machine_checks", float64(t.checks[r]), r)
	}
	for check, count := range t.machines {
		for _, s := range states {
			t.Gauge(out, "fettle_operator_machines", float64(count[s]), check, s)
		}
		t.Gauge(out, "fettle_operator_machine_check_short_circuited", cluster.OneIf(t.closed[check]), check)
		t.Gauge(out, "fettle_operator_machines_stuck", float64(t.stuck[check]), check)
	}
	t.Counter(out, "fettle_operator_remediations_started_total", t.startedN)
	t.Counter(out, "fettle_operator_remediations_finished_total", t.finished)
	for _, r := range refusals {
		t.Counter(out, "fettle_operator_remediations_refused_total", t.refusedN[r], r)
	}
}
