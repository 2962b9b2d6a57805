package experiment

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// diskWork is a cell of bench disk as work.
type diskWork struct {
	bench *disk.Bench
	place *disk.Place
	cell  disk.Cell
	seed  uint64
}

// diskRun is the length of a run.
const diskRun = 2 * time.Second

// newDiskWork returns the work for a name: a cell in the current directory, such as randrw, or in
// another one, such as randrw@/srv. mark is the tag of the processes that it starts.
func newDiskWork(ctx context.Context, h *host.Host, name, fioPath, mark string) (*diskWork, error) {
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
	place, err := disk.LookAt(h, dir)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	if place.SizeBytes, err = disk.FileSize(0, place.FreeBytes, 1); err != nil {
		return nil, disk.NoRoom(place.Directory, err)
	}
	engine, err := disk.FindFioOrHelp(ctx, h, fioPath)
	if err != nil {
		return nil, err
	}
	engine.Mark = mark
	return &diskWork{bench: &disk.Bench{Engine: engine, Host: h}, place: place, cell: cell}, nil
}

// work returns the cell as the work of an experiment. The end of this process removes the test file
// too.
func (w *diskWork) work() *benchWork {
	metric := prove.Metric{Name: w.cell.Name, Unit: w.cell.Unit, More: w.cell.More()}
	return &benchWork{metric: metric, prepare: w.prepare, once: w.once, close: w.place.Close}
}

// prepare creates the test file.
func (w *diskWork) prepare(ctx context.Context) error {
	if err := w.place.Open(); err != nil {
		return disk.Unmade(err)
	}
	return disk.Unmade(w.bench.Prepare(ctx, w.place))
}

// once measures the cell. A figure that does not describe the disk ends the experiment; other load
// on the disk is noise.
func (w *diskWork) once(ctx context.Context) (float64, error) {
	w.seed++
	v, err := w.bench.Measure(ctx, w.place, w.cell, diskRun, w.seed, nil)
	if err != nil {
		return 0, err
	}
	for _, d := range v.Doubts {
		switch d.Kind {
		case disk.Cached, disk.NotCached, disk.Memory:
			return 0, fmt.Errorf("%s in %s: %s", w.cell.Name, w.place.Directory, d.Text)
		}
	}
	return v.Value, nil
}
