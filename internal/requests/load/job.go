package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
)

// Job describes a load completely: another machine needs no further files and no resolver to
// generate it. It may contain keys and passwords.
type Job struct {
	Asked  []engine.Asked `json:"asked"`
	Common engine.Common  `json:"common"`
	// Allow lists the allowed servers in addition to loopback. Names holds the addresses of
	// all host names, resolved once.
	Allow []string `json:"allow"`
	// NoLoopback excludes loopback: each generator is a pod of its own.
	NoLoopback bool                    `json:"no_loopback,omitempty"`
	Names      map[string][]netip.Addr `json:"names"`
	// Files holds the contents of the files that Identity names.
	Identity   engine.Files      `json:"identity"`
	Files      map[string][]byte `json:"files"`
	Passphrase string            `json:"passphrase"`

	Connections int           `json:"connections"`
	HTTP2       bool          `json:"http2"`
	Streams     int           `json:"streams"`
	Close       bool          `json:"close"`
	Resume      bool          `json:"resume"`
	Timeout     time.Duration `json:"timeout_ns"`
	Wanted      []int         `json:"wanted"`
}

// Plan returns the load of a job, without its schedule.
func (j *Job) Plan(ctx context.Context, resolver engine.Resolver) (*Plan, error) {
	p := &Plan{Connections: j.Connections, HTTP2: j.HTTP2, Streams: j.Streams, Close: j.Close, Timeout: j.Timeout, Resume: j.Resume, Wanted: j.Wanted}
	var err error
	if p.TLS, err = engine.Load(j.Identity, j.read, func() (string, error) { return j.Passphrase, nil }); err != nil {
		return nil, err
	}
	allowed, err := engine.ParseAllowed(ctx, j.Allow, resolver)
	if err != nil {
		return nil, fmt.Errorf("--allow: %w", err)
	}
	allowed.NoLoopback = j.NoLoopback
	p.Set, err = engine.Make(ctx, j.Asked, j.Common, allowed, resolver)
	return p, err
}

func (j *Job) read(name string) ([]byte, error) {
	text, ok := j.Files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

// Resolver returns a resolver that asks another resolver and records the answers in the job.
func (j *Job) Resolver(ask engine.Resolver) engine.Resolver { return keeping{ask, j} }

type keeping struct {
	engine.Resolver
	job *Job
}

func (k keeping) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if found, ok := k.job.Names[host]; ok {
		return found, nil
	}
	found, err := k.Resolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return nil, err
	}
	if k.job.Names == nil {
		k.job.Names = map[string][]netip.Addr{}
	}
	k.job.Names[host] = found
	return found, nil
}

// noResolver always fails: a worker uses only the addresses in its job.
type noResolver struct{}

func (noResolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, fmt.Errorf("%s: no address for this server in the job", host)
}

// Resolved returns the part of a job that is known only once the generators run: the addresses
// of all names, and the connections of each. A worker that has the job itself in a file (Stored)
// needs nothing else.
func (j *Job) Resolved() any {
	return struct {
		Names       map[string][]netip.Addr `json:"names"`
		Connections int                     `json:"connections"`
	}{j.Names, j.Connections}
}

// Worker executes jobs for a fleet.
type Worker struct {
	// Stored is a job as JSON, or nil. The fields in the caller's message replace its own.
	Stored []byte
	// Able returns an error if this process cannot generate the load.
	Able func(*Plan) error

	prepared *Prepared
}

// Prepare connects to the servers of a job.
func (w *Worker) Prepare(ctx context.Context, text []byte) (*fleet.Ready, error) {
	j := &Job{}
	if w.Stored != nil {
		if err := json.Unmarshal(w.Stored, j); err != nil {
			return nil, fmt.Errorf("the stored job: %w", err)
		}
	}
	if err := json.Unmarshal(text, j); err != nil {
		return nil, err
	}
	plan, err := j.Plan(ctx, j.Resolver(noResolver{}))
	if err != nil {
		return nil, err
	}
	if err := w.Able(plan); err != nil {
		return nil, err
	}
	if w.prepared, err = Prepare(ctx, *plan); err != nil {
		return nil, err
	}
	return &fleet.Ready{Probes: w.prepared.probes}, nil
}

// Run generates a share of the load.
func (w *Worker) Run(ctx context.Context, s fleet.Share, to fleet.Coordinator) (*fleet.Part, error) {
	if w.prepared == nil {
		return nil, errors.New("received a share of the load before the job")
	}
	r := w.prepared.with(s.Stages, s.For, s.WarmUp)
	r.plan.Connections, r.plan.of = s.Connections, s
	one, err := r.drive(ctx, s.Seed, to.Now)
	if err != nil {
		return nil, err
	}
	counted, err := one.meter.Part()
	return &fleet.Part{Counts: one.Counts, Meter: counted}, err
}
