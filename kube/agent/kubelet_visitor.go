package agent

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
	topology "fettle.dev/fettle/kube/pod/admission/node"
)

// DefaultUnit is the default unit of systemd that starts a kubelet.
const DefaultUnit = "kubelet.service"

// Machine is a node's machine, whose kubelet is changed.
type Machine struct {
	*node.Visit
	unit *node.Unit
}

// NewMachine is the machine of a node whose root is mounted at root. unit is what starts
// its kubelet; direct asks that one, by way of the API server where it is nil.
func NewMachine(name, root, unit string, api kubernetes.Interface, direct *node.Direct) (*Machine, error) {
	h := host.Node(root)
	state, err := stateDir(h, root)
	if err != nil {
		return nil, err
	}
	u := &node.Unit{Host: h, Name: unit}
	return &Machine{unit: u, Visit: &node.Visit{
		Node: &node.Node{Host: h, StateDir: state, User: "agent of node " + name, Kubelet: &node.RunningKubelet{Service: u, Client: api, Node: name, Direct: direct}},
		API:  &cluster.Node{Client: api, Name: name},
	}}, nil
}

// Kept says which settings of fettle's the kubelet of the machine at root has; "" for
// none; and whether a change of them was cut off. Nothing but the machine is asked.
func Kept(root string) (has string, open bool, err error) {
	h := host.Node(root)
	state, err := stateDir(h, root)
	if err != nil {
		return "", false, err
	}
	n := &node.Node{Host: h, StateDir: state}
	if open, err = n.CutOff(); err != nil {
		return "", false, err
	}
	has, err = n.Has()
	return has, open, err
}

// stateDir is where this process finds the journal of the machine: links on the way lead
// where they lead there.
func stateDir(h *host.Host, root string) (string, error) {
	above, err := h.Files.Resolve(path.Dir(node.DefaultStateDir))
	if err != nil {
		return "", fmt.Errorf("the node's root at %s: %w", root, err)
	}
	return filepath.Join(root, above, path.Base(node.DefaultStateDir)), nil
}

// Mark notes at the node's object which settings it has.
func (m *Machine) Mark(ctx context.Context, has string) error {
	return m.API.Annotate(ctx, kubelet.SettingsAnnotation, has)
}

// Forget removes the journal of a machine whose kubelet has nothing of fettle's any more.
// It is an error if it has.
func (m *Machine) Forget() error {
	switch has, err := m.Has(); {
	case err != nil:
		return err
	case has != "":
		return fmt.Errorf("the kubelet has the settings %s still", has)
	}
	return os.RemoveAll(m.Node.StateDir)
}

// Check says what Run would refuse now.
func (m *Machine) Check(ctx context.Context, want kubelet.Want) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.Visit.Check(ctx, want)
}

// Run makes the kubelet run with what is wanted.
func (m *Machine) Run(ctx context.Context, want kubelet.Want) (*node.Report, error) {
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	return m.Visit.Run(ctx, want)
}

// look sees what starts the kubelet, and what its managers see of the machine. Where that
// cannot be read, the kubelet itself finds what does not fit.
func (m *Machine) look(ctx context.Context) error {
	if err := m.unit.Check(ctx); err != nil {
		return kubeletRefused(err)
	}
	m.Node.Machine = nil
	if t, err := topology.Topology(m.Node.Host.Files); err == nil {
		m.Node.Machine = &t
	}
	return nil
}
