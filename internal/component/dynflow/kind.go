package dynflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/component/conf"
	"fettle.dev/fettle/internal/component/program"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/setting"
)

// kind writes the one line of a unit's file. Sidekiq reads it when it starts.
func kind(h *host.Host) setting.Kind {
	c := &program.Control{
		Name:     "dynflow-sidekiq",
		Unit:     unitOf,
		Mains:    func(h *host.Host) ([]string, error) { return conf.Mains(mains(h)) },
		Running:  process,
		Ready:    ready,
		Patience: 5 * time.Minute, // it loads all of Foreman, and first finishes the steps that it does
	}
	return conf.New(h, conf.Product{
		Name:      "dynflow",
		Syntax:    conf.YAML{},
		Roots:     func(*host.Host) []string { return []string{dir} },
		Instances: mains,
		Alias: func(h *host.Host, main, key string) string {
			if in := byFile(h, main); in != nil && key == "concurrency" {
				return in.keyOf()
			}
			return key
		},
		Check:      check,
		Activation: c.Restarts,
		Activate:   c.Activate,
		Effect:     effect,
	})
}

func mains(h *host.Host) ([]conf.Instance, error) {
	all, err := instances(h)
	var out []conf.Instance
	for _, in := range all {
		if in.err == nil {
			out = append(out, conf.Instance{Name: in.name, Main: in.file})
		}
	}
	return out, err
}

// byFile is the instance of a file; nil where none has it.
func byFile(h *host.Host, main string) *instance {
	all, err := instances(h)
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(all, func(in *instance) bool { return in.file == main }); i >= 0 {
		return all[i]
	}
	return nil
}

// most is more threads than any Sidekiq has.
const most = 100

func check(key, value string) error {
	if key != ":concurrency" && key != "concurrency" {
		return fmt.Errorf("%w: fettle sets only concurrency there", setting.ErrNoPlace)
	}
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > most {
		return fmt.Errorf("%q: want a number of threads from 1 to %d", value, most)
	}
	return nil
}

func unitOf(h *host.Host, main string) string {
	if in := byFile(h, main); in != nil {
		return in.unit
	}
	return ""
}

func lookAt(ctx context.Context, h *host.Host, main string) (*installed, error) {
	in := byFile(h, main)
	if in == nil {
		return nil, fmt.Errorf("%s: no unit that starts at boot reads it", main)
	}
	run, err := question(ctx, h)
	if err != nil {
		return nil, err
	}
	i := &installed{in, of(run, in.unit), nil}
	if i.run == nil {
		return i, program.ErrStopped
	}
	return i, nil
}

func process(ctx context.Context, h *host.Host, main string) (program.Process, error) {
	i, err := lookAt(ctx, h, main)
	if err != nil {
		return program.Process{}, err
	}
	return i.run.Process, nil
}

// ready waits for the title that Sidekiq has once it takes jobs, with the threads
// of its file.
func ready(ctx context.Context, h *host.Host, main string, _ program.Process) error {
	i, err := lookAt(ctx, h, main)
	if err != nil {
		return err
	}
	if i.run.Threads == 0 {
		return errors.New("it has not finished starting")
	}
	if a, ok := i.told(); ok && (conf.YAML{}).Unquote(a.Literal) != strconv.Itoa(i.run.Threads) {
		return program.Final(fmt.Errorf("it runs with %d threads, not with the %s of %s", i.run.Threads, a.Literal, i.file))
	}
	return nil
}

func effect(ctx context.Context, h *host.Host, main, _, value string) (plugin.Verdict, string) {
	i, err := lookAt(ctx, h, main)
	switch {
	case errors.Is(err, program.ErrStopped):
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
