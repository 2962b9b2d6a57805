package plan

import (
	"encoding/json"
	"time"
)

// Schema is the name of the JSON form.
const Schema = "fettle/cluster-load/v1"

// What happens to a namespace of the load that is there already.
const (
	Fail   = "fail"   // the run ends before anything is made
	Reuse  = "reuse"  // it is used, and left
	Delete = "delete" // it is deleted and made anew, if a run of fettle's has made it
)

// MostInFlight is how many requests one process keeps under way at most.
const MostInFlight = 5000

// Load is a cluster load as a plain value: readers of files make it, and a plan is compiled
// from it. It holds the content of every file that was named, so that a run can be resumed
// when those have changed.
type Load struct {
	Schema string `json:"schema"`
	// File is what it was read from, Format of what sort that is: cluster-loader,
	// kube-burner or built-in.
	File   string `json:"file"`
	Format string `json:"format"`
	// Cleanup removes what the run has made when it has ended.
	Cleanup bool    `json:"cleanup,omitempty"`
	Stages  []Stage `json:"stages"`
	// Sync is waited for at the end of all stages.
	Sync *SyncPoint `json:"sync,omitempty"`
	// Rate is how many objects are started in a second at most; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// InFlight is how many requests are under way at most; 0 for the default.
	InFlight int `json:"in_flight,omitempty"`
	// Seed is that of generated parameters.
	Seed uint64 `json:"seed"`
	// Wait is how long to wait at the end until all that runs is ready; 0 not at all.
	Wait time.Duration `json:"wait_ns"`
	// Gates are thresholds of the run ("ready p99 < 5s"), each with where it stands.
	Gates []Gate `json:"gates,omitempty"`
	// Notes are what a reader should know of the file that is no mistake.
	Notes []string `json:"notes,omitempty"`
	// Unread are fields of the file that would change the load and are not read: it is
	// refused unless the user says to ignore them.
	Unread []Unread `json:"unread,omitempty"`

	// UUID is the benchmark's that templates see; "" for the name of the run.
	UUID string `json:"uuid,omitempty"`
	// ReadAt is when the file was read, which is the time that templates see.
	ReadAt time.Time `json:"read_at,omitzero"`
	// Helpers are templates that every Text may call; Env and Files what the texts ask for
	// of the environment and of files.
	Helpers []Helper          `json:"helpers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Files   map[string]string `json:"files,omitempty"`
}

// Unread is a field that is not read.
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

// Stage is a part of a load that begins when the one before it has ended: a project of
// Cluster Loader, a job of kube-burner.
type Stage struct {
	At   string `json:"at"`
	Name string `json:"name"`
	// Namespaces are named Prefix0, Prefix1 and on; Prefix alone where Single.
	Prefix string `json:"prefix"`
	Single bool   `json:"single,omitempty"`
	// Iterations is how often the groups are made; PerNamespace of them, 1 or more, share
	// a namespace.
	Iterations   int               `json:"iterations"`
	PerNamespace int               `json:"per_namespace"`
	IfExists     string            `json:"if_exists"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Groups       []Group           `json:"groups"`
	// Rate is how many objects are started in a second at most; 0 for no limit.
	Rate float64 `json:"rate_per_s,omitempty"`
	// Between is waited after each iteration, After at the end of the stage.
	Between time.Duration `json:"between_ns,omitempty"`
	After   time.Duration `json:"after_ns,omitempty"`
	// WaitEach and Wait are how long to wait until what was made is ready, at the end of
	// each iteration and of the stage; 0 not at all.
	WaitEach time.Duration `json:"wait_each_ns,omitempty"`
	Wait     time.Duration `json:"wait_ns,omitempty"`
	// Burner reports whether it is a job of kube-burner: replicas are numbered from 1, objects
	// have kube-burner's labels, and namespaces are made only where an object of the stage
	// is in one and names none of its own. Prefix may be "" then.
	Burner bool `json:"burner,omitempty"`
	// Actions make this a stage that makes nothing: it does something with objects that
	// stages before it have made, Iterations times. Parallel starts those of all iterations
	// at once.
	Actions  []Action `json:"actions,omitempty"`
	Parallel bool     `json:"parallel,omitempty"`
}

// What an action does with an object.
const (
	Patch  = "patch"
	Remove = "delete"
	Get    = "read"
)

// Action is one thing that is done with each object of the run that has a kind and labels.
type Action struct {
	At         string            `json:"at"`
	Do         string            `json:"do"` // Patch, Remove or Get
	APIVersion string            `json:"api_version"`
	Kind       string            `json:"kind"`
	Labels     map[string]string `json:"labels"`
	// PatchType is the media type of a patch, Text its template, of JSON or of YAML, and
	// File where that is from.
	PatchType   string          `json:"patch_type,omitempty"`
	Text        string          `json:"text,omitempty"`
	JSON        bool            `json:"json,omitempty"`
	File        string          `json:"file,omitempty"`
	Variables   json.RawMessage `json:"variables,omitempty"`
	MissingZero bool            `json:"missing_zero,omitempty"`
	// Gone is how long to wait until the objects are gone; 0 not at all. After is waited
	// behind the action.
	Gone   time.Duration `json:"gone_ns,omitempty"`
	After  time.Duration `json:"after_ns,omitempty"`
	NoWait bool          `json:"no_wait,omitempty"`
}

// Namespaces is how many the stage has.
func (s *Stage) Namespaces() int {
	if s.Single {
		return 1
	}
	return over(s.Iterations, s.PerNamespace)
}

// Times is in how many iterations a group of the stage is made.
func (s *Stage) Times(g *Group) int { return over(s.Iterations, max(1, g.Every)) }

// over is n / by rounded up, also where their sum would overflow; 0 for n below 1.
func over(n, by int) int {
	if n < 1 {
		return 0
	}
	return (n-1)/by + 1
}

// Group is so many of one sort of thing in each iteration. One of Pod, Manifest, Template
// and Text says what.
type Group struct {
	At    string `json:"at"`
	Count int    `json:"count"`
	// Name is the beginning of the names of pods, NAME-pod-0 and on, or the job that a
	// Text sees as its own.
	Name string `json:"name,omitempty"`

	// Pod is the spec of a pod.
	Pod json.RawMessage `json:"pod,omitempty"`
	// Manifest is an object as it is.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// Template is one of OpenShift's, which is given Parameters; a parameter that it has
	// not is a mistake, but IDENTIFIER, the number of the replica, which is given where
	// the template has it.
	Template json.RawMessage `json:"template,omitempty"`
	// Text is a template as kube-burner's, in Go's language, which sees Variables.
	Text       string            `json:"text,omitempty"`
	Variables  json.RawMessage   `json:"variables,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// File is the file that it is from.
	File string `json:"file,omitempty"`
	// MissingZero reports whether a variable that a Text asks for and has not is empty.
	MissingZero bool `json:"missing_zero,omitempty"`

	// Every says that it is made in each Every-th iteration alone, and that its iterations
	// are counted by that; 0 and 1 are all.
	Every int `json:"every,omitempty"`
	// NoWait reports whether the run does not wait until it is ready.
	NoWait bool `json:"no_wait,omitempty"`

	Pace *Pace      `json:"pace,omitempty"`
	Sync *SyncPoint `json:"sync,omitempty"`
}

// Made reports whether it is made in an iteration.
func (g *Group) Made(iteration int) bool { return g.Every <= 1 || iteration%g.Every == 0 }

// Pace is one half of a tuning set.
type Pace struct {
	// Step is how many are made until those are waited for, Timeout long at most, and
	// then for Pause; 0 for no steps.
	Step    int           `json:"step,omitempty"`
	Pause   time.Duration `json:"pause_ns,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Delay is between the beginnings of two.
	Delay time.Duration `json:"delay_ns,omitempty"`
}

// SyncPoint is a point at which the run waits for pods.
type SyncPoint struct {
	At string `json:"at"`
	// Server counts the pods that ask Port for /start, each of which is answered when all
	// have, and for /stop; the run goes on when all have stopped. Address "" is all.
	Server  bool   `json:"server,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Running and Succeeded wait until all pods with the labels Selectors are in that
	// phase.
	Running   bool              `json:"running,omitempty"`
	Succeeded bool              `json:"succeeded,omitempty"`
	Selectors map[string]string `json:"selectors,omitempty"`
	// Timeout is how long each of them may take.
	Timeout time.Duration `json:"timeout_ns"`
}
