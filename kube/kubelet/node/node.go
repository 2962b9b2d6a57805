// Package node changes the settings of the kubelet of one node as a transaction: it journals the
// files before writing them, verifies the kubelet's reports, and rolls back a failed change. After
// kill -9 at any point, the next start finishes or rolls back the change (Recover).
//
// It uses package journal with its own directory (DefaultStateDir). `fettle undo` has another one,
// because restoring only the files would leave a kubelet that does not start.
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

// DropIn is the name of fettle's file in the kubelet's drop-in directory.
const DropIn = "90-fettle.conf"

// DefaultPatience limits the wait for a kubelet with new settings. Half of all kubelets are ready
// within two seconds; leases are renewed every ten.
const DefaultPatience = 2 * time.Minute

// Kubelet controls and queries a node's kubelet. Methods return within seconds, Stop and Start
// within a minute.
type Kubelet interface {
	// Stop stops the kubelet and returns once it has ended; nothing restarts it. A kubelet that
	// does not run is not an error.
	Stop(context.Context) error
	// Start starts the kubelet unless it runs.
	Start(context.Context) error
	// Well returns an error unless the kubelet is fit for a change: healthy, and not restarted
	// recently.
	Well(context.Context) error
	// Healthy requests /healthz. The error wraps ErrEnded if the kubelet has ended since its start.
	Healthy(context.Context) error
	// Heartbeat returns the node's last report to the API server.
	Heartbeat(context.Context) (Heartbeat, error)
	// Configz returns the kubelet's running configuration (/configz).
	Configz(context.Context) (kubelet.Fields, error)
	// LastWords returns the end of the kubelet's log.
	LastWords(context.Context) string
}

// ErrEnded means that a kubelet ended by itself.
var ErrEnded = errors.New("the kubelet has ended")

// Heartbeat is a node's last report to the API server.
type Heartbeat struct {
	// Lease is when the node's lease was last renewed.
	Lease time.Time
	// Ready reports whether the condition Ready is True; Status is when the kubelet last reported
	// it, in whole seconds. A node stays Ready for a while after its kubelet ended.
	Ready  bool
	Status time.Time
	// Why is the condition's message.
	Why string
	// Version is the kubelet's version in the Node object.
	Version string
}

// Node is the node on which this process runs.
type Node struct {
	// Host is the node's machine, live or through a mount.
	Host    *host.Host
	Kubelet Kubelet
	// StateDir is the journal's directory, as this process sees it.
	StateDir string
	// User is the author of changes in the journal.
	User string
	// Patience limits the wait for the kubelet with new settings; 0 means DefaultPatience.
	Patience time.Duration
	// Machine is the machine as the kubelet's managers see it. If nil, only the kubelet itself
	// detects unsuitable settings.
	Machine *kubelet.Machine
	// At is called with the name of each point where a crash leaves an incomplete change. Tests end
	// the process there; otherwise it is nil.
	At func(point string)
}

// ErrRefused means that nothing was changed: the request is impossible, or the files are not
// fettle's.
var ErrRefused = errors.New("nothing changed")

// ErrNoConfigDir means that the kubelet does not read drop-ins.
var ErrNoConfigDir = errors.New("the kubelet reads no drop-ins; add --config-dir=DIRECTORY to its command line (1.28 and 1.29 also need KUBELET_CONFIG_DROPIN_DIR_ALPHA=on in its environment)")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Step is one step of a change.
type Step string

// Steps of a change, in order.
const (
	Stopping  Step = "stop the kubelet"
	Writing   Step = "write the kubelet's files"
	Starting  Step = "start the kubelet"
	Health    Step = "wait for the kubelet's health"
	Hearing   Step = "wait for the kubelet's heartbeat"
	Comparing Step = "compare the kubelet's running settings"
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
	// Result is done, rolled-back, nothing or incomplete. With incomplete, the kubelet does not run
	// even with its former settings, and the next start retries.
	Result string `json:"result"`
	// Digest identifies the requested settings, Has the present ones.
	Digest   string   `json:"digest"`
	Has      string   `json:"has"`
	Settings []string `json:"settings,omitempty"`
	// Step is the failed step, Error the reason, LastWords the end of the kubelet's log at the
	// failure.
	Step      Step   `json:"step,omitempty"`
	Error     string `json:"error,omitempty"`
	LastWords string `json:"last_words,omitempty"`
	// Recovered reports whether an earlier process started the change.
	Recovered bool `json:"recovered,omitempty"`
	// DownSeconds is the time from the kubelet's stop until it was healthy.
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

// visit is the complete change of a node's kubelet: cordon, drain if required, transaction,
// uncordon. It may be interrupted at any point; the next visit continues or rolls back.

// Drained is the name in reports of the step before the transaction.
const Drained Step = "drain the node"

// Visit changes the kubelet of a node, including its API object.
type Visit struct {
	Node *Node
	API  *cluster.Node
}

// Run first finishes or rolls back an earlier process's change. It then makes the kubelet run with
// the requested settings. An error means that the change did not start and the node is unchanged
// (ErrRefused, journal.ErrBusy). A node whose kubelet runs neither with the new nor with its former
// settings (Incomplete) stays cordoned.
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

// change plans, drains the node if required, and carries out the plan. recovered is the result of
// an earlier process's change.
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
		// The drain may have taken an hour, and other programs write the kubelet's other files.
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

// Check returns the error with which Run would refuse now (ErrRefused), or nil. It only reads.
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

// Recover finishes or rolls back an earlier process's change on the node; it returns nil
// without one. It uses the API server only to verify the kubelet. Run and Uncordon remove the cordon.
func (v *Visit) Recover(ctx context.Context) (*Report, error) { return v.Node.Recover(ctx) }

// Has returns the digest of the kubelet's settings from fettle, or "".
func (v *Visit) Has() (string, error) { return v.Node.Has() }

// Uncordon makes the node schedulable again if an interrupted visit left it cordoned.
func (v *Visit) Uncordon(ctx context.Context) error { return v.API.Uncordon(ctx) }
