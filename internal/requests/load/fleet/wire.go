// Package fleet drives generators on several machines as if they were one. Each is a worker
// that speaks JSON, a message a line, over its standard input and output, so that whatever
// starts a program elsewhere will do: ssh, kubectl exec. A worker is told what to ask of
// whom, then how much and when to begin by its own clock, and in the end says all that it
// has counted. It ends when its input does: a connection that breaks stops the load.
package fleet

import (
	"encoding/json"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Schema names the messages. Both sides have to have the same.
const Schema = "fettle/load-worker/v2"

// toWorker is one message to a worker: one of its members.
type toWorker struct {
	Job  json.RawMessage `json:"job,omitempty"` // what to ask of whom
	Ping bool            `json:"ping,omitempty"`
	Run  *Share          `json:"run,omitempty"`
	Stop bool            `json:"stop,omitempty"` // ends a run before its time
}

// fromWorker is one message of a worker: one of its members.
type fromWorker struct {
	Ready *Ready `json:"ready,omitempty"`
	Pong  int64  `json:"pong,omitempty"` // its clock, in ns since 1970
	Now   *Now   `json:"now,omitempty"`
	Part  *Part  `json:"part,omitempty"`
	Error string `json:"error,omitempty"`
}

// Ready says that a worker has reached the servers.
type Ready struct {
	Schema string         `json:"schema"`
	Probes []engine.Probe `json:"probes"`
}

// Share is how one worker's load goes over time.
type Share struct {
	// Stages are those of all workers together. This one makes each Of-th of their starts,
	// from the First-th on, from 0.
	Stages      []engine.Stage `json:"stages"`
	First       int64          `json:"first"`
	Of          int64          `json:"of"`
	For         time.Duration  `json:"for_ns"`
	WarmUp      time.Duration  `json:"warm_up_ns"`
	Connections int            `json:"connections"`
	Seed        uint64         `json:"seed"`
	// At is when it begins by the worker's clock, in ns since 1970.
	At int64 `json:"at_ns"`
}

// Counts are what a generator has counted, beside the requests.
type Counts struct {
	// Until is the moment up to which requests were started.
	Until       time.Duration `json:"until_ns"`
	Connections int           `json:"connections"`
	Handshakes  int64         `json:"handshakes"`
	Resumed     int64         `json:"resumed"`
	Opened      int64         `json:"opened"`
	Reopened    int64         `json:"reopened"`
	CPU         time.Duration `json:"cpu_ns"`
	Processors  int           `json:"processors"`
	// Late is how much later it began than it was told to.
	Late time.Duration `json:"late_ns"`
	// Stopped says that it was stopped where it runs, and not from the other side.
	Stopped bool `json:"stopped,omitempty"`
}

// Part is what came of a share.
type Part struct {
	Counts
	Meter *engine.Part `json:"meter"`
}

// Now is how a load goes at a moment.
type Now struct {
	At         time.Duration `json:"at_ns"`
	AnswerRate float64       `json:"answers_per_s"`
	P50S       float64       `json:"p50_s"`
	P99S       float64       `json:"p99_s"`
	ErrorShare float64       `json:"error_share"`
}

// maxLine is the longest message, in bytes: a job with the files that it needs, or a part
// with its histograms.
const maxLine = 256 << 20
