package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/machine/scale"
)

// scaleExit gives what went wrong before anything was changed its exit code, and says what
// to do.
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
		return ui.Hinted(ui.Failed, err, "machine sets are OpenShift's; other clusters are scaled by whoever makes their machines")
	case errors.Is(err, scale.ErrNoMachines):
		return ui.Hinted(ui.Failed, err, fmt.Sprintf("kubectl -n %s get machines.machine.openshift.io: their controller (the Deployment machine-api-controllers) makes them; without it only the number can be changed: kubectl -n %s scale machinesets.machine.openshift.io", namespace, namespace))
	case errors.Is(err, scale.ErrNames), errors.Is(err, scale.ErrTooMany):
		return ui.Exit(ui.Usage, err)
	case errors.Is(err, scale.ErrBlocked), errors.Is(err, scale.ErrBegun), errors.Is(err, scale.ErrRecord), errors.Is(err, scale.ErrLease):
		return ui.Retry(ui.Refused, err, "kubectl fettle scale plan shows what stands in the way")
	case errors.Is(err, scale.ErrBusy):
		return ui.Retry(ui.Busy, err, "kubectl fettle scale plan shows its state; wait until the other call has ended")
	}
	return err
}

// scaleEnd gives what went wrong its exit code, by what has been changed, and says what
// stands and how to go on.
func scaleEnd(ctx context.Context, err error, run *scale.Run, namespace string, sets []string, o scaleOptions) error {
	const on = "the same call goes on; kubectl fettle scale plan shows what is left"
	var not *scale.NotCome
	switch interrupted := ctx.Err() != nil; {
	case errors.Is(err, scale.ErrLeft):
		code := ui.Incomplete
		if run.Changed {
			code = ui.Partial
		}
		return ui.Hinted(code, err, "the next kubectl fettle scale execute of these sets takes it back")
	case interrupted && run.Changed:
		return ui.Hinted(ui.Partial, errors.New("interrupted: "+stands(run)), on)
	case interrupted:
		return ui.Hinted(ui.Interrupted, errors.New("interrupted: the machine sets are as they were, and this call keeps no node from taking pods"+shut(run)), "the same call begins again")
	case run.Changed && errors.As(err, &not):
		return ui.Hinted(ui.Partial, fmt.Errorf("%w; %s", err, stands(run)), notCome(not, namespace, sets, o))
	case run.Changed:
		return ui.Hinted(ui.Partial, err, on)
	}
	return scaleExit(err, namespace, sets, o)
}

// shut names the nodes that an earlier call has kept from taking pods, and that still do
// not.
func shut(run *scale.Run) (text string) {
	for _, n := range run.Shut {
		why := "the next call of its machine set lets it take pods again"
		if n.Goes {
			why = "its machine goes"
		}
		text += fmt.Sprintf("; an earlier call keeps node %s from taking pods (%s)", n.Name, why)
	}
	return text
}

// stands says what has been asked for, and stays.
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
		out = append(out, fmt.Sprintf("machine set %s was asked for %s (%d before)", set, text.Count(to[set], "machine"), from[set]))
	}
	if len(out) == 0 {
		return "which machines are to be made anew is noted on the machine sets, and their numbers are as before"
	}
	return strings.Join(append(out, "that stays"), ", ")
}

// notCome says what to do about machines that have not come.
func notCome(not *scale.NotCome, namespace string, sets []string, o scaleOptions) string {
	where := ""
	if namespace != machine.Namespace {
		where = " -n " + namespace
	}
	call := fmt.Sprintf("kubectl fettle scale execute %s%s", strings.Join(sets, " "), where)
	if o.roll {
		return fmt.Sprintf("%s; the same call takes it back first, and goes on", not.What())
	}
	return fmt.Sprintf("%s; %s --to %d takes back what has not come; where it comes after all, or has more time (--join-timeout), the same call goes on", not.What(), call, not.Back)
}
