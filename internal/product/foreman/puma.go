package foreman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Puma is Puma, the web server of Ruby applications such as Foreman.
var Puma = func() product.Product {
	p := puma.Product()
	p.Find = findPuma
	return p
}()

type (
	pumaInput     = product.Input[*pumaInstance, *pumaRunning]
	pumaInstalled = product.Instance[*pumaInstance, *pumaRunning]
)

var puma = &product.Daemon[*pumaInstance, *pumaRunning]{
	Name: "puma", Doc: "Puma, the web server of Foreman and other Ruby applications, if a unit runs it",
	Parameters: parameters,
	Inputs: []pumaInput{
		{Name: "name", Type: fact.Text, Doc: "unit of Puma, or directory of the application", Answer: func(i *pumaInstalled) fact.Answer {
			return fact.Answer{Value: i.Name(), At: i.Name()}
		}},
		{Name: "version", Type: fact.Text, Doc: "version of the running server", From: product.FromReport, Answer: func(i *pumaInstalled) fact.Answer {
			if i.Report.Version == "" {
				return fact.Answer{Unknown: "Puma has not finished starting", At: i.Report.at()}
			}
			return fact.Answer{Value: i.Report.Version, At: i.Report.at()}
		}},
		reported("workers_serving", "processes that accept requests now; 1 in single mode", func(r *pumaRunning) int { return r.serving() }),
		reported("threads_running", "request threads of all processes that are started now", func(r *pumaRunning) (n int) {
			for _, w := range r.Workers {
				n += w.Threads
			}
			return n
		}),
		{Name: "backlog", Type: fact.Number, Doc: "requests that wait for a thread, from Puma's control server", From: product.FromReport, Answer: func(i *pumaInstalled) fact.Answer {
			if i.Report.Stats == nil {
				return fact.Answer{Unknown: "Puma has no control server, which would report the backlog", At: i.Report.at()}
			}
			return fact.Answer{Value: float64(i.Report.Stats.backlog()), At: i.Report.at()}
		}},
		{Name: "connections_waiting", Type: fact.Number, Doc: "connections that wait until a worker accepts them", From: product.FromReport, Answer: func(i *pumaInstalled) fact.Answer {
			return product.ConnectionsWaiting(i.Host, i.Report.Process.PID)
		}},
		{Name: "pending_changes", Type: fact.List, Doc: "options whose value in the files is not the running server's", From: product.FromReport, Answer: (*pumaInstalled).Pending},
	},
	Conf:    conf.Product{Syntax: syntax{}, Roots: rootsOf, Instances: pumaMains, Alias: alias, Winner: winner, CheckHere: checkPuma},
	Read:    belongs,
	Program: "puma",
	Control: newControl,
	Restart: func(string) bool { return true }, // Puma fixes workers and threads at start
	Ask: func(ctx context.Context, i *pumaInstalled) (*pumaRunning, error) {
		return runningOf(ctx, i.Host, i.Files)
	},
	Runs: func(i *pumaInstalled, name string) fact.Fact[string] {
		text, unknown := runs(i.Files, i.Report, name)
		if unknown != "" {
			return fact.Unknown[string](i.Report.at(), unknown)
		}
		return fact.Known(text, i.Report.at())
	},
	Effect: func(ctx context.Context, h *host.Host, file, key, value string) (plugin.Verdict, string, bool) {
		v, why := pumaEffect(ctx, h, file, key, value)
		return v, why, true
	},
}

// reported returns an input that is answered with a number from the running server.
func reported(name, doc string, n func(*pumaRunning) int) pumaInput {
	return pumaInput{Name: name, Type: fact.Number, Doc: doc, From: product.FromReport, Answer: func(i *pumaInstalled) fact.Answer {
		return fact.Answer{Value: float64(n(i.Report)), At: i.Report.at()}
	}}
}

// parameters have the defaults of Puma 5 and 6 on MRI (lib/puma/configuration.rb).
var parameters = product.Parameters{
	{Name: "workers", Type: fact.Number, Default: "0", Doc: "worker processes; 0 means single mode"},
	{Name: "threads_min", Type: fact.Number, Default: "0", Doc: "minimum threads of each process"},
	{Name: "threads_max", Type: fact.Number, Default: "5", Doc: "maximum threads of each process, that is requests at the same time"},
}

func findPuma(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := pumaInstances(h)
	if err != nil {
		return nil, err
	}
	run, runErr := pumaQuestion(ctx, h, all)
	var out []product.Installed
	taken := map[string]bool{}
	add := func(in *pumaInstance, r *pumaRunning, err error) {
		taken[in.name] = true
		out = append(out, puma.New(h, conf.Instance{Name: in.name, Main: in.name}, in, r, err))
	}
	for _, in := range all {
		n := slices.IndexFunc(run, func(r pumaRunning) bool { return pumaOf(r, all) == in })
		switch {
		case runErr != nil:
			add(in, nil, runErr)
		case n < 0:
			add(in, nil, product.ErrStopped)
		default:
			add(in, &run[n], nil)
		}
	}
	for n := range run {
		if r := &run[n]; r.Version != "" && pumaOf(*r, all) == nil {
			in := byHand(h, *r)
			for base, k := in.name, 2; taken[in.name]; k++ {
				in.name = base + "-" + strconv.Itoa(k)
			}
			add(in, r, nil)
		}
	}
	return out, nil
}

// at returns the source of values that the server reports.
func (r *pumaRunning) at() string { return fmt.Sprintf("process %d of puma", r.Process.PID) }

// serving returns the number of processes that accept requests.
func (r *pumaRunning) serving() (n int) {
	for _, w := range r.Workers {
		if w.Serving {
			n++
		}
	}
	return n
}

// Paths implements product.Files.
func (in *pumaInstance) Paths() []string { return in.files }

// Value implements product.Files.
func (in *pumaInstance) Value(name string) (value, at string, ok bool, err error) {
	if !isOption(name) {
		return "", "", false, nil
	}
	t := in.option(name, in.get)
	if t.unknown != "" {
		err = errors.New(t.unknown)
	}
	return t.text, t.at, err == nil && t.text != "", err
}

// runs returns an option's value in the running server, or the reason that it is unknown.
func runs(in *pumaInstance, r *pumaRunning, name string) (text, unknown string) {
	if r.Version == "" {
		return "", "Puma has not finished starting"
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
		return "", "no worker of Puma accepts requests"
	case !r.Taken:
		return "", "the configuration of Puma was changed after its start, and Puma does not report its values"
	}
	t := in.option(name, func(variable string) (string, string, bool, string) {
		v, ok := r.Env[variable]
		if !ok && !r.Whole {
			return "", "", false, "the environment of Puma cannot be read"
		}
		return v, fmt.Sprintf("/proc/%d/environ", r.Process.PID), ok, ""
	})
	if p := parameters.Named(name); t.text == "" && t.unknown == "" && p != nil {
		t.text = p.Default
	}
	return t.text, t.unknown
}

// belongs returns the instance that a file configures.
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
	return nil, fmt.Errorf("%s: not read by any Puma on this machine", file)
}
