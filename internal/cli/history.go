package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// History is the JSON form of fettle history.
type History struct {
	Schema       string        `json:"schema"` // fettle/history/v1
	Headline     ui.Headline   `json:"headline"`
	Transactions []HistoryItem `json:"transactions"`
}

// HistoryItem is one transaction.
type HistoryItem struct {
	Tx     int            `json:"transaction"`
	Time   time.Time      `json:"time"`
	Kind   journal.TxKind `json:"kind"`
	User   string         `json:"user"`
	Reason string         `json:"reason"` // the command, or the requesting program
	// Note is the text of --reason.
	Note string `json:"note,omitempty"`
	// Caller is the caller as identified by the kernel. It is nil in records of an older
	// fettle. From is the caller's terminal or address, or "unknown".
	Caller *host.Caller `json:"caller,omitempty"`
	From   string       `json:"from"`
	// Planned identifies the author of the saved plan.
	Planned *journal.Planned `json:"planned,omitempty"`
	// ConfirmedBy is the confirmation of a trial.
	ConfirmedBy *journal.Confirm `json:"confirmed_by,omitempty"`
	Profiles    []string         `json:"profiles,omitempty"`
	// Rules are the rules that fettle fix made the transaction for.
	Rules []string `json:"rules,omitempty"`
	// Values is the number of the transaction's settings. For an undo it is the number of
	// restored settings.
	Values int `json:"values"`
	// Changed is the number of those values that the transaction changed, or may have changed if it
	// was cut off: the others already were as requested, or were rejected.
	Changed int `json:"changed"`
	// Refused are the values that the transaction did not write, with the reason.
	Refused []journal.Refused `json:"refused,omitempty"`
	// Result is done, partial, rolled-back, incomplete or cut-off.
	Result string `json:"result"`
	Live   bool   `json:"live"`
	// UndoneBy is the transaction that undid this one.
	UndoneBy int   `json:"undone_by,omitempty"`
	Undoes   []int `json:"undoes,omitempty"`
	// SupersededBy is the transaction that replaced this one: the same selection after a boot,
	// or a later switch.
	SupersededBy int `json:"superseded_by,omitempty"`
}

func historyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "List what fettle changed: when, who, why, result", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.history(c.Context()) },
	}
}

func (a *app) history(ctx context.Context) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if _, err := m.ReadState(); err != nil { // reports a damaged journal
		return err
	}
	boot, _ := m.Host.BootID()
	txs, err := journal.History(m.Engine.StateDir, boot)
	if err != nil {
		return m.Unreadable(err)
	}
	doc := History{Schema: "fettle/history/v1", Transactions: []HistoryItem{}}
	g := ui.Grid{Columns: []ui.Column{{Head: "", Right: true}, {Head: "time"}, {Head: "changed", Right: true}, {Head: "result"}, {Head: "who"}, {Head: "what", Below: true}}}
	for _, t := range txs {
		it := historyItem(t, txs)
		doc.Transactions = append(doc.Transactions, it)
		result := it.Result
		switch {
		case it.UndoneBy != 0:
			result += fmt.Sprintf(", undone by %d", it.UndoneBy)
		case it.SupersededBy != 0:
			result += fmt.Sprintf(", merged into %d", it.SupersededBy)
		case it.Live:
			result += ", in force"
		}
		if c := it.ConfirmedBy; c != nil {
			result += ", confirmed by " + c.User
			if c.Note != "" {
				result += ": " + c.Note
			}
		}
		g.Rows = append(g.Rows, []string{fmt.Sprint(it.Tx), it.Time.Local().Format(why.Stamp), fmt.Sprint(it.Changed), result, it.who(), it.what()})
	}
	doc.Headline = headlineOfHistory(doc.Transactions)
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	if len(g.Rows) == 0 {
		return nil
	}
	fmt.Fprintln(a.screen.Out)
	g.Write(a.screen)
	return nil
}

func headlineOfHistory(all []HistoryItem) (h ui.Headline) {
	if len(all) == 0 {
		h.Line("no transactions: fettle has not changed this machine")
		return h
	}
	live := 0
	for _, it := range all {
		if it.Live {
			live++
		}
	}
	line := fmt.Sprintf("%s, %s in force", h.Count("transactions", len(all), "transaction"), h.Count("live", live, ""))
	if live > 0 {
		line += ": fettle undo restores the values"
	}
	h.Line("%s", line)
	return h
}

const unknownPlace = "unknown"

// who returns the user, and the user's terminal or address if known.
func (it HistoryItem) who() string {
	if it.From == unknownPlace {
		return it.User
	}
	return it.User + ", " + it.From
}

// what returns the command, the plan's author if different from the user, and the reason.
func (it HistoryItem) what() string {
	text := it.Reason
	if p := it.Planned; p != nil && p.By != it.User {
		text += " (plan by " + p.By + ")"
	}
	if it.Note != "" {
		text += ": " + it.Note
	}
	if n := len(it.Refused); n > 0 {
		text += "; not written: " + tune.SettingWords(it.Refused[0].Setting)
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		text += ", " + it.Refused[0].Why
	}
	return text
}

func historyItem(t *journal.Tx, all []*journal.Tx) HistoryItem {
	it := HistoryItem{
		Tx: t.ID, Time: t.Time, Kind: t.Kind, User: t.User, Reason: strings.Join(strings.Fields(t.Reason), " "),
		Result: "cut-off", Live: t.IsLive(), UndoneBy: t.UndoneBy(), SupersededBy: t.Superseded, Undoes: t.Undoes,
	}
	it.Refused = t.Refused
	it.Note, it.Caller, it.Planned, it.ConfirmedBy = t.Note, t.Caller, t.Planned, t.ConfirmedBy
	it.From = unknownPlace
	if t.Caller != nil {
		it.From = cmp.Or(t.Caller.From(), unknownPlace)
	}
	if t.Commit != nil {
		it.Result = t.Commit.Result
	}
	for _, e := range t.Entries {
		if e.CoupledTo != 0 {
			continue
		}
		it.Values++
		if e.Changed() {
			it.Changed++
		}
		if id := e.Reason.Rule; id != "" && !slices.Contains(it.Rules, id) {
			it.Rules = append(it.Rules, id)
		}
	}
	if t.Kind == journal.Undo && t.Commit != nil {
		it.Values = restoredValues(t, all)
		it.Changed = it.Values
	}
	if sel, err := tune.SelectionOf(t); err == nil && sel != nil {
		it.Profiles = sel.Profiles
	}
	return it
}

// restoredValues returns how many settings an undo restored, without side effects. A setting may
// have several entries, or already have its original value.
func restoredValues(undo *journal.Tx, all []*journal.Tx) int {
	type place struct{ found, had setting.Value }
	places := map[setting.Setting]place{}
	for _, u := range undo.Commit.Undone {
		i, ok := slices.BinarySearchFunc(all, u.Tx, func(t *journal.Tx, id int) int { return t.ID - id })
		if !ok || u.State != journal.Restored {
			continue
		}
		for _, e := range all[i].Entries {
			if _, older := places[e.Setting]; e.N == u.N && e.CoupledTo == 0 && !older { // the oldest entry has the original value
				places[e.Setting] = place{u.Found, e.Before.Before}
			}
		}
	}
	n := 0
	for _, p := range places {
		if p.found.String() != p.had.String() {
			n++
		}
	}
	return n
}
