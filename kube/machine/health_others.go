package machine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/text"
)

// NodeHealthCheck parses medik8s' NodeHealthCheck (remediation.medik8s.io/v1alpha1): name and node
// selector. A paused check (spec.pauseRequests) still handles its nodes; its name then says so.
func NodeHealthCheck(object []byte) (Other, error) {
	var c struct {
		Metadata meta.ObjectMeta `json:"metadata"`
		Spec     struct {
			Selector      meta.LabelSelector `json:"selector"`
			PauseRequests []string           `json:"pauseRequests"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &c); err != nil {
		return Other{}, fmt.Errorf("NodeHealthCheck: %w", err)
	}
	s, err := meta.LabelSelectorAsSelector(&c.Spec.Selector)
	if err != nil {
		return Other{}, fmt.Errorf("NodeHealthCheck %s: spec.selector: %w", c.Metadata.Name, err)
	}
	who := "NodeHealthCheck " + c.Metadata.Name
	if len(c.Spec.PauseRequests) > 0 {
		who += " (paused)"
	}
	return Other{who, func(n *core.Node) bool { return s.Matches(labels.Set(n.Labels)) }}, nil
}

// healthClusterCheck has the fields read from Cluster API's MachineHealthCheck
// (cluster.x-k8s.io, versions v1beta1 and v1beta2).
type healthClusterCheck struct {
	Metadata meta.ObjectMeta `json:"metadata"`
	Spec     struct {
		ClusterName string             `json:"clusterName"`
		Selector    meta.LabelSelector `json:"selector"`
		// In v1beta1.
		MaxUnhealthy   *intstr.IntOrString `json:"maxUnhealthy"`
		UnhealthyRange *string             `json:"unhealthyRange"`
		// In v1beta2.
		Remediation struct {
			TriggerIf struct {
				AtMost  *intstr.IntOrString `json:"unhealthyLessThanOrEqualTo"`
				InRange string              `json:"unhealthyInRange"`
			} `json:"triggerIf"`
		} `json:"remediation"`
	} `json:"spec"`
}

// healthClusterMachine has the fields read from Cluster API's Machine.
type healthClusterMachine struct {
	Metadata meta.ObjectMeta `json:"metadata"`
	Spec     struct {
		ClusterName string `json:"clusterName"`
	} `json:"spec"`
	Status struct {
		NodeRef *struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
	} `json:"status"`
}

// ClusterAPI parses a Cluster API check and its machines. The check handles the nodes of the
// machines that it selects; an empty selector is invalid. words explain its limit for the present
// machines.
func ClusterAPI(check []byte, machines [][]byte) (o Other, words string, err error) {
	var c healthClusterCheck
	if err := json.Unmarshal(check, &c); err != nil {
		return o, "", fmt.Errorf("MachineHealthCheck of Cluster API: %w", err)
	}
	s, err := meta.LabelSelectorAsSelector(&c.Spec.Selector)
	if err != nil {
		return o, "", fmt.Errorf("MachineHealthCheck %s of Cluster API: spec.selector: %w", c.Metadata.Name, err)
	}
	if s.Empty() {
		s = labels.Nothing() // Cluster API rejects it
	}
	var nodes []string
	expected := 0
	for _, text := range machines {
		var m healthClusterMachine
		if err := json.Unmarshal(text, &m); err != nil {
			return o, "", fmt.Errorf("Machine of Cluster API: %w", err)
		}
		if m.Metadata.Namespace != c.Metadata.Namespace || m.Spec.ClusterName != c.Spec.ClusterName || !s.Matches(labels.Set(m.Metadata.Labels)) {
			continue
		}
		expected++
		if m.Status.NodeRef != nil {
			nodes = append(nodes, m.Status.NodeRef.Name)
		}
	}
	o = Other{"MachineHealthCheck " + c.Metadata.Name + " of Cluster API", func(n *core.Node) bool { return slices.Contains(nodes, n.Name) }}
	return o, c.words(expected), nil
}

// interval matches a range such as "[3-5]".
var interval = regexp.MustCompile(`^\[([0-9]+)-([0-9]+)\]$`)

// words explains when the check remediates.
func (c *healthClusterCheck) words(machines int) string {
	inRange, atMost := c.Spec.Remediation.TriggerIf.InRange, c.Spec.Remediation.TriggerIf.AtMost
	if c.Spec.UnhealthyRange != nil {
		inRange = *c.Spec.UnhealthyRange
	}
	if c.Spec.MaxUnhealthy != nil {
		atMost = c.Spec.MaxUnhealthy
	}
	if inRange != "" {
		m := interval.FindStringSubmatch(inRange)
		if m == nil {
			return fmt.Sprintf("%q is not a range such as [3-5]: nothing is remediated", inRange)
		}
		low, err1 := strconv.Atoi(m[1])
		high, err2 := strconv.Atoi(m[2])
		if err1 != nil || err2 != nil || high < low {
			return fmt.Sprintf("the range %s ends before it begins: nothing is remediated", inRange)
		}
		return text.Sprintf("it remediates while %d to %d of %s are unhealthy", low, high, text.Count(machines, "machine"))
	}
	if atMost != nil && atMost.Type == intstr.String && !strings.HasSuffix(atMost.StrVal, "%") {
		// A number as a string, which OpenShift accepts.
		return fmt.Sprintf("the limit %q is a string without %%: nothing is remediated", atMost.StrVal)
	}
	if atMost != nil {
		// Cluster API accepts more than 100 %, and its controller multiplies.
		if p, ok := percentage(atMost); ok && p > 100 {
			return fmt.Sprintf("the limit %q is more than all of %s: it remediates any number of unhealthy machines", atMost.StrVal, text.Count(machines, "machine"))
		}
	}
	l := LimitOf(atMost, machines)
	if l.Unread() {
		return l.Words + ": nothing is remediated"
	}
	return text.Sprintf("it remediates while at most %d of %s are unhealthy", l.Machines, text.Count(machines, "machine"))
}
