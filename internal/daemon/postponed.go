package daemon

import (
	"errors"
	"time"
)

// postponed is an ordered list of operations that wait for the end of an experiment. Equal
// operations run once.
type postponed struct {
	names []string
	work  map[string]func() error
	again <-chan time.Time // time of the next check; nil while nothing waits
}

// errIdle is returned by an operation that had nothing to do.
var errIdle = errors.New("nothing to do")

// lookAgain is the interval of the checks for the end of an experiment. It is long because each
// check disturbs the measurement.
const lookAgain = 5 * time.Second

func (p *postponed) add(name string, work func() error) {
	if p.work == nil {
		p.work = map[string]func() error{}
	}
	if p.work[name] == nil {
		p.names = append(p.names, name)
	}
	p.work[name] = work
}

// wait schedules the next check, and reports whether it is the first one.
func (p *postponed) wait() (began bool) {
	began = p.again == nil
	p.again = time.After(lookAgain)
	return began
}

// run runs the postponed operations. It returns errIdle if none of them did anything.
func (p *postponed) run() error {
	names, work := p.names, p.work
	*p = postponed{}
	var errs []error
	idle := len(names) > 0
	for _, name := range names {
		err := work[name]()
		if errors.Is(err, errIdle) {
			continue
		}
		idle = false
		errs = append(errs, err)
	}
	if idle {
		return errIdle
	}
	return errors.Join(errs...)
}
