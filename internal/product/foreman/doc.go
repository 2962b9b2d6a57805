// Package foreman reads, queries and sets two programs of Foreman: its web server Puma, and
// Dynflow, which runs its tasks in several units.
package foreman
