package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/ui"
)

// endWith ends the process a second after ctx has, unless the function that it
// returns is called first: gigabytes of logs are not read with an eye on ctx. It is
// for what has nothing to give back; where something is written it would leave that
// half done. Rules need it not: nobody waits for their expressions when ctx has ended.
func endWith(ctx context.Context) (done func()) {
	finished := make(chan struct{})
	go func() {
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		select {
		case <-finished:
		case <-time.After(time.Second):
			os.Exit(ui.Interrupted)
		}
	}()
	return func() { close(finished) }
}

// ending are the signals that interrupt a verb: it gives back what it has written.
// Ctrl-\ is one of them, unless somebody asks Go for its stacks (GOTRACEBACK).
func ending() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if os.Getenv("GOTRACEBACK") == "" {
		all = append(all, syscall.SIGQUIT)
	}
	return all
}

// insisted is how long after the first signal another one means that somebody does not
// want to wait any longer.
const insisted = 5 * time.Second

// holdOut keeps further signals from ending the process before the machine is restored,
// from now on to its end: the first is the context's, the second gets a word. A third
// one, or one that comes late, calls leave.
func (a *app) holdOut(restored func() bool, leave func()) {
	told := make(chan os.Signal, 8)
	signal.Notify(told, ending()...)
	go func() {
		first, n := time.Time{}, 0
		for range told {
			n++
			switch {
			case n == 1:
				first = time.Now()
			case n > 2 || time.Since(first) > insisted:
				leave()
			case !restored():
				a.screen.Say("restoring; a moment")
			}
		}
	}()
}
