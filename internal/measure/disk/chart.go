package disk

import "slices"

// Compared is a row of the chart: a directory of the run, or a reference device.
type Compared struct {
	Name        string
	Here        bool    // a directory of the run
	Read, Write float64 // MiB/s, 4 KiB at a time through the page cache
	// Doubts are those of a directory's figures, as "buffered-read contended", and
	// Doubtful says that the reads are among them.
	Doubts   []string
	Doubtful bool
	Note     string // what a reader of a reference's figures has to know
}

// Chart puts the directories among the References, the fastest reads first. It is empty
// where no directory has both figures.
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
	for _, d := range References {
		rows = append(rows, Compared{Name: d.Device, Read: d.Read, Write: d.Write, Note: d.Note})
	}
	slices.SortStableFunc(rows, func(a, b Compared) int {
		switch {
		case a.Read > b.Read:
			return -1
		case a.Read < b.Read:
			return 1
		}
		return 0
	})
	return rows
}
