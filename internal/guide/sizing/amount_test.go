package sizing

import "testing"

func TestAmount(t *testing.T) {
	for want, c := range map[string]struct {
		v  any
		of string
	}{
		"1 node": {1, "nodes"}, "2 nodes": {2, "nodes"}, "1 process": {1, "processes"}, "1/s": {1.0, "1/s"}, "0.333/s": {0.3333, "1/s"},
		"1 ms": {1.0, "ms"}, "1 s": {1.0, "s"}, "1 request/s": {1.0, "requests/s"}, "1 %": {1.0, "%"}, "yes": {true, ""},
	} {
		if got := Amount(c.v, c.of); got != want {
			t.Errorf("%v %s: %q, want %q", c.v, c.of, got, want)
		}
	}
}
