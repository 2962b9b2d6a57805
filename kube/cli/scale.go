package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/machine/scale"
)

// ScalePlan is the JSON form of a scale plan.
type ScalePlan struct {
	Schema    string      `json:"schema"` // fettle/scale-plan/v1
	Headline  ui.Headline `json:"headline"`
	Namespace string      `json:"namespace"`
	Sets      []string    `json:"machine_sets"`
	scale.Plan
}

func scaleCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "scale", Short: "Scale or replace the machines of machine sets",
		Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(scalePlanCommand(a), scaleExecuteCommand(a))
	return c
}

// scaleOptions are the options of scale plan and scale execute.
type scaleOptions struct {
	to, batch, qps, burst int
	roll                  bool
	patience, join        time.Duration
	// For scale execute.
	yes, force, afresh bool
}

func (o *scaleOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.to, "to", 0, text.Sprintf("total number of machines of the sets, at most %d unless scaling down", scale.MaxMachines))
	f.BoolVar(&o.roll, "roll", false, "replace every machine, for example after an edit of the machine sets")
	f.IntVar(&o.batch, "batch", scale.MaxBatch, "maximum number of machines per batch")
	f.IntVar(&o.qps, "qps", 5, "maximum rate of requests that evict pods, per second")
	f.IntVar(&o.burst, "burst", 10, "maximum number of eviction requests at once, even if that exceeds --qps")
	f.DurationVar(&o.patience, "patience", scale.DefaultPatience, "time limit for deleting machines, and extra time for each drain, such as 10m")
	f.DurationVar(&o.join, "join-timeout", 0, "time limit for machines of a batch to join (default nodeStartupTimeout of their MachineHealthCheck, else 10m)")
	cliutil.Between(f, "to", 0, 2_000_000_000, 3)
	cliutil.Between(f, "batch", 1, scale.MaxBatch, scale.MaxBatch)
	cliutil.Between(f, "qps", 1, 1000, 5)
	cliutil.Between(f, "burst", 1, 1000, 10)
	cliutil.Between(f, "patience", time.Second, 24*time.Hour, scale.DefaultPatience)
	cliutil.Between(f, "join-timeout", time.Second, 24*time.Hour, 10*time.Minute)
}

// check returns an error for contradicting options.
func (o *scaleOptions) check(c *cobra.Command) error {
	if c.Flags().Changed("to") == o.roll {
		err := errors.New("want --to N (total machines of the sets) or --roll (replace all machines)")
		if o.roll {
			return ui.Without(err, "--roll")
		}
		return ui.Retry(ui.Usage, err, "", "--to=3")
	}
	return nil
}

func scalePlanCommand(a *app) *cobra.Command {
	var o scaleOptions
	var details bool
	c := &cobra.Command{
		Use: "plan MACHINESET... (--to N | --roll)", Short: "Show the steps of scaling, and change nothing",
		Long: `Plans how machine sets (machine.openshift.io/v1beta1) reach N machines in total. It
changes nothing.

Up: machines are added in batches, balanced over zones. Machines that have not joined
count as unhealthy, so a batch stays within maxUnhealthy of the MachineHealthChecks.

Down: machines that run no pods are removed first, then the others in batches. The plan
shows how long evictions take, and which disruption budgets block them. The last
machines that run routers are never removed.

--roll replaces every machine, for example after an edit of a machine set. New machines
are added, then as many old machines are removed.

Exit code 4 if something blocks the plan, 1 if the result cannot be determined.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, sets []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			return a.scalePlan(c.Context(), sets, o, details)
		},
	}
	o.flags(c.Flags())
	c.Flags().BoolVar(&details, "details", false, "list all steps and all removed machines")
	return c
}

func (a *app) scalePlan(ctx context.Context, sets []string, o scaleOptions, details bool) error {
	run, namespace, err := a.scaleRun(sets, o)
	if err != nil {
		return err
	}
	p, err := run.Plan(ctx)
	if err != nil {
		return scaleExit(err, namespace, sets, o)
	}
	if len(p.Blocked) > 0 {
		err = ui.Retry(ui.Refused, fmt.Errorf("the plan cannot be executed now: %s", strings.Join(p.Blocked, "\n")), "remove these obstacles, then run the call again")
	}
	return a.show(ScalePlan{"fettle/scale-plan/v1", scaleHeadline(p), namespace, sets, *p}, err, func() { printScale(a.screen, p, details) })
}

// scaleHeadline returns the present and future numbers of machines, the number of steps, and the
// sum of their time limits.
func scaleHeadline(p *scale.Plan) (h ui.Headline) {
	line := fmt.Sprintf("%s to %s: ", h.Count("machines_from", p.From, "machine"), h.Count("machines_to", p.To, ""))
	seconds, limited := 0, true
	for _, x := range p.Steps {
		seconds += int(x.TimeoutS)
		limited = limited && x.TimeoutS > 0
	}
	if len(p.Steps) == 0 {
		line += "nothing to do"
	} else {
		line += h.Count("steps", len(p.Steps), "step")
	}
	if seconds > 0 && limited { // excludes waits between steps
		line += ", time limits " + h.Value("timeout_s", float64(seconds), timeLimit(seconds)) + " in all"
	}
	if len(p.Blocked) > 0 {
		line += "; blocked by " + h.Count("blocked", len(p.Blocked), "problem")
	}
	h.Line("%s", line)
	return h
}

// timeLimit formats seconds as 10m, 1h20m or 90s.
func timeLimit(seconds int) string {
	words := (time.Duration(seconds) * time.Second).String()
	if minutes, ok := strings.CutSuffix(words, "m0s"); ok {
		words = minutes + "m"
	}
	return words
}

// Limits of steps and removed machines shown without --details.
const (
	shownSteps   = 10
	shownLeavers = 10
)

// printScale prints the steps, the machines to remove, and the notes.
func printScale(s *ui.Screen, p *scale.Plan, details bool) {
	h := scaleHeadline(p)
	ui.PrintHeadline(s, &h)
	steps, room := p.Steps, shownLeavers
	if details {
		room = math.MaxInt
	} else {
		steps = steps[:min(len(steps), shownSteps)]
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "step"}, {Head: "machine set"}, {Head: "zone"}, {Head: "machines"}, {Head: "then wait until", Cut: true}, {Head: "at most"}, {Head: "remediation", Below: true}}}
	for i, x := range steps {
		for j, r := range x.Sets {
			row := []string{"", r.Set, cmp.Or(r.Zone, "not known"), text.Sprintf("%d to %d", r.From, r.To), "", "", ""}
			if j == 0 {
				row[0], row[4], row[5], row[6] = fmt.Sprint(i+1), x.Until, "-", dash(strings.Join(x.Remediation, "; "))
				if x.TimeoutS > 0 {
					row[5] = timeLimit(int(x.TimeoutS))
				}
			}
			g.Rows = append(g.Rows, row)
		}
	}
	section(s, "Steps", &g)
	part := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		ui.Heading(s, title)
		for _, l := range lines {
			ui.PrintLine(s, "- %s", l)
		}
	}
	hidden := 0
	for i, x := range p.Steps {
		shown := x.Remove[:min(len(x.Remove), room)]
		room -= len(shown)
		hidden += len(x.Remove) - len(shown)
		part(fmt.Sprintf("Machines removed in step %d, in this order", i+1), shown)
	}
	part("Worth knowing", p.Notes)
	notShown(s, text.Count(len(p.Steps)-len(steps), "step"), text.CountPlural(uint64(hidden), "removed machine", "removed machines"))
}

// scaleExit sets the exit code of an error before any change, and adds what to do.
func scaleExit(err error, namespace string, sets []string, o scaleOptions) error {
	var not *scale.NotCome
	switch {
	case errors.As(err, &not):
		code := ui.Failed
		if errors.Is(err, scale.ErrBlocked) {
			code = ui.Refused
		}
		return ui.Hinted(code, err, notCome(not, namespace, sets, o))
	case errors.Is(err, scale.ErrNotServed):
		return ui.Hinted(ui.Failed, err, "only OpenShift has machine sets; scale other clusters with the tool that creates their machines")
	case errors.Is(err, scale.ErrNoMachines):
		return ui.Hinted(ui.Failed, err, fmt.Sprintf("kubectl -n %s get machines.machine.openshift.io must list machines; the Deployment machine-api-controllers creates them; without it only the replicas can be changed: kubectl -n %s scale machinesets.machine.openshift.io", namespace, namespace))
	case errors.Is(err, scale.ErrNames), errors.Is(err, scale.ErrTooMany):
		return ui.Exit(ui.Usage, err)
	case errors.Is(err, scale.ErrBlocked), errors.Is(err, scale.ErrBegun), errors.Is(err, scale.ErrRecord), errors.Is(err, scale.ErrLease):
		return ui.Retry(ui.Refused, err, "see kubectl fettle scale plan for the obstacles")
	case errors.Is(err, scale.ErrBusy):
		return ui.Retry(ui.Busy, err, "wait until the other call has ended; see kubectl fettle scale plan")
	}
	return err
}

// scaleEnd sets an error's exit code according to the changes made, and adds how to continue.
func scaleEnd(ctx context.Context, err error, run *scale.Run, namespace string, sets []string, o scaleOptions) error {
	const on = "run the same call to continue; see kubectl fettle scale plan for the rest"
	var not *scale.NotCome
	switch interrupted := ctx.Err() != nil; {
	case errors.Is(err, scale.ErrLeft):
		code := ui.Incomplete
		if run.Changed {
			code = ui.Partial
		}
		return ui.Hinted(code, err, "the next kubectl fettle scale execute of these machine sets removes it")
	case interrupted && run.Changed:
		return ui.Hinted(ui.Partial, errors.New("interrupted: "+stands(run)), on)
	case interrupted:
		return ui.Hinted(ui.Interrupted, errors.New("interrupted; machine sets unchanged, no node left cordoned by this call"+shut(run)), "run the same call to start again")
	case run.Changed && errors.As(err, &not):
		return ui.Hinted(ui.Partial, fmt.Errorf("%w; %s", err, stands(run)), notCome(not, namespace, sets, o))
	case run.Changed:
		return ui.Hinted(ui.Partial, err, on)
	}
	return scaleExit(err, namespace, sets, o)
}

// shut returns a note about nodes that an earlier call cordoned and that are still cordoned; "" if
// there are none.
func shut(run *scale.Run) (text string) {
	for _, n := range run.Shut {
		why := "the next call for its machine set uncordons it"
		if n.Goes {
			why = "its machine is being removed"
		}
		text += fmt.Sprintf("; node %s is still cordoned by an earlier call (%s)", n.Name, why)
	}
	return text
}

// stands lists the requested sizes, which remain in force.
func stands(run *scale.Run) string {
	var order []string
	from, to := map[string]int{}, map[string]int{}
	for _, x := range run.Asked {
		if _, ok := from[x.Set]; !ok {
			from[x.Set], order = x.From, append(order, x.Set)
		}
		to[x.Set] = x.To
	}
	var out []string
	for _, set := range order {
		out = append(out, text.Sprintf("machine set %s was changed from %d to %s", set, from[set], text.Count(to[set], "machine")))
	}
	if len(out) == 0 {
		return "the machines to replace are recorded on the machine sets, whose replicas are unchanged"
	}
	return strings.Join(out, ", ") + "; not reverted"
}

// notCome returns what to do about machines that did not appear.
func notCome(not *scale.NotCome, namespace string, sets []string, o scaleOptions) string {
	where := ""
	if namespace != machine.Namespace {
		where = " -n " + namespace
	}
	call := fmt.Sprintf("kubectl fettle scale execute %s%s", strings.Join(sets, " "), where)
	if o.roll {
		return fmt.Sprintf("%s; the same call first reverts this and then continues", not.What())
	}
	return fmt.Sprintf("%s; to give up the missing machines: %s --to %d; to wait longer, run the same call with a larger --join-timeout", not.What(), call, not.Back)
}
