package host

import "testing"

// One ring takes 64 KiB and all of them 512 KiB, whatever the page size; a ring has one page at least.
func TestPagesOfRing(t *testing.T) {
	for _, c := range []struct{ pageSize, cpus, want int }{
		{4 << 10, 2, 16}, {4 << 10, 16, 8}, {4 << 10, 1000, 1}, {16 << 10, 4, 4}, {64 << 10, 2, 1}, {64 << 10, 128, 1},
	} {
		if got := pagesOfRing(c.pageSize, c.cpus); got != c.want {
			t.Errorf("pages of %d bytes, %d CPUs: %d pages, want %d", c.pageSize, c.cpus, got, c.want)
		}
	}
}
