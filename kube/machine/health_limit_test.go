package machine

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func maximum(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	m := intstr.Parse(text)
	return &m
}

// TestTables tests the tables of OpenShift 4.4 Scalability and Performance, 3.4.1, and the results
// of OpenShift's own code for other values.
func TestTables(t *testing.T) {
	asText := intstr.FromString("2")
	for _, c := range []struct {
		max                 *intstr.IntOrString
		machines, unhealthy int
		open                bool
		sentence            string
	}{
		{maximum("2"), 25, 2, true, "maxUnhealthy is 2; 2 are unhealthy: remediation is allowed"},
		{maximum("2"), 25, 3, false, "maxUnhealthy is 2; 3 are unhealthy: nothing is remediated"},
		{maximum("2"), 3, 3, false, "maxUnhealthy is 2; 3 are unhealthy: nothing is remediated"},
		{&asText, 25, 3, false, "maxUnhealthy is 2; 3 are unhealthy: nothing is remediated"},
		{maximum("40%"), 25, 10, true, "40 % of 25 machines is 10; 10 are unhealthy: remediation is allowed"},
		{maximum("40%"), 25, 11, false, "40 % of 25 machines is 10; 11 are unhealthy: nothing is remediated"},
		{maximum("40%"), 6, 2, true, "40 % of 6 machines is 2 (2.4 rounded down); 2 are unhealthy: remediation is allowed"},
		{maximum("40%"), 6, 3, false, "40 % of 6 machines is 2 (2.4 rounded down); 3 are unhealthy: nothing is remediated"},
		{maximum("40%"), 5, 2, true, "40 % of 5 machines is 2; 2 are unhealthy: remediation is allowed"},
		{maximum("60%"), 7, 4, true, "60 % of 7 machines is 4 (4.2 rounded down); 4 are unhealthy: remediation is allowed"},
		{maximum("60%"), 7, 5, false, "60 % of 7 machines is 4 (4.2 rounded down); 5 are unhealthy: nothing is remediated"},
		{maximum("33%"), 7, 0, true, "33 % of 7 machines is 2 (2.31 rounded down); none is unhealthy"},
		{maximum("40%"), 1, 1, false, "40 % of 1 machine is 0 (0.4 rounded down); 1 is unhealthy: nothing is remediated"},
		{nil, 3, 3, true, "maxUnhealthy is not set (100 %): all of 3 machines; 3 are unhealthy: remediation is allowed"},
		{maximum("0"), 3, 1, false, "maxUnhealthy is 0; 1 is unhealthy: nothing is remediated"},
		{maximum("-1"), 3, 1, false, "maxUnhealthy is -1, which counts as 0; 1 is unhealthy: nothing is remediated"},
		{maximum("-1"), 3, 0, true, "maxUnhealthy is -1, which counts as 0; none is unhealthy"},
		{maximum("100%"), 3, 3, true, "100 % of 3 machines is 3; 3 are unhealthy: remediation is allowed"},
		{maximum("0%"), 3, 1, false, "0 % of 3 machines is 0; 1 is unhealthy: nothing is remediated"},
		{maximum("101%"), 3, 0, false, `maxUnhealthy is "101%"; want at most 100%: nothing is remediated`},
		{maximum("400%"), 10, 3, false, `maxUnhealthy is "400%"; want at most 100%: nothing is remediated`},
		{maximum("9223372036854775807%"), 10, 3, false, `maxUnhealthy is "9223372036854775807%"; want at most 100%: nothing is remediated`},
		{maximum("some"), 3, 0, false, `maxUnhealthy is "some"; want a number or a percentage: nothing is remediated`},
		{maximum("x%"), 3, 0, false, `maxUnhealthy is "x%"; want a number or a percentage: nothing is remediated`},
	} {
		l := LimitOf(c.max, c.machines)
		if got := l.Sentence(c.unhealthy); l.Open(c.unhealthy) != c.open || got != c.sentence {
			t.Errorf("%v of %d, %d unhealthy: open %t, %q; want %t, %q", c.max, c.machines, c.unhealthy, l.Open(c.unhealthy), got, c.open, c.sentence)
		}
	}
}
