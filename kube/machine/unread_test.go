package machine

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestOneCheckThatCannotBeRead tests that the other checks of a list are read, and that the
// unreadable one keeps its name.
func TestOneCheckThatCannotBeRead(t *testing.T) {
	for spec, want := range map[string]string{
		`{"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"},{"type":"Ready","status":"Unknown","timeout":"soon"}]}`: `spec.unhealthyConditions[1].timeout: time: invalid duration "soon"`,
		`{"nodeStartupTimeout":"later"}`: `spec.nodeStartupTimeout: time: invalid duration "later"`,
		`{"maxUnhealthy":[]}`:            "spec.maxUnhealthy: json: cannot unmarshal",
		`{"unhealthyConditions":"none"}`: "spec: json: cannot unmarshal",
	} {
		var l HealthCheckList
		text := `{"items":[{"metadata":{"name":"bad","namespace":"ns"},"spec":` + spec + `,"status":{"expectedMachines":3}},{"metadata":{"name":"good"},"spec":{"maxUnhealthy":"40%"}}]}`
		if err := json.Unmarshal([]byte(text), &l); err != nil || len(l.Items) != 2 {
			t.Fatalf("%s: %v", spec, err)
		}
		bad, good := l.Items[0], l.Items[1]
		if bad.Name != "bad" || bad.Namespace != "ns" || *bad.Status.ExpectedMachines != 3 || !strings.HasPrefix(bad.Unread, want) || bad.DeepCopy().Unread != bad.Unread {
			t.Errorf("%s: %+v, want %q", spec, bad, want)
		}
		if good.Unread != "" || good.Spec.MaxUnhealthy.StrVal != "40%" {
			t.Errorf("%+v", good)
		}
	}
}
