package network

import (
	"context"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// pacer waits for the times at which requests and probes should start, and counts the late ones.
// The runtime's timers are rounded to milliseconds while a process is idle, which is many times the
// round trip of a local network. An alarm is late by about 20 µs. Spinning would reduce that, but
// on a busy machine the scheduler then stops this program for milliseconds.
type pacer struct {
	alarm  *engine.Alarm
	every  time.Duration
	late   int
	cancel func() bool
}

// leastLate is the minimum delay that counts as late: the delay of an alarm on a busy machine.
const leastLate = 100 * time.Microsecond

// newPacer returns a pacer for starts at an interval, which ctx ends. The caller must close it.
func newPacer(ctx context.Context, every time.Duration) (*pacer, error) {
	alarm, err := engine.NewAlarm()
	if err != nil {
		return nil, err
	}
	return &pacer{alarm: alarm, every: every, cancel: context.AfterFunc(ctx, alarm.Close)}, nil
}

// until waits until t. It returns false if ctx has ended.
func (p *pacer) until(t time.Time) bool { return p.alarm.Until(t) }

// started counts a start. It is late if this program made it more than half of the interval, and
// more than leastLate, after its time.
func (p *pacer) started(due, at time.Time) {
	if at.Sub(due) > max(p.every/2, leastLate) {
		p.late++
	}
}

func (p *pacer) close() {
	p.cancel()
	p.alarm.Close()
}
