package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/claim"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/tune"
	"fettle.dev/fettle/internal/ui"
)

// Why is the JSON form of fettle why.
type Why struct {
	Schema  string          `json:"schema"` // fettle/why/v1
	Setting setting.Setting `json:"setting"`
	Now     setting.Value   `json:"now"`
	// Claims are the wishes of others for this setting, in the order in which
	// they take effect: the last one wins.
	Claims []claim.Claim `json:"claims"`
	// Changes are fettle's own, oldest first.
	Changes []WhyChange     `json:"changes"`
	Kept    *tune.KeepEntry `json:"kept,omitempty"`
	// Wanted is what the selection in force wants; null where it wants nothing.
	Wanted *tune.Checked `json:"wanted"`
	// LastWriter is who wrote last at run time; null where that is not known,
	// and LastWriterUnknown says why.
	LastWriter        *claim.Write `json:"last_writer"`
	LastWriterUnknown string       `json:"last_writer_unknown,omitempty"`
}

// WhyChange is one change of fettle's that still stands.
type WhyChange struct {
	Tx     int           `json:"transaction"`
	Time   time.Time     `json:"time"`
	User   string        `json:"user"`
	Before setting.Value `json:"before"`
	Wanted setting.Value `json:"wanted"`
	From   string        `json:"from"`
}

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "why SETTING", Short: "Say why a setting has its value: who claims it, who wins, who wrote last", Args: cobra.ExactArgs(1),
		Example: "  fettle why vm.dirty_ratio\n  fettle why /sys/block/sda/queue/scheduler",
		RunE:    func(c *cobra.Command, args []string) error { return a.why(c.Context(), args[0]) },
	}
}

func (a *app) why(ctx context.Context, name string) error {
	s, err := setting.Parse(name)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	id, err := m.kinds.Resolve(s)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	state, err := m.state()
	if err != nil {
		return err
	}
	w := Why{Schema: "fettle/why/v1", Setting: id, Claims: []claim.Claim{}, Changes: []WhyChange{}}
	if w.Now, err = m.kinds.Read(ctx, id); err != nil {
		return fmt.Errorf("%s cannot be read: %w", id, err)
	}
	w.Claims = append(w.Claims, m.claimsOf(ctx).For(id)...)
	for _, en := range state.Chains()[id] {
		w.Changes = append(w.Changes, WhyChange{en.Tx.ID, en.Tx.Time, en.Tx.User, en.Orig, en.Want, en.Reason.String()})
	}
	if k, ok := m.engine.Keep.Match(id, s); ok {
		w.Kept = &k
	}
	if p, _, err := m.inForce(ctx, state); err == nil && p != nil {
		if v, err := m.engine.Verify(ctx, p, state); err == nil {
			for i := range v.Values {
				if v.Values[i].Setting == id {
					w.Wanted = &v.Values[i]
				}
			}
		}
	}
	if last, err := claim.LastWriter(ctx, id, claim.SysctlLogger{Host: m.host}); err == nil {
		w.LastWriter = &last
	} else {
		w.LastWriterUnknown = err.Error()
	}
	if a.data() {
		return report.Data(a.screen, w, ui.Done)
	}
	a.printWhy(w)
	return nil
}

func (a *app) printWhy(w Why) {
	out := a.screen.Out
	fmt.Fprintf(out, "%s = %s\n", w.Setting, ui.Printable(w.Now.String()))
	g := report.Grid{Head: []string{"who", "wants", "where", ""}}
	for i, c := range w.Claims {
		note := ""
		if i == len(w.Claims)-1 && c.Certain() {
			note = "wins among the files"
		}
		g.Rows = append(g.Rows, []string{string(c.Source), c.Value.String(), c.Place(), note})
	}
	for _, c := range w.Changes {
		g.Rows = append(g.Rows, []string{fmt.Sprintf("fettle, transaction %d", c.Tx), c.Wanted.String(), c.From, fmt.Sprintf("was %s before; %s, %s", c.Before, c.User, c.Time.Local().Format("2006-01-02 15:04:05"))})
	}
	if w.Wanted != nil {
		g.Rows = append(g.Rows, []string{"the selection in force", w.Wanted.Want.String(), w.Wanted.Reason.String(), string(w.Wanted.Verdict) + " " + w.Wanted.Why})
	}
	if w.Kept != nil {
		g.Rows = append(g.Rows, []string{"keep.d", "never written", w.Kept.String(), w.Kept.Reason})
	}
	if len(g.Rows) == 0 {
		fmt.Fprintln(out, "nobody claims it: no file, no profile in force, no change of fettle's")
	} else {
		g.Write(a.screen)
	}
	if l := w.LastWriter; l != nil {
		fmt.Fprintf(out, "last writer: %s (process %d), child of %s (%d), %s, from %s to %s\n", ui.Printable(l.Process), l.PID, ui.Printable(l.Parent), l.ParentPID, l.Time.Local().Format("2006-01-02 15:04:05"), ui.Printable(l.Old), ui.Printable(l.New))
	} else {
		fmt.Fprintf(out, "last writer: not known: %s\n", w.LastWriterUnknown)
	}
}
