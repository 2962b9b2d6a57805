// puma knows the Pumas of a machine, the web server of Ruby applications
// such as Foreman: their workers and threads as units, environment, command line
// and configuration files set them, what runs, and how it takes a new value.

package foreman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// Puma is Puma.
var Puma = product.Product{
	Name:       "puma",
	Doc:        "Puma, the web server of Foreman and of other applications in Ruby, each that a unit runs",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       findPuma,
	Kind:       pumaKind,
}

// parameters have the defaults of Puma 5 and 6 on MRI (lib/puma/configuration.rb).
var parameters = []product.Parameter{
	{Name: "workers", Type: fact.Number, Default: "0", Doc: "processes that serve requests; 0 is single mode, without processes of their own"},
	{Name: "threads_min", Type: fact.Number, Default: "0", Doc: "threads of each process that are always there"},
	{Name: "threads_max", Type: fact.Number, Default: "5", Doc: "threads of each process at most: requests that it serves at a time"},
}

var inputs = []fact.Input{
	{Name: "puma.name", Type: fact.Text, Doc: "unit that runs it, or directory of the application"},
	{Name: "puma.version", Type: fact.Text, Doc: "version of the running server"},
	{Name: "puma.workers_serving", Type: fact.Number, Doc: "processes that take requests now; 1 in single mode"},
	{Name: "puma.threads_running", Type: fact.Number, Doc: "threads for requests that are started now, of all processes"},
	{Name: "puma.backlog", Type: fact.Number, Doc: "requests that wait for a thread, as its control server says"},
	{Name: "puma.pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's"},
}

func findPuma(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := pumaInstances(h)
	if err != nil {
		return nil, err
	}
	run, runErr := pumaQuestion(ctx, h, all)
	var out []product.Installed
	taken := map[string]bool{}
	for _, in := range all {
		i := &pumaInstalled{pumaInstance: in, runErr: runErr}
		for n := range run {
			if i.run == nil && pumaOf(run[n], all) == in {
				i.run = &run[n]
			}
		}
		taken[in.name] = true
		out = append(out, i)
	}
	for n := range run {
		if r := &run[n]; r.Version != "" && pumaOf(*r, all) == nil {
			in := byHand(h, *r)
			for base, k := in.name, 2; taken[in.name]; k++ {
				in.name = base + "-" + strconv.Itoa(k)
			}
			taken[in.name] = true
			out = append(out, &pumaInstalled{pumaInstance: in, run: r})
		}
	}
	return out, nil
}

type pumaInstalled struct {
	*pumaInstance
	run    *pumaRunning // nil where none runs
	runErr error
}

func (i *pumaInstalled) Name() string { return i.name }

// pumaOptions are the names of the parameters, sorted.
var pumaOptions = []string{"threads_max", "threads_min", "workers"}

// Option implements component.Installed.
func (i *pumaInstalled) Option(name string) product.Option {
	o := product.Option{File: fact.Absent[string](i.name), Running: fact.Absent[string](i.name)}
	if !slices.Contains(pumaOptions, name) {
		return o
	}
	t := i.option(name, i.get)
	switch {
	case t.unknown != "":
		o.File = fact.Unknown[string](t.at, t.unknown)
	case t.text != "":
		o.File = fact.Known(t.text, t.at)
	}
	switch {
	case i.runErr != nil:
		o.Running = fact.Unknown[string](i.name, i.runErr.Error())
	case i.run != nil:
		v, unknown := i.runs(name)
		at := fmt.Sprintf("process %d of puma", i.run.Process.PID)
		if unknown != "" {
			o.Running = fact.Unknown[string](at, unknown)
			break
		}
		if v == t.text && t.at != "" {
			at = t.at // that is where it comes from
		}
		o.Running = fact.Known(v, at)
	}
	return o
}

// runs is what an option is in the running server.
func (i *pumaInstalled) runs(name string) (text, unknown string) {
	r := i.run
	if r.Version == "" {
		return "", "it has not finished starting"
	}
	if r.Stats != nil {
		switch n := r.Stats.maxThreads(); {
		case name == "workers" && r.Stats.Workers != nil:
			return strconv.Itoa(*r.Stats.Workers), ""
		case name == "workers":
			return "0", ""
		case name == "threads_max" && n > 0:
			return strconv.Itoa(n), ""
		}
	}
	switch {
	case name == "workers" && r.single():
		return "0", ""
	case name == "workers" && len(r.Workers) > 0:
		return strconv.Itoa(len(r.Workers)), ""
	case name == "workers":
		return "", "it has no worker, and takes no requests"
	case !r.Taken:
		return "", "its configuration was changed since it was started, and it does not say what it runs with"
	}
	t := i.option(name, func(variable string) (string, string, bool, string) {
		v, ok := r.Env[variable]
		if !ok && !r.Whole {
			return "", "", false, "its environment cannot be read"
		}
		return v, fmt.Sprintf("/proc/%d/environ", r.Process.PID), ok, ""
	})
	if t.text == "" && t.unknown == "" {
		for _, p := range parameters {
			if p.Name == name {
				t.text = p.Default
			}
		}
	}
	return t.text, t.unknown
}

// pending are the options that it does not run with as the files say.
func (i *pumaInstalled) pending() []string {
	out := []string{}
	for _, name := range pumaOptions {
		o := i.Option(name)
		file, known := o.File.Get()
		runs, also := o.Running.Get()
		if known && also && file != runs {
			out = append(out, name)
		}
	}
	return out
}

// Answer implements component.Installed.
func (i *pumaInstalled) Answer(input string) fact.Answer {
	switch {
	case input == "name":
		return fact.Answer{Value: i.name, At: i.name}
	case i.runErr != nil:
		return fact.Answer{Unknown: i.runErr.Error(), At: i.name}
	case i.run == nil:
		return fact.Answer{Unknown: product.ErrStopped.Error(), At: i.name}
	}
	at := fmt.Sprintf("process %d of puma", i.run.Process.PID)
	switch input {
	case "version":
		if i.run.Version != "" {
			return fact.Answer{Value: i.run.Version, At: at}
		}
		return fact.Answer{Unknown: "it has not finished starting", At: at}
	case "workers_serving":
		n := 0.0
		for _, w := range i.run.Workers {
			if w.Serving {
				n++
			}
		}
		return fact.Answer{Value: n, At: at}
	case "threads_running":
		n := 0.0
		for _, w := range i.run.Workers {
			n += float64(w.Threads)
		}
		return fact.Answer{Value: n, At: at}
	case "backlog":
		if i.run.Stats == nil {
			return fact.Answer{Unknown: "it has no control server that says it", At: at}
		}
		return fact.Answer{Value: float64(i.run.Stats.backlog()), At: at}
	case "pending_changes":
		return fact.Answer{Value: i.pending(), At: at}
	}
	return fact.Answer{Unknown: "puma does not say it", At: at}
}

// errForeign says that a setting's file belongs to no Puma.
var errForeign = errors.New("no Puma here has it among its files")

// belongs is the instance that a file sets up.
func belongs(h *host.Host, file string) (*pumaInstance, error) {
	all, err := pumaInstances(h)
	if err != nil {
		return nil, err
	}
	for _, in := range all {
		if in.has(file) {
			return in, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", file, errForeign)
}
