// Package foreman knows two programs of Foreman: Puma, its web server, and Dynflow, the
// units that run its tasks.
package foreman
