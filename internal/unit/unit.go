// Package unit parses and formats sizes, durations, percentages and CPU lists
// as the kernel and its tools do. It rejects invalid input with a reason, and
// accepts its own output. All layers use it.
package unit

import "fmt"

// KernelBefore reports whether a kernel release (uname -r) is older than major.minor. It
// reports false if the release cannot be parsed.
func KernelBefore(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}
