// Package slow determines why a machine is slow, and who makes others wait, from a sample of its
// counters (activity.Sample). It returns the causes above their limits, worst first. The first one
// is the most likely reason only if waiting was measured too. fettle check uses it.
package slow
