package cli

import (
	"fmt"
	"time"

	"fettle.dev/fettle/internal/unit"
)

// silentFor is the time before progress is first shown. progressEvery is the interval after that.
const (
	silentFor     = time.Second
	progressEvery = 500 * time.Millisecond
)

// progress shows the progress of work that takes longer than a second on a terminal, with the
// remaining time. at returns the amount done and the total, or 0 if that is unknown. The
// caller must call stop.
func (a *app) progress(what string, at func() (done, all int64)) (stop func()) {
	if a.screen.Width == 0 {
		return func() {}
	}
	ended, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		began := time.Now()
		wait := time.NewTimer(silentFor)
		defer wait.Stop()
		for {
			select {
			case <-ended:
				return
			case <-wait.C:
			}
			done, all := at()
			a.screen.Status("%s", progressLine(what, done, all, time.Since(began)))
			wait.Reset(progressEvery)
		}
	}()
	return func() {
		close(ended)
		<-closed
		a.screen.Status("")
	}
}

// progressLine describes progress: the share done, and an estimate of the remaining time.
func progressLine(what string, done, all int64, took time.Duration) string {
	if all <= 0 || done <= 0 {
		return fmt.Sprintf("%s, for %s so far", what, unit.FormatSeconds(took.Round(time.Second).Seconds()))
	}
	left := time.Duration(float64(took) * float64(all-done) / float64(done))
	return fmt.Sprintf("%s: %d %%, about %s left", what, 100*done/all, unit.FormatSeconds(max(left.Round(time.Second), time.Second).Seconds()))
}
