// Package run carries out a cluster load: it makes the objects, follows and measures them,
// observes the control plane, keeps a journal, and takes back what the run made.
package run
