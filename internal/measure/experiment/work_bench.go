package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// benchWork is the cell of a benchmark used as an experiment's work.
type benchWork interface {
	work
	Metric() prove.Metric
	// Close removes the files and databases that Check created.
	Close() error
}

// benchRuns creates the work for a benchmark's cell. Each visit measures it once.
func (p *Experiment) benchRuns(ctx context.Context, mark string) error {
	kind, name, _ := strings.Cut(p.o.Bench, ":")
	w, err := p.bench(ctx, kind, name, mark)
	if err != nil {
		return err
	}
	p.work, p.closing = w, w.Close
	p.body.Work = []string{"fettle", "bench", kind, name}
	p.design, err = p.o.design(func(text string, decides bool) (prove.Metric, error) {
		if decides {
			return w.Metric(), nil
		}
		return prove.Metric{}, fmt.Errorf("this benchmark has only the metric %s; leave out --metric", w.Metric().Name)
	})
	return err
}

func (p *Experiment) bench(ctx context.Context, kind, name, mark string) (benchWork, error) {
	switch kind {
	case "disk":
		return newDiskWork(ctx, p.Host, name, p.o.Fio, mark)
	case "memory":
		return newMemoryWork(p.Host, name)
	case "postgres":
		return newPostgresWork(p.Host, p.Screen.Say, name, p.o.Anyway)
	case "etcd":
		return newEtcdWork(ctx, p.Host, name)
	case "network":
		return newNetworkWork(p.Host, name)
	}
	return nil, fmt.Errorf("--bench %s: want disk:CELL[@DIR], memory:CELL, postgres:clients-N[@SERVER] or etcd:put=PREFIX[@MEMBER] or network:CELL@PEER; examples: disk:randrw@/srv, memory:thp-random, postgres:clients-8, etcd:put=bench", p.o.Bench)
}

// orFailed is orExit for work that cannot be measured on this machine.
func orFailed(err error) error { return orExit(ui.Failed, err) }

// memoryWork is a cell of bench memory.
type memoryWork struct {
	name  string
	visit func(context.Context) (float64, error)
}

func newMemoryWork(h *host.Host, name string) (*memoryWork, error) {
	run, err := memory.InNewProcesses(h.Exec)
	if err != nil {
		return nil, err
	}
	if _, _, err := memory.ParseName(name); err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	visit, err := memory.Work(fact.Collect(h), run, name)
	if errors.Is(err, memory.ErrTooLarge) {
		err = memory.TooLarge(err)
	}
	return &memoryWork{name, visit}, orFailed(err)
}

func (w *memoryWork) Metric() prove.Metric { return prove.Metric{Name: w.name, Unit: "s"} }

// Check measures once, which shows whether the pages are available.
func (w *memoryWork) Check(ctx context.Context) error { _, err := w.visit(ctx); return orFailed(err) }

func (w *memoryWork) Visit(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	v, err := w.visit(ctx)
	return prove.Measurement{Values: prove.Values{w.name: v}}, err
}

func (w *memoryWork) Close() error { return nil }
