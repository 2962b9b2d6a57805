// Package burner reads jobs of kube-burner that create objects into a load.
package burner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/kube/load/gotext"
	"fettle.dev/fettle/internal/kube/load/spec"
	"fettle.dev/fettle/internal/kube/strict"
)

// Files is where the templates are that a job names, and the environment.
type Files struct {
	Read func(name string) ([]byte, error)
	Env  []string // NAME=TEXT
}

// Ours says whether a document is for this package.
func Ours(doc *yaml.Node) bool { return strict.Get(doc, "jobs") != nil }

type config struct {
	// What is measured is fettle's own.
	Global           *yaml.Node `yaml:"global"`
	MetricsEndpoints *yaml.Node `yaml:"metricsEndpoints"`
	Jobs             []job      `yaml:"jobs"`
}

// job has the fields of kube-burner's configuration of a create job (its documentation,
// reference/configuration). Those that are nodes have no meaning here, and are noted.
type job struct {
	At                     string
	Name                   string         `yaml:"name"`
	JobType                string         `yaml:"jobType"`
	JobIterations          int            `yaml:"jobIterations" min:"1"`
	JobIterationDelay      time.Duration  `yaml:"jobIterationDelay"`
	JobPause               time.Duration  `yaml:"jobPause"`
	Namespace              string         `yaml:"namespace"`
	NamespacedIterations   *bool          `yaml:"namespacedIterations"`
	IterationsPerNamespace int            `yaml:"iterationsPerNamespace" min:"1"`
	NamespaceLabels        strict.Pairs   `yaml:"namespaceLabels"`
	NamespaceAnnotations   strict.Pairs   `yaml:"namespaceAnnotations"`
	QPS                    float64        `yaml:"qps"`
	Burst                  int            `yaml:"burst"`
	WaitWhenFinished       *bool          `yaml:"waitWhenFinished"`
	PodWait                bool           `yaml:"podWait"`
	MaxWaitTimeout         *time.Duration `yaml:"maxWaitTimeout"`
	Objects                []object       `yaml:"objects"`
	Churn                  bool           `yaml:"churn"`
	ChurnConfig            *yaml.Node     `yaml:"churnConfig"`
	IncrementalLoad        *yaml.Node     `yaml:"incrementalLoad"`
	GC                     bool           `yaml:"gc"`

	Cleanup             *yaml.Node `yaml:"cleanup"`
	Hooks               *yaml.Node `yaml:"hooks"`
	Measurements        *yaml.Node `yaml:"measurements"`
	Watchers            *yaml.Node `yaml:"watchers"`
	ExecutionMode       *yaml.Node `yaml:"executionMode"`
	ObjectDelay         *yaml.Node `yaml:"objectDelay"`
	ObjectWait          *yaml.Node `yaml:"objectWait"`
	WaitForDeletion     *yaml.Node `yaml:"waitForDeletion"`
	PreCreateNamespaces *yaml.Node `yaml:"preCreateNamespaces"`
	ErrorOnVerify       *yaml.Node `yaml:"errorOnVerify"`
	VerifyObjects       *yaml.Node `yaml:"verifyObjects"`
	PreLoadImages       *yaml.Node `yaml:"preLoadImages"`
	PreLoadPeriod       *yaml.Node `yaml:"preLoadPeriod"`
	PreLoadNodeLabels   *yaml.Node `yaml:"preLoadNodeLabels"`
	SkipIndexing        *yaml.Node `yaml:"skipIndexing"`
	DefaultMissingKeys  *yaml.Node `yaml:"defaultMissingKeysWithZero"`
	MetricsClosing      *yaml.Node `yaml:"metricsClosing"`
	MetricsAggregate    *yaml.Node `yaml:"metricsAggregate"`
	BeforeCleanup       *yaml.Node `yaml:"beforeCleanup"`
	ChurnCycles         *yaml.Node `yaml:"churnCycles"`
	ChurnDuration       *yaml.Node `yaml:"churnDuration"`
	ChurnPercent        *yaml.Node `yaml:"churnPercent"`
	ChurnDelay          *yaml.Node `yaml:"churnDelay"`
	ChurnDeletionPolicy *yaml.Node `yaml:"churnDeletionStrategy"`
}

type object struct {
	At             string
	ObjectTemplate string     `yaml:"objectTemplate"`
	Replicas       *int       `yaml:"replicas" min:"0"`
	InputVars      *yaml.Node `yaml:"inputVars"`
	Wait           *bool      `yaml:"wait"`
	RunOnce        bool       `yaml:"runOnce"`
	RepeatEvery    int        `yaml:"repeatEveryNIterations" min:"1"`
	Group          *yaml.Node `yaml:"group"`

	// Of other sorts of jobs, or how kube-burner knows that an object is ready.
	WaitOptions   *yaml.Node `yaml:"waitOptions"`
	Kind          *yaml.Node `yaml:"kind"`
	APIVersion    *yaml.Node `yaml:"apiVersion"`
	LabelSelector *yaml.Node `yaml:"labelSelector"`
	PatchType     *yaml.Node `yaml:"patchType"`
	KubeVirtOp    *yaml.Node `yaml:"kubeVirtOp"`
	Churn         *yaml.Node `yaml:"churn"`
}

// kube-burner's own defaults.
const (
	defaultQPS  = 5
	defaultWait = 4 * time.Hour
)

// Expand is the text of a configuration with {{ }} in it replaced, from the environment.
func Expand(name string, text []byte, env []string) ([]byte, error) {
	if !strings.Contains(string(text), "{{") {
		return text, nil
	}
	t, err := gotext.Parse(name, string(text))
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		values[key] = value
	}
	out, err := t.Text(values)
	if err != nil {
		return nil, fmt.Errorf("%w (the environment has no such variable)", err)
	}
	return []byte(out), nil
}

// Read reads a configuration that Expand has seen. The error lists all that is wrong.
func Read(name string, text []byte, from Files) (*spec.Load, error) {
	r := &strict.Reader{File: name}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one document with jobs, found %d", name, len(docs))
	}
	var c config
	r.Into(docs[0], &c)
	if err := r.Err(); err != nil {
		return nil, err
	}
	l := &spec.Load{Schema: spec.Schema, File: name, Format: "kube-burner"}
	unused(r, l, "", c.MetricsEndpoints, "metricsEndpoints")
	if len(c.Jobs) == 0 {
		return nil, fmt.Errorf("%s: there are no jobs", name)
	}
	jobs := strict.Get(docs[0], "jobs")
	for i := range c.Jobs {
		if c.Jobs[i].GC && len(c.Jobs) > 1 {
			r.FaultAt(c.Jobs[i].At, "job %s: gc: of single jobs it is not read, of all it is in global", c.Jobs[i].Name)
		}
		l.Cleanup = l.Cleanup || c.Jobs[i].GC
		if otherWork(r, item(jobs, i), &c.Jobs[i]) {
			continue // what it has is for that
		}
		readJob(r, l, &c.Jobs[i], from)
	}
	readGlobal(r, l, c.Global)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

// unused notes the nodes that are there: pairs of a node and its name.
func unused(r *strict.Reader, l *spec.Load, job string, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i].(*yaml.Node); n != nil {
			l.Notes = append(l.Notes, fmt.Sprintf("%s: %s%s is kube-burner's own, and nothing is made of it", r.At(n), job, pairs[i+1]))
		}
	}
}

func readJob(r *strict.Reader, l *spec.Load, j *job, from Files) {
	unused(r, l, "job "+j.Name+": ", j.Hooks, "hooks", j.Measurements, "measurements", j.Watchers, "watchers", j.ExecutionMode, "executionMode",
		j.ObjectDelay, "objectDelay", j.ObjectWait, "objectWait", j.WaitForDeletion, "waitForDeletion", j.Cleanup, "cleanup", j.ErrorOnVerify, "errorOnVerify", j.VerifyObjects, "verifyObjects",
		j.PreLoadImages, "preLoadImages", j.PreLoadPeriod, "preLoadPeriod", j.PreLoadNodeLabels, "preLoadNodeLabels", j.SkipIndexing, "skipIndexing",
		j.DefaultMissingKeys, "defaultMissingKeysWithZero", j.MetricsClosing, "metricsClosing", j.MetricsAggregate, "metricsAggregate", j.BeforeCleanup, "beforeCleanup",
		j.ChurnCycles, "churnCycles", j.ChurnDuration, "churnDuration", j.ChurnPercent, "churnPercent", j.ChurnDelay, "churnDelay", j.ChurnDeletionPolicy, "churnDeletionStrategy")
	for _, x := range []struct {
		what    string
		missing bool
	}{{"name", j.Name == ""}, {"namespace", j.Namespace == ""}, {"objects", len(j.Objects) == 0}} {
		if x.missing {
			r.FaultAt(j.At, "job %s: it has no %s", j.Name, x.what)
		}
	}
	s := spec.Stage{
		At: j.At, Name: j.Name, Prefix: j.Namespace + "-", Iterations: max(1, j.JobIterations), PerNamespace: max(1, j.IterationsPerNamespace),
		IfExists: spec.Reuse, Labels: j.NamespaceLabels.Map(), Annotations: j.NamespaceAnnotations.Map(),
		Rate: j.QPS, Between: j.JobIterationDelay, After: j.JobPause,
	}
	if j.QPS == 0 {
		s.Rate = defaultQPS
		l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s has no qps: %d a second, as kube-burner", j.At, j.Name, defaultQPS))
	}
	if j.Burst > 1 && float64(j.Burst) > s.Rate {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s: burst: objects are started at the steady pace of qps, and none are saved up for a burst", j.At, j.Name))
	}
	if j.NamespacedIterations != nil && !*j.NamespacedIterations {
		s.Single, s.Prefix = true, j.Namespace
	}
	wait := defaultWait
	if j.MaxWaitTimeout != nil {
		wait = *j.MaxWaitTimeout
	}
	if j.PodWait {
		s.WaitEach = wait
	}
	if j.WaitWhenFinished == nil || *j.WaitWhenFinished {
		s.Wait = wait
	}
	for i := range j.Objects {
		readObject(r, l, j, &s, &j.Objects[i], from)
	}
	l.Stages = append(l.Stages, s)
}

func readObject(r *strict.Reader, l *spec.Load, j *job, s *spec.Stage, o *object, from Files) {
	unused(r, l, "job "+j.Name+": ", o.WaitOptions, "waitOptions", o.Kind, "kind", o.APIVersion, "apiVersion", o.LabelSelector, "labelSelector", o.PatchType, "patchType", o.KubeVirtOp, "kubeVirtOp")
	if given(o.Group, "id") || given(o.Group, "gc") {
		r.Fault(o.Group, "job %s: group is not read here: objects are made in their order; take it out, or make a job of each group", j.Name)
	}
	if o.ObjectTemplate == "" {
		r.FaultAt(o.At, "an object has no objectTemplate")
		return
	}
	name, text, err := open(r.File, o.ObjectTemplate, from.Read)
	if err != nil {
		r.FaultAt(o.At, "%w", err)
		return
	}
	if _, err := gotext.Parse(name, string(text)); err != nil {
		r.FaultAt(o.At, "%w", err)
		return
	}
	variables := json.RawMessage("{}")
	if o.InputVars != nil {
		if o.InputVars.Kind != yaml.MappingNode {
			r.Fault(o.InputVars, "inputVars: want names and values, found %s", strict.Found(o.InputVars))
			return
		}
		variables = r.JSON(o.InputVars)
	}
	g := spec.Group{At: o.At, Name: j.Name, Count: 1, Text: string(text), Variables: variables, File: name, Every: o.RepeatEvery, NoWait: o.Wait != nil && !*o.Wait}
	if o.RunOnce {
		g.Every = max(1, j.JobIterations)
	}
	if o.Replicas != nil {
		g.Count = *o.Replicas
	}
	if g.Count == 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: no replicas: nothing is made of it", o.At))
		return
	}
	s.Groups = append(s.Groups, g)
}

func open(of, name string, read func(string) ([]byte, error)) (string, []byte, error) {
	if strings.Contains(name, "://") {
		return "", nil, fmt.Errorf("%s: templates are read from files only: save it beside %s", name, of)
	}
	text, err := read(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		beside := filepath.Join(filepath.Dir(of), name)
		if text, err = read(beside); err == nil {
			return beside, text, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("there is no file %s, neither here nor beside %s", name, of)
	}
	return filepath.Clean(name), text, err
}
