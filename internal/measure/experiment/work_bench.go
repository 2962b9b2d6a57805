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
type benchWork struct {
	metric prove.Metric
	once   func(context.Context) (float64, error) // measures the cell once
	// prepare creates what the cell needs, and close removes it. Without prepare, one measurement
	// shows whether the cell can be measured. Both may be nil.
	prepare func(context.Context) error
	close   func() error
}

// Check implements work.
func (w *benchWork) Check(ctx context.Context) (err error) {
	if w.prepare != nil {
		return orFailed(w.prepare(ctx))
	}
	_, err = w.once(ctx)
	return orFailed(err)
}

// Measure implements prove.Workload.
func (w *benchWork) Measure(ctx context.Context, _ prove.Step) (prove.Measurement, error) {
	v, err := w.once(ctx)
	return prove.Measurement{Values: prove.Values{w.metric.Name: v}}, err
}

// benchRuns creates the work for a benchmark's cell. Each sample measures it once.
func (p *Experiment) benchRuns(ctx context.Context, mark string) error {
	kind, name, _ := strings.Cut(p.o.Bench, ":")
	w, err := p.bench(ctx, kind, name, mark)
	if err != nil {
		return err
	}
	p.work, p.closing = w, w.close
	p.body.Work = []string{"fettle", "bench", kind, name}
	p.design, err = p.o.design(func(text string, decides bool) (prove.Metric, error) {
		if decides {
			return w.metric, nil
		}
		return prove.Metric{}, fmt.Errorf("this benchmark has only the metric %s; leave out --metric", w.metric.Name)
	})
	return err
}

func (p *Experiment) bench(ctx context.Context, kind, name, mark string) (*benchWork, error) {
	switch kind {
	case "disk":
		w, err := newDiskWork(ctx, p.Host, name, p.o.Fio, mark)
		if err != nil {
			return nil, err
		}
		return w.work(), nil
	case "memory":
		return memoryWork(p.Host, name)
	case "postgres":
		return postgresWork(p.Host, p.Screen.Say, name, p.o.Anyway)
	case "etcd":
		return etcdWork(ctx, p.Host, name)
	case "network":
		return networkWork(p.Host, name)
	}
	return nil, fmt.Errorf("--bench %s: want disk:CELL[@DIR], memory:CELL, postgres:clients-N[@SERVER] or etcd:put=PREFIX[@MEMBER] or network:CELL@PEER; examples: disk:randrw@/srv, memory:thp-random, postgres:clients-8, etcd:put=bench", p.o.Bench)
}

// orFailed is orExit for work that cannot be measured on this machine.
func orFailed(err error) error { return orExit(ui.Failed, err) }

// memoryWork returns the work for a cell of bench memory.
func memoryWork(h *host.Host, name string) (*benchWork, error) {
	run, err := memory.InNewProcesses(h.Exec)
	if err != nil {
		return nil, err
	}
	if _, _, err := memory.ParseName(name); err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	once, err := memory.Work(fact.Collect(h), run, name)
	if errors.Is(err, memory.ErrTooLarge) {
		err = memory.TooLarge(err)
	}
	return &benchWork{metric: prove.Metric{Name: name, Unit: "s"}, once: once}, orFailed(err)
}
