package agent

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

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
