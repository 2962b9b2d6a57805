//go:build race

package engine

// raceDetector is true in a build with Go's race detector. It sees that data passes from one
// goroutine to another through a socket only if Go's own calls write and read it.
const raceDetector = true
