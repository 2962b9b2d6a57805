package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Conditions of a check: OpenShift's own, with its reasons, and fettle's.
const (
	// RemediationAllowed is True if maxUnhealthy allows it; the message has the arithmetic.
	RemediationAllowed = "RemediationAllowed"
	// Remediating is True while a machine is being replaced; otherwise its reason says why none is.
	Remediating = "Remediating"
)

// Reasons of these conditions.
const (
	TooManyUnhealthy = "TooManyUnhealthy"
	WithinLimit      = "WithinLimit"
	OtherController  = "OtherController"
	Waiting          = "Waiting"
	InProgress       = "InProgress"
	Stuck            = "Stuck"
	LeftAlone        = "LeftAlone"
	NothingToDo      = "NothingToDo"
	BadCheck         = "BadCheck"
)

// maxMessage limits a condition's message, in bytes.
const maxMessage = 4 << 10

// Status returns a check's new status, based on the present one. If another controller owns the
// check, fettle only sets the condition that names this controller. Equal decisions give equal
// statuses.
func (d *Decision) Status(has HealthCheckStatus, now time.Time) HealthCheckStatus {
	want := *has.DeepCopy()
	c := Condition{Type: Remediating, Status: core.ConditionFalse, Severity: "Info", Message: strings.Join(d.Words()[1:], ". ")}
	switch {
	case d.ReportOnly != "":
		c.Reason = OtherController
	case d.Limit.Unread():
		c.Reason, c.Severity = BadCheck, "Error"
		c.Message = strings.Join(d.Words(), ". ")
	case !d.Limit.Open(d.Unhealthy):
		c.Reason, c.Severity = TooManyUnhealthy, "Warning"
	case len(d.Waits) > 0:
		c.Reason = Waiting
	case d.Stuck() > 0 && len(d.Remediate) == 0:
		c.Reason, c.Severity = Stuck, "Warning"
	case len(d.Remediate)+len(d.Leaving) > 0:
		c.Status, c.Reason, c.Severity = core.ConditionTrue, InProgress, ""
	case len(d.Skipped) > 0:
		c.Reason, c.Severity = LeftAlone, "Warning"
	default:
		c.Reason = NothingToDo
	}
	if want.RemediationsAllowed == nil {
		want.RemediationsAllowed = new(int32) // the field is required
	}
	if d.ReportOnly == "" {
		left := int32(d.Allowed)
		want.ExpectedMachines, want.CurrentHealthy, want.RemediationsAllowed = &d.Expected, &d.Healthy, &left
		allowed := Condition{Type: RemediationAllowed, Status: core.ConditionTrue, Reason: WithinLimit, Message: d.Sentence}
		if !d.Limit.Open(d.Unhealthy) {
			allowed.Status, allowed.Reason, allowed.Severity = core.ConditionFalse, TooManyUnhealthy, "Warning"
		}
		if d.Limit.Unread() {
			allowed.Reason, allowed.Severity = BadCheck, "Error"
		}
		want.Conditions = set(want.Conditions, allowed, now)
	}
	want.Conditions = set(want.Conditions, c, now)
	return want
}

// Unreadable returns the status of a check whose spec is invalid.
func Unreadable(has HealthCheckStatus, err error, now time.Time) HealthCheckStatus {
	want := *has.DeepCopy()
	if want.RemediationsAllowed == nil {
		want.RemediationsAllowed = new(int32)
	}
	want.Conditions = set(want.Conditions, Condition{Type: Remediating, Status: core.ConditionFalse, Severity: "Error", Reason: BadCheck, Message: err.Error()}, now)
	return want
}

// set sets a condition in a list. Its transition time changes only with its status.
func set(all []Condition, c Condition, now time.Time) []Condition {
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "..."
	}
	c.LastTransitionTime = meta.NewTime(now.Truncate(time.Second))
	i := slices.IndexFunc(all, func(o Condition) bool { return o.Type == c.Type })
	if i < 0 {
		return append(all, c)
	}
	if all[i].Status == c.Status {
		c.LastTransitionTime = all[i].LastTransitionTime
	}
	all[i] = c
	return all
}

// UnmarshalJSON decodes a check. For an invalid spec it sets Unread and returns nil, because API
// servers do not validate strings such as durations, and one check must not invalidate a list.
func (c *HealthCheck) UnmarshalJSON(text []byte) error {
	type plain HealthCheck
	var all plain
	err := json.Unmarshal(text, &all)
	if err == nil {
		*c = HealthCheck(all)
		return nil
	}
	var rest struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            json.RawMessage   `json:"spec"`
		Status          HealthCheckStatus `json:"status"`
	}
	if json.Unmarshal(text, &rest) != nil {
		return err
	}
	*c = HealthCheck{TypeMeta: rest.TypeMeta, ObjectMeta: rest.ObjectMeta, Status: rest.Status, Unread: unreadSpec(rest.Spec, err)}
	return nil
}

// unreadSpec names the invalid field of a spec; err is the error for the whole spec.
func unreadSpec(text []byte, err error) string {
	var spec struct {
		Selector            json.RawMessage `json:"selector"`
		UnhealthyConditions []struct {
			Timeout json.RawMessage `json:"timeout"`
		} `json:"unhealthyConditions"`
		MaxUnhealthy        json.RawMessage `json:"maxUnhealthy"`
		NodeStartupTimeout  json.RawMessage `json:"nodeStartupTimeout"`
		RemediationTemplate json.RawMessage `json:"remediationTemplate"`
	}
	if json.Unmarshal(text, &spec) != nil {
		return fmt.Sprintf("spec: %v", err)
	}
	type field struct {
		path string
		text json.RawMessage
		into any
	}
	fields := []field{
		{"selector", spec.Selector, &meta.LabelSelector{}}, {"maxUnhealthy", spec.MaxUnhealthy, &intstr.IntOrString{}},
		{"nodeStartupTimeout", spec.NodeStartupTimeout, &meta.Duration{}}, {"remediationTemplate", spec.RemediationTemplate, &core.ObjectReference{}},
	}
	for i, u := range spec.UnhealthyConditions {
		fields = append(fields, field{fmt.Sprintf("unhealthyConditions[%d].timeout", i), u.Timeout, &meta.Duration{}})
	}
	for _, f := range fields {
		if len(f.text) == 0 {
			continue
		}
		if err := json.Unmarshal(f.text, f.into); err != nil {
			return fmt.Sprintf("spec.%s: %v", f.path, err)
		}
	}
	return fmt.Sprintf("spec: %v", err)
}
