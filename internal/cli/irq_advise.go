package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/fact/irq"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func irqAdviseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "advise [DEVICE...]", Short: "Plan which CPUs should serve interrupts and queues",
		Long: `Compares the CPUs that serve the interrupts and software queues (RPS, XPS, RFS) of devices
with the device's NUMA node and with isolated CPUs, and plans which of them should move to
other CPUs. Nothing is changed. The plan leaves most devices as they are, and says why.
Where irqbalance runs, the plan also changes irqbalance's environment file, so that
irqbalance does not move the interrupts back. The JSON output is a plan;
fettle tune --plan FILE applies exactly this plan, and fettle undo reverts it.`,
		RunE: func(c *cobra.Command, args []string) error { return a.irqAdvise(c.Context(), args) },
	}
}

func (a *app) irqAdvise(ctx context.Context, devices []string) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	r := irq.Read(m.Host)
	advice, unknown := r.Advise(devices)
	if len(unknown) > 0 {
		return ui.Hinted(ui.Failed, fmt.Errorf("no device %q with interrupts%s", unknown[0], text.Suggest(unknown[0], r.Names())), "fettle irq show --all lists all devices")
	}
	s, err := m.ReadStateIfAllowed()
	if err != nil {
		return err
	}
	plan, err := m.PlanChanges(ctx, advice.Changes(), s)
	if err != nil {
		return err
	}
	moves := map[string]irq.Move{} // by the name of the setting
	for _, v := range advice.Moves {
		moves[v.Change.Setting.String()] = v
	}
	g := ui.Grid{Columns: ui.Columns("device", "interrupt or queue", "now", "wanted", "why")}
	for i := range plan.Steps {
		st := &plan.Steps[i]
		v := moves[cmp.Or(st.Named, st.Setting.String())]
		st.Device = v.Device
		why := st.Reason.Text
		if st.Action == tune.None {
			why = "not written: " + strings.TrimPrefix(st.Why, "not written: ")
		}
		g.Rows = append(g.Rows, append(v.Row(st.Before, st.Want), why))
	}
	for _, l := range advice.Left {
		plan.Skipped = append(plan.Skipped, tune.Skipped{Unit: l.Device, Why: l.Device + " is left: " + l.Why})
	}
	plan.Headline = advice.Headline(r, plan.Writes())
	if why := advice.Undetermined(r); why != "" {
		err = a.recordAgain(fmt.Errorf("nothing could be determined: %s", why))
	}
	if a.data() {
		plan.By = a.caller().String()
		return a.result(plan, err)
	}
	ui.PrintHeadline(a.screen, &plan.Headline)
	if len(g.Rows) > 0 {
		fmt.Fprintln(a.screen.Out)
		g.Write(a.screen)
	}
	advice.PrintLeft(a.screen)
	if plan.Writes() > 0 {
		args := append([]string{"irq", "advise"}, devices...)
		a.printToApply(a.next(args...)+" -o json | "+a.next("tune", "--plan", "-"),
			text.CommandLine(append([]string{"fettle"}, args...))+" -o json | fettle tune --plan -")
	}
	return err
}
