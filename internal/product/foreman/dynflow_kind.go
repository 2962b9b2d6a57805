package foreman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// dynflowKind writes the one line of a unit's file. Sidekiq reads it when it starts.
func dynflowKind(h *host.Host) setting.Kind {
	c := &product.Control{
		Name:     "dynflow-sidekiq",
		Unit:     unitOf,
		Mains:    func(h *host.Host) ([]string, error) { return conf.Mains(dynflowMains(h)) },
		Running:  dynflowProcess,
		Ready:    ready,
		Patience: 5 * time.Minute, // it loads all of Foreman, and first finishes the steps that it does
	}
	return conf.New(h, conf.Product{
		Name:      "dynflow",
		Syntax:    conf.YAML{},
		Roots:     func(*host.Host) []string { return []string{dir} },
		Instances: dynflowMains,
		Alias: func(h *host.Host, main, key string) string {
			if in := byFile(h, main); in != nil && key == "concurrency" {
				return in.keyOf()
			}
			return key
		},
		Check:      checkDynflow,
		Activation: c.Restarts,
		Activate:   c.Activate,
		Effect:     dynflowEffect,
	})
}

func dynflowMains(h *host.Host) ([]conf.Instance, error) {
	all, err := dynflowInstances(h)
	var out []conf.Instance
	for _, in := range all {
		if in.err == nil {
			out = append(out, conf.Instance{Name: in.name, Main: in.file})
		}
	}
	return out, err
}

// byFile is the instance of a file; nil where none has it.
func byFile(h *host.Host, main string) *dynflowInstance {
	all, err := dynflowInstances(h)
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(all, func(in *dynflowInstance) bool { return in.file == main }); i >= 0 {
		return all[i]
	}
	return nil
}

// dynflowMost is more threads than any Sidekiq has.
const dynflowMost = 100

func checkDynflow(key, value string) error {
	if key != ":concurrency" && key != "concurrency" {
		return fmt.Errorf("%w: fettle sets only concurrency there", setting.ErrNotSettable)
	}
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > dynflowMost {
		return fmt.Errorf("%q: want a number of threads from 1 to %d", value, dynflowMost)
	}
	return nil
}

func unitOf(h *host.Host, main string) string {
	if in := byFile(h, main); in != nil {
		return in.unit
	}
	return ""
}

func dynflowLookAt(ctx context.Context, h *host.Host, main string) (*dynflowInstalled, error) {
	in := byFile(h, main)
	if in == nil {
		return nil, fmt.Errorf("%s: no unit that starts at boot reads it", main)
	}
	run, err := dynflowQuestion(ctx, h)
	if err != nil {
		return nil, err
	}
	i := &dynflowInstalled{in, dynflowOf(run, in.unit), nil}
	if i.run == nil {
		return i, product.ErrStopped
	}
	return i, nil
}

func dynflowProcess(ctx context.Context, h *host.Host, main string) (product.Process, error) {
	i, err := dynflowLookAt(ctx, h, main)
	if err != nil {
		return product.Process{}, err
	}
	return i.run.Process, nil
}

// ready waits for the title that Sidekiq has once it takes jobs, with the threads
// of its file.
func ready(ctx context.Context, h *host.Host, main string) error {
	i, err := dynflowLookAt(ctx, h, main)
	if err != nil {
		return err
	}
	if i.run.Threads == 0 {
		return errors.New("it has not finished starting")
	}
	if a, ok := i.told(); ok && (conf.YAML{}).Unquote(a.Literal) != strconv.Itoa(i.run.Threads) {
		return product.Final(fmt.Errorf("it runs with %d threads, not with the %s of %s", i.run.Threads, a.Literal, i.file))
	}
	return nil
}

func dynflowEffect(ctx context.Context, h *host.Host, main, _, value string) (plugin.Verdict, string) {
	i, err := dynflowLookAt(ctx, h, main)
	switch {
	case errors.Is(err, product.ErrStopped):
		return plugin.OK, "in force from its next start"
	case err != nil:
		return plugin.Unknown, err.Error()
	case i.run.Threads == 0:
		return plugin.Unknown, "it has not finished starting"
	case strconv.Itoa(i.run.Threads) != value:
		return plugin.NeedsRestart, fmt.Sprintf("%s runs with %d threads until it is restarted", i.unit, i.run.Threads)
	}
	return plugin.OK, ""
}
