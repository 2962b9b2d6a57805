package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
	topology "fettle.dev/fettle/kube/pod/admission/node"
)

// DefaultUnit is the default systemd unit of a kubelet.
const DefaultUnit = "kubelet.service"

// Machine is the machine of a node; the agent changes its kubelet.
type Machine struct {
	*node.Visit
	unit *node.Unit
}

// NewMachine returns the machine of a node whose root is mounted at root. unit is the kubelet's
// systemd unit. A non-nil direct reaches the kubelet without the API server.
func NewMachine(name, root, unit string, api kubernetes.Interface, direct *node.Direct) (*Machine, error) {
	h := host.Node(root)
	state, err := stateDir(h, root, node.DefaultStateDir)
	if err != nil {
		return nil, err
	}
	u := &node.Unit{Host: h, Name: unit}
	return &Machine{unit: u, Visit: &node.Visit{
		Node: &node.Node{Host: h, StateDir: state, User: "agent of node " + name, Kubelet: &node.RunningKubelet{Service: u, Client: api, Node: name, Direct: direct}},
		API:  &cluster.Node{Client: api, Name: name},
	}}, nil
}

// Kept returns the fettle settings of the kubelet on the machine at root ("" for none), and whether
// a change of them was interrupted. It only reads files.
func Kept(root string) (has string, open bool, err error) {
	h := host.Node(root)
	state, err := stateDir(h, root, node.DefaultStateDir)
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

// Mark records on the Node object which fettle settings the kubelet has.
func (m *Machine) Mark(ctx context.Context, has string) error {
	return m.API.Annotate(ctx, kubelet.SettingsAnnotation, has)
}

// Forget removes the journal of a machine whose kubelet has no fettle settings. It returns an error
// if it still has some.
func (m *Machine) Forget() error {
	switch has, err := m.Has(); {
	case err != nil:
		return err
	case has != "":
		return fmt.Errorf("the kubelet still has the settings %s", has)
	}
	return os.RemoveAll(m.Node.StateDir)
}

// Check returns the error with which Run would refuse now, or nil.
func (m *Machine) Check(ctx context.Context, want kubelet.Want) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.Visit.Check(ctx, want)
}

// Run changes the kubelet to the requested settings.
func (m *Machine) Run(ctx context.Context, want kubelet.Want) (*node.Report, error) {
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	return m.Visit.Run(ctx, want)
}

// look determines how the kubelet is started, and the topology that its managers see. With an
// unknown topology, only the kubelet itself can reject invalid settings.
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

// wantOf parses and checks a node's request. The agent does not rely on the operator's check,
// because the request ends up in files of the node.
func wantOf(s kubelet.NodeKubeletSpec) (kubelet.Want, error) {
	var f kubelet.Fields
	if s.KubeletConfig != nil {
		var err error
		if f, err = kubelet.Parse(s.KubeletConfig.Raw); err != nil {
			return kubelet.Want{}, kubeletRefused(fmt.Errorf("spec.kubeletConfig: %w", err))
		}
	}
	if err := kubelet.Check("spec.kubeletConfig", f); err != nil {
		return kubelet.Want{}, kubeletRefused(err)
	}
	want, err := kubelet.WantOf([]kubelet.Config{{Name: strings.Join(s.KubeletConfigs, ", "), Fields: f}})
	if err != nil {
		return kubelet.Want{}, kubeletRefused(err)
	}
	if want.Digest != s.Digest {
		return kubelet.Want{}, kubeletRefused(fmt.Errorf("the NodeKubelet's settings have the checksum %q, not %q as recorded; the operator has another version, or the object was edited", want.Digest, s.Digest))
	}
	want.Configs = s.KubeletConfigs
	return want, nil
}

func kubeletRefused(err error) error { return fmt.Errorf("%w: %w", node.ErrRefused, err) }

// Limits of written texts, in bytes.
const (
	kubeletMaxMessage = 1000
	maxWords          = 2000
)

// answer returns the status of a turn that ended with a report or with a refusal. has is the digest
// of the node's present settings.
func answer(s kubelet.NodeKubeletSpec, r *node.Report, err error, has string) kubelet.NodeKubeletStatus {
	out := kubelet.NodeKubeletStatus{Turn: s.Turn, Phase: kubelet.Settled, Has: has, Tried: s.Digest}
	if err != nil {
		out.Phase, out.Message = kubelet.ConditionBlocked, text.Truncate(err.Error(), kubeletMaxMessage)
		return out
	}
	tell(&out, r)
	return out
}

// recovered returns the status after an already reported change was finished or rolled back. Until
// then the kubelet ran with neither the new nor the former settings.
func recovered(was kubelet.NodeKubeletStatus, r *node.Report, has string) kubelet.NodeKubeletStatus {
	out := kubelet.NodeKubeletStatus{Turn: was.Turn, Phase: kubelet.Settled, Has: has, Tried: r.Digest}
	tell(&out, r)
	if out.Phase != kubelet.Settled && was.Message != "" {
		out.Step, out.Message, out.LastWords = was.Step, was.Message, was.LastWords // keep why the change failed, not how it was interrupted
	}
	return out
}

// tell copies a report into a status.
func tell(out *kubelet.NodeKubeletStatus, r *node.Report) {
	out.Settings, out.DownMilliseconds = r.Settings, int64(r.DownSeconds*1000)
	switch r.Result {
	case node.RolledBack:
		out.Phase = kubelet.ConditionFailed
	case node.Incomplete:
		out.Phase = kubelet.ConditionBroken
	default:
		return
	}
	out.Step, out.Message, out.LastWords = string(r.Step), r.Error, tail(r.LastWords, maxWords)
	if said := lastLine(r.LastWords); said != "" && strings.Contains(r.Error, node.ErrEnded.Error()) {
		out.Message += ": " + said // last words of a kubelet that does not start
	}
	out.Message = text.Truncate(out.Message, kubeletMaxMessage)
}

// lastLine returns the last nonempty line.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// final reports whether an error ends a turn. Others may be temporary, for example errors of the
// API server or a lock held by another process.
func final(err error) bool { return errors.Is(err, node.ErrRefused) }

// tail returns the end of a log, with at most most bytes.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "..." + strings.ToValidUTF8(s[len(s)-most+3:], "")
}
