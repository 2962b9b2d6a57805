// Package slow says why a machine is slow, and who makes others wait, from a sample of its
// counters (activity.Sample). It returns the causes that are above their limits, the worst first,
// and calls the first one the most likely reason only if waiting was measured, too. It is used by
// fettle check.
package slow
