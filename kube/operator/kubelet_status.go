package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/kubelet"
)

// Reasons of a pool's conditions.
const (
	AllUpdated     = "AllUpdated"  // Updated is True
	NotAll         = "NotAll"      // Updated is False; Unknown if the settings are Refused
	RollingOut     = "RollingOut"  // Updating is True
	NothingDue     = "NothingDue"  // Updating is False: all nodes have the settings
	Paused         = "Paused"      // Updating is False
	KubeletStopped = "Stopped"     // Updating is False; see Degraded
	KubeletWaiting = "Waiting"     // Updating is False: no remaining node can start
	ReportOnly     = "ReportOnly"  // Updating is False: another controller acts
	AsExpected     = "AsExpected"  // Degraded is False
	Refused        = "Refused"     // Degraded is True: an object is invalid or unreadable
	NodeFailed     = "NodeFailed"  // Degraded is True
	Conflict       = "Conflict"    // Degraded is True: nodes are in several pools
	Stuck          = kubelet.Stuck // Degraded is True: a node does not report its result
)

// stuckAfter limits a node's change: ten minutes for its pods to leave, and two for its kubelet in
// each direction.
const stuckAfter = 20 * time.Minute

// maxMessage is the maximum length of a message, in bytes, and maxNamed its number of nodes.
const (
	maxMessage = 2000
	maxNamed   = 5
)

// poolStatus returns the pool with its new status.
func (c Cluster) poolStatus(g *group, has map[string]*kubelet.NodeKubelet) kubelet.KubeletPool {
	out := *g.pool.DeepCopy()
	s := &out.Status
	s.ObservedGeneration, s.Digest, s.KubeletConfigs = g.pool.Generation, g.want.Digest, g.want.Configs
	s.Nodes, s.Updated, s.Unavailable = int32(g.Total), int32(g.Done), int32(len(g.Unavailable))
	s.Changing = nil
	for _, n := range g.nodes {
		if n.Phase == kubelet.Changing {
			s.Changing = append(s.Changing, n.Name)
		}
	}
	if c.ReportOnly == "" {
		s.Changing = append(s.Changing, g.Begin...)
		s.Unavailable += int32(len(g.Begin))
	}
	slices.Sort(s.Changing)
	for _, condition := range []metav1.Condition{g.updated(), c.updating(g, s.Changing, has), c.degraded(g, has)} {
		condition.ObservedGeneration, condition.LastTransitionTime = g.pool.Generation, metav1.NewTime(c.Now.UTC().Truncate(time.Second))
		condition.Message = internaltext.Truncate(condition.Message, maxMessage)
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	return out
}

func (g *group) updated() metav1.Condition {
	of := internaltext.Sprintf("%d of %d nodes have the settings", g.Done, g.Total)
	if g.pool.Spec.ManagementState == kubelet.Removed {
		of = internaltext.Sprintf("%d of %d nodes restored", g.Done, g.Total)
	}
	if g.wrong != nil { // the counts are those of the former request
		return metav1.Condition{Type: kubelet.Updated, Status: metav1.ConditionUnknown, Reason: Refused, Message: "unknown, because the requested settings are refused; see the condition Degraded for the reason"}
	}
	if g.Done == g.Total {
		return metav1.Condition{Type: kubelet.Updated, Status: metav1.ConditionTrue, Reason: AllUpdated, Message: of}
	}
	return metav1.Condition{Type: kubelet.Updated, Status: metav1.ConditionFalse, Reason: NotAll, Message: of}
}

func (c Cluster) updating(g *group, changing []string, has map[string]*kubelet.NodeKubelet) metav1.Condition {
	out := metav1.Condition{Type: kubelet.Updating, Status: metav1.ConditionFalse}
	var held []string
	for _, h := range g.Held {
		held = append(held, h.Node+": "+h.Why)
	}
	var texts []string
	switch {
	case c.ReportOnly != "":
		out.Reason = ReportOnly
		texts = append(texts, "nothing changed: KubeletConfig objects belong to "+c.ReportOnly+"; take them over with the operator's --adopt")
	case len(changing) > 0:
		out.Status, out.Reason = metav1.ConditionTrue, RollingOut
		texts = append(texts, "now changing: "+strings.Join(kubeletFew(changing), ", "))
		for _, name := range changing {
			if k := has[name]; k != nil && k.Changing() && k.Status.Waiting != "" {
				texts = append(texts, name+": "+k.Status.Waiting)
			}
		}
	case g.pool.Spec.Paused && g.Done < g.Total:
		out.Reason = Paused
		texts = append(texts, "the pool is paused")
	case g.Stopped != "":
		out.Reason = KubeletStopped
		texts = append(texts, "no further node is changed: "+g.Stopped)
	case len(g.Waiting) > 0:
		// Other nodes occupy the slots; that may pass.
		out.Status, out.Reason = metav1.ConditionTrue, RollingOut
		texts = append(texts, internaltext.Sprintf("%d waiting until fewer than %d are unavailable", len(g.Waiting), g.MaxUnavailable))
		for _, u := range g.Unavailable {
			held = append(held, u.Node+": "+u.Why)
		}
	case len(held) > 0:
		out.Reason = KubeletWaiting
	default:
		out.Reason = NothingDue
	}
	slices.Sort(held)
	held = slices.Compact(held)
	out.Message = strings.Join(append(texts, kubeletFew(held)...), "; ")
	return out
}

func (c Cluster) degraded(g *group, has map[string]*kubelet.NodeKubelet) metav1.Condition {
	out := metav1.Condition{Type: kubelet.Degraded, Status: metav1.ConditionTrue}
	var failed, conflicts, stuck []string
	for _, n := range g.nodes {
		k := has[n.Name]
		switch {
		case n.Conflict != "":
			conflicts = append(conflicts, n.Name+": "+n.Conflict)
		case n.Phase == kubelet.Broken, n.Phase == kubelet.Failed && n.Tried == g.want.Digest && n.Has != g.want.Digest:
			text := n.Name + ": " + n.Why
			if n.Phase == kubelet.Broken {
				text += " (the kubelet runs with neither these nor its former settings)"
			}
			failed = append(failed, text)
		case n.Phase == kubelet.Changing && k != nil && c.Now.Sub(k.Spec.Since.Time) > stuckAfter:
			text := fmt.Sprintf("%s changing since %s", n.Name, k.Spec.Since.UTC().Format(time.RFC3339))
			if n.Absent {
				text += ", and is gone: delete its NodeKubelet if it does not come back"
			}
			stuck = append(stuck, text)
		}
	}
	// Nodes come in random order, and a changed text causes an event.
	slices.Sort(failed)
	slices.Sort(conflicts)
	slices.Sort(stuck)
	switch {
	case g.wrong != nil:
		out.Reason, out.Message = Refused, "nodes unchanged: "+strings.ReplaceAll(g.wrong.Error(), "\n", "; ")
	case len(failed) > 0:
		out.Reason = NodeFailed
		out.Message = strings.Join(kubeletFew(failed), "; ") + ". No other node is changed until the settings change, or the pool's annotation " + kubelet.RetryAnnotation + " has another value"
	case g.Stopped != "" && !g.pool.Spec.Paused: // maxUnavailable cannot be read
		out.Reason, out.Message = Refused, g.Stopped
	case len(conflicts) > 0:
		out.Reason, out.Message = Conflict, strings.Join(kubeletFew(conflicts), "; ")
	case len(stuck) > 0:
		out.Reason, out.Message = Stuck, strings.Join(kubeletFew(stuck), "; ")
	default:
		out.Status, out.Reason = metav1.ConditionFalse, AsExpected
		out.Message = strings.Join(g.want.Notes, "; ")
	}
	return out
}

// configStatus returns the objects with their new status.
func (c Cluster) configStatus(groups map[string]*group) []kubelet.KubeletConfig {
	pools := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[name]; g.pool != nil {
			selecting, _ := kubelet.Selecting(c.Configs, g.pool.Labels)
			for _, k := range selecting {
				pools[k.Name] = append(pools[k.Name], name)
			}
		}
	}
	var out []kubelet.KubeletConfig
	for i := range c.Configs {
		k := c.Configs[i].DeepCopy()
		text := "it selects no pool"
		if all := pools[k.Name]; len(all) > 0 {
			text = "it selects the pools " + strings.Join(kubeletFew(all), ", ")
		}
		now := metav1.NewTime(c.Now.UTC().Truncate(time.Second))
		success := kubelet.KubeletConfigCondition{Type: kubelet.Success, Status: metav1.ConditionTrue, Reason: AsExpected, Message: text}
		failure := kubelet.KubeletConfigCondition{Type: kubelet.Failure, Status: metav1.ConditionFalse, Reason: AsExpected}
		if err := alone(k); err != nil {
			success.Status, success.Reason, success.Message = metav1.ConditionFalse, Refused, ""
			failure.Status, failure.Reason, failure.Message = metav1.ConditionTrue, Refused, internaltext.Truncate(strings.ReplaceAll(err.Error(), "\n", "; "), maxMessage)
		}
		before := k.Status.Conditions
		k.Status.ObservedGeneration, k.Status.Conditions = k.Generation, nil
		for _, condition := range []kubelet.KubeletConfigCondition{success, failure} {
			condition.LastTransitionTime = now
			for _, was := range before {
				if was.Type == condition.Type && was.Status == condition.Status {
					condition.LastTransitionTime = was.LastTransitionTime
				}
			}
			k.Status.Conditions = append(k.Status.Conditions, condition)
		}
		out = append(out, *k)
	}
	return out
}

// alone returns an error for an object that is invalid by itself.
func alone(k *kubelet.KubeletConfig) error {
	if _, err := metav1.LabelSelectorAsSelector(k.Spec.MachineConfigPoolSelector); err != nil {
		return fmt.Errorf("spec.machineConfigPoolSelector: %w", err)
	}
	config, err := k.Config()
	if err != nil {
		return err
	}
	_, err = kubelet.WantOf([]kubelet.Config{config})
	return err
}

// kubeletFew returns the first of a list, and how many more there are.
func kubeletFew(all []string) []string {
	if len(all) <= maxNamed {
		return all
	}
	return append(slices.Clone(all[:maxNamed]), internaltext.Sprintf("and %d more", len(all)-maxNamed))
}
