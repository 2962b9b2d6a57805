package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endingSignals returns the signals that interrupt a verb, which then undoes its changes. They
// include Ctrl-\, unless GOTRACEBACK is set to get Go's stacks.
func endingSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if os.Getenv("GOTRACEBACK") == "" {
		all = append(all, syscall.SIGQUIT)
	}
	return all
}

// impatient is the time after the first signal after which another one ends the process.
const impatient = 5 * time.Second

// ignoreSignals prevents further signals from ending the process before the machine is
// restored: the first one ends the context, the second only prints a message. A third one, or
// one that arrives later than impatient, calls leave.
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
				a.screen.Say("restoring; a moment")
			}
		}
	}()
}
