package network

import (
	"context"
	"runtime"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// pacer waits for the times at which requests and probes should start, and counts the late ones.
// The runtime's timers are rounded to milliseconds while a process is idle, which is many times
// the round trip of a local network.
type pacer struct {
	alarm  *engine.Alarm
	every  time.Duration
	spin   time.Duration // the last part of a wait, for which the pacer does not sleep
	starts int
	late   int
	cancel func() bool
}

// requestSpin covers the delay with which a timer wakes a program (about 50 µs).
const requestSpin = 200 * time.Microsecond

// newPacer returns a pacer for starts at an interval, which ctx ends. The caller must close it.
func newPacer(ctx context.Context, every, spin time.Duration) (*pacer, error) {
	alarm, err := engine.NewAlarm()
	if err != nil {
		return nil, err
	}
	return &pacer{alarm: alarm, every: every, spin: spin, cancel: context.AfterFunc(ctx, alarm.Close)}, nil
}

// until waits until t. It returns false if ctx has ended.
func (p *pacer) until(t time.Time) bool {
	if !p.alarm.Until(t.Add(-p.spin)) {
		return false
	}
	for time.Until(t) > 0 {
		runtime.Gosched()
	}
	return true
}

// started counts a start. It is late if this program made it more than half of the interval after
// its time.
func (p *pacer) started(due, at time.Time) {
	p.starts++
	if at.Sub(due) > p.every/2 {
		p.late++
	}
}

func (p *pacer) close() {
	p.cancel()
	p.alarm.Close()
}
