// Package unit parses and formats sizes, durations, percentages and CPU lists like the kernel
// and its tools. It rejects invalid input with a reason, and accepts its own output. All
// layers use it.
package unit

import "fmt"

// KernelBefore reports whether a kernel release (uname -r) is older than major.minor. It
// returns false for an invalid release.
func KernelBefore(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}
