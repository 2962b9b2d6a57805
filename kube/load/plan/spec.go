package plan

import (
	"encoding/json"
	"time"
)

// Schema is the schema of the JSON form.
const Schema = "fettle/cluster-load/v1"

// What to do with an existing namespace of the load.
const (
	Fail   = "fail"   // the run ends before it creates anything
	Reuse  = "reuse"  // the namespace is used, and stays after the run
	Delete = "delete" // the namespace is deleted and recreated, if a run of fettle created it
)

// MostInFlight limits the concurrent requests of one process.
const MostInFlight = 5000

// Load is a cluster load as a plain value. Readers of files produce it, and Compile turns it into a
// Plan. It contains every named file, so that a resume does not depend on later changes.
type Load struct {
	Schema string `json:"schema"`
	// File is the file it was read from, Format its format: cluster-loader, kube-burner or
	// built-in.
	File   string `json:"file"`
	Format string `json:"format"`
	// Cleanup removes the run's objects at its end.
	Cleanup bool    `json:"cleanup,omitempty"`
	Stages  []Stage `json:"stages"`
	// Sync is the synchronization after all stages, or nil.
	Sync *SyncPoint `json:"sync,omitempty"`
	// Rate is the maximum number of objects started per second; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// InFlight is the maximum number of concurrent requests; 0 for the default.
	InFlight int `json:"in_flight,omitempty"`
	// Seed is the seed of generated parameters.
	Seed uint64 `json:"seed"`
	// Wait is the time limit for everything to become ready at the end; 0 does not wait.
	Wait time.Duration `json:"wait_ns"`
	// Gates are thresholds of the run ("ready p99 < 5s"), each with its position in the file.
	Gates []Gate `json:"gates,omitempty"`
	// Notes are remarks about the file that are not errors.
	Notes []string `json:"notes,omitempty"`
	// Unread are unsupported fields that would change the load. Such a load is rejected unless the
	// user ignores these fields.
	Unread []Unread `json:"unread,omitempty"`

	// UUID is the benchmark's UUID for templates; "" means the run's ID.
	UUID string `json:"uuid,omitempty"`
	// ReadAt is when the file was read, which is the time in templates.
	ReadAt time.Time `json:"read_at,omitzero"`
	// Helpers are templates that every Text may call; Env and Files are the variables and files
	// that the texts use.
	Helpers []Helper          `json:"helpers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Files   map[string]string `json:"files,omitempty"`
}

// Unread is an unsupported field that would change the load.
type Unread struct {
	At    string `json:"at"`
	Field string `json:"field"`
	What  string `json:"what"` // effect of ignoring the field
}

// Gate is a threshold.
type Gate struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

// Stage is one part of a load, such as a Cluster Loader project or a kube-burner job. Stages run in
// order.
type Stage struct {
	At   string `json:"at"`
	Name string `json:"name"`
	// Namespaces are named Prefix0, Prefix1 and so on, or Prefix alone if Single.
	Prefix string `json:"prefix"`
	Single bool   `json:"single,omitempty"`
	// Iterations is how often the groups are created. PerNamespace iterations, 1 or more, share a
	// namespace.
	Iterations   int               `json:"iterations"`
	PerNamespace int               `json:"per_namespace"`
	IfExists     string            `json:"if_exists"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Groups       []Group           `json:"groups"`
	// Rate is the maximum number of objects started per second; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// Between is the pause after each iteration, After the pause after the stage.
	Between time.Duration `json:"between_ns,omitempty"`
	After   time.Duration `json:"after_ns,omitempty"`
	// WaitEach and Wait limit the wait for ready objects, after each iteration and after the stage;
	// 0 means no wait.
	WaitEach time.Duration `json:"wait_each_ns,omitempty"`
	Wait     time.Duration `json:"wait_ns,omitempty"`
	// Burner marks a kube-burner job: replicas count from 1, objects get kube-burner's labels, and
	// namespaces are created only if an object needs one and names none. Prefix may then be "".
	Burner bool `json:"burner,omitempty"`
	// Actions, if not empty, make the stage act Iterations times on objects of earlier stages
	// instead of creating objects. Parallel starts the actions of all iterations at once.
	Actions  []Action `json:"actions,omitempty"`
	Parallel bool     `json:"parallel,omitempty"`
}

// Operations of an action.
const (
	Patch  = "patch"
	Remove = "delete"
	Get    = "read"
)

// Action is an operation on every object of the run with a kind and labels.
type Action struct {
	At         string            `json:"at"`
	Do         string            `json:"do"` // Patch, Remove or Get
	APIVersion string            `json:"api_version"`
	Kind       string            `json:"kind"`
	Labels     map[string]string `json:"labels"`
	// PatchType is a patch's media type, Text its template in JSON or YAML, File the template's
	// file.
	PatchType   string          `json:"patch_type,omitempty"`
	Text        string          `json:"text,omitempty"`
	JSON        bool            `json:"json,omitempty"`
	File        string          `json:"file,omitempty"`
	Variables   json.RawMessage `json:"variables,omitempty"`
	MissingZero bool            `json:"missing_zero,omitempty"`
	// Gone limits the wait until the objects are gone; 0 means no wait. After is the pause after
	// the action.
	Gone   time.Duration `json:"gone_ns,omitempty"`
	After  time.Duration `json:"after_ns,omitempty"`
	NoWait bool          `json:"no_wait,omitempty"`
}

// Namespaces returns the number of the stage's namespaces.
func (s *Stage) Namespaces() int {
	if s.Single {
		return 1
	}
	return over(s.Iterations, s.PerNamespace)
}

// Times returns the number of iterations in which the stage creates a group.
func (s *Stage) Times(g *Group) int { return over(s.Iterations, max(1, g.Every)) }

// over returns n / by, rounded up without overflow; 0 for n below 1.
func over(n, by int) int {
	if n < 1 {
		return 0
	}
	return (n-1)/by + 1
}

// Group is a number of equal objects per iteration, defined by one of Pod, Manifest, Template and
// Text.
type Group struct {
	At    string `json:"at"`
	Count int    `json:"count"`
	// Name is the prefix of pod names (NAME-pod-0), or a Text's job name.
	Name string `json:"name,omitempty"`

	// Pod is the spec of a pod.
	Pod json.RawMessage `json:"pod,omitempty"`
	// Manifest is an object without variables.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// Template is an OpenShift template with its Parameters. Unknown parameters are errors, except
	// IDENTIFIER, the replica's number.
	Template json.RawMessage `json:"template,omitempty"`
	// Text is a kube-burner template in Go's template language, with its Variables.
	Text       string            `json:"text,omitempty"`
	Variables  json.RawMessage   `json:"variables,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// File is the file that defines the group.
	File string `json:"file,omitempty"`
	// MissingZero reports whether a missing variable of a Text is empty.
	MissingZero bool `json:"missing_zero,omitempty"`

	// Every creates the group only in every Every-th iteration, and numbers these consecutively; 0
	// and 1 mean all.
	Every int `json:"every,omitempty"`
	// NoWait excludes the group from waits for ready objects.
	NoWait bool `json:"no_wait,omitempty"`

	Pace *Pace      `json:"pace,omitempty"`
	Sync *SyncPoint `json:"sync,omitempty"`
}

// Made reports whether an iteration creates the group.
func (g *Group) Made(iteration int) bool { return g.Every <= 1 || iteration%g.Every == 0 }

// Pace is one half of a Cluster Loader tuning set, for pods or templates.
type Pace struct {
	// Step is the number of objects created before a wait of at most Timeout for them, followed by
	// Pause; 0 means no steps.
	Step    int           `json:"step,omitempty"`
	Pause   time.Duration `json:"pause_ns,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Delay is the time between two starts.
	Delay time.Duration `json:"delay_ns,omitempty"`
}

// SyncPoint is a point at which the run waits for pods.
type SyncPoint struct {
	At string `json:"at"`
	// Server makes the run wait for the pods' requests to Port: /start is answered once all pods
	// have requested it, and the run continues once all have requested /stop. Address "" means all
	// addresses.
	Server  bool   `json:"server,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Running and Succeeded wait until all pods with the labels Selectors are in that phase.
	Running   bool              `json:"running,omitempty"`
	Succeeded bool              `json:"succeeded,omitempty"`
	Selectors map[string]string `json:"selectors,omitempty"`
	// Timeout is the time limit for each wait.
	Timeout time.Duration `json:"timeout_ns"`
}
