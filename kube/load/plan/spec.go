package plan

import (
	"encoding/json"
	"time"
)

// Schema is the schema of the JSON form.
const Schema = "fettle/cluster-load/v1"

// What to do with an existing namespace of the load.
const (
	Fail   = "fail"   // the run ends before anything is made
	Reuse  = "reuse"  // it is used, and left
	Delete = "delete" // it is deleted and made anew, if a run of fettle's has made it
)

// MostInFlight is the maximum number of concurrent requests of one process.
const MostInFlight = 5000

// Load is a cluster load as a plain value: readers of files produce it, and a plan is compiled
// from it. It contains every named file, so that a run can be resumed after these have changed.
type Load struct {
	Schema string `json:"schema"`
	// File is the file it was read from, Format its format: cluster-loader, kube-burner or
	// built-in.
	File   string `json:"file"`
	Format string `json:"format"`
	// Cleanup removes the run's objects at its end.
	Cleanup bool    `json:"cleanup,omitempty"`
	Stages  []Stage `json:"stages"`
	// Sync is waited for at the end of all stages.
	Sync *SyncPoint `json:"sync,omitempty"`
	// Rate is the maximum number of objects started per second; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// InFlight is the maximum number of concurrent requests; 0 for the default.
	InFlight int `json:"in_flight,omitempty"`
	// Seed is the seed of generated parameters.
	Seed uint64 `json:"seed"`
	// Wait is the time limit for everything to become ready at the end; 0 does not wait.
	Wait time.Duration `json:"wait_ns"`
	// Gates are thresholds of the run ("ready p99 < 5s"), each with its place in the file.
	Gates []Gate `json:"gates,omitempty"`
	// Notes are remarks about the file that are not mistakes.
	Notes []string `json:"notes,omitempty"`
	// Unread are fields of the file that would change the load and are not supported: it is
	// refused unless the user ignores them.
	Unread []Unread `json:"unread,omitempty"`

	// UUID is the benchmark's UUID for templates; "" for the name of the run.
	UUID string `json:"uuid,omitempty"`
	// ReadAt is when the file was read, which is the time in templates.
	ReadAt time.Time `json:"read_at,omitzero"`
	// Helpers are templates that every Text may call; Env and Files are the variables and files
	// that the texts use.
	Helpers []Helper          `json:"helpers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Files   map[string]string `json:"files,omitempty"`
}

// Unread is an unsupported field.
type Unread struct {
	At    string `json:"at"`
	Field string `json:"field"`
	What  string `json:"what"` // what the load does without it
}

// Gate is a threshold.
type Gate struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

// Stage is a part of a load that begins after the previous one: a project of Cluster Loader, a
// job of kube-burner.
type Stage struct {
	At   string `json:"at"`
	Name string `json:"name"`
	// Namespaces are named Prefix0, Prefix1 and so on, or Prefix alone if Single.
	Prefix string `json:"prefix"`
	Single bool   `json:"single,omitempty"`
	// Iterations is how often the groups are created; PerNamespace of them, 1 or more, share a
	// namespace.
	Iterations   int               `json:"iterations"`
	PerNamespace int               `json:"per_namespace"`
	IfExists     string            `json:"if_exists"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Groups       []Group           `json:"groups"`
	// Rate is the maximum number of objects started per second; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// Between is the pause after each iteration, After the one after the stage.
	Between time.Duration `json:"between_ns,omitempty"`
	After   time.Duration `json:"after_ns,omitempty"`
	// WaitEach and Wait are the time limits for objects to become ready, after each iteration and
	// after the stage; 0 does not wait.
	WaitEach time.Duration `json:"wait_each_ns,omitempty"`
	Wait     time.Duration `json:"wait_ns,omitempty"`
	// Burner reports whether it is a job of kube-burner: replicas are numbered from 1, objects
	// have kube-burner's labels, and namespaces are created only if an object of the stage needs
	// one and names none. Prefix may then be "".
	Burner bool `json:"burner,omitempty"`
	// Actions make this a stage that creates nothing: it acts Iterations times on objects of
	// earlier stages. Parallel starts the actions of all iterations at once.
	Actions  []Action `json:"actions,omitempty"`
	Parallel bool     `json:"parallel,omitempty"`
}

// Operations of an action.
const (
	Patch  = "patch"
	Remove = "delete"
	Get    = "read"
)

// Action is an operation on each object of the run that has a kind and labels.
type Action struct {
	At         string            `json:"at"`
	Do         string            `json:"do"` // Patch, Remove or Get
	APIVersion string            `json:"api_version"`
	Kind       string            `json:"kind"`
	Labels     map[string]string `json:"labels"`
	// PatchType is the media type of a patch, Text its template in JSON or YAML, and File the file
	// of that.
	PatchType   string          `json:"patch_type,omitempty"`
	Text        string          `json:"text,omitempty"`
	JSON        bool            `json:"json,omitempty"`
	File        string          `json:"file,omitempty"`
	Variables   json.RawMessage `json:"variables,omitempty"`
	MissingZero bool            `json:"missing_zero,omitempty"`
	// Gone is the time limit for the objects to be gone; 0 does not wait. After is the pause after
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

// Times returns in how many iterations a group of the stage is created.
func (s *Stage) Times(g *Group) int { return over(s.Iterations, max(1, g.Every)) }

// over returns n / by rounded up without overflow; 0 for n below 1.
func over(n, by int) int {
	if n < 1 {
		return 0
	}
	return (n-1)/by + 1
}

// Group is a number of equal objects in each iteration, defined by one of Pod, Manifest,
// Template and Text.
type Group struct {
	At    string `json:"at"`
	Count int    `json:"count"`
	// Name is the prefix of pod names, NAME-pod-0 and so on, or the job's name for a Text.
	Name string `json:"name,omitempty"`

	// Pod is the spec of a pod.
	Pod json.RawMessage `json:"pod,omitempty"`
	// Manifest is an object without variables.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// Template is an OpenShift template, with its Parameters; an unknown parameter is a mistake,
	// except IDENTIFIER, the number of the replica, which is set if the template has it.
	Template json.RawMessage `json:"template,omitempty"`
	// Text is a template of kube-burner, in Go's language, with Variables.
	Text       string            `json:"text,omitempty"`
	Variables  json.RawMessage   `json:"variables,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// File is the file that it comes from.
	File string `json:"file,omitempty"`
	// MissingZero reports whether a missing variable of a Text is empty.
	MissingZero bool `json:"missing_zero,omitempty"`

	// Every creates it only in each Every-th iteration, and numbers its iterations by that; 0 and
	// 1 are all.
	Every int `json:"every,omitempty"`
	// NoWait reports whether the run does not wait until it is ready.
	NoWait bool `json:"no_wait,omitempty"`

	Pace *Pace      `json:"pace,omitempty"`
	Sync *SyncPoint `json:"sync,omitempty"`
}

// Made reports whether it is created in an iteration.
func (g *Group) Made(iteration int) bool { return g.Every <= 1 || iteration%g.Every == 0 }

// Pace is one half of a tuning set.
type Pace struct {
	// Step is how many are created before a wait of at most Timeout for them, and then for Pause;
	// 0 for no steps.
	Step    int           `json:"step,omitempty"`
	Pause   time.Duration `json:"pause_ns,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Delay is the time between two starts.
	Delay time.Duration `json:"delay_ns,omitempty"`
}

// SyncPoint is a point at which the run waits for pods.
type SyncPoint struct {
	At string `json:"at"`
	// Server waits for the pods' requests to Port: /start is answered once all pods have sent it,
	// and the run continues once all have sent /stop. Address "" means all addresses.
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
