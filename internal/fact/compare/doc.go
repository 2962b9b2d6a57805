// Package compare compares the values of two or hundreds of machines: which differ, which value
// most machines have, which machines deviate, and which differences are to be expected. In: a
// Snapshot of each machine, one after the other. Out: Result, a document for people and programs.
// The verb facts compare uses it.
package compare
