package disk

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// HeldBy describes the storage of the directory: the file system and its devices.
func (m *Measured) HeldBy() string {
	parts := []string{m.Storage.Type + " on " + m.Storage.Source}
	for _, l := range m.Storage.Layers {
		name := strings.TrimSpace(l.Device + " " + l.Kind)
		if !l.Lower {
			name = strings.Join(strings.Fields(l.Device+" "+l.Transport+" "+l.Model), " ")
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " < ") + ", class " + string(m.Storage.Class)
}

// FitText describes the fit of the block sizes, or returns "" without a fit.
func (m *Measured) FitText() string {
	left := strings.Join(m.Unfitted, ", ")
	if m.Fit == nil {
		if left == "" {
			return ""
		}
		return fmt.Sprintf("Block sizes: too few reliable figures for a fit; doubtful: %s.", left)
	}
	text := fmt.Sprintf("Block sizes: each request costs %s plus its bytes at %s MB/s; every block size is within %.0f %% of that.", unit.FormatSeconds(m.Fit.FixedS), unit.Digits(m.Fit.BytesPS/1e6), 100*m.Fit.Worst)
	if left != "" {
		text += fmt.Sprintf(" Left out as doubtful: %s.", left)
	}
	return text
}

// Text formats the value of a cell with its unit.
func (r *Result) Text() string {
	if r.Unit == "ms" {
		return unit.Digits(r.Value) + " ms, " + unit.Digits(r.SyncsPS) + " 1/s"
	}
	return unit.Digits(r.Value) + " " + r.Unit
}

// SpreadText formats the spread of the repeats, or returns "" for a single one.
func (r *Result) SpreadText() string {
	if len(r.Samples) == 1 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*r.Spread)
}

// Figure formats the judged value, in MiB/s and MB/s if it is a rate.
func (j *Judgment) Figure() string {
	text := unit.Digits(j.Value) + " " + j.Unit
	if j.Unit == "MiB/s" {
		text += " (" + unit.Digits(j.Value*(1<<20)/1e6) + " MB/s)"
	}
	return text
}

// Figure formats the figure that the check would have measured.
func (f *ForemanMaintain) Figure() string { return unit.Digits(f.MiBPS) + " MiB/s" }

// foremanQuestion is the note printed with the result of foreman-maintain's check.
const foremanQuestion = "4 KiB, one request at a time; not comparable with the other verdicts"
