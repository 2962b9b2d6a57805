package foreman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// Dynflow is Dynflow on Sidekiq. Each unit dynflow-sidekiq@NAME.service that starts at boot is an
// instance, and a file with that NAME sets its threads.
var Dynflow = dynflow.Product()

type (
	dynflowInput     = product.Input[*dynflowInstance, *dynflowRunning]
	dynflowInstalled = product.Instance[*dynflowInstance, *dynflowRunning]
)

var dynflow = &product.Daemon[*dynflowInstance, *dynflowRunning]{
	Name: "dynflow", Doc: "Foreman's tasks: each Sidekiq that a unit dynflow-sidekiq@NAME runs",
	Parameters: product.Parameters{
		{Name: "concurrency", Type: fact.Number, Default: "10", Doc: "threads, that is task steps at the same time"}, // sidekiq 5.2 to 6.5, lib/sidekiq.rb
	},
	Inputs: []dynflowInput{
		{Name: "name", Type: fact.Text, Doc: "NAME of dynflow-sidekiq@NAME.service", Answer: func(i *dynflowInstalled) fact.Answer {
			return fact.Answer{Value: i.Name(), At: i.Files.unit}
		}},
		{Name: "queues", Type: fact.List, Doc: "queues from which the process takes steps", Answer: func(i *dynflowInstalled) fact.Answer {
			if err := i.Files.err; err != nil {
				return fact.Answer{Unknown: fileReason(err).Error(), At: i.Main}
			}
			return fact.Answer{Value: i.Files.queues, At: i.Main}
		}},
		{Name: "busy", Type: fact.Number, Doc: "threads that execute a step now", From: product.FromReport, Answer: func(i *dynflowInstalled) fact.Answer {
			if i.Report.Threads == 0 {
				return fact.Answer{Unknown: product.ErrStopped.Error(), At: i.Files.unit}
			}
			return fact.Answer{Value: float64(i.Report.Busy), At: i.Files.unit}
		}},
	},
	Conf: conf.Product{
		Syntax: conf.YAML{}, Roots: func(*host.Host) []string { return []string{dir} }, Check: checkDynflow,
		Instances: func(h *host.Host) ([]conf.Instance, error) { return dynflowMains(h, false) },
		Alias: func(h *host.Host, main, key string) string {
			if in, err := byFile(h, main); err == nil && key == "concurrency" {
				return in.keyOf()
			}
			return key
		},
	},
	Instances: func(h *host.Host) ([]conf.Instance, error) { return dynflowMains(h, true) },
	Read:      byFile,
	Program:   "dynflow-sidekiq",
	Control: func() *product.Control {
		return &product.Control{
			Unit: unitOf, Running: dynflowProcess, Ready: ready,
			Patience: 5 * time.Minute, // Dynflow loads all of Foreman, and first finishes its running steps
		}
	},
	Restart: func(string) bool { return true }, // Sidekiq reads its file when it starts
	Ask: func(ctx context.Context, i *dynflowInstalled) (*dynflowRunning, error) {
		return sidekiq(ctx, i.Host, i.Files)
	},
	Runs: func(i *dynflowInstalled, name string) fact.Fact[string] {
		switch {
		case strings.TrimPrefix(name, ":") != "concurrency":
			return fact.Absent[string](i.Files.unit)
		case i.Report.Threads == 0:
			return fact.Unknown[string](i.Files.unit, "the process has not finished starting")
		}
		return fact.Known(strconv.Itoa(i.Report.Threads), fmt.Sprintf("process %d of %s", i.Report.Process.PID, i.Files.unit))
	},
}

const dir = "/etc/foreman/dynflow"

// pattern matches the units of Foreman since 2.1 and of container deployments.
const pattern = "dynflow-sidekiq@*.service"

// dynflowInstance is one unit and its file.
type dynflowInstance struct {
	name, unit, file string
	all              []conf.Place
	queues           []string
	err              error // of reading the file
}

// dynflowInstances returns the instances whose units start at boot.
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
	if in.all, in.err = conf.Places(conf.YAML{}, in.file, string(text)); in.err != nil {
		return
	}
	if line := merges(string(text)); line > 0 {
		in.all, in.err = nil, fmt.Errorf(`%s:%d: YAML merge key "<<" is not supported; write the merged keys out`, in.file, line)
		return
	}
	in.queues = queues(string(text))
}

// merges returns the line number of a YAML merge key ("<<") in the file, which Ruby applies, or 0.
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

// queues returns the queue names of the list, without weights: [name, 2] is name.
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

// keyOf returns the file's spelling of the option; Sidekiq accepts two.
func (in *dynflowInstance) keyOf() string {
	for _, a := range slices.Backward(in.all) {
		if a.Key == ":concurrency" || a.Key == "concurrency" {
			return a.Key
		}
	}
	return ":concurrency"
}

// setting returns the line that sets the option; ok is false if none exists.
func (in *dynflowInstance) setting() (conf.Place, bool) { return conf.Last(in.all, in.keyOf()) }

// dynflowRunning is one running Sidekiq process, parsed from its title.
type dynflowRunning struct {
	Process product.Process `json:"process"`
	Busy    int             `json:"busy"`
	Threads int             `json:"threads"`
}

// title matches the process title of Sidekiq 4 and later once it accepts jobs
// (lib/sidekiq/launcher.rb): "sidekiq 6.3.1 foreman [0 of 5 busy]".
var title = text.LazyRegexp(`^sidekiq [0-9]\S* (?:.* )?\[([0-9]+) of ([0-9]+) busy\]`)

// dynflowQuestion lists all running Sidekiq processes. A process that is still starting has no
// threads.
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

// sidekiq returns the process of an instance, or product.ErrStopped.
func sidekiq(ctx context.Context, h *host.Host, in *dynflowInstance) (*dynflowRunning, error) {
	all, err := dynflowQuestion(ctx, h)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(r dynflowRunning) bool { return r.Process.Unit == in.unit }); i >= 0 {
		return &all[i], nil
	}
	return nil, product.ErrStopped
}

// Paths implements product.Files.
func (in *dynflowInstance) Paths() []string { return []string{in.file} }

// Value implements product.Files.
func (in *dynflowInstance) Value(name string) (value, at string, ok bool, err error) {
	p, ok := in.setting()
	switch {
	case name != "concurrency":
		return "", "", false, nil
	case in.err != nil:
		return "", "", false, fileReason(in.err)
	}
	return conf.YAML{}.Unquote(p.Literal), p.String(), ok, nil
}

// fileReason returns a file error with its path.
func fileReason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Errorf("%s %w", p.Path, p.Err)
	}
	return err
}
