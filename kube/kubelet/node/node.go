// Package node changes the settings of the kubelet of one node, as a transaction: the
// files as they were are in a journal before the first is written, the kubelet is held
// to what it says of itself afterwards, and what does not hold is taken back. After
// kill -9 at any point the next start finishes the change or takes it back (Recover).
//
// The journal is one of its own (DefaultStateDir), in the form of package journal: what
// `fettle undo` gives back on a machine are values, and a kubelet that got only its
// files back would not start again.
package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

// DefaultStateDir is where the journal of kubelet settings is on a node.
const DefaultStateDir = "/var/lib/fettle-kubelet"

// DropIn is the name of the drop-in in the directory that the kubelet reads.
const DropIn = "90-fettle.conf"

// DefaultPatience is how long a kubelet may take to run with other settings. Half of
// them do within two seconds; a lease is renewed every ten.
const DefaultPatience = 2 * time.Minute

// Kubelet is the kubelet of the node: what starts it, and what it says of itself. Each
// method answers within seconds, Stop and Start within a minute.
type Kubelet interface {
	// Stop ends it and returns once it has ended; it is not started again by itself. One
	// that does not run is no error.
	Stop(context.Context) error
	// Start starts it, if it does not run.
	Start(context.Context) error
	// Well says whether it runs well now, before any change: it is healthy, and
	// has not been started again just before. That it has ended some time counts nothing.
	Well(context.Context) error
	// Healthy asks its /healthz. The error of one that has ended since it was started
	// wraps ErrEnded.
	Healthy(context.Context) error
	// Heartbeat is what the API server has heard of the node.
	Heartbeat(context.Context) (Heartbeat, error)
	// Configz is what it runs with (/configz).
	Configz(context.Context) (kubelet.Fields, error)
	// LastWords is the end of its log.
	LastWords(context.Context) string
}

// ErrEnded means that a kubelet has ended by itself.
var ErrEnded = errors.New("the kubelet has ended")

// Heartbeat is what the API server has heard of a node.
type Heartbeat struct {
	// Lease is when the node's lease was last renewed.
	Lease time.Time
	// Ready reports whether the condition Ready is True, Status when the kubelet last said so,
	// in whole seconds. A node stays Ready for a while when its kubelet has ended.
	Ready  bool
	Status time.Time
	// Why is the message of the condition.
	Why string
	// Version is the kubelet's, as the node says it.
	Version string
}

// Node is the node on which this runs.
type Node struct {
	// Host is the node's machine, live or through a mount.
	Host    *host.Host
	Kubelet Kubelet
	// StateDir is the directory of the journal, as this process sees it.
	StateDir string
	// User is who changes it, for the journal.
	User string
	// Patience is how long the kubelet may take to run with other settings; 0 is
	// DefaultPatience.
	Patience time.Duration
	// Machine is what the kubelet's managers see of the machine; nil if nothing has
	// looked: then the kubelet itself finds what does not fit.
	Machine *kubelet.Machine
	// At is called with the name of each point at which a crash could leave something
	// half done. Tests end the process there; nil otherwise.
	At func(point string)
}

// ErrRefused means that nothing was changed, because what is wanted cannot be or is
// not fettle's.
var ErrRefused = errors.New("nothing is changed")

// ErrNoConfigDir means that the kubelet reads no drop-ins.
var ErrNoConfigDir = errors.New("the kubelet was started without --config-dir, so that it reads no drop-ins: add --config-dir=DIRECTORY to its command line (1.28 and 1.29 need KUBELET_CONFIG_DROPIN_DIR_ALPHA=on in its environment too)")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Step is a step of a change.
type Step string

// The steps, in their order.
const (
	Stopping  Step = "stop the kubelet"
	Writing   Step = "write its files"
	Starting  Step = "start the kubelet"
	Health    Step = "wait for its health"
	Hearing   Step = "wait for its heartbeat"
	Comparing Step = "compare what it runs with"
)

// What became of a change.
const (
	Done       = journal.ResultDone
	RolledBack = journal.ResultRolledBack
	Incomplete = journal.ResultIncomplete
	Unchanged  = "nothing"
)

// Report is what became of a change.
type Report struct {
	// Result is done, rolled-back, incomplete (the kubelet does not run with its former
	// settings either; the next start tries again) or nothing.
	Result string `json:"result"`
	// Digest names the settings that were wanted, Has those that the node has now.
	Digest   string   `json:"digest"`
	Has      string   `json:"has"`
	Settings []string `json:"settings,omitempty"`
	// Step is where it failed, Error why, LastWords the end of the kubelet's log then.
	Step      Step   `json:"step,omitempty"`
	Error     string `json:"error,omitempty"`
	LastWords string `json:"last_words,omitempty"`
	// Recovered reports whether a former process began it.
	Recovered bool `json:"recovered,omitempty"`
	// DownSeconds is how long no kubelet was there, from its stop to its first health.
	DownSeconds float64 `json:"down_s"`
}

func (n *Node) at(point string) {
	if n.At != nil {
		n.At(point)
	}
}

func (n *Node) kinds() setting.Kinds { return setting.Kernel(n.Host) }

func (n *Node) lock() (*journal.Journal, error) {
	boot, err := n.Host.BootID()
	if err != nil {
		return nil, err
	}
	j, err := journal.Lock(n.StateDir, journal.Options{BootID: boot, At: n.At})
	if err != nil {
		return nil, err
	}
	if d := j.State.Damage; len(d) > 0 {
		j.Close()
		return nil, refuse("the journal in %s is damaged (%s), so that what comes on top could not be given back: see that the kubelet runs as it should, and remove the directory", n.StateDir, d[0])
	}
	return j, nil
}

// visit is the whole of a change of one node's kubelet: cordon, drain where it
// takes one, the transaction on the node, uncordon. It may end at any point: the next
// visit goes on from there, or takes back.

// Drained is the step of a visit before the transaction, in the words of a report.
const Drained Step = "drain the node"

// Visit is a node and what the API server has of it.
type Visit struct {
	Node *Node
	API  *cluster.Node
}

// Run makes the node's kubelet run with what is wanted. What a former process has begun is
// finished or taken back first. The error is of what could not be begun (ErrRefused,
// journal.ErrBusy): then the node is as before. A node whose kubelet runs neither with the
// new nor with its former settings (Incomplete) stays cordoned.
func (v *Visit) Run(ctx context.Context, want kubelet.Want) (*Report, error) {
	j, err := v.Node.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	r, err := v.Node.recover(ctx, j)
	if err != nil || r != nil && r.Result == Incomplete {
		return r, err
	}
	if r, err = v.change(ctx, j, want, r); r != nil && r.Result == Incomplete {
		return r, err
	}
	return r, errors.Join(err, v.API.Uncordon(context.WithoutCancel(ctx)))
}

// change plans, moves pods away where that is needed, and carries out. recovered is what
// became of the change before.
func (v *Visit) change(ctx context.Context, j *journal.Journal, want kubelet.Want, recovered *Report) (*Report, error) {
	if err := j.Rotate(); err != nil {
		return nil, err
	}
	p, err := v.Node.plan(ctx, j.State, want)
	if err != nil {
		return nil, err
	}
	if p.Settled {
		if recovered != nil && recovered.Digest == want.Digest {
			return recovered, nil
		}
		return &Report{Result: Unchanged, Digest: want.Digest, Has: p.Has}, nil
	}
	if err := p.noReboot(); err != nil {
		return nil, err
	}
	if err := v.API.Cordon(ctx, "kubelet settings "+want.Digest+": "+strings.Join(p.Change.Settings, ", ")); err != nil {
		return nil, err
	}
	drained := p.Change.Class == kubelet.Drain
	if drained {
		if err := v.API.Drain(ctx); err != nil {
			return &Report{Result: RolledBack, Digest: want.Digest, Has: p.Has, Settings: p.Change.Settings, Step: Drained, Error: err.Error()}, nil
		}
		// That may have taken an hour, and the kubelet's other files are not fettle's.
		if p, err = v.Node.plan(ctx, j.State, want); err != nil {
			return nil, err
		}
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return nil, err
	}
	return v.Node.carryOut(ctx, j, p, len(pods), drained)
}

// Check says what Run would refuse now (ErrRefused); nil for nothing. It reads only.
func (v *Visit) Check(ctx context.Context, want kubelet.Want) error {
	p, err := v.Node.Plan(ctx, want)
	if err != nil || p.Settled {
		return err
	}
	if err := p.noReboot(); err != nil {
		return err
	}
	pods, err := v.API.Pods(ctx)
	if err != nil {
		return err
	}
	if p.Change.Class == kubelet.Drain {
		pods = cluster.Sort(pods).Stay
	}
	return v.Node.allow(p, len(pods), true)
}

// Recover finishes or takes back, on the node, what a former process has begun; nil
// where there is nothing. It asks the API server only what the kubelet is held to, and
// leaves the cordon to Run and Uncordon.
func (v *Visit) Recover(ctx context.Context) (*Report, error) { return v.Node.Recover(ctx) }

// Has names the settings that fettle has given the node's kubelet; "" for none.
func (v *Visit) Has() (string, error) { return v.Node.Has() }

// Uncordon lets pods come to the node again, where a visit that was cut off has kept
// them away.
func (v *Visit) Uncordon(ctx context.Context) error { return v.API.Uncordon(ctx) }
