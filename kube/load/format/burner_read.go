// burner reads a kube-burner configuration into a load: create, patch, delete and read jobs.

package format

import (
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// Options for reading a file. UUID, UserData, Set and AllowMissing are options of kube-burner.
type Options struct {
	// Read returns the content of a file that a job names.
	Read func(name string) ([]byte, error)
	// Env is the environment as NAME=TEXT.
	Env []string
	// UUID is the benchmark's UUID; "" means a new one.
	UUID string
	// UserData is a file of variables, or "". Set has KEY=VALUE pairs; KEY is a field's path, such
	// as jobs.0.qps.
	UserData string
	Set      []string
	// AllowMissing makes missing variables empty; otherwise they are an error.
	AllowMissing bool
}

// BurnerOwn reports whether a document is a kube-burner configuration.
func BurnerOwn(doc *yaml.Node) bool { return strict.Get(doc, "jobs") != nil }

type burnerConfig struct {
	// fettle has its own measurements.
	Global           *yaml.Node `yaml:"global"`
	MetricsEndpoints *yaml.Node `yaml:"metricsEndpoints"`
	Jobs             []job      `yaml:"jobs"`
}

// job has the fields of a job in kube-burner's configuration (its documentation,
// reference/configuration). Fields of type yaml.Node have no effect here, but are noted.
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

	ExecutionMode      string        `yaml:"executionMode"`
	ObjectDelay        time.Duration `yaml:"objectDelay"`
	ObjectWait         bool          `yaml:"objectWait"`
	WaitForDeletion    *bool         `yaml:"waitForDeletion"`
	DefaultMissingKeys bool          `yaml:"defaultMissingKeysWithZero"`

	// Unsupported fields that would change the load.
	Hooks    *yaml.Node `yaml:"hooks"`
	Watchers *yaml.Node `yaml:"watchers"`

	Cleanup             *yaml.Node `yaml:"cleanup"`
	Measurements        *yaml.Node `yaml:"measurements"`
	PreCreateNamespaces *yaml.Node `yaml:"preCreateNamespaces"`
	ErrorOnVerify       *yaml.Node `yaml:"errorOnVerify"`
	VerifyObjects       *yaml.Node `yaml:"verifyObjects"`
	PreLoadImages       *yaml.Node `yaml:"preLoadImages"`
	PreLoadPeriod       *yaml.Node `yaml:"preLoadPeriod"`
	PreLoadNodeLabels   *yaml.Node `yaml:"preLoadNodeLabels"`
	SkipIndexing        *yaml.Node `yaml:"skipIndexing"`
	MetricsClosing      *yaml.Node `yaml:"metricsClosing"`
	MetricsAggregate    *yaml.Node `yaml:"metricsAggregate"`
	BeforeCleanup       *yaml.Node `yaml:"beforeCleanup"`
	WaitFor             *yaml.Node `yaml:"waitFor"` // version 1 only: the kinds to wait for
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
	// kube-burner's conditions for readiness.
	WaitOptions *yaml.Node `yaml:"waitOptions"`

	// For patch, delete and read jobs.
	Kind          string       `yaml:"kind"`
	APIVersion    string       `yaml:"apiVersion"`
	LabelSelector strict.Pairs `yaml:"labelSelector"`
	PatchType     string       `yaml:"patchType"`

	KubeVirtOp *yaml.Node `yaml:"kubeVirtOp"`
	Churn      *yaml.Node `yaml:"churn"`
}

// kube-burner's defaults.
const (
	defaultQPS        = 5
	burnerDefaultWait = 4 * time.Hour
)

// ReadKubeBurner reads a configuration. The error lists all errors in it.
func ReadKubeBurner(name string, text []byte, o Options) (*plan.Load, error) {
	if o.UUID == "" {
		o.UUID = plan.NewUUID()
	}
	if len(validation.IsValidLabelValue(o.UUID)) > 0 {
		return nil, fmt.Errorf("--uuid %s: not a valid label value; want at most 63 letters, digits, -, _ and .", o.UUID)
	}
	text, err := o.expand(name, text)
	if err != nil {
		return nil, err
	}
	r := &strict.Reader{File: name}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one document with jobs, found %d", name, len(docs))
	}
	if err := o.set(r, docs[0]); err != nil {
		return nil, err
	}
	var c burnerConfig
	r.Into(docs[0], &c)
	if err := r.Err(); err != nil {
		return nil, err
	}
	l := &plan.Load{Schema: plan.Schema, File: name, Format: "kube-burner", UUID: o.UUID, ReadAt: time.Now().UTC()}
	unused(r, l, "", c.MetricsEndpoints, "metricsEndpoints")
	if len(c.Jobs) == 0 {
		return nil, fmt.Errorf("%s contains no jobs", name)
	}
	jobs, named := strict.Get(docs[0], "jobs"), map[string]string{}
	for i := range c.Jobs {
		if c.Jobs[i].GC && len(c.Jobs) > 1 {
			r.FaultAt(c.Jobs[i].At, "job %s: gc is not supported per job; set it in global", c.Jobs[i].Name)
		}
		l.Cleanup = l.Cleanup || c.Jobs[i].GC
		if j := &c.Jobs[i]; named[j.Name] != "" && j.Name != "" {
			r.FaultAt(j.At, "job %s: duplicate name; the other job is at %s", j.Name, named[j.Name])
		} else if named[j.Name] = j.At; j.Name != "" && !nameForm.MatchString(j.Name) {
			r.FaultAt(j.At, "job %q: the name is used as a label; want at most 63 lowercase letters, digits, - and .", j.Name)
		}
		if otherWork(r, burnerItem(jobs, i), &c.Jobs[i]) {
			continue // its fields are for that type
		}
		if c.Jobs[i].acts() {
			readActions(r, l, &c.Jobs[i], o)
		} else {
			readJob(r, l, &c.Jobs[i], o)
		}
	}
	readGlobal(r, l, c.Global, o)
	if err := r.Err(); err != nil {
		return nil, err
	}
	notePreload(l, c.Jobs)
	if err := keepInputs(l, o); err != nil {
		return nil, err
	}
	return l, nil
}

// nameForm matches a DNS name (RFC 1123) that fits into a label.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// unused notes fields without effect; pairs are nodes and their names, alternating.
func unused(r *strict.Reader, l *plan.Load, job string, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i].(*yaml.Node); n != nil {
			l.Notes = append(l.Notes, fmt.Sprintf("%s: %s%s ignored (used only by kube-burner itself)", r.At(n), job, pairs[i+1]))
		}
	}
}

// unread records an unsupported field that would change the load.
func unread(l *plan.Load, at, job, field, what string) {
	l.Unread = append(l.Unread, plan.Unread{At: at, Field: field, What: "job " + job + ": " + what})
}

// filled reports whether a node exists and is not empty.
func filled(n *yaml.Node) bool {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n != nil && (len(n.Content) > 0 || n.Kind == yaml.ScalarNode && n.Value != "" && n.ShortTag() != "!!null")
}

// common reads the fields that all job types have.
func common(r *strict.Reader, l *plan.Load, j *job) plan.Stage {
	unused(r, l, "job "+j.Name+": ", j.Measurements, "measurements", j.SkipIndexing, "skipIndexing", j.MetricsClosing, "metricsClosing", j.MetricsAggregate, "metricsAggregate")
	if filled(j.Hooks) {
		unread(l, r.At(j.Hooks), j.Name, "hooks", "its hooks are not run")
	}
	if filled(j.Watchers) {
		unread(l, r.At(j.Watchers), j.Name, "watchers", "its watchers are not run")
	}
	if j.QPS == 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s has no qps; using kube-burner's default of %d/s", j.At, j.Name, defaultQPS))
		j.QPS = defaultQPS
	}
	if j.Burst > 1 && float64(j.Burst) > j.QPS {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s: burst ignored; objects are created at the steady rate of qps", j.At, j.Name))
	}
	return plan.Stage{
		At: j.At, Name: j.Name, Burner: true, Iterations: max(1, j.JobIterations), PerNamespace: max(1, j.IterationsPerNamespace),
		IfExists: plan.Reuse, Rate: j.QPS, Between: j.JobIterationDelay, After: j.JobPause,
	}
}

// wait returns how long a job waits for its objects; 0 means no wait.
func (j *job) wait() time.Duration {
	if j.MaxWaitTimeout != nil && *j.MaxWaitTimeout > 0 {
		return *j.MaxWaitTimeout
	}
	return burnerDefaultWait
}

// waitsAtEnd reports whether a job waits after creating all objects, which is kube-burner's default
// and takes precedence over podWait.
func (j *job) waitsAtEnd() bool { return j.WaitWhenFinished == nil || *j.WaitWhenFinished }

func readJob(r *strict.Reader, l *plan.Load, j *job, o Options) {
	s := common(r, l, j)
	unused(r, l, "job "+j.Name+": ", j.Cleanup, "cleanup", j.ErrorOnVerify, "errorOnVerify", j.VerifyObjects, "verifyObjects",
		j.PreLoadPeriod, "preLoadPeriod", j.PreLoadNodeLabels, "preLoadNodeLabels", j.BeforeCleanup, "beforeCleanup",
		j.ChurnCycles, "churnCycles", j.ChurnDuration, "churnDuration", j.ChurnPercent, "churnPercent", j.ChurnDelay, "churnDelay", j.ChurnDeletionPolicy, "churnDeletionStrategy")
	if filled(j.WaitFor) {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: job %s: waitFor (kube-burner 1) ignored; as in kube-burner 2, fettle waits for all kinds that become ready", r.At(j.WaitFor), j.Name))
	}
	if j.Name == "" {
		r.FaultAt(j.At, "a job has no name")
	}
	if len(j.Objects) == 0 {
		r.FaultAt(j.At, "job %s has no objects", j.Name)
	}
	s.Labels, s.Annotations = j.NamespaceLabels.Map(), j.NamespaceAnnotations.Map()
	// A missing namespace is an error only if an object needs one; the plan finds that.
	if s.Prefix, s.Single = j.Namespace, j.NamespacedIterations != nil && !*j.NamespacedIterations; !s.Single && s.Prefix != "" {
		s.Prefix += "-"
	}
	switch {
	case j.waitsAtEnd():
		s.Wait = j.wait()
	case j.PodWait:
		s.WaitEach = j.wait()
	}
	for i := range j.Objects {
		readObject(r, l, j, &s, &j.Objects[i], o)
	}
	l.Stages = append(l.Stages, s)
}

func readObject(r *strict.Reader, l *plan.Load, j *job, s *plan.Stage, o *object, from Options) {
	unused(r, l, "job "+j.Name+": ", o.KubeVirtOp, "kubeVirtOp")
	if filled(o.WaitOptions) && (o.Wait == nil || *o.Wait) {
		unread(l, r.At(o.WaitOptions), j.Name, "waitOptions", "fettle ignores its conditions and waits until the objects are ready")
	}
	if given(o.Group, "id") || given(o.Group, "gc") {
		r.Fault(o.Group, "job %s: group is not supported, objects are created in order; remove it, or use one job per group", j.Name)
	}
	if o.ObjectTemplate == "" {
		r.FaultAt(o.At, "an object has no objectTemplate")
		return
	}
	name, text, variables, ok := o.text(r, l, j, from)
	if !ok {
		return
	}
	g := plan.Group{At: o.At, Name: j.Name, Count: 1, Text: text, Variables: variables, File: name, MissingZero: j.DefaultMissingKeys, Every: o.RepeatEvery, NoWait: o.Wait != nil && !*o.Wait}
	if o.RunOnce {
		g.Every = max(1, j.JobIterations)
	}
	if o.Replicas != nil {
		g.Count = *o.Replicas
	}
	if g.Count == 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("%s: replicas is 0 or missing; no objects are created", o.At))
		return
	}
	s.Groups = append(s.Groups, g)
}
