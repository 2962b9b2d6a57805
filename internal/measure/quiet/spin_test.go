package quiet

import (
	"runtime"

	"fettle.dev/fettle/internal/unit"
)

// spin keeps a CPU busy until stop is closed.
func spin(cpu int, stop <-chan struct{}) error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := Pin(unit.CPUs(cpu)); err != nil {
		return err
	}
	for {
		select {
		case <-stop:
			return nil
		default:
			work(firstPiece)
		}
	}
}
