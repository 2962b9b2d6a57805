package scenario

import (
	"regexp"
	"sync"
	"time"

	"github.com/theory/jsonpath"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Limits of a scenario.
const (
	maxSteps   = 100
	maxHosts   = 100_000
	maxRepeat  = 1_000_000
	maxFollow  = 20
	maxData    = 1_000_000 // lines of a data file
	maxNumber  = 1 << 53
	longest    = 24 * time.Hour
	defaultMax = 10 * time.Minute // of a wait step
)

// Scenario is a parsed scenario file.
type Scenario struct {
	Name, Title string
	// Changes reports whether the scenario creates or changes objects on a server: as the file says,
	// or else whether a step has another method than GET, HEAD and OPTIONS.
	Changes bool
	Servers []Server
	// Load is the load of the file; options override it.
	Load LoadSpec
	// Commands holds the programs of its command steps.
	Commands []string
	// Creates reports whether a step records objects that it creates.
	Creates bool
	// Gates are the thresholds of the file.
	Gates []Gate

	identity identity
	data     []datum
	setup    []*step
	steps    []*step
	names    *names
}

// Server is a named base URL.
type Server struct {
	Name string
	URL  string // empty if the command line must give it
	at   position
	slot slot
}

// LoadSpec is the number of hosts and when they start. Without a rate it is a closed model.
type LoadSpec struct {
	Hosts  int     // 0: not given, which means one
	Repeat int     // closed model: passes of each host
	Rate   float64 // open model: hosts a second
	For    time.Duration
}

// Gate is a threshold on a step, or on whole hosts if Step is "".
type Gate struct {
	Step string
	*engine.Gate
}

// identity holds the files of the TLS identities. Cert and key are templates of ${name} and
// ${host}.
type identity struct {
	cert, key *template
	ca        string
}

// span is a time, or a range of times.
type span struct{ least, most time.Duration }

// step is one step of a scenario.
type step struct {
	name  string
	at    position
	index int // of all steps, setup included
	think span
	// once is a meeting point: one host runs the step when all have arrived.
	once      bool
	continues bool // after an error
	each      *forEach
	// uses holds the values that must be set before the step.
	uses []slot

	http    *httpAction
	wait    *waitAction
	mqtt    *mqttAction
	command []*template

	expect  expect
	takes   []take
	creates *creates
	// keepBody reports whether the answer's body is needed.
	keepBody bool
}

// forEach runs a step for each element of a list.
type forEach struct{ element, list slot }

// field is a field of a header or form.
type field struct {
	name  string
	value *template
}

// httpAction is an HTTP request.
type httpAction struct {
	method string
	url    *template
	header []field
	follow int
	// At most one of the following is the body.
	body   *template
	fixed  []byte // the content of a file
	form   []field
	upload *upload
}

// upload is a file of a form.
type upload struct {
	whole       []byte // the body
	contentType string
}

// waitAction polls a URL until a condition is met.
type waitAction struct {
	httpAction
	until, fail   *condition
	every, within time.Duration
}

// mqttAction subscribes, publishes or receives.
type mqttAction struct {
	server    *template // nil: the host's last one
	subscribe []*template
	publish   *template
	payload   *template
	receive   *template
	within    time.Duration
}

// source is where a text is taken from.
type source struct {
	json   *jsonpath.Path
	xpath  *sync.Pool // of compiled expressions, which have a state
	regexp *regexp.Regexp
	header string // canonical name; with regexp: searched by it
	all    bool
	gzip   bool
	text   string // for messages
}

// take sets a value from an answer.
type take struct {
	source
	slot slot
}

// condition compares a text of an answer. Without texts it must only exist.
type condition struct {
	source
	in       []*template
	contains *template
}

// expect is what a step must answer.
type expect struct {
	status []int // none: below 400
	exit   []int
	body   *condition
}

// creates describes an object that a step creates.
type creates struct {
	name, id, show, remove *template
	unchanged              *source
}

// needsBody reports whether the text is taken from the body of an answer.
func (s *source) needsBody() bool { return s.header == "" }
