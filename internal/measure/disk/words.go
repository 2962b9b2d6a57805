package disk

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// HeldBy says what holds the directory: the file system, and the devices below it.
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

// FitText says what explains the ladder of block sizes; empty where there is none.
func (m *Measured) FitText() string {
	left := strings.Join(m.Unfitted, ", ")
	if m.Fit == nil {
		if left == "" {
			return ""
		}
		return fmt.Sprintf("Block sizes: too few figures for a fit: %s are doubtful.", left)
	}
	text := fmt.Sprintf("Block sizes: each request costs %s, and then its bytes at %.4g MB/s; no rung is further than %.0f %% from that.", unit.FormatSeconds(m.Fit.FixedS), m.Fit.BytesPS/1e6, 100*m.Fit.Worst)
	if left != "" {
		text += fmt.Sprintf(" Without %s: doubtful.", left)
	}
	return text
}

// Text is the figure of a cell with its unit.
func (r *Result) Text() string {
	if r.Unit == "ms" {
		return figure(r.Value) + " ms, " + figure(r.SyncsPS) + " 1/s"
	}
	return figure(r.Value) + " " + r.Unit
}

// SpreadText is by how much the repeats differ; empty of one alone, which tells none.
func (r *Result) SpreadText() string {
	if len(r.Visits) == 1 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*r.Spread)
}

// Figure is what was judged, with its unit, and where that is MiB/s in MB/s too.
func (j *Judgment) Figure() string {
	text := figure(j.Value) + " " + j.Unit
	if j.Unit == "MiB/s" {
		text += " (" + figure(j.Value*(1<<20)/1e6) + " MB/s)"
	}
	return text
}

// Figure is what the check would have measured.
func (f *ForemanMaintain) Figure() string { return figure(f.MiBPS) + " MiB/s" }

// ForemanQuestion is what is to be known of that check.
const ForemanQuestion = "4 KiB, one request at a time: the answer to another question"

// figure is a number with as many digits as matter.
func figure(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
