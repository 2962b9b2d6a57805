package machine

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is read is read again the same from what it is written as.
func FuzzReadHealthCheck(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineHealthCheck","metadata":{"name":"a"},"spec":{"selector":{},"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"1s"}],"maxUnhealthy":3}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadHealthCheck("f", text)
		if err != nil {
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ReadHealthCheck("f", again)
		if err != nil {
			t.Fatalf("%v:\n%s", err, again)
		}
		if diff := cmp.Diff(c.Spec, d.Spec); diff != "" {
			t.Errorf("read again:\n%s", diff)
		}
	})
}
