package unit

import "testing"

func TestKernelBefore(t *testing.T) {
	for _, c := range []struct {
		release string
		want    bool
	}{{"5.7.19", true}, {"5.8.0-rc1", false}, {"5.8+", false}, {"4.18.0-553.el8_10.x86_64", true}, {"6.1", false}, {"", false}, {"x", false}, {"5", false}} {
		if got := KernelBefore(c.release, 5, 8); got != c.want {
			t.Errorf("%q: %v", c.release, got)
		}
	}
}
