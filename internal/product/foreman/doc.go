// Package foreman has two programs of Foreman: Puma, its web server, and Dynflow, which runs
// its tasks in more than one unit.
package foreman
