// dynflow knows the units that do Foreman's tasks: one Sidekiq for each
// dynflow-sidekiq@NAME.service that starts at boot, with its threads in a file of
// that name.

package foreman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// Dynflow is Dynflow on Sidekiq.
var Dynflow = product.Product{
	Name: "dynflow",
	Doc:  "Foreman's tasks: each Sidekiq that a unit dynflow-sidekiq@NAME runs",
	Parameters: []product.Parameter{
		{Name: "concurrency", Type: fact.Number, Default: "10", Doc: "threads: steps of tasks that it does at a time"}, // sidekiq 5.2 to 6.5, lib/sidekiq.rb
	},
	Inputs: []fact.Input{
		{Name: "dynflow.name", Type: fact.Text, Doc: "NAME of dynflow-sidekiq@NAME.service"},
		{Name: "dynflow.queues", Type: fact.List, Doc: "queues that it takes steps from"},
		{Name: "dynflow.busy", Type: fact.Number, Doc: "threads that do a step now"},
	},
	Find: findDynflow,
	Kind: dynflowKind,
}

const dir = "/etc/foreman/dynflow"

// pattern are the units of Foreman since 2.1, and the container deployments'.
const pattern = "dynflow-sidekiq@*.service"

// dynflowInstance is one unit.
type dynflowInstance struct {
	name, unit, file string
	all              []conf.Assignment
	queues           []string
	err              error // of the file
}

// dynflowInstances reads those that start at boot.
func dynflowInstances(h *host.Host) ([]*dynflowInstance, error) {
	units, err := systemd.New(h).Enabled(pattern)
	if host.Unknown(err) {
		if _, err := h.Files.ReadDir(dir); err != nil {
			return nil, nil //nolint:nilerr // no sign of Foreman
		}
	}
	if err != nil {
		return nil, err
	}
	var out []*dynflowInstance
	for _, u := range units {
		in := &dynflowInstance{name: systemd.Instance(u), unit: u}
		in.file = path.Join(dir, in.name+".yml")
		if real, err := h.Files.Resolve(in.file); err == nil {
			in.file = real
		}
		in.read(h)
		out = append(out, in)
	}
	return out, nil
}

func (in *dynflowInstance) read(h *host.Host) {
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
func (in *dynflowInstance) keyOf() string {
	for _, a := range slices.Backward(in.all) {
		if a.Key == ":concurrency" || a.Key == "concurrency" {
			return a.Key
		}
	}
	return ":concurrency"
}

// told is what the file says.
func (in *dynflowInstance) told() (a conf.Assignment, ok bool) {
	for _, a := range slices.Backward(in.all) {
		if a.Key == in.keyOf() {
			return a, true
		}
	}
	return a, false
}

// dynflowRunning is one Sidekiq as its title has it.
type dynflowRunning struct {
	Process product.Process `json:"process"`
	Busy    int             `json:"busy"`
	Threads int             `json:"threads"`
}

// title is that of Sidekiq 4 and later once it takes jobs (lib/sidekiq/launcher.rb):
// "sidekiq 6.3.1 foreman [0 of 5 busy]".
var title = text.LazyRegexp(`^sidekiq [0-9]\S* (?:.* )?\[([0-9]+) of ([0-9]+) busy\]`)

// dynflowQuestion asks for all that run, those that are still starting with no threads.
func dynflowQuestion(ctx context.Context, h *host.Host) ([]dynflowRunning, error) {
	return host.QueryJSON(ctx, h, "dynflow", func(ctx context.Context, live *host.Host) ([]dynflowRunning, error) {
		all, err := product.Find(ctx, live, "sidekiq", "ruby", "bundle")
		if err != nil {
			return nil, err
		}
		out := []dynflowRunning{}
		for _, p := range all {
			if ok, _ := path.Match(pattern, p.Unit); !ok || len(p.Argv) == 0 {
				continue
			}
			r := dynflowRunning{Process: p}
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

// dynflowOf is the process of a unit.
func dynflowOf(all []dynflowRunning, unit string) *dynflowRunning {
	for i := range all {
		if all[i].Process.Unit == unit {
			return &all[i]
		}
	}
	return nil
}

func findDynflow(ctx context.Context, h *host.Host) ([]product.Installed, error) {
	all, err := dynflowInstances(h)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	run, runErr := dynflowQuestion(ctx, h)
	var out []product.Installed
	for _, in := range all {
		out = append(out, &dynflowInstalled{in, dynflowOf(run, in.unit), runErr})
	}
	return out, nil
}

type dynflowInstalled struct {
	*dynflowInstance
	run    *dynflowRunning // nil where none runs
	runErr error
}

func (i *dynflowInstalled) Name() string { return i.name }

// Option implements component.Installed.
func (i *dynflowInstalled) Option(name string) product.Option {
	o := product.Option{File: fact.Absent[string](i.file), Running: fact.Absent[string](i.unit)}
	if name != "concurrency" {
		return o
	}
	at := i.file
	a, ok := i.told()
	switch {
	case i.err != nil:
		o.File = fact.Unknown[string](i.file, dynflowReason(i.err))
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

func dynflowReason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Path + " " + p.Err.Error()
	}
	return err.Error()
}

// Answer implements component.Installed.
func (i *dynflowInstalled) Answer(input string) fact.Answer {
	switch input {
	case "name":
		return fact.Answer{Value: i.name, At: i.unit}
	case "queues":
		if i.err != nil {
			return fact.Answer{Unknown: dynflowReason(i.err), At: i.file}
		}
		return fact.Answer{Value: i.queues, At: i.file}
	case "busy":
		switch {
		case i.runErr != nil:
			return fact.Answer{Unknown: i.runErr.Error(), At: i.unit}
		case i.run == nil || i.run.Threads == 0:
			return fact.Answer{Unknown: product.ErrStopped.Error(), At: i.unit}
		}
		return fact.Answer{Value: float64(i.run.Busy), At: i.unit}
	}
	return fact.Answer{Unknown: "dynflow does not say it", At: i.unit}
}
