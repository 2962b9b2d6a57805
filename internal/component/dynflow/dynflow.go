// Package dynflow knows the units that do Foreman's tasks: one Sidekiq for each
// dynflow-sidekiq@NAME.service that starts at boot, with its threads in a file of
// that name.
package dynflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/component"
	"fettle.dev/fettle/internal/component/conf"
	"fettle.dev/fettle/internal/component/program"
	"fettle.dev/fettle/internal/component/unit"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/lazyregexp"
	"fettle.dev/fettle/internal/rule"
)

// Product is Dynflow on Sidekiq.
var Product = component.Product{
	Name: "dynflow",
	Doc:  "Foreman's tasks: each Sidekiq that a unit dynflow-sidekiq@NAME runs",
	Parameters: []component.Parameter{
		{Name: "concurrency", Type: rule.Number, Default: "10", Doc: "threads: steps of tasks that it does at a time"}, // sidekiq 5.2 to 6.5, lib/sidekiq.rb
	},
	Inputs: []rule.Input{
		{Name: "dynflow.name", Type: rule.Text, Doc: "NAME of dynflow-sidekiq@NAME.service"},
		{Name: "dynflow.queues", Type: rule.List, Doc: "queues that it takes steps from"},
		{Name: "dynflow.busy", Type: rule.Number, Doc: "threads that do a step now"},
	},
	Find: find,
	Kind: kind,
}

const dir = "/etc/foreman/dynflow"

// pattern are the units of Foreman since 2.1, and the container deployments'.
const pattern = "dynflow-sidekiq@*.service"

// instance is one unit.
type instance struct {
	name, unit, file string
	all              []conf.Assignment
	queues           []string
	err              error // of the file
}

// instances reads those that start at boot.
func instances(h *host.Host) ([]*instance, error) {
	units, err := unit.New(h).Enabled(pattern)
	if errors.Is(err, host.ErrNotRecorded) {
		if _, err := h.Files.ReadDir(dir); err != nil {
			return nil, nil //nolint:nilerr // no sign of Foreman
		}
	}
	if err != nil {
		return nil, err
	}
	var out []*instance
	for _, u := range units {
		in := &instance{name: unit.Instance(u), unit: u}
		in.file = path.Join(dir, in.name+".yml")
		if real, err := h.Files.Resolve(in.file); err == nil {
			in.file = real
		}
		in.read(h)
		out = append(out, in)
	}
	return out, nil
}

func (in *instance) read(h *host.Host) {
	text, err := h.Files.ReadFile(in.file)
	if err != nil {
		in.err = err
		return
	}
	if in.all, in.err = (conf.YAML{}).Assignments(string(text)); in.err != nil {
		in.err = fmt.Errorf("%s:%w", in.file, in.err)
		return
	}
	if line := merges(string(text)); line > 0 {
		in.all, in.err = nil, fmt.Errorf(`%s:%d: "<<" brings in keys from elsewhere: write them out, fettle does not follow it here`, in.file, line)
		return
	}
	in.queues = queues(string(text))
}

// merges is the line of the file's "<<", which Ruby follows; 0 where it has none.
func merges(text string) int {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return 0
	}
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		if key := doc.Content[0].Content[i]; key.Tag == "!!merge" {
			return key.Line
		}
	}
	return 0
}

// queues are the items of the list; of one with a weight ([name, 2]) the name.
func queues(text string) []string {
	var doc map[string]any
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	list, ok := doc[":queues"].([]any)
	if !ok {
		list, _ = doc["queues"].([]any)
	}
	names := []string{}
	for _, item := range list {
		if pair, ok := item.([]any); ok && len(pair) > 0 {
			item = pair[0]
		}
		names = append(names, fmt.Sprint(item))
	}
	return names
}

// keyOf is how the file spells the option: Sidekiq takes both.
func (in *instance) keyOf() string {
	for _, a := range slices.Backward(in.all) {
		if a.Key == ":concurrency" || a.Key == "concurrency" {
			return a.Key
		}
	}
	return ":concurrency"
}

// told is what the file says.
func (in *instance) told() (a conf.Assignment, ok bool) {
	for _, a := range slices.Backward(in.all) {
		if a.Key == in.keyOf() {
			return a, true
		}
	}
	return a, false
}

// running is one Sidekiq as its title has it.
type running struct {
	Process program.Process `json:"process"`
	Busy    int             `json:"busy"`
	Threads int             `json:"threads"`
}

// title is that of Sidekiq 4 and later once it takes jobs (lib/sidekiq/launcher.rb):
// "sidekiq 6.3.1 foreman [0 of 5 busy]".
var title = lazyregexp.New(`^sidekiq [0-9]\S* (?:.* )?\[([0-9]+) of ([0-9]+) busy\]`)

// question asks for all that run, those that are still starting with no threads.
func question(ctx context.Context, h *host.Host) ([]running, error) {
	return host.AskFor(ctx, h, "dynflow", func(ctx context.Context, live *host.Host) ([]running, error) {
		all, err := program.Find(ctx, live, "sidekiq", "ruby", "bundle")
		if err != nil {
			return nil, err
		}
		out := []running{}
		for _, p := range all {
			if ok, _ := path.Match(pattern, p.Unit); !ok || len(p.Argv) == 0 {
				continue
			}
			r := running{Process: p}
			if m := title().FindStringSubmatch(p.Argv[0]); m != nil {
				r.Busy, _ = strconv.Atoi(m[1])
				r.Threads, _ = strconv.Atoi(m[2])
			}
			r.Process.Argv = nil
			out = append(out, r)
		}
		return out, nil
	})
}

// of is the process of a unit.
func of(all []running, unit string) *running {
	for i := range all {
		if all[i].Process.Unit == unit {
			return &all[i]
		}
	}
	return nil
}

func find(ctx context.Context, h *host.Host) ([]component.Installed, error) {
	all, err := instances(h)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	run, runErr := question(ctx, h)
	var out []component.Installed
	for _, in := range all {
		out = append(out, &installed{in, of(run, in.unit), runErr})
	}
	return out, nil
}

type installed struct {
	*instance
	run    *running // nil where none runs
	runErr error
}

func (i *installed) Name() string { return i.name }

// Options implements component.Installed.
func (i *installed) Options() []string { return []string{"concurrency"} }

// Option implements component.Installed.
func (i *installed) Option(name string) component.Option {
	o := component.Option{Intended: fact.Absent[string](i.file), File: fact.Absent[string](i.file), Running: fact.Absent[string](i.unit)}
	if name != "concurrency" {
		return o
	}
	at := i.file
	a, ok := i.told()
	switch {
	case i.err != nil:
		o.File = fact.Unknown[string](i.file, reason(i.err))
	case ok:
		at = i.file + ":" + strconv.Itoa(a.Line)
		o.File = fact.Known(conf.YAML{}.Unquote(a.Literal), at)
	}
	switch {
	case i.runErr != nil:
		o.Running = fact.Unknown[string](i.unit, i.runErr.Error())
	case i.run == nil:
	case i.run.Threads == 0:
		o.Running = fact.Unknown[string](i.unit, "it has not finished starting")
	default:
		v := strconv.Itoa(i.run.Threads)
		if file, _ := o.File.Get(); file != v {
			at = fmt.Sprintf("process %d of %s", i.run.Process.PID, i.unit)
		}
		o.Running = fact.Known(v, at)
	}
	return o
}

func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Path + " " + p.Err.Error()
	}
	return err.Error()
}

// Answer implements component.Installed.
func (i *installed) Answer(input string) rule.Answer {
	switch input {
	case "name":
		return rule.Answer{Value: i.name, At: i.unit}
	case "queues":
		if i.err != nil {
			return rule.Answer{Unknown: reason(i.err), At: i.file}
		}
		return rule.Answer{Value: i.queues, At: i.file}
	case "busy":
		switch {
		case i.runErr != nil:
			return rule.Answer{Unknown: i.runErr.Error(), At: i.unit}
		case i.run == nil || i.run.Threads == 0:
			return rule.Answer{Unknown: program.ErrStopped.Error(), At: i.unit}
		}
		return rule.Answer{Value: float64(i.run.Busy), At: i.unit}
	}
	return rule.Answer{Unknown: "dynflow does not say it", At: i.unit}
}
