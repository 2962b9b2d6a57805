package scenario

import "testing"

// TestNext: the hint to remove objects is only there if objects may be left.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		x    Result
		want bool
	}{
		"created":          {Result{RunID: "r", Created: &Created{Intended: 2, Known: 2}}, true},
		"created nothing":  {Result{RunID: "r", Created: &Created{}}, false},
		"removed by runs":  {Result{RunID: "r", Created: &Created{Intended: 2, Known: 2}, Ladder: &Ladder{}}, false},
		"creates nothing":  {Result{RunID: "r"}, false},
		"reads, as ladder": {Result{RunID: "r", Ladder: &Ladder{}}, false},
	} {
		if text, call := c.x.Next(); (text != "") != c.want || (len(call) > 0) != c.want {
			t.Errorf("%s: %q %q", name, text, call)
		}
	}
}
