// Package fleet drives generators on several machines as one. Each generator is a worker that
// exchanges JSON messages, one a line, over standard input and output. So any program that
// starts a remote program can start it: ssh, kubectl exec. A worker receives the job, then its
// share and a start time by its own clock, and finally reports its counts. It ends when its
// input ends, so a broken connection stops the load.
package fleet

import (
	"encoding/json"
	"net/netip"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Schema is the name of the protocol. Both sides must use the same.
const Schema = "fettle/load-worker/v4"

// toWorker is a message to a worker. Exactly one field is set.
type toWorker struct {
	// Resolve asks for the addresses of a host name, before the job.
	Resolve *Name           `json:"resolve,omitempty"`
	Job     json.RawMessage `json:"job,omitempty"`
	Ping    bool            `json:"ping,omitempty"`
	Run     *Share          `json:"run,omitempty"`
	Stop    bool            `json:"stop,omitempty"` // end the run early
	// Recorded answers Record.
	Recorded *recorded `json:"recorded,omitempty"`
}

// fromWorker is a message from a worker. Exactly one field is set.
type fromWorker struct {
	Ready *Ready `json:"ready,omitempty"`
	Pong  int64  `json:"pong,omitempty"` // the worker's clock, in ns since 1970
	Now   *Now   `json:"now,omitempty"`
	// Addresses answers Resolve.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Record is what the coordinator must store before the worker goes on, during a run.
	Record json.RawMessage `json:"record,omitempty"`
	Part   *Part           `json:"part,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Name is a host name to resolve, for a network of net.Resolver.LookupNetIP.
type Name struct {
	Network string `json:"network"`
	Host    string `json:"host"`
}

// recorded reports that the coordinator has stored a record, or why it has not.
type recorded struct {
	Error string `json:"error,omitempty"`
}

// Ready reports that a worker is connected to the servers.
type Ready struct {
	Schema string         `json:"schema"`
	Probes []engine.Probe `json:"probes"`
}

// Share is one worker's part of the load.
type Share struct {
	// Stages is the schedule of all workers together. This worker makes every Of-th start,
	// from start First (0-based) on.
	Stages      []engine.Stage `json:"stages"`
	First       int64          `json:"first"`
	Of          int64          `json:"of"`
	For         time.Duration  `json:"for_ns"`
	WarmUp      time.Duration  `json:"warm_up_ns"`
	Connections int            `json:"connections"`
	Seed        uint64         `json:"seed"`
	// At is the start time by the worker's clock, in ns since 1970.
	At int64 `json:"at_ns"`
	// Scenario is what a worker of a scenario needs in addition (scenario.turn as JSON).
	Scenario json.RawMessage `json:"scenario,omitempty"`
}

// Counts holds a generator's counters other than the request counters.
type Counts struct {
	// Until is the end of the period in which requests were started.
	Until       time.Duration `json:"until_ns"`
	Connections int           `json:"connections"`
	Handshakes  int64         `json:"handshakes"`
	Resumed     int64         `json:"resumed"`
	Opened      int64         `json:"opened"`
	Reopened    int64         `json:"reopened"`
	CPU         time.Duration `json:"cpu_ns"`
	Processors  int           `json:"processors"`
	// Late is the delay of the actual start after At.
	Late time.Duration `json:"late_ns"`
	// Stopped reports whether the load was stopped on the worker's own machine.
	Stopped bool `json:"stopped,omitempty"`
}

// Part is a worker's result: Meter for HTTP requests, Scenario for a scenario.
type Part struct {
	Counts
	Meter *engine.Part `json:"meter,omitempty"`
	// Scenario is a scenario.Part as JSON, or a scenario.Undone.
	Scenario json.RawMessage `json:"scenario,omitempty"`
}

// Now is the state of a load in progress.
type Now struct {
	At         time.Duration `json:"at_ns"`
	AnswerRate float64       `json:"answers_per_s"`
	P50S       float64       `json:"p50_s"`
	P99S       float64       `json:"p99_s"`
	ErrorShare float64       `json:"error_share"`
	// Ended and Failed count the passes of a scenario's hosts.
	Ended  int64 `json:"ended,omitempty"`
	Failed int64 `json:"failed,omitempty"`
}

// maxLine is the maximum size of a message, in bytes. Jobs contain files.
const maxLine = 256 << 20
