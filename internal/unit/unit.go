// Package unit parses and formats sizes, durations, percentages and CPU lists
// as the kernel and its tools do. It rejects invalid input with a reason, and
// accepts its own output. All layers use it.
package unit
