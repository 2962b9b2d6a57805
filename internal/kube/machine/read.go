package machine

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/kube/strict"
	"fettle.dev/fettle/internal/spell"
)

// maxSize bounds an object, in bytes; the API server takes 3 MiB at the most.
const maxSize = 4 << 20

// maxUnhealthy is what the API server takes (github.com/openshift/api,
// machine/v1beta1/types_machinehealthcheck.go).
var maxUnhealthy = regexp.MustCompile(`^((100|[0-9]{1,2})%|[0-9]+)$`)

// ReadHealthCheck reads a MachineHealthCheck from YAML or JSON, strictly: what the API
// server would not take, or would drop without a word, is an error. The name is for
// messages.
func ReadHealthCheck(name string, text []byte) (*HealthCheck, error) {
	r := strict.Objects(name, maxSize)
	c := &HealthCheck{}
	docs := r.Documents(text)
	for _, n := range docs {
		switch version, kind, ok := r.Head(n); {
		case !ok:
		case version != APIVersion || kind != "MachineHealthCheck":
			r.Fault(n, "%q of %q: want MachineHealthCheck of %s%s", kind, version, APIVersion, spell.Suggest(version, []string{APIVersion}))
		default:
			r.Into(n, c)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one MachineHealthCheck, found %d documents", name, len(docs))
	}
	if err := errors.Join(c.Problems()...); err != nil {
		return nil, fmt.Errorf("%s: %w", r.At(docs[0]), err)
	}
	return c, nil
}

// Problems are what the API server says against a check.
func (c *HealthCheck) Problems() (out []error) {
	wrong := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		wrong("metadata.name is missing")
	}
	if _, err := meta.LabelSelectorAsSelector(&c.Spec.Selector); err != nil {
		wrong("spec.selector: %w", err)
	}
	if len(c.Spec.UnhealthyConditions) == 0 {
		wrong("spec.unhealthyConditions has none: at least one condition says what is unhealthy")
	}
	for i, u := range c.Spec.UnhealthyConditions {
		if u.Type == "" {
			wrong("spec.unhealthyConditions[%d].type is missing", i)
		}
		if !slices.Contains([]core.ConditionStatus{core.ConditionTrue, core.ConditionFalse, core.ConditionUnknown}, u.Status) {
			wrong(`spec.unhealthyConditions[%d].status is %q: want "True", "False" or "Unknown", in quotation marks`, i, u.Status)
		}
		if u.Timeout.Duration < 0 {
			wrong("spec.unhealthyConditions[%d].timeout is %s, which is below zero", i, u.Timeout.Duration)
		}
	}
	if m := c.Spec.MaxUnhealthy; m != nil && (m.Type == intstr.Int && m.IntVal < 0 || m.Type == intstr.String && !maxUnhealthy.MatchString(m.StrVal)) {
		wrong("spec.maxUnhealthy is %q: want a number, or 0%% to 100%%", m.String())
	}
	if t := c.Spec.NodeStartupTimeout; t != nil && t.Duration < 0 {
		wrong("spec.nodeStartupTimeout is %s, which is below zero", t.Duration)
	}
	return out
}
