// Package runpage prints runs of measurements. On a terminal it prints the benchmark's own output.
// A page has charts, every sample, the commands to measure again, and the machine.
package runpage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
)

// Result is the result of a run: the body of its record.
type Result interface {
	Headline() ui.Headline
	Print(*ui.Screen, *evidence.Run)
	// Next returns the recommended next step: a sentence, and the arguments of a call of fettle.
	// Both are empty if nothing is missing.
	Next() (string, []string)
}

// results has a constructor of an empty result for each kind of run.
var results = map[string]func() Result{
	"prove":            func() Result { return &prove.Evidence{} },
	search.Kind:        func() Result { return &search.Evidence{} },
	disk.Kind:          func() Result { return &disk.Evidence{} },
	"bench-memory":     func() Result { return &memory.Result{} },
	"bench-postgres":   func() Result { return &postgres.Result{} },
	"bench-etcd":       func() Result { return &etcd.Result{} },
	network.RecordKind: func() Result { return &network.Result{} },
	load.Kind:          func() Result { return &load.Result{} },
	mqtt.Kind:          func() Result { return &mqtt.Result{} },
	scenario.Kind:      func() Result { return &scenario.Result{} },
}

// Kinds returns, sorted, the kinds of runs in results.
func Kinds() []string { return slices.Sorted(maps.Keys(results)) }

// ResultOf returns the result of a run, or nil for an unknown kind.
func ResultOf(r *evidence.Run) (Result, error) {
	of, known := results[r.Kind]
	if !known {
		return nil, nil
	}
	body := of()
	if err := json.Unmarshal(r.Body, body); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return body, nil
}

// Show prints a run's result, or only its verdict if of is nil. On a page it adds charts.
func Show(s *ui.Screen, r *evidence.Run, of Result) error {
	switch {
	case s.Page != nil && r.Kind == "prove":
		return proofPage(s.Page, r)
	case s.Page == nil:
		of.Print(s, r)
		if r.EnergyJ != nil {
			ui.PrintLine(s, "energy: %s J of all processors and their memory", unit.Digits(*r.EnergyJ))
		}
		return nil
	}
	if s.Page.Title == "" {
		s.Page.Title = r.Verdict
	}
	if of != nil {
		of.Print(s, r)
	} else {
		s.Page.Headline(r.Verdict)
	}
	if err := samples(s.Page, r); err != nil {
		return err
	}
	again(s.Page, r.Command)
	machine(s.Page, r)
	return nil
}

// PrintAll prints several runs on a page. Common properties and differences come first.
func PrintAll(s *ui.Screen, runs []*evidence.Run) error {
	if len(runs) == 1 {
		return show(s, runs[0])
	}
	p := s.Page
	p.Headline(internaltext.Count(len(runs), "run"))
	g := ui.Grid{Columns: []ui.Column{{Head: "run"}, {Head: "verdict"}, {Head: "machine"}, {Head: "began"}, {Head: "command", Cut: true}}}
	for _, r := range runs {
		g.Rows = append(g.Rows, []string{r.ID, headline(r.Verdict), r.Machine.Name, when(r), r.Command})
	}
	p.Table(g.Table("The runs"))
	if err := effects(p, runs); err != nil {
		return err
	}
	p.Heading("what differed between the machines")
	if d := differences(runs); len(d.Rows) > 0 {
		p.Table(d.Table(""))
	} else {
		p.Line("Nothing that fettle records: the same hardware, kernel and settings.")
	}
	for _, r := range runs {
		p.Heading(fmt.Sprintf("run %s: %s", r.ID, headline(r.Verdict)))
		if err := show(s, r); err != nil {
			return err
		}
	}
	return nil
}

func show(s *ui.Screen, r *evidence.Run) error {
	of, err := ResultOf(r)
	if err != nil {
		return err
	}
	return Show(s, r, of)
}

// effects draws the effects of all experiments on one axis.
func effects(p *page.Page, runs []*evidence.Run) error {
	var rows []page.Interval
	for _, r := range runs {
		if r.Kind != "prove" {
			continue
		}
		e, err := prove.EvidenceOf(r)
		if err != nil {
			return err
		}
		if e.Effect != nil {
			rows = append(rows, interval(r.ID, e))
		}
	}
	if len(rows) > 0 {
		intervals(p, "Effects", rows, 0)
	}
	return nil
}

// headline returns a verdict without its interval or its only block.
func headline(text string) string {
	text, _, _ = strings.Cut(text, " [")
	text, _, _ = strings.Cut(text, " (")
	text, _, _ = strings.Cut(text, ": ")
	return text
}

func when(r *evidence.Run) string { return r.Began.UTC().Format("2006-01-02 15:04 UTC") }

// again prints the commands that repeat a measurement.
func again(p *page.Page, command string) {
	p.Heading("measure it again")
	p.Command(command)
}

// machine prints the machine of a run and its settings.
func machine(p *page.Page, r *evidence.Run) {
	m := &r.Machine
	g := ui.Grid{Columns: ui.Columns("what", "value")}
	row := func(name string, words ...string) {
		if text := strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", "); text != "" {
			g.Rows = append(g.Rows, []string{name, text})
		}
	}
	virtual := ""
	if m.Hypervisor != "" {
		virtual = "virtual (" + m.Hypervisor + ")"
	}
	row("machine", m.Name, m.Model, virtual)
	cpus := ""
	if m.CPUs > 0 {
		cpus = strconv.FormatInt(m.CPUs, 10) + " × "
	}
	row("processors", strings.TrimSuffix(cpus+m.CPU, " × "))
	if m.MemoryBytes > 0 {
		row("memory", unit.Size(m.MemoryBytes).Human())
	}
	row("system", m.OS, "kernel "+m.Kernel)
	took := ""
	if !r.Ended.IsZero() {
		took = "took " + r.Ended.Sub(r.Began).Round(time.Second).String()
	}
	row("began", when(r), took)
	if r.EnergyJ != nil {
		row("energy", unit.Digits(*r.EnergyJ)+" J of all processors and their memory")
	}
	id := "not ended yet"
	if r.ID != "" {
		id = r.ID + " (the beginning of its SHA-256)"
	}
	row("record", id, "fettle "+r.Version)
	p.Heading("the machine")
	p.Table(g.Table(""))
	if len(m.Settings) > 0 {
		settings := ui.Grid{Columns: ui.Columns("setting", "value")}
		for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
			settings.Rows = append(settings.Rows, []string{name, m.Settings[name]})
		}
		p.Fold(fmt.Sprintf("%s of the kernel when it began", internaltext.Count(len(m.Settings), "setting")), settings.Table("Settings of the kernel"))
	}
}

// differences returns the properties and settings in which the machines of runs differ.
func differences(runs []*evidence.Run) ui.Grid {
	g := ui.Grid{Columns: ui.Columns("what")}
	for _, r := range runs {
		g.Columns = append(g.Columns, ui.Column{Head: r.ID})
	}
	add := func(name string, of func(*evidence.Machine) string) {
		row := []string{name}
		for _, r := range runs {
			row = append(row, of(&r.Machine))
		}
		if len(slices.Compact(slices.Clone(row[1:]))) > 1 {
			g.Rows = append(g.Rows, row)
		}
	}
	add("machine", func(m *evidence.Machine) string { return m.Name })
	add("hardware", (*evidence.Machine).HardwareText)
	add("system", func(m *evidence.Machine) string { return m.OS })
	add("kernel", func(m *evidence.Machine) string { return m.Kernel })
	names := map[string]bool{}
	for _, r := range runs[1:] {
		for _, name := range runs[0].Machine.Differing(r.Machine) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add(name, func(m *evidence.Machine) string {
			if value, has := m.Settings[name]; has {
				return value
			}
			return "absent"
		})
	}
	return g
}
