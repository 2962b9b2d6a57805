// Package plugin contains what the tests of plug-ins share: machines for them, and undo of the
// files that they write.
package plugin
