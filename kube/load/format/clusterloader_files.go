package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// open reads a file that the load names, relative to the working directory, or else to the load
// file's directory, like Cluster Loader.
func (r *reading) open(at, name string) (string, []byte) {
	names := []string{name}
	if beside := filepath.Join(filepath.Dir(r.File), name); !filepath.IsAbs(name) && beside != filepath.Clean(name) {
		names = append(names, beside)
	}
	var last error
	for _, n := range names {
		text, err := r.Files.Read(filepath.Clean(n))
		if err == nil {
			return filepath.Clean(n), text
		}
		if last == nil || !errors.Is(err, fs.ErrNotExist) {
			last = err
		}
	}
	if errors.Is(last, fs.ErrNotExist) {
		r.FaultAt(at, "%s not found", strings.Join(names, " and "))
	} else {
		r.FaultAt(at, "%w", last)
	}
	return "", nil
}

// contents adds one object per file, with the file's content under one key; the key is the object's
// name.
func (r *reading) contents(s *plan.Stage, from strict.Pairs, kind, field string) {
	for _, p := range from {
		if p.Text == nil || *p.Text == "" {
			r.FaultAt(p.At, "%s %s has no file", kind, p.Name)
			continue
		}
		name, text := r.open(p.At, *p.Text)
		if name == "" {
			continue
		}
		o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": p.Name}}
		switch {
		case kind == "Secret":
			o["type"] = "Opaque"
			o[field] = map[string][]byte{p.Name: text}
		case utf8.Valid(text):
			o[field] = map[string]string{p.Name: string(text)}
		default:
			o["binaryData"] = map[string][]byte{p.Name: text}
		}
		manifest, err := json.Marshal(o)
		if err != nil {
			r.FaultAt(p.At, "%w", err)
			continue
		}
		s.Groups = append(s.Groups, plan.Group{At: p.At, Count: 1, Manifest: manifest, File: name})
	}
}

func (r *reading) template(s *plan.Stage, it *clusterloaderItem, p *plan.Pace) {
	if it.File == "" {
		r.FaultAt(it.At, "a template has no file")
		return
	}
	name, text := r.open(it.At, it.File)
	if name == "" {
		return
	}
	t, err := plan.ParseObject(name, text)
	if err != nil {
		r.FaultAt(it.At, "%w", err)
		return
	}
	given := map[string]string{}
	for _, x := range it.Parameters {
		as := x.Name
		if !t.Has(as) && t.Has(strings.ToUpper(as)) {
			as = strings.ToUpper(as)
		}
		switch value, ok := r.value(x); {
		case ok:
			given[as] = value
		default:
			r.note(x.At, "parameter %s has no value and is not in the environment; using the template's default", x.Name)
		}
	}
	if err := t.Check(withIdentifier(t, given)); err != nil {
		r.FaultAt(it.At, "%s: %w", name, err)
	}
	for _, x := range []struct{ field, value string }{{"basename", it.BaseName}, {"image", it.Image}} {
		if x.value != "" {
			r.note(it.At, "%s of a template is ignored; names and images come from %s", x.field, name)
		}
	}
	if !t.Has(identifier) && it.Num > 1 {
		r.note(it.At, "%s has no parameter %s, which would number the copies", name, identifier)
	}
	doc, err := r.document(name, text)
	if err != nil {
		r.FaultAt(it.At, "%w", err)
		return
	}
	s.Groups = append(s.Groups, plan.Group{At: it.At, Count: it.Num, Template: doc, Parameters: given, File: name, Pace: p, Sync: r.sync(it.Sync)})
}

// identifier is the parameter that Cluster Loader passes to every template.
const identifier = "IDENTIFIER"

func withIdentifier(t *plan.ObjectTemplate, given map[string]string) map[string]string {
	all := maps.Clone(given)
	if _, ok := all[identifier]; !ok && t.Has(identifier) {
		all[identifier] = "0"
	}
	return all
}

// value returns a parameter's value, or else the environment variable with its name; ok is false if
// neither is set.
func (r *reading) value(p strict.Pair) (string, bool) {
	if p.Text != nil {
		return *p.Text, true
	}
	return r.Files.Env(p.Name)
}

// document returns the single document of a text as JSON.
func (r *reading) document(name string, text []byte) (json.RawMessage, error) {
	sub := &strict.Reader{File: name}
	docs := sub.Documents(text)
	if sub.Err() == nil && len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one object, found %d", name, len(docs))
	}
	var out json.RawMessage
	if sub.Err() == nil && docs[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: want an object with its apiVersion and kind, found %s", sub.At(docs[0]), strict.Found(docs[0]))
	}
	if sub.Err() == nil {
		out = sub.JSON(docs[0])
	}
	return out, sub.Err()
}

// file has the fields of a Cluster Loader file: OpenShift 4.4 Scalability and Performance, tables
// 5.1 to 5.7, Cluster Loader's code, and fettle's extensions, marked as ours.

type file struct {
	Provider      string               `yaml:"provider"`
	ClusterLoader *clusterloaderConfig `yaml:"ClusterLoader"`
}

// bare is a file of the older loader, without ClusterLoader around its fields.
type bare struct {
	Provider   string      `yaml:"provider"`
	Cleanup    bool        `yaml:"cleanup"`
	Projects   []project   `yaml:"projects"`
	TuningSets []tuningSet `yaml:"tuningsets"`
	Quotas     *yaml.Node  `yaml:"quotas"`
}

type clusterloaderConfig struct {
	At         string
	Cleanup    bool        `yaml:"cleanup"`
	Projects   []project   `yaml:"projects"`
	TuningSets []tuningSet `yaml:"tuningsets"`
	Sync       *sync       `yaml:"sync"`
	// IfExists is the default for projects without their own.
	IfExists string `yaml:"ifexists" oneof:"reuse,delete,fail"`
	// Quotas is a field of the older loader.
	Quotas *yaml.Node `yaml:"quotas"`
	// ours
	Rate     string         `yaml:"rate"`
	InFlight int            `yaml:"inflight" min:"1"`
	Seed     int            `yaml:"seed"`
	Wait     *time.Duration `yaml:"wait" unit:"s"`
	SLO      []*yaml.Node   `yaml:"slo"`
}

type project struct {
	At           string
	Num          int                 `yaml:"num"`
	BaseName     string              `yaml:"basename"`
	Tuning       string              `yaml:"tuning"`
	IfExists     string              `yaml:"ifexists" oneof:"reuse,delete,fail"`
	Labels       strict.Pairs        `yaml:"labels"`
	NodeSelector string              `yaml:"nodeselector"`
	ConfigMaps   strict.Pairs        `yaml:"configmaps"`
	Secrets      strict.Pairs        `yaml:"secrets"`
	Templates    []clusterloaderItem `yaml:"templates"`
	Pods         []clusterloaderItem `yaml:"pods"`
	Objects      []clusterloaderItem `yaml:"objects"` // ours: any manifest
}

type clusterloaderItem struct {
	At         string
	Num        int          `yaml:"num"`
	BaseName   string       `yaml:"basename"`
	Image      string       `yaml:"image"`
	File       string       `yaml:"file"`
	Parameters strict.Pairs `yaml:"parameters"`
	Sync       *sync        `yaml:"sync"`
	// Total and Storage are fields of the older loader.
	Total   *yaml.Node `yaml:"total"`
	Storage *yaml.Node `yaml:"storage"`
}

type tuningSet struct {
	At        string
	Name      string `yaml:"name"`
	Pods      *pace  `yaml:"pods"`
	Templates *pace  `yaml:"templates"`
}

type pace struct {
	At        string
	Stepping  *stepping  `yaml:"stepping"`
	RateLimit *rateLimit `yaml:"rate_limit" also:"ratelimit"`
}

type stepping struct {
	At       string
	StepSize int           `yaml:"stepsize"`
	Pause    time.Duration `yaml:"pause" unit:"s"`
	Timeout  time.Duration `yaml:"timeout" unit:"s"`
}

type rateLimit struct {
	Delay time.Duration `yaml:"delay" unit:"ms"`
}

type sync struct {
	At        string
	Server    *server       `yaml:"server"`
	Running   bool          `yaml:"running"`
	Succeeded bool          `yaml:"succeeded"`
	Selectors strict.Pairs  `yaml:"selectors"`
	Timeout   time.Duration `yaml:"timeout"`
}

type server struct {
	Enabled bool   `yaml:"enabled"`
	Port    int    `yaml:"port"`
	Address string `yaml:"address"` // ours
}
