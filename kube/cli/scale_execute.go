package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/machine/scale"
)

// scaleQPS and scaleBurst are the rate limits of the client that observes the cluster, in requests
// per second and requests.
const scaleQPS, scaleBurst = 50, 100

// ScaleRun is the result of scale execute.
type ScaleRun struct {
	Schema    string      `json:"schema"` // fettle/scale-run/v1
	Headline  ui.Headline `json:"headline"`
	Namespace string      `json:"namespace"`
	Sets      []string    `json:"machine_sets"`
	// Plan is the plan, Done its executed part.
	Plan scale.Plan   `json:"plan"`
	Done []scale.Done `json:"done"`
	// State is done, nothing (no change was needed), stopped or interrupted.
	State string `json:"state"`
}

func scaleExecuteCommand(a *app) *cobra.Command {
	var o scaleOptions
	c := &cobra.Command{
		Use: "execute MACHINESET... (--to N | --roll)", Short: "Scale machine sets in batches, or replace all machines",
		Long: `Scales machine sets in the steps that scale plan shows, after asking. It waits until the
machines of a batch are Ready before the next batch. When scaling down, it drains the
nodes of a batch before it reduces the machine sets. The drain uses the eviction API,
which respects disruption budgets. Every half minute the command reports what it waits
for. It stops at the first failed batch: requested machines stay, and the nodes of
remaining machines are uncordoned.

After Ctrl-C or a kill, the same call continues from the state of the machine sets.
While the command runs, the operator remediates no machines, and no other process can
scale.

Exit code 4 if something blocks the plan or the answer was not yes, 7 if only a part was
done. Exit code 75 if another process scales, 130 after Ctrl-C if the sets are
unchanged.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, sets []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			if o.afresh && !o.roll {
				return ui.Without(errors.New("--restart needs --roll"), "--restart")
			}
			return a.scaleExecute(c.Context(), sets, o)
		},
	}
	f := c.Flags()
	o.flags(f)
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&o.force, "force", false, "also evict pods without a controller")
	f.BoolVar(&o.afresh, "restart", false, "start an unfinished --roll again, with all current machines")
	return c
}

// scaleRun returns a scaling run that has not started.
func (a *app) scaleRun(sets []string, o scaleOptions) (*scale.Run, string, error) {
	config, err := a.config()
	if err != nil {
		return nil, "", err
	}
	config.QPS, config.Burst = scaleQPS, scaleBurst
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", err
	}
	config.QPS, config.Burst = float32(o.qps), o.burst
	evicting, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", err
	}
	namespace := a.namespaceOr(machine.Namespace)
	return scale.New(&scale.Live{API: api, Evicting: evicting, Namespace: namespace, Sets: sets, Force: o.force}, scale.Options{
		Goal:  scale.Goal{Machines: o.to, Roll: o.roll, Afresh: o.afresh},
		Batch: o.batch, QPS: o.qps, Burst: o.burst, Patience: o.patience, JoinTimeout: o.join, Force: o.force,
		Say: func(format string, args ...any) { a.screen.Progress(format, args...) },
	}), namespace, nil
}

func (a *app) scaleExecute(ctx context.Context, sets []string, o scaleOptions) error {
	run, namespace, err := a.scaleRun(sets, o)
	if err != nil {
		return err
	}
	doc := &ScaleRun{Schema: "fettle/scale-run/v1", Namespace: namespace, Sets: sets, Done: []scale.Done{}, State: "stopped"}
	p, err := a.scaleAgreed(ctx, run, o)
	if p != nil {
		doc.Plan = *p
	}
	switch {
	case err == nil && (len(p.Steps) > 0 || o.roll): // a finished rollout may have left annotations
		err = a.scaleGo(ctx, run, namespace, sets, o)
		doc.Done = run.Steps
		if err == nil {
			doc.State = "done"
		}
	case err == nil:
		doc.State = "nothing"
	}
	if err != nil {
		if err = scaleEnd(ctx, err, run, namespace, sets, o); ctx.Err() != nil {
			doc.State = "interrupted"
		}
	}
	doc.headline()
	if a.data() && p != nil {
		return a.result(doc, err)
	}
	if err == nil || len(doc.Done) > 0 {
		ui.PrintHeadline(a.screen, &doc.Headline)
		ui.PrintLine(a.screen, "to see the machines:")
		ui.PrintCommand(a.screen, text.CommandLine(append([]string{"kubectl", "fettle", "health", "--namespace", namespace}, sets...)))
	}
	return err
}

// headline states the actions carried out, or that none was necessary.
func (doc *ScaleRun) headline() {
	h := &doc.Headline
	if doc.State == "nothing" {
		h.Line("nothing to do: the machine sets already have %s", h.Count("machines_wanted", doc.Plan.To, "machine"))
		return
	}
	steps := h.Count("steps_done", len(doc.Done), "step")
	if n := len(doc.Plan.Steps); n > len(doc.Done) {
		steps = text.Sprintf("%d of %s", len(doc.Done), h.Count("steps", n, "step"))
	}
	h.Line("%s: %s carried out, %s", doc.State, steps, h.Count("machines_wanted", doc.Plan.To, "machine"))
}

// scaleAgreed waits until no machine is being added or removed, shows the plan, and asks for
// confirmation. It returns nil if nothing has to change.
func (a *app) scaleAgreed(ctx context.Context, run *scale.Run, o scaleOptions) (*scale.Plan, error) {
	if !o.yes {
		if err := ui.RequireTerminal(); err != nil { // fail before the wait
			return nil, err
		}
	}
	live := run.Cluster.(*scale.Live)
	if err := scale.Free(ctx, live.API, live.Namespace); err != nil { // fail before the wait
		return nil, err
	}
	err := run.Settle(ctx)
	a.screen.Status("")
	if err != nil {
		return nil, err
	}
	p, err := run.Plan(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.Blocked) > 0 {
		return p, fmt.Errorf("%w: %s", scale.ErrBlocked, strings.Join(p.Blocked, "\n"))
	}
	if !a.data() && len(p.Steps) > 0 {
		printScale(a.screen, p, true)
	}
	if o.yes || len(p.Steps) == 0 {
		return p, nil
	}
	return p, a.confirm(ctx, "Execute this plan?")
}

// scaleGo carries out the run while it holds the lease.
func (a *app) scaleGo(ctx context.Context, run *scale.Run, namespace string, sets []string, o scaleOptions) error {
	live := run.Cluster.(*scale.Live)
	host, _ := os.Hostname()
	what := fmt.Sprintf("%s to %s", strings.Join(sets, ", "), text.Count(o.to, "machine"))
	if o.roll {
		what = strings.Join(sets, ", ") + ", all machines replaced"
	}
	held, release, err := scale.Hold(ctx, live.API, namespace, fmt.Sprintf("%s/%d", host, os.Getpid()), what)
	if err != nil {
		return err
	}
	began := time.Now()
	err = run.Go(held)
	if cause := context.Cause(held); err != nil && errors.Is(cause, scale.ErrLost) {
		err = cause
	}
	a.screen.Status("")
	if err == nil {
		a.screen.Say("done after %s", time.Since(began).Round(time.Second))
	}
	return errors.Join(err, release())
}
