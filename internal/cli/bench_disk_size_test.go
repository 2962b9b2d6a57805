package cli

import "testing"

// TestBenchDiskSize: a file of no bytes is refused, and not taken for the usual size.
func TestBenchDiskSize(t *testing.T) {
	for _, size := range []string{"0", "0GiB"} {
		if n, err := (benchDiskOptions{size: size}).fileSize(nil); err == nil {
			t.Errorf("--size %s is %d", size, n)
		}
	}
}
