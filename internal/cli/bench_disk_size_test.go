package cli

import "testing"

// TestBenchDiskSize: a file of no bytes is refused, and not taken for the usual size.
func TestBenchDiskSize(t *testing.T) {
	for _, size := range []string{"0", "0GiB"} {
		if err := readsFileSize(size); err == nil {
			t.Errorf("--size %s is taken", size)
		}
	}
}
