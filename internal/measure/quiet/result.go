package quiet

import (
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Result is the result of fettle quiet.
type Result struct {
	Schema   string      `json:"schema"` // fettle/quiet/v1
	Headline ui.Headline `json:"headline"`
	// CPUs are the measured CPUs. Housekeeping are those for everything else; "" if there are none.
	CPUs         string `json:"cpus"`
	Housekeeping string `json:"housekeeping_cpus"`
	// Transaction is 0 before the plan is applied. Undone reports whether it was undone.
	Transaction int        `json:"transaction,omitempty"`
	Undone      bool       `json:"undone"`
	Plan        *tune.Plan `json:"plan"`
	// UndoneEarly reports whether a fettle undo restored the values before the command ended.
	// UndoneBy is its transaction; 0 if the journal no longer has it.
	UndoneEarly bool `json:"undone_early,omitempty"`
	UndoneBy    int  `json:"undone_by,omitempty"`
	// Kept are the values that another program changed before the command ended. They are not
	// restored, as by fettle undo.
	Kept []tune.UndoneValue `json:"kept,omitempty"`
	// Actions are done once, and not undone.
	Actions []string `json:"actions"`
	Limits  []string `json:"limits"`
	// Command is the command that ran, with its exit code and time; null without a command.
	Command *Ran `json:"command"`
	// Noise is null if it was not measured.
	Noise  *Comparison `json:"noise"`
	Missed []Missed    `json:"missed_jobs"`

	measured int // number of measured CPUs
}

// Ran is a command that ran in the quiet state.
type Ran struct {
	Args []string `json:"args"`
	// ExitCode is as a shell has it: 128 plus the number of the signal that ended the command.
	ExitCode int `json:"exit_code"`
	// Signal is the signal that ended the command, such as SIGKILL; "" if it ended by itself.
	Signal    string  `json:"signal,omitempty"`
	DurationS float64 `json:"duration_s"`
}

// String returns how the command ended.
func (r *Ran) String() string {
	name := text.Quote(r.Args[0])
	if r.Signal != "" {
		return fmt.Sprintf("%s was killed by signal %d (%s)", name, r.ExitCode-128, r.Signal)
	}
	return fmt.Sprintf("%s ended with exit code %d", name, r.ExitCode)
}

// NewResult returns the result of a plan that is not applied yet.
func NewResult(h *host.Host, s *State, plan *tune.Plan) *Result {
	r := &Result{Schema: "fettle/quiet/v1", CPUs: s.Measured.String(), Housekeeping: s.Housekeeping.String(), Plan: plan, Actions: []string{}, Limits: append([]string{}, s.Limits...), Missed: []Missed{}, measured: s.Measured.Len()}
	for _, a := range actions(h) {
		r.Actions = append(r.Actions, a.text)
	}
	return r
}

// where names the measured CPUs, and those for everything else.
func (r *Result) where() string {
	line := "measured CPUs: " + r.CPUs
	if r.Housekeeping != "" {
		line += "; everything else on CPU " + r.Housekeeping
	}
	return line
}

// Summarize sets the headline.
func (r *Result) Summarize() {
	var h ui.Headline
	wrote, rejected, left := 0, 0, 0
	for _, st := range r.Plan.Steps {
		switch {
		case st.Verdict == plugin.Rejected:
			rejected++
		case st.Action == tune.Write || st.Action == tune.Release:
			wrote++
		case st.Action == tune.None && st.With == nil:
			left++
		}
	}
	h.Value("measured_cpus", float64(r.measured), "")
	values := h.Count("values", wrote, "value")
	if r.Command != nil || r.Undone {
		h.Line("%s", r.ran(&h))
	}
	switch {
	case r.Transaction == 0 && wrote == 0:
		h.Line("all values are set already; %s", r.where())
	case r.Transaction == 0:
		h.Line("%s would be set; %s", values, r.where())
	case r.UndoneEarly:
		by := "fettle undo"
		if r.UndoneBy > 0 {
			by += fmt.Sprintf(" (transaction %d)", r.UndoneBy)
		}
		h.Line("%s set (transaction %d), but not for all of that time: %s restored them; %s", values, r.Transaction, by, r.where())
	case len(r.Kept) > 0:
		h.Line("%s set for that time (transaction %d); %s by another program meanwhile and not restored; %s", values, r.Transaction, changedWords(&h, len(r.Kept)), r.where())
	case r.Undone:
		h.Line("%s set for that time and restored (transaction %d); %s", values, r.Transaction, r.where())
	default:
		h.Line("quiet: %s set (transaction %d) until fettle undo %d; %s", values, r.Transaction, r.Transaction, r.where())
	}
	if r.Noise != nil {
		h.Value("noise_ratio", r.Noise.Ratio, "")
		h.Line("%s", r.Noise.Text)
	}
	if rejected > 0 {
		h.Line("%s rejected by the kernel", h.Count("rejected", rejected, "value"))
	}
	r.Headline = h
}

func changedWords(h *ui.Headline, n int) string {
	if n == 1 {
		return h.Count("kept", n, "") + " was changed"
	}
	return h.Count("kept", n, "") + " were changed"
}

func (r *Result) ran(h *ui.Headline) string {
	c := r.Command
	if c == nil {
		return "the command did not run"
	}
	return c.String() + " after " + h.Value("duration_s", c.DurationS, unit.FormatSeconds(c.DurationS))
}

// PrintBefore prints what will be changed and done, before that happens. l selects the rows;
// without All, tasks and interrupts are counted.
func (r *Result) PrintBefore(s *ui.Screen, l tune.Listing) {
	r.Summarize()
	p := *r.Plan
	p.Headline = r.Headline
	moved := map[string]int{}
	if !l.All {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(st tune.Step) bool {
			one := (st.Setting.Kind == "task" || st.Setting.Kind == "irq") && st.Action == tune.Write
			if one {
				moved[st.Setting.Kind]++
			}
			return one
		})
	}
	tune.PrintPlan(s, &p, l)
	if n := moved["task"] + moved["irq"]; n > 0 {
		ui.PrintLine(s, "· %s and %s: off CPU %s, to CPU %s (--all lists them)", text.Count(moved["task"], "task"), text.Count(moved["irq"], "interrupt"), r.CPUs, r.Housekeeping)
	}
	for _, a := range r.Actions {
		ui.PrintLine(s, "· once, not undone: %s", a)
	}
	printLimits(s, r.Limits)
}

// PrintAfter prints the outcome.
func (r *Result) PrintAfter(s *ui.Screen) {
	r.Summarize()
	ui.PrintHeadline(s, &r.Headline)
	for _, st := range r.Plan.Steps {
		if st.Verdict == plugin.Rejected {
			ui.PrintLine(s, "✗ %s stays %s: %s", tune.SettingWords(st.Setting), st.Before.String(), st.Why)
		}
	}
	for i, v := range r.Kept {
		if i == mostKept {
			ui.PrintLine(s, "! %s; --output json lists all", text.Count(len(r.Kept)-i, "more value"))
			break
		}
		ui.PrintLine(s, "! %s stays %s, not %s: %s", tune.SettingWords(v.Setting), v.Found, v.To, v.Why)
	}
	PrintMissed(s, r.Missed)
}

// mostKept is the maximum number of kept values that are printed.
const mostKept = 5

// PrintMissed prints the jobs that were due meanwhile.
func PrintMissed(s *ui.Screen, missed []Missed) {
	for _, m := range missed {
		ui.PrintLine(s, "· %s", m.String())
	}
}

// LogMissed writes the jobs that were due meanwhile to the system log.
func LogMissed(h *host.Host, missed []Missed) {
	for _, m := range missed {
		_ = h.Log(m.String())
	}
}

func (m *Missed) String() string {
	what := "started now"
	if !m.Started {
		what = m.Why
	}
	return fmt.Sprintf("missed: %s (%s), due %s: %s", m.Job, m.From, m.Due.Local().Format("15:04:05"), what)
}
