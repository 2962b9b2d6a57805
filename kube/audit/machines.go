package audit

import (
	"slices"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/kube/machine"
)

// machines tells of machine sets and of the checks of their health.
func (c *Cluster) machines(a *platform.Known) {
	if why := c.Unread[OfMachines]; why != "" {
		a.Unlisted(platform.MachineSets, why)
		a.Unlisted(platform.HealthChecks, why)
		return
	}
	for i := range c.MachineSets {
		s := &c.MachineSets[i]
		a.Add(platform.MachineSets, s.Name)
		in, at := platform.MachineSets+"."+s.Name, "MachineSet "+s.Name
		wanted := 1.0
		if s.Spec.Replicas != nil {
			wanted = float64(*s.Spec.Replicas)
		}
		a.Give(in+".wanted", wanted, at)
		a.Give(in+".ready", float64(s.Status.ReadyReplicas), at)
		a.Give(in+".checks", c.checksOf(s), at)
	}
	for i := range c.Checks {
		check := &c.Checks[i]
		a.Add(platform.HealthChecks, check.Name)
		in, at := platform.HealthChecks+"."+check.Name, "MachineHealthCheck "+check.Name
		d, err := machine.Decide(machine.Input{Now: c.Now, Check: check, Machines: c.Machines, Nodes: c.CoreNodes, Checks: c.Checks})
		if err != nil {
			for _, input := range []string{"open", "limit", "hindrances"} {
				a.Unclear(in+"."+input, at, err.Error())
			}
			continue
		}
		a.Give(in+".open", d.Limit.Open(d.Unhealthy), at)
		a.Give(in+".limit", d.Sentence, at)
		a.Give(in+".hindrances", append(append([]string{}, d.Waits...), d.Overlaps...), at)
	}
}

// checksOf names the checks that select the machines of a set.
func (c *Cluster) checksOf(s *machine.Set) []string {
	out := []string{}
	for i := range c.Checks {
		check := &c.Checks[i]
		selector, err := meta.LabelSelectorAsSelector(&check.Spec.Selector)
		if err != nil || check.Unread != "" || check.Namespace != s.Namespace {
			continue
		}
		if selector.Matches(labels.Set(s.Spec.Template.Labels)) {
			out = append(out, check.Name)
		}
	}
	slices.Sort(out)
	return out
}
