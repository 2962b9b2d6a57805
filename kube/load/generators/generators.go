package generators

import (
	"context"
	"errors"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/job"
)

// Set is the Job of a load and its pods.
type Set struct {
	job.Set
	// Load is the load's job as JSON.
	Load []byte
}

// Create creates the Job, and then the Secrets, which the Job owns: without a moment in which a
// killed caller would leave a Secret behind. The pods wait for the Secrets.
func (s *Set) Create(ctx context.Context) error {
	uid, err := s.Set.Create(ctx, s.Job())
	if err != nil {
		return err
	}
	for _, secret := range s.Secrets(uid) {
		if err := s.Post(ctx, s.Path("/api/v1", "secrets"), secret, &core.Secret{}); err != nil {
			return errors.Join(fmt.Errorf("cannot create Secret %s: %w", secret.Name, err), s.Delete(ctx))
		}
	}
	return nil
}

// Places returns the pods as places of a fleet.
func (s *Set) Places(pods []job.Pod) (all []fleet.Place) {
	for _, pod := range pods {
		all = append(all, fleet.Place{Name: pod.Name, Open: func(ctx context.Context, maxLine int) (fleet.Session, error) { return s.Attach(ctx, pod, maxLine) }})
	}
	return all
}

// Wait waits until all pods run. step is called with their number.
func (s *Set) Wait(ctx context.Context, within time.Duration, step func(running int)) ([]job.Pod, error) {
	end := time.Now().Add(within)
	for {
		pods, waiting, err := s.pods(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(pods) == s.Count:
			return pods, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("after %v only %d of %s run%s", within, len(pods), text.Count(s.Count, "generator"), waiting)
		}
		step(len(pods))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pods returns the running pods by index, and why another one waits. A pod that cannot run is an
// error.
func (s *Set) pods(ctx context.Context) (running []job.Pod, waiting string, err error) {
	all, err := s.Pods(ctx)
	if err != nil {
		return nil, "", err
	}
	waiting = "; see " + s.Describe()
	for i := range all {
		p := &all[i]
		if err := job.Stuck(p); err != nil {
			return nil, "", err
		}
		if p.Status.Phase == core.PodFailed || p.Status.Phase == core.PodSucceeded || p.DeletionTimestamp != nil {
			return nil, "", errors.New(job.Ended(p))
		}
		if job.Running(p) {
			running = append(running, job.Pod{Name: p.Name, Node: p.Spec.NodeName})
		}
		if why := job.Unscheduled(p); why != "" {
			waiting = "; " + why
		}
	}
	return running, waiting, nil
}
