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

// Kept returns which settings of fettle's the kubelet of the machine at root has, "" for none,
// and whether a change of them was cut off. It reads only the machine.
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

// Check returns why Run would refuse now.
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

// wantOf reads what a node is told. It is checked once more here, where it is carried
// out: whoever writes these objects writes into files of the node.
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
		return kubelet.Want{}, kubeletRefused(fmt.Errorf("the settings of the NodeKubelet are %q, and it says that they are %q: its operator is of another version, or the object was edited", want.Digest, s.Digest))
	}
	want.Configs = s.KubeletConfigs
	return want, nil
}

func kubeletRefused(err error) error { return fmt.Errorf("%w: %w", node.ErrRefused, err) }

// The bounds of what is written, in bytes.
const (
	kubeletMaxMessage = 1000
	maxWords          = 2000
)

// answer is what is said of a turn that has ended: with a report, or with an error that
// is a refusal. has is what the node has now.
func answer(s kubelet.NodeKubeletSpec, r *node.Report, err error, has string) kubelet.NodeKubeletStatus {
	out := kubelet.NodeKubeletStatus{Turn: s.Turn, Phase: kubelet.Settled, Has: has, Tried: s.Digest}
	if err != nil {
		out.Phase, out.Message = kubelet.ConditionBlocked, text.Truncate(err.Error(), kubeletMaxMessage)
		return out
	}
	tell(&out, r)
	return out
}

// recovered is what is said when a change was finished or taken back whose turn has been
// answered already: then the kubelet ran neither with the new settings nor with its
// former ones.
func recovered(was kubelet.NodeKubeletStatus, r *node.Report, has string) kubelet.NodeKubeletStatus {
	out := kubelet.NodeKubeletStatus{Turn: was.Turn, Phase: kubelet.Settled, Has: has, Tried: r.Digest}
	tell(&out, r)
	if out.Phase != kubelet.Settled && was.Message != "" {
		out.Step, out.Message, out.LastWords = was.Step, was.Message, was.LastWords // why it failed, not how it was cut off
	}
	return out
}

// tell puts a report into a status.
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
		out.Message += ": " + said // with which a kubelet that does not start ends
	}
	out.Message = text.Truncate(out.Message, kubeletMaxMessage)
}

// lastLine is the last one that says something.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// final reports whether an error ends a turn. Others, of the API server or of a lock that
// another process holds, may pass.
func final(err error) bool { return errors.Is(err, node.ErrRefused) }

// tail keeps the end of a log.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "..." + strings.ToValidUTF8(s[len(s)-most+3:], "")
}
