package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endingSignals returns the signals that interrupt a verb. They include Ctrl-\, unless
// GOTRACEBACK is set: it then prints Go's stacks.
func endingSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if os.Getenv("GOTRACEBACK") == "" {
		all = append(all, syscall.SIGQUIT)
	}
	return all
}

// impatient is the time after the first signal from which another one ends the process.
const impatient = 5 * time.Second

// ignoreSignals keeps signals from ending the process before the machine is restored. The
// first signal ends the context, and the second only prints a message. A third signal, or one
// later than impatient after the first, calls leave.
func (a *app) ignoreSignals(restored func() bool, leave func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endingSignals()...)
	go func() {
		first, n := time.Time{}, 0
		for range signals {
			n++
			switch {
			case n == 1:
				first = time.Now()
			case n > 2 || time.Since(first) > impatient:
				leave()
			case !restored():
				a.screen.Say("restoring the old values; please wait")
			}
		}
	}()
}
