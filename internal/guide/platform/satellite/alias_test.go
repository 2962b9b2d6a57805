package satellite

import "testing"

// An alias is what it stands for, in lists as well, and in lists of lists.
func TestAliasesAreTheirValues(t *testing.T) {
	e, err := entries("a: &a10 10\nlist: &l [*a10, 7]\nx: *a10\ny: [*a10, *a10]\nz: [*l, *l]\nd: [[1, *a10], 2]\n")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"x": "10", "y": "10 10", "list": "10 7", "z": "10 7 10 7", "d": "1 10 2"} {
		if e[key].text != want {
			t.Errorf("%s is %q, want %q", key, e[key].text, want)
		}
	}
}
