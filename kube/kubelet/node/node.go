// Package node changes the settings of the kubelet of one node as a transaction: it records the
// files in a journal before it writes the first, checks what the kubelet reports afterwards,
// and rolls back a change that fails. After kill -9 at any point the next start finishes the
// change or rolls it back (Recover).
//
// It has its own journal (DefaultStateDir), in the form of package journal: `fettle undo`
// restores values on a machine, but a kubelet would not start after only its files were
// restored.
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

// DefaultStateDir is the directory of the kubelet settings' journal on a node.
const DefaultStateDir = "/var/lib/fettle-kubelet"

// DropIn is the name of the drop-in in the directory that the kubelet reads.
const DropIn = "90-fettle.conf"

// DefaultPatience is the time limit for a kubelet to run with other settings. Half of them do
// within two seconds; a lease is renewed every ten.
const DefaultPatience = 2 * time.Minute

// Kubelet controls and queries the kubelet of the node. Each method returns within seconds,
// Stop and Start within a minute.
type Kubelet interface {
	// Stop stops it and returns once it has ended; nothing restarts it. It is not an error if it
	// does not run.
	Stop(context.Context) error
	// Start starts it, if it does not run.
	Start(context.Context) error
	// Well returns an error unless it runs well before a change: it is healthy, and was not
	// restarted just before. Earlier restarts do not count.
	Well(context.Context) error
	// Healthy queries its /healthz. The error wraps ErrEnded if it has ended since it was started.
	Healthy(context.Context) error
	// Heartbeat returns the node's last report to the API server.
	Heartbeat(context.Context) (Heartbeat, error)
	// Configz returns the configuration it runs with (/configz).
	Configz(context.Context) (kubelet.Fields, error)
	// LastWords returns the end of its log.
	LastWords(context.Context) string
}

// ErrEnded means that a kubelet has ended by itself.
var ErrEnded = errors.New("the kubelet has ended")

// Heartbeat is a node's last report to the API server.
type Heartbeat struct {
	// Lease is the time of the last renewal of the node's lease.
	Lease time.Time
	// Ready reports whether the condition Ready is True, Status when the kubelet last reported it,
	// in whole seconds. A node stays Ready for a while after its kubelet has ended.
	Ready  bool
	Status time.Time
	// Why is the message of the condition.
	Why string
	// Version is the kubelet's version in the Node object.
	Version string
}

// Node is the node on which this process runs.
type Node struct {
	// Host is the node's machine, live or through a mount.
	Host    *host.Host
	Kubelet Kubelet
	// StateDir is the directory of the journal, as this process sees it.
	StateDir string
	// User is recorded in the journal as the author of a change.
	User string
	// Patience is the time limit for the kubelet to run with other settings; 0 means
	// DefaultPatience.
	Patience time.Duration
	// Machine is the machine as the kubelet's managers see it; if nil, only the kubelet itself
	// finds what does not fit.
	Machine *kubelet.Machine
	// At is called with the name of each point at which a crash could leave a change incomplete.
	// Tests end the process there; nil otherwise.
	At func(point string)
}

// ErrRefused means that nothing was changed, because the request is impossible or the files are
// not fettle's.
var ErrRefused = errors.New("nothing changed")

// ErrNoConfigDir means that the kubelet reads no drop-ins.
var ErrNoConfigDir = errors.New("the kubelet reads no drop-ins; add --config-dir=DIRECTORY to its command line (1.28 and 1.29 also need KUBELET_CONFIG_DROPIN_DIR_ALPHA=on in its environment)")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Step is a step of a change.
type Step string

// Steps of a change, in order.
const (
	Stopping  Step = "stop the kubelet"
	Writing   Step = "write its files"
	Starting  Step = "start the kubelet"
	Health    Step = "wait for its health"
	Hearing   Step = "wait for its heartbeat"
	Comparing Step = "compare its running settings"
)

// Results of a change.
const (
	Done       = journal.ResultDone
	RolledBack = journal.ResultRolledBack
	Incomplete = journal.ResultIncomplete
	Unchanged  = "nothing"
)

// Report is the result of a change.
type Report struct {
	// Result is done, rolled-back, incomplete (the kubelet does not run with its former settings
	// either; the next start retries) or nothing.
	Result string `json:"result"`
	// Digest identifies the requested settings, Has the present ones.
	Digest   string   `json:"digest"`
	Has      string   `json:"has"`
	Settings []string `json:"settings,omitempty"`
	// Step is the step that failed, Error the reason, LastWords the end of the kubelet's log then.
	Step      Step   `json:"step,omitempty"`
	Error     string `json:"error,omitempty"`
	LastWords string `json:"last_words,omitempty"`
	// Recovered reports whether an earlier process began it.
	Recovered bool `json:"recovered,omitempty"`
	// DownSeconds is the time from the kubelet's stop until it was healthy again.
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
		return nil, refuse("the journal in %s is damaged (%s), so a change could not be undone; check that the kubelet runs correctly, then remove the directory", n.StateDir, d[0])
	}
	return j, nil
}

// visit is the whole change of one node's kubelet: cordon, drain if required, the transaction
// on the node, uncordon. It may be interrupted at any point: the next visit continues there, or
// rolls back.

// Drained is the step of a visit before the transaction, as reports name it.
const Drained Step = "drain the node"

// Visit is a node and its API object.
type Visit struct {
	Node *Node
	API  *cluster.Node
}

// Run makes the node's kubelet run with the requested settings, after it has finished or rolled
// back a change of an earlier process. It returns an error if the change could not begin
// (ErrRefused, journal.ErrBusy): the node is then unchanged. A node whose kubelet runs neither
// with the new nor with its former settings (Incomplete) stays cordoned.
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

// change plans, moves pods away if required, and carries out the plan. recovered is the result
// of the change before.
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
		// The drain may have taken an hour, and others write the kubelet's other files.
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

// Check returns why Run would refuse now (ErrRefused); nil if it would not. It only reads.
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

// Recover finishes or rolls back, on the node, the change of an earlier process; it returns nil
// if none exists. It uses the API server only to verify the kubelet, and leaves the cordon to
// Run and Uncordon.
func (v *Visit) Recover(ctx context.Context) (*Report, error) { return v.Node.Recover(ctx) }

// Has returns the digest of the settings that fettle has given the node's kubelet; "" for none.
func (v *Visit) Has() (string, error) { return v.Node.Has() }

// Uncordon makes the node schedulable again if an interrupted visit has left it cordoned.
func (v *Visit) Uncordon(ctx context.Context) error { return v.API.Uncordon(ctx) }
