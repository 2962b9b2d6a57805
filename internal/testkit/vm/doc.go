// Package vm boots the Debian test root in QEMU, in software, with the hardware that a test
// requires.
package vm
