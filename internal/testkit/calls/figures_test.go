package calls

import "testing"

func TestFiguresOfPIDs(t *testing.T) {
	const table = "container      pid  name  threads\na            32706  java    12345\n"
	for output, want := range map[string]int{
		table:                             1, // the threads
		table + "\n32706 requests came\n": 2, // the table has ended
	} {
		if got := Figures(output); len(got) != want {
			t.Errorf("%q: %q", output, got)
		}
	}
}
