package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// worker sends one request at a time.
type worker struct {
	*running
	lane int
}

func (w *worker) work(first job) {
	w.one(first)
	for j := range w.jobs {
		w.one(j)
	}
}

// one creates one object. It completes a started request even if the run ends, so that the journal
// has the result.
func (w *worker) one(j job) {
	defer w.underWay.Done()
	if j.act {
		w.act(j.number)
		return
	}
	a := Answer{Object: j.number, Due: j.due}
	before, began := w.doubtful(j.number), time.Now()
	uid, adopted, err := w.make(j.number, &a)
	if a.End = time.Now(); adopted {
		a.Asked, a.Found = began, before
	}
	switch {
	case err == nil:
		if a.Was == Reused {
			w.Journal.Reused(j.number, uid)
		} else {
			w.Journal.Created(j.number, uid)
		}
	case w.quit.Err() != nil && errors.Is(err, errCut):
		return // the result is unknown; the journal has a reservation
	default:
		a.Was = Failed
		if refused := (*refused)(nil); errors.As(err, &refused) {
			w.Journal.Refused(j.number, err.Error())
		} else {
			w.Journal.Failed(j.number, err.Error())
		}
	}
	w.count(&a, uid, err)
	if w.On != nil {
		w.On(a)
	}
	if err := w.Journal.Err(); err != nil {
		w.end(err)
	}
}

// errCut means that the run ended before the object was created.
var errCut = errors.New("the run ended")

// A run ends if failures exceed this share of all attempts and this number.
const (
	tooMany      = 50
	tooManyShare = 0.1
)

func (w *worker) count(a *Answer, uid string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := a.Object
	w.State.Objects[i].Was = a.Was
	if w.Plan.Actions() > 0 {
		w.State.Objects[i].UID = uid // later actions apply only to this UID
	}
	o := &w.out
	switch a.Was {
	case Created:
		o.Created++
		if !a.Asked.IsZero() {
			o.Adopted++
		}
		if a.Found {
			o.Found++
		}
	case Reused:
		o.Reused++
	default:
		o.Failed++
		message := err.Error()
		o.reason(message)
		if _, space := w.Plan.StageSpace(i); space {
			w.end(fmt.Errorf("%s: %s: %s", w.Plan.At(i), w.Plan.Describe(i), message))
		}
		if o.Failed >= tooMany && float64(o.Failed) > tooManyShare*float64(o.Created+o.Reused+o.Failed) {
			w.end(text.Errorf("%w: %d of %d; the last one: %s: %s", ErrTooMany, o.Failed, o.Created+o.Reused+o.Failed, w.Plan.Describe(i), message))
		}
	}
}

// reason counts one failure by its reason.
func (o *DriveOutcome) reason(text string) {
	if _, known := o.Errors[text]; known || len(o.Errors) < 20 {
		o.Errors[text]++
	} else {
		o.Errors[OtherReasons]++
	}
}

// refused is an error after which the object certainly does not exist.
type refused struct{ error }

func (r *refused) Unwrap() error { return r.error }

// doubtful reports whether an earlier process may have created an object without recording it.
func (w *worker) doubtful(i int) bool {
	w.mu.Lock()
	o := w.State.Objects[i]
	w.mu.Unlock()
	return i < w.State.Reserved && !(o.Was == Failed && o.Refused)
}

// definite reports whether an error status means that nothing was created.
func definite(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusConflict && status != http.StatusRequestTimeout
}

// make repeats the request until the object exists or cannot be created.
func (w *worker) make(i int, a *Answer) (uid string, adopted bool, err error) {
	kind := w.Plan.Kind(i)
	space := w.Plan.Namespace(i)
	path := kind.Path(space)
	body := w.Plan.Body(i)
	began, pause := time.Now(), 20*time.Millisecond
	doubt := w.doubtful(i)
	failed := func(err error) error {
		if doubt {
			return err
		}
		return &refused{err}
	}
	// The end of the run does not cancel the request: the server may execute it anyway.
	ctx := context.WithoutCancel(w.quit)
	for {
		a.Sent = time.Now()
		answer, err := w.Server.Do(ctx, w.lane/cluster.PerLane, http.MethodPost, path, body)
		wait := pause
		doubt = doubt || err != nil || !definite(answer.Status)
		switch {
		case err != nil: // no answer
		case answer.Status == http.StatusCreated || answer.Status == http.StatusOK || answer.Status == http.StatusAccepted:
			a.Was = Created
			uid, err := uidOf(answer.Body)
			return uid, false, err
		case answer.Status == http.StatusConflict:
			uid, was, again, err := w.there(ctx, i, path)
			if !again {
				a.Was = was
				return uid, was == Created, err
			}
			wait = max(wait, 200*time.Millisecond)
		case answer.Status == http.StatusTooManyRequests:
			w.throttle()
			wait = max(wait, answer.After)
		case answer.Status >= 500, notYet(answer):
			wait = max(wait, answer.After)
		default:
			return "", false, failed(answer.Err())
		}
		if err == nil {
			err = answer.Err()
		}
		switch err := w.again(began, wait, err); {
		case errors.Is(err, errCut):
			return "", false, err
		case err != nil:
			return "", false, failed(err)
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// throttle records that the server throttled a request.
func (w *worker) throttle() {
	w.throttled.Add(1)
	if w.Throttle != nil {
		w.Throttle()
	}
}

// again waits before a request that failed with err is repeated. It returns an error if Patience,
// since began, would be over, and errCut if the run ends.
func (w *worker) again(began time.Time, wait time.Duration, err error) error {
	if spent := time.Since(began); spent+wait > w.Patience {
		return fmt.Errorf("given up after %s: %w", spent.Round(time.Second), err)
	}
	w.retried.Add(1)
	if host.Sleep(w.quit, wait) != nil {
		return errCut
	}
	return nil
}

// notYet reports whether an object was rejected only because an object it needs does not exist yet:
// its namespace, or a pod's service account, which a controller creates for each namespace.
func notYet(a cluster.Answer) bool {
	if a.Status != http.StatusForbidden && a.Status != http.StatusNotFound {
		return false
	}
	text := string(a.Body)
	return a.Status == http.StatusForbidden && strings.Contains(text, "serviceaccount") && strings.Contains(text, "not found") ||
		a.Status == http.StatusNotFound && strings.Contains(text, `namespaces \"`)
}

// there reads the object that has the name already. It may belong to this run before a crash or to
// another client, or be in deletion.
func (w *worker) there(ctx context.Context, i int, path string) (uid string, was Was, again bool, err error) {
	m, err := w.Server.Metadata(ctx, w.lane/cluster.PerLane, path+"/"+w.Plan.Name(i))
	switch ifExists, space := w.Plan.StageSpace(i); {
	case cluster.IsStatus(err, http.StatusNotFound):
		return "", Failed, true, nil
	case err != nil:
		return "", Failed, true, nil // the next conflict repeats the check
	case m.DeletionTimestamp != "":
		return "", Failed, true, nil
	case Ours(w.Plan, i, m):
		return m.UID, Created, false, nil
	case space && ifExists == plan.Reuse:
		return m.UID, Reused, false, nil
	}
	return "", Failed, false, fmt.Errorf("%s already exists and does not belong to this run", w.Plan.Kind(i).Kind)
}

// Ours reports whether a plan's run created the object with metadata m as its object i.
func Ours(p *plan.Plan, i int, m cluster.Metadata) bool {
	return m.Labels[plan.RunLabel] == p.Run && m.Annotations[plan.ObjectNote] == fmt.Sprint(i) && m.Name == p.Name(i)
}
