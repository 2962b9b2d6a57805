package disk

import (
	"cmp"
	"slices"
)

// Compared is a row of the chart: a directory of the run or a reference device.
type Compared struct {
	Name        string
	Here        bool    // true for a directory of the run
	Read, Write float64 // MiB/s, 4 KiB at a time through the page cache
	// Doubts lists the doubts about a directory's figures, such as "buffered-read contended";
	// Doubtful reports whether any concerns the reads.
	Doubts   []string
	Doubtful bool
}

// Chart returns the directories and the references, fastest reads first. It is nil if no directory
// has both figures.
func (e *Evidence) Chart() (rows []Compared) {
	for _, p := range e.Places {
		at := Compared{Name: p.Directory, Here: true}
		for i := range p.Results {
			r, to := &p.Results[i], &at.Read
			switch r.Name {
			case "buffered-read", "classic-read":
			case "buffered-write", "classic-write":
				to = &at.Write
			default:
				continue
			}
			*to = mib(r)
			if d := r.Doubtful(); d != nil {
				at.Doubts = append(at.Doubts, r.Name+" "+string(d.Kind))
				at.Doubtful = at.Doubtful || to == &at.Read
			}
		}
		if at.Read > 0 && at.Write > 0 {
			rows = append(rows, at)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	for _, d := range references {
		rows = append(rows, Compared{Name: d.Device, Read: d.Read, Write: d.Write})
	}
	slices.SortStableFunc(rows, func(a, b Compared) int { return cmp.Compare(b.Read, a.Read) })
	return rows
}
