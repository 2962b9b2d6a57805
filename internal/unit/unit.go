// Package unit parses and prints sizes, times and CPU lists as the kernel and
// its tools write them. It reads nothing from a machine, refuses what it does
// not understand with a reason, and reads back what it prints.
package unit
