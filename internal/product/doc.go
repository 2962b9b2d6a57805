// Package product describes a server product whose settings fettle reads and writes, and
// finds its packages and processes on a machine.
package product
