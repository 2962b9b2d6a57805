package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/unit"
)

// disks holds the parts of the page for a bench of disks, without its series and curves.
type disks struct {
	Places []directory
	Chart  []device
	Notes  []figure // about devices of the chart
}

// directory is a measured directory.
type directory struct {
	Name, HeldBy, Fit string
	Verdicts          []judgment
	Cells             []cell
	Doubts            []figure // each once, with the names of its cells
}

// judgment is the verdict about a figure.
type judgment struct{ Tone, Verdict, What, Value, Why string }

// cell is the result of one test of the disk.
type cell struct{ Name, Median, Steady, Doubts, FromDisk, InFlight, Mean, P99, Spread string }

// device is a row of the chart: a directory, or a reference.
type device struct {
	Name, Doubts, Read, Write string
	Kind                      string  // here, open, reference
	Width                     float64 // of its bar, in percent
}

// tones are the colors of verdicts; the words state the same.
var tones = map[disk.Word]string{disk.Pass: "within", disk.Warn: "undecided", disk.Fail: "broken"}

// newDisks returns nil for a run of another kind. The notes are warnings for the reader.
func newDisks(r *evidence.Run) (d *disks, notes []string, err error) {
	if r.Kind != disk.Kind {
		return nil, nil, nil
	}
	var e disk.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return nil, nil, err
	}
	d = &disks{}
	for i := range e.Places {
		d.Places = append(d.Places, newDirectory(&e.Places[i]))
	}
	chart := e.Chart()
	for _, x := range chart {
		row := device{Name: x.Name, Read: digits(x.Read), Write: digits(x.Write), Kind: "reference", Width: round(max(100*x.Read/chart[0].Read, 0.5)), Doubts: strings.Join(x.Doubts, ", ")}
		switch {
		case x.Doubtful:
			row.Kind = "open"
		case x.Here:
			row.Kind = "here"
		}
		if x.Note != "" {
			d.Notes = append(d.Notes, figure{x.Name, x.Note})
		}
		d.Chart = append(d.Chart, row)
	}
	return d, e.Warnings, nil
}

func newDirectory(m *disk.Measured) directory {
	v := directory{Name: m.Directory, HeldBy: m.HeldBy(), Fit: m.FitText()}
	for _, j := range m.Verdict {
		v.Verdicts = append(v.Verdicts, judgment{tones[j.Verdict], string(j.Verdict), j.Name, j.Figure(), j.Text})
	}
	if f := m.Foreman; f != nil {
		v.Verdicts = append(v.Verdicts, judgment{"", "(" + f.Says + ")", "what foreman-maintain would say", f.Figure(), disk.ForemanQuestion})
	}
	for i := range m.Results {
		r := &m.Results[i]
		c := cell{Name: r.Name, Median: r.Text(), Steady: r.Steady.Text(), InFlight: fmt.Sprintf("%.1f", r.InFlight), Mean: latency(r.MeanS), P99: latency(r.P99S), Spread: r.SpreadText()}
		if r.FromStorage != nil {
			c.FromDisk = fmt.Sprintf("%.0f %%", 100**r.FromStorage)
		}
		var kinds []string
		for _, x := range r.Doubts {
			kinds = append(kinds, string(x.Kind))
			text := string(x.Kind) + ": " + x.Text
			if at := slices.IndexFunc(v.Doubts, func(f figure) bool { return f.Value == text }); at >= 0 {
				v.Doubts[at].Name += ", " + r.Name
			} else {
				v.Doubts = append(v.Doubts, figure{r.Name, text})
			}
		}
		c.Doubts = strings.Join(kinds, ", ")
		v.Cells = append(v.Cells, c)
	}
	return v
}

// latency formats a time. It returns "" if it was not measured.
func latency(s float64) string {
	if s == 0 {
		return ""
	}
	return unit.FormatSeconds(s)
}
