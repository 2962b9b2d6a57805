package machine

import (
	"encoding/json"
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnmarshalJSON reads a check. One whose spec cannot be read is no error, but says so in
// Unread: an API server does not check what other programs read out of a text, as times.
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

// unreadSpec says which field of a spec cannot be read; err is what is said of the whole.
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
