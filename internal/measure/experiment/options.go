package experiment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Options are the options of fettle prove. The evidence includes them, so that an experiment can
// be resumed and repeated.
type Options struct {
	Profiles  []string `json:"profiles,omitempty"`
	Set       []string `json:"set,omitempty"`
	Plan      string   `json:"plan,omitempty"`
	ChangeCmd string   `json:"change_command,omitempty"`
	UndoCmd   string   `json:"undo_command,omitempty"`
	A         string   `json:"a_command,omitempty"` // two commands to compare, instead of a change and work
	B         string   `json:"b_command,omitempty"`
	ARef      string   `json:"a_ref,omitempty"` // two commits to compare by the same work
	BRef      string   `json:"b_ref,omitempty"`
	Build     string   `json:"build_command,omitempty"`
	Dir       string   `json:"directory"` // working directory of commands

	Metric     string   `json:"metric"`
	Also       []string `json:"also_metrics,omitempty"` // further metrics
	Unit       string   `json:"unit,omitempty"`
	More       bool     `json:"more_is_better,omitempty"`
	Percentile float64  `json:"percentile"` // negative: the last number
	Guards     []string `json:"guards,omitempty"`
	Caps       []string `json:"caps,omitempty"`

	Bench     string        `json:"bench,omitempty"`
	Fio       string        `json:"fio,omitempty"`
	Live      bool          `json:"live,omitempty"`
	Window    time.Duration `json:"window_ns,omitempty"`
	Settle    time.Duration `json:"settle_ns,omitempty"`
	Covariate string        `json:"covariate,omitempty"`
	Pattern   string        `json:"pattern,omitempty"`
	LogFormat string        `json:"log_format,omitempty"`
	LogConfig []string      `json:"log_config,omitempty"`
	TokenFile string        `json:"prometheus_token_file,omitempty"`

	Margin  string        `json:"margin"`
	Alpha   float64       `json:"alpha"`
	Budget  time.Duration `json:"budget_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	Blocks  int           `json:"blocks"`
	Washout int           `json:"washout"`
	// WashoutGiven reports whether Washout was given, and is not the default.
	WashoutGiven bool   `json:"washout_given,omitempty"`
	Seed         uint64 `json:"seed"`
	Anyway       bool   `json:"anyway,omitempty"`
	// TestSystem is the name of the machine whose programs the change may restart.
	TestSystem string `json:"test_system,omitempty"`

	Expect  string  `json:"-"`
	Keep    bool    `json:"-"`
	Resume  string  `json:"-"` // name or ID of a run, or last
	Further Further `json:"-"` // with Resume
}

// expected maps the words of --expect to the verdicts that meet them. The verdict on each metric must.
var expected = map[string]func(*prove.Evidence) bool{
	"faster": isWord(prove.Better), "better": isWord(prove.Better), "slower": isWord(prove.Worse), "worse": isWord(prove.Worse), "no-effect": isWord(prove.NoEffect),
	"no-slower": notWorse, "no-worse": notWorse,
}

func isWord(w prove.Word) func(*prove.Evidence) bool {
	return func(e *prove.Evidence) bool {
		return !slices.ContainsFunc(e.Judged(), func(j prove.Judged) bool { return j.Word != w })
	}
}

// notWorse reports whether no deterioration above the margin was found. It is also true if the
// experiment cannot tell, but not if it compared nothing.
func notWorse(e *prove.Evidence) bool {
	return len(e.Blocks) > 0 && !slices.ContainsFunc(e.Judged(), func(j prove.Judged) bool {
		return j.Word == prove.Worse && (j.Interval == nil || j.Interval[0] < -e.Design.Margin)
	})
}

// Comparison reports whether two commands or commits are compared, and nothing is changed.
func (o *Options) Comparison() bool { return o.A != "" || o.ARef != "" }

// shortens reports whether warm-up runs may be omitted if the budget is too short for them. Records
// of older versions do not have WashoutGiven.
func (o *Options) shortens() bool {
	return o.Comparison() && !o.WashoutGiven && o.Washout == prove.Defaults(prove.Metric{}).Washout
}

// defaultTimeout returns the time limit of a run without --timeout.
func defaultTimeout(budget time.Duration) time.Duration { return max(budget, time.Minute) }

// Expectations returns the words of --expect, sorted.
func Expectations() []string { return slices.Sorted(maps.Keys(expected)) }

// Block returns the approximate time of a block of windows. It has one switch, and every second
// block begins with another one.
func (o *Options) Block() time.Duration { return 2*o.Window + 3*o.Settle/2 }

// AllBlocks returns the time of all blocks of windows, plus a tenth.
func (o *Options) AllBlocks() time.Duration {
	return time.Duration(o.Blocks) * o.Block() * 11 / 10
}

// design creates the design. read parses a metric; its argument decides is true for the metric of
// the verdict.
func (o *Options) design(read func(text string, decides bool) (prove.Metric, error)) (d prove.Design, err error) {
	metric, err := read(o.Metric, true)
	if err != nil {
		return d, ui.Without(fmt.Errorf("--metric %s: %w", o.Metric, err), "--metric")
	}
	d = prove.Defaults(metric)
	for _, text := range o.Also {
		metric, err := read(text, false)
		if err != nil {
			return d, ui.Without(fmt.Errorf("--metric %s: %w", text, err), "--metric")
		}
		d.Also = append(d.Also, metric)
	}
	d.Alpha, d.Most, d.Washout, d.Seed, d.BudgetS = o.Alpha, o.Blocks, o.Washout, o.Seed, o.Budget.Seconds()
	d.Least = min(d.Least, max(d.Most, 2))
	if d.Margin, err = unit.ParsePercent(o.Margin); err != nil {
		return d, ui.Instead(ui.Usage, fmt.Errorf("--margin %s: %w", o.Margin, err), "", "--margin=2%")
	}
	for _, g := range o.Guards {
		metric, limit, err := limited(g, read, unit.ParsePercent)
		if err != nil {
			return d, ui.Instead(ui.Usage, fmt.Errorf("--guard %s: %w", g, err), "", "--guard=max-memory:10%")
		}
		d.Guards = append(d.Guards, prove.Guard{Metric: metric, Most: limit})
	}
	for _, c := range o.Caps {
		metric, most, err := limited(c, read, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
		if err != nil {
			return d, ui.Instead(ui.Usage, fmt.Errorf("--stop-above %s: %w", c, err), "", "--stop-above=max-memory:2000000000")
		}
		d.Caps = append(d.Caps, prove.Cap{Metric: metric, Most: most})
	}
	if o.Covariate != "" {
		metric, err := read(o.Covariate, false)
		if err != nil {
			return d, ui.Without(fmt.Errorf("--covariate %s: %w", o.Covariate, err), "--covariate")
		}
		d.Covariate = &metric
	}
	return d, d.Check()
}

// limited parses METRIC:LIMIT.
func limited(text string, read func(string, bool) (prove.Metric, error), limit func(string) (float64, error)) (m prove.Metric, most float64, err error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return m, 0, errors.New("want METRIC:LIMIT")
	}
	if m, err = read(text[:at], false); err != nil {
		return m, 0, err
	}
	most, err = limit(text[at+1:])
	return m, most, err
}
