package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// Acted is a completed action.
type Acted struct {
	Kind plan.Kind
	// Do is spec.Patch, spec.Remove or spec.Get.
	Do        string
	Sent, End time.Time
}

// act starts an operation's actions.
func (x *running) act(op *plan.Op) error {
	if err := x.others(op.Action); err != nil {
		return err
	}
	for i := op.From; i < op.To; i++ {
		if x.State.Acted[i] {
			x.out.ActedBefore++
			continue
		}
		if _, object := x.Plan.Action(i); x.was(object) != Created {
			x.out.Skipped++ // the object was not created, or no longer exists
			continue
		}
		if err := x.start(job{number: i, act: true}, op, true); err != nil {
			return err
		}
	}
	return nil
}

// others records, once per action, whether its labels also match objects of other runs or clients,
// which stay untouched. Without the right to list objects it records nothing.
func (x *running) others(a *plan.Action) error {
	k, known := x.Plan.KindOf(a)
	if x.looked[a] || !known {
		return nil
	}
	x.looked[a] = true
	var page list
	err := x.Server.GetMetadata(x.quit, k.Path("")+"?limit=1&labelSelector="+url.QueryEscape(plan.Selected(a.Labels)+","+plan.RunLabel+"!="+x.Plan.Run), &page)
	if x.quit.Err() != nil {
		return context.Cause(x.quit)
	}
	if err == nil && len(page.Items) > 0 {
		x.out.Others = append(x.out.Others, fmt.Sprintf("%s: %s objects of other clients also match %s, such as %s; %s applies to this run's objects only", a.At, k.Kind, plan.Selected(a.Labels), page.Items[0].Metadata.Name, a.Do))
	}
	return nil
}

// list is the part of a list that is read.
type list struct {
	Items []struct{ Metadata cluster.Metadata }
}

// gone waits until no object of the run that an action selects exists. This includes objects that
// controllers created from the run's objects.
func (x *running) gone(op *plan.Op) error {
	k, known := x.Plan.KindOf(op.Action)
	if !known {
		return nil
	}
	end, pause := time.Now().Add(op.Timeout), 100*time.Millisecond
	for {
		var page list
		err := x.Server.GetMetadata(x.quit, k.Path("")+"?limit=1&labelSelector="+url.QueryEscape(x.Plan.Selector(op.Action)), &page)
		var answer *cluster.Error
		switch {
		case x.quit.Err() != nil:
			return context.Cause(x.quit)
		case err == nil && len(page.Items) == 0:
			return nil
		case errors.As(err, &answer) && answer.Status < 500 && answer.Status != http.StatusTooManyRequests:
			return fmt.Errorf("%s: cannot check whether the %s are gone: %w", op.At, k.Resource, err)
		case time.Now().After(end) && err == nil:
			return fmt.Errorf("%s: still present after %s: %s, such as %s", op.At, op.Timeout, k.Resource, page.Items[0].Metadata.Name)
		case time.Now().After(end):
			return fmt.Errorf("%s: after %s: %w", op.At, op.Timeout, err)
		}
		if err := host.Sleep(x.quit, pause); err != nil {
			return err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// act carries out one action. It completes a started action even if the run ends.
func (w *worker) act(i int) {
	a, object := w.Plan.Action(i)
	w.mu.Lock()
	uid := w.State.Objects[object].UID
	w.mu.Unlock()
	done := Acted{Kind: w.Plan.Kind(object), Do: a.Do}
	answer, err := w.ask(i, a, object, uid, &done)
	if errors.Is(err, errCut) {
		return // left to resume
	}
	// A missing object needs no deletion.
	if err == nil && answer.Status >= 300 && !(a.Do == plan.Remove && answer.Status == http.StatusNotFound) {
		err = answer.Err()
	}
	w.mu.Lock()
	if err == nil {
		w.out.Acted[a.Do]++
		if a.Do == plan.Remove {
			w.State.Objects[object].Was = Gone
		}
	} else {
		w.out.ActFailed++
		w.out.reason(a.Do + ": " + err.Error())
		if tried := w.out.ActFailed + w.out.Acted[plan.Patch] + w.out.Acted[plan.Remove] + w.out.Acted[plan.Get]; w.out.ActFailed >= tooMany && float64(w.out.ActFailed) > tooManyShare*float64(tried) {
			w.end(text.Errorf("%s: %w: %d of %d; the last one: %s: %s: %w", a.At, errTooManyActs, w.out.ActFailed, tried, a.Do, w.Plan.Describe(object), err))
		}
	}
	w.mu.Unlock()
	if err != nil {
		return
	}
	if a.Do == plan.Remove {
		w.Journal.Gone(object)
	}
	w.Journal.Acted(i)
	if a.Do == plan.Patch && w.Follower != nil && Takes(done.Kind.Kind) {
		var o struct{ Metadata struct{ Generation int64 } }
		if json.Unmarshal(answer.Body, &o) == nil {
			w.Follower.Expect(Key{Kind: done.Kind.Kind, Namespace: w.Plan.Namespace(object), Name: w.Plan.Name(object)}, o.Metadata.Generation)
		}
	}
	if w.OnAct != nil && answer.Status < 300 {
		w.OnAct(done)
	}
	if err := w.Journal.Err(); err != nil {
		w.end(err)
	}
}

var errTooManyActs = errors.New("too many actions failed")

// ask repeats an action's request until the server answers.
func (w *worker) ask(i int, a *plan.Action, object int, uid string, done *Acted) (cluster.Answer, error) {
	path := done.Kind.Path(w.Plan.Namespace(object)) + "/" + w.Plan.Name(object)
	ctx, lane := context.WithoutCancel(w.quit), w.lane/cluster.PerLane
	began, pause := time.Now(), 20*time.Millisecond
	for {
		var answer cluster.Answer
		var err error
		done.Sent = time.Now()
		switch a.Do {
		case plan.Patch:
			body, media, failed := w.Plan.Patch(i, uid)
			if failed != nil {
				return answer, failed
			}
			query := ""
			if media == plan.ApplyPatch {
				query = "?fieldManager=kubectl-fettle"
			}
			answer, err = w.Server.Patch(ctx, lane, path+query, media, body)
		case plan.Remove:
			answer, err = w.Server.Do(ctx, lane, http.MethodDelete, path, deleteOptions(uid))
		default:
			answer, err = w.Server.Do(ctx, lane, http.MethodGet, path, nil)
		}
		done.End = time.Now()
		wait := max(pause, answer.After)
		switch {
		case err != nil || answer.Status >= 500:
		case answer.Status == http.StatusConflict && a.Do == plan.Remove:
			m, err := w.Server.Metadata(ctx, lane, path)
			if cluster.IsStatus(err, http.StatusNotFound) || err == nil && m.UID != uid {
				return cluster.Answer{Status: http.StatusNotFound}, nil // another object has taken the name
			}
		case answer.Status == http.StatusTooManyRequests:
			w.throttle()
		default:
			return answer, nil
		}
		if err == nil {
			err = answer.Err()
		}
		if err := w.again(began, wait, err); err != nil {
			return answer, err
		}
		pause = min(2*pause, 5*time.Second)
	}
}
