package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// diskWork is a cell of bench disk as the work of an experiment.
type diskWork struct {
	bench *disk.Bench
	place *disk.Place
	cell  disk.Cell
	seed  uint64
}

// diskVisit is how long one visit goes on.
const diskVisit = 2 * time.Second

// diskWork makes the work of a name: a cell, as randrw, in the current directory or,
// as randrw@/srv, in another. mark is in the environment of all that it starts.
func (m *machine) diskWork(ctx context.Context, name, fioPath, mark string) (*diskWork, error) {
	cellName, dir, elsewhere := strings.Cut(name, "@")
	cell, err := disk.Find(cellName)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	if !elsewhere {
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	place, err := disk.LookAt(m.host, dir)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	if place.SizeBytes, err = disk.FileSize(0, place.FreeBytes, 1); err != nil {
		return nil, noRoom(place.Directory, err)
	}
	engine, err := m.fio(ctx, fioPath)
	if err != nil {
		return nil, err
	}
	engine.Mark = mark
	return &diskWork{bench: &disk.Bench{Engine: engine, Host: m.host}, place: place, cell: cell}, nil
}

// Metric is what decides of an experiment with this work.
func (w *diskWork) Metric() prove.Metric {
	return prove.Metric{Name: w.cell.Name, Unit: w.cell.Unit, More: w.cell.More()}
}

// Check makes the file, which is gone with Close or with this process.
func (w *diskWork) Check(ctx context.Context) error {
	return orFailed(unmade(w.bench.Prepare(ctx, w.place)))
}

// Visit measures the cell once. A figure that is not the disk's ends the experiment;
// what others do meanwhile is noise like any other.
func (w *diskWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	w.seed++
	v, err := w.bench.Visit(ctx, w.place, w.cell, diskVisit, w.seed, nil)
	if err != nil {
		return prove.Measurement{}, err
	}
	for _, d := range v.Doubts {
		switch d.Kind {
		case disk.Cached, disk.NotCached, disk.Memory:
			return prove.Measurement{}, fmt.Errorf("%s in %s: %s", w.cell.Name, w.place.Directory, d.Text)
		}
	}
	return prove.Measurement{Values: prove.Values{w.cell.Name: v.Value}}, nil
}

// Close gives the file up.
func (w *diskWork) Close() error { return w.place.Close() }

var _ work = (*diskWork)(nil)
