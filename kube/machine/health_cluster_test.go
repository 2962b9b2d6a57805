package machine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleets are checks in several namespaces, each with its own machines. Some machines are unhealthy,
// for different times: ill maps them to their start.
func fleets(r *rand.Rand, namespaces, checks, machines int, ill map[string]time.Duration) (c Cluster) {
	c.Now = healthNow
	for n := range namespaces {
		for k := range checks {
			fleet := fmt.Sprintf("c%02d", k)
			of := check("100%")
			of.Namespace, of.Name = fmt.Sprintf("ns%d", n), fleet
			of.Spec.Selector.MatchLabels = map[string]string{"fleet": fleet}
			c.Checks = append(c.Checks, *of)
			for i := range machines {
				name := fmt.Sprintf("%s-%s-m%d", of.Namespace, fleet, i)
				status, since := core.ConditionTrue, 10*time.Hour
				if s, is := ill[name]; is {
					status, since = core.ConditionFalse, s
				}
				m, node := aMachine(name, status, since)
				m.Namespace, m.Labels = of.Namespace, map[string]string{"fleet": fleet}
				c.Machines, c.Nodes = append(c.Machines, m), append(c.Nodes, node)
			}
		}
	}
	r.Shuffle(len(c.Checks), func(i, j int) { c.Checks[i], c.Checks[j] = c.Checks[j], c.Checks[i] })
	r.Shuffle(len(c.Machines), func(i, j int) { c.Machines[i], c.Machines[j] = c.Machines[j], c.Machines[i] })
	return c
}

// TestOneOfTheCluster tests that over the checks of several namespaces one machine is remediated at
// a time, the one unhealthy the longest first, whatever the order of the objects. Each waiting
// check names it.
func TestOneOfTheCluster(t *testing.T) {
	const namespaces, checks, machines = 3, 12, 4
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 13))
		ill := map[string]time.Duration{}
		for len(ill) < 40 {
			name := fmt.Sprintf("ns%d-c%02d-m%d", r.IntN(namespaces), r.IntN(checks), r.IntN(machines))
			if _, is := ill[name]; !is {
				ill[name] = time.Duration(len(ill)+10) * time.Minute
			}
		}
		order := make([]string, 0, len(ill))
		for name := range ill {
			order = append(order, name)
		}
		slices.SortFunc(order, func(a, b string) int { return int(ill[b] - ill[a]) })
		c := fleets(r, namespaces, checks, machines, ill)
		var gone []string
		for len(gone) < len(order) {
			all := c.Decide()
			turn := one(t, all)
			if turn == nil {
				t.Fatalf("seed %d: nobody's turn after %d of %d", seed, len(gone), len(order))
			}
			j := turn.Remediate[0]
			if j.Machine.Name != order[len(gone)] {
				t.Fatalf("seed %d: %s is remedied, want %s", seed, j.Machine.Name, order[len(gone)])
			}
			waits(t, all, " is replaced first", j.Machine.Name, turn.Check)
			at := meta.NewTime(healthNow)
			i := slices.IndexFunc(c.Machines, func(m Machine) bool { return m.Name == j.Machine.Name })
			c.Machines[i].DeletionTimestamp = &at
			all = c.Decide()
			if turn := one(t, all); turn != nil {
				t.Fatalf("seed %d: %s is on its way, and it is the turn of %s", seed, j.Machine.Name, turn.Remediate[0].Machine.Name)
			}
			waits(t, all, " is being replaced: it is being deleted since "+healthNow.Format(time.RFC3339), j.Machine.Name, turn.Check)
			gone = append(gone, j.Machine.Name)
			c.Machines = slices.Delete(c.Machines, i, i+1)
		}
		for _, a := range c.Decide() {
			if len(a.Waits)+len(a.Queued)+len(a.Leaving) > 0 {
				t.Errorf("seed %d: at the end %s has still %v", seed, a.Check.Name, a.Words())
			}
		}
	}
}

// one returns the answer whose turn it is; more than one is an error.
func one(t *testing.T, all []Answer) *Answer {
	t.Helper()
	n := 0
	for _, a := range all {
		if a.Decision != nil {
			n += len(a.Remediate)
		}
	}
	turn := Turn(all)
	if n > 1 || (n == 1) != (turn != nil) {
		t.Fatalf("%d machines are to be remedied at once; whose turn: %v", n, turn)
	}
	return turn
}

// waits checks that each check with unhealthy machines, except the one whose turn it is, reports in
// its status what it waits for.
func waits(t *testing.T, all []Answer, says, name string, of *HealthCheck) {
	t.Helper()
	for _, a := range all {
		if a.Check == of || a.Unhealthy == 0 {
			continue
		}
		who := of.Name
		if a.Check.Namespace != of.Namespace {
			who = of.Namespace + "/" + of.Name
		}
		want := "nothing is remediated: only one machine is replaced at a time, and machine " + name + " of MachineHealthCheck " + who + says
		s := a.Status(a.Check.Status, healthNow)
		c := s.Conditions[slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == Remediating })]
		if c.Status != core.ConditionFalse || c.Reason != Waiting || c.Message != want {
			t.Errorf("%s/%s says %s %s %q, want %q", a.Check.Namespace, a.Check.Name, c.Status, c.Reason, c.Message, want)
		}
	}
}

// TestWhoHasNoTurn tests that an unreadable check, one whose limit is exceeded, and one of another
// controller have no turn and block no other check. A machine of theirs that is being deleted
// counts.
func TestWhoHasNoTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	ill := map[string]time.Duration{"ns0-c00-m0": 9 * time.Hour, "ns0-c01-m0": 8 * time.Hour, "ns1-c00-m0": 7 * time.Hour, "ns2-c00-m0": time.Hour}
	c := fleets(r, 3, 2, 3, ill)
	find := func(ns, name string) *HealthCheck {
		i := slices.IndexFunc(c.Checks, func(o HealthCheck) bool { return o.Namespace == ns && o.Name == name })
		return &c.Checks[i]
	}
	find("ns0", "c00").Spec.Selector.MatchExpressions = []meta.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	find("ns0", "c01").Spec.MaxUnhealthy = maximum("0")
	c.Rivals = map[string]string{"ns1": "somebody"}
	all := c.Decide()
	if turn := one(t, all); turn == nil || turn.Remediate[0].Machine.Name != "ns2-c00-m0" {
		t.Fatalf("%+v", turn)
	}
	if all[0].Err == nil || all[0].Decision != nil || all[0].Refused() != nil {
		t.Errorf("cannot be read: %+v", all[0])
	}
	at := meta.NewTime(healthNow)
	i := slices.IndexFunc(c.Machines, func(m Machine) bool { return m.Name == "ns1-c00-m1" })
	c.Machines[i].DeletionTimestamp = &at
	if turn := one(t, c.Decide()); turn != nil {
		t.Errorf("one of another controller's is on its way, and %s has its turn", turn.Check.Name)
	}
}

func TestRefused(t *testing.T) {
	refused := func(edit func(*Cluster)) string {
		t.Helper()
		in := pool(25, 3)
		c := Cluster{Now: in.Now, Checks: in.Checks, Machines: in.Machines, Nodes: in.Nodes}
		edit(&c)
		all := c.Decide()
		count := map[string]int{}
		for i := range all {
			for _, reason := range all[i].Refused() {
				count[reason]++
			}
		}
		return fmt.Sprint(count)
	}
	for want, edit := range map[string]func(*Cluster){
		"map[]":                   func(*Cluster) {},
		"map[TooManyUnhealthy:3]": func(c *Cluster) { c.Checks[0].Spec.MaxUnhealthy = maximum("2") },
		"map[OtherController:3]":  func(c *Cluster) { c.Rivals = map[string]string{Namespace: "somebody"} },
		"map[Waiting:3]":          func(c *Cluster) { c.Pauses = []string{"an upgrade"} },
		"map[NoController:1]":     func(c *Cluster) { c.Machines[0].OwnerReferences = nil },
		"map[ControlPlane:1 TooManyUnhealthy:2]": func(c *Cluster) {
			c.Checks[0].Spec.MaxUnhealthy = maximum("2")
			c.Nodes[0].Labels["node-role.kubernetes.io/master"] = ""
		},
		"map[AnotherRemedy:3]": func(c *Cluster) {
			c.Others = []Other{{"NodeHealthCheck n", func(*core.Node) bool { return true }}}
		},
		"map[AnotherCheck:6]": func(c *Cluster) {
			other := *check("40%")
			other.Name = "second"
			c.Checks = append(c.Checks, other)
		},
	} {
		if got := refused(edit); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	// Who only waits for a machine of another check is not refused.
	c := fleets(rand.New(rand.NewPCG(1, 1)), 1, 3, 2, map[string]time.Duration{"ns0-c00-m0": time.Hour, "ns0-c01-m0": 2 * time.Hour})
	for _, a := range c.Decide() {
		if len(a.Refused()) > 0 {
			t.Errorf("%s: %v", a.Check.Name, a.Words())
		}
	}
}

// TestDecideIsTheSame tests that for one check Cluster and Decide decide the same.
func TestDecideIsTheSame(t *testing.T) {
	in := pool(25, 10)
	all := Cluster{Now: in.Now, Checks: in.Checks, Machines: in.Machines, Nodes: in.Nodes}.Decide()
	d := decide(t, in)
	if len(all) != 1 || all[0].Err != nil || strings.Join(all[0].Words(), "\n") != strings.Join(d.Words(), "\n") || all[0].Remediate[0].Machine.Name != d.Remediate[0].Machine.Name {
		t.Errorf("%+v\n%+v", all[0].Words(), d.Words())
	}
}
