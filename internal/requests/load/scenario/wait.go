package scenario

import (
	"fmt"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// await polls a URL until a state is reached.
func (h *virtual) await(s *step, o *outcome) {
	b := scratches.Get().(*scratch)
	defer b.release()
	w := s.wait
	end := h.now() + w.within
	for due := h.now(); ; due = min(due+w.every, end) {
		if h.sleep(due) != nil {
			o.fail(string(engine.Interrupted), nil)
			return
		}
		a := h.request(&w.httpAction, b, due, true, o)
		if o.cause != "" {
			return
		}
		if a.status >= 400 {
			o.fail(wrongStatus, fmt.Errorf("status %d", a.status))
			return
		}
		reached, _, err := a.met(w.until, h.values)
		if err != nil {
			o.fail(wrongBody, err)
			return
		}
		if w.fail != nil {
			failed, got, err := a.met(w.fail, h.values)
			if err == nil && failed {
				err = fmt.Errorf("%s: %.100q", w.fail.text, got)
			}
			if err != nil {
				o.fail(notMet, err)
				return
			}
		}
		if reached {
			h.judge(s, a, o)
			return
		}
		if due >= end {
			o.fail(notMet, fmt.Errorf("%s: not reached within %v", w.until.text, w.within))
			o.waited = true
			return
		}
		due = max(due, h.now()-time.Millisecond) // no burst after a slow answer
	}
}
