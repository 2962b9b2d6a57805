package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/machine"
)

// remind is the interval at which an unchanged wait is reported again.
const remind = 30 * time.Second

// making is how long a shrinking set may take to create requested machines, which normally takes
// seconds. Machines not created by then are canceled.
const making = 30 * time.Second

// late is the error of a wait that took too long.
type late struct {
	within time.Duration
	what   string
}

func (l *late) Error() string { return fmt.Sprintf("after %s: %s", l.within, l.what) }

// waiting is a wait with a deadline and its last report.
type waiting struct {
	r          *Run
	began, end time.Time
	said       string
	at         time.Time
}

func (r *Run) waiting(within time.Duration) *waiting {
	now := r.now()
	return &waiting{r: r, began: now, end: now.Add(within)}
}

func (w *waiting) over() bool { return w.r.now().After(w.end) }

// say reports the object and the deadline of a wait: at once, after changes, and every remind.
func (w *waiting) say(what string) {
	now := w.r.now()
	if what == w.said && now.Sub(w.at) < remind {
		return
	}
	w.said, w.at = what, now
	w.r.Say("waiting until at most %s (%s of %s): %s", w.end.Local().Format(time.TimeOnly), now.Sub(w.began).Round(time.Second), w.end.Sub(w.began), what)
}

// wait polls until missing returns "". After the time limit it returns a late error.
func (r *Run) wait(ctx context.Context, within time.Duration, missing func(*Input) (string, error)) error {
	for w := r.waiting(within); ; {
		in, err := r.Read(ctx, false)
		if err != nil {
			return err
		}
		what, err := missing(in)
		if err != nil || what == "" {
			return err
		}
		if w.over() {
			return &late{within, what}
		}
		w.say(what)
		if err := r.sleep(ctx, r.Interval); err != nil {
			return err
		}
	}
}

// Settle waits until the sets have all their machines and none is being removed. Unless the sets
// shrink, none may be joining either. It does not wait for machines whose join time has passed:
// they are an error or, if the sets shrink, removed first.
func (r *Run) Settle(ctx context.Context) error {
	in, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	r.Shut = shut(in)
	if _, err := r.begun(in); err != nil { // before the wait
		return err
	}
	r.fill(in)
	joins, err := JoinTimeouts(*in)
	if err != nil {
		return err
	}
	all := 0
	for i := range in.Sets {
		all += replicas(&in.Sets[i])
	}
	r.falling = r.falling || !r.Roll && r.Machines < all
	patience := r.settles(in, joins)
	if r.since.IsZero() {
		r.since = r.now()
	}
	var not *NotCome
	err = r.wait(ctx, patience, func(in *Input) (string, error) {
		r.Shut = shut(in)
		var what []string
		not, what = r.unsettled(in, joins)
		if len(not.Machines) > 0 && !r.falling && !r.Roll {
			return "", fmt.Errorf("%w: %w", ErrBlocked, not)
		}
		return strings.Join(what, ", "), nil
	})
	var end *late
	if errors.As(err, &end) && len(not.Unmade) > 0 {
		not.Late = end.within
		return not
	}
	return err
}

// settles returns the time limit for Settle: the times to join and to disappear. If machines only
// join, it is the time to create and join.
func (r *Run) settles(in *Input, joins map[string]time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, t := range joins {
		longest = max(longest, t)
	}
	has := map[string]int{}
	for _, m := range members(in) {
		if m.DeletionTimestamp != nil {
			return max(longest, r.Patience)
		}
		has[m.Set()]++
	}
	for i := range in.Sets {
		if r.falling || has[in.Sets[i].Name] > replicas(&in.Sets[i]) {
			return max(longest, r.Patience)
		}
	}
	return max(longest, min(r.Patience, longest+making))
}

// unsettled returns which machines are joining or leaving. not lists those that have exceeded their
// time to join or to be created.
func (r *Run) unsettled(in *Input, joins map[string]time.Duration) (not *NotCome, out []string) {
	not = &NotCome{Namespace: in.Sets[0].Namespace}
	for i := range in.Sets {
		s := &in.Sets[i]
		want, has, leaving := replicas(s), 0, 0
		var starting []string
		for _, m := range members(in) {
			switch {
			case m.Set() != s.Name:
			case m.DeletionTimestamp != nil:
				leaving++
			case m.Node() == "" && m.Phase() != machine.PhaseFailed:
				has++
				switch since := m.CreationTimestamp.Time; {
				case since.IsZero():
					starting = append(starting, m.Name)
				case r.now().Sub(since) > joins[s.Name]:
					not.Machines = append(not.Machines, absent(in, m, fmt.Sprintf(", more than %s after its creation", joins[s.Name])))
				default:
					starting = append(starting, m.Name+" until "+since.Add(joins[s.Name]).Local().Format(time.TimeOnly))
				}
			default:
				has++
			}
		}
		unmade := max(0, want-has)
		switch {
		case unmade > 0 && leaving == 0 && r.takesBack(s):
			// They are the first to go.
		case has != want || leaving > 0:
			out = append(out, text.Sprintf("machine set %s: want %s, has %d and %d being deleted", s.Name, text.Count(want, "machine"), has, leaving))
			if unmade > 0 {
				not.Unmade = append(not.Unmade, out[len(out)-1])
				not.unmade += unmade
			}
		case len(starting) > 0 && !r.falling: // else they are the first to go
			out = append(out, text.Sprintf("machines of machine set %s that have not joined: %d (%s)", s.Name, len(starting), some(starting)))
		}
		not.Back += want
	}
	not.Back -= len(not.Machines) + not.unmade
	return not, out
}

// takesBack reports whether a set shrinks, also within a rollout, so that machines it has not
// created yet are removed first instead of awaited.
func (r *Run) takesBack(s *machine.Set) bool {
	if r.now().Sub(r.since) <= making {
		return false
	}
	b, begun, _ := BegunOn(s)
	return r.falling || r.Roll && begun && replicas(s) > b.Replicas
}
