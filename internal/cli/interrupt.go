package cli

import (
	"context"
	"os"
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
