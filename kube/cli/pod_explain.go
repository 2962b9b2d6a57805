package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	kubepod "fettle.dev/fettle/kube/pod"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/node"
	"fettle.dev/fettle/kube/pod/admission/podfile"
)

type podExplainOptions struct {
	machineOptions
	node, state, only, expect string
	details                   bool
}

// outcomes are the possible values of --expect.
var outcomes = []string{admission.Admitted, admission.Pending, admission.Refused, admission.Invalid, admission.NodeFails, admission.Undecided, admission.Unknown}

func podExplainCommand(a *app) *cobra.Command {
	var o podExplainOptions
	c := &cobra.Command{
		Use: "explain FILE", Short: "Predict whether a node admits a pod, and on which CPUs",
		Long: `Predicts whether the kubelet of a node admits a pod, and which CPUs each container gets.
It shows the QoS class, and the hints of the CPU, memory and device managers. It shows
how the topology manager merges these hints, the verdict, and what to change. FILE is a
manifest with a Pod or an object that creates pods; - is standard input. Nothing is
changed.

Run this command on the node, as root, because the API does not expose the state of the
kubelet's managers. On another machine, name a directory of pod record with --state DIR.
Without a kubeconfig it uses the kubelet's own file, and reports what it did not
consider.`,
		Args: cobra.ExactArgs(1),
		RunE: a.reading(func(ctx context.Context, args []string) error { return a.podExplain(ctx, args[0], o) }),
	}
	f := c.Flags()
	o.flags(f)
	f.StringVar(&o.node, "node", "", "name of the node (default this node, or the one in --state)")
	f.StringVar(&o.state, "state", "", "directory that pod record wrote on the node; no cluster is contacted")
	f.StringVar(&o.only, "only", "", "KIND/NAME of the pod, if FILE has several")
	f.StringVar(&o.expect, "expect", "", "exit with 3 unless this is the outcome: "+strings.Join(outcomes, ", "))
	f.BoolVar(&o.details, "details", false, "also show every hint and rule, the CPU weights, what is not covered, and the sources")
	cliutil.OneOf(f, "expect", outcomes...)
	return c
}

func (a *app) podExplain(ctx context.Context, file string, o podExplainOptions) error {
	found, err := readPod(file, o.only)
	if err != nil {
		return err
	}
	s, err := a.nodeState(ctx, o)
	if err != nil {
		return err
	}
	in, err := s.Input()
	if err != nil {
		return asRoot(err)
	}
	in.Pod = found.Pod
	if in.Pod.Namespace == "" {
		in.Pod.Namespace = a.namespace()
	}
	in.Pod.Release = in.Settings.Release
	if filled := in.Pod.Default(); len(filled) > 0 {
		in.Sources = append(in.Sources, admission.Source{What: strings.Join(filled, ", "), From: "as the API server fills them in"})
	}
	p, err := admission.Predict(in)
	if err != nil {
		return fmt.Errorf("%s: %w", s.From, err)
	}
	if got := p.Answer().Outcome; o.expect != "" && got != o.expect {
		err = ui.Exit(ui.GateNotMet, fmt.Errorf("the pod would be %s; expected %s", got, o.expect))
		a.screen.Fail(err)
	}
	return errors.Join(err, kubepod.Explain(a.screen, p, ui.Code(err), o.details))
}

// nodeState reads the node from a recorded copy, or from this machine.
func (a *app) nodeState(ctx context.Context, o podExplainOptions) (*node.Snapshot, error) {
	if o.state == "" {
		return a.snapshot(ctx, o.node, o.machineOptions, true)
	}
	if o.root != "" {
		return nil, ui.Without(errors.New("want --state or --root, not both"), "--root")
	}
	const written = "to write one: kubectl fettle pod record DIR on the node"
	if st, err := os.Stat(o.state); err == nil && !st.IsDir() {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--state: %s is not a directory", o.state), written)
	}
	s, err := node.Load(o.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("--state: %w", err), written)
	}
	if err != nil {
		return nil, err
	}
	if o.node != "" && s.Name() != "" && o.node != s.Name() {
		return nil, ui.Without(fmt.Errorf("--state %s is from node %s, not %s", o.state, s.Name(), o.node), "--node")
	}
	return s, nil
}

// maxManifest limits a manifest in bytes, like the parser.
const maxManifest = 4 << 20

// readPod returns a manifest's only pod, or the pod named only.
func readPod(file, only string) (*podfile.Found, error) {
	data, file, err := readManifest(file)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	f, err := podfile.Read(file, data)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	var names []string
	for i := range f.Pods {
		name := f.Pods[i].Pod.Kind + "/" + f.Pods[i].Pod.Name
		if strings.EqualFold(name, only) || only == "" && len(f.Pods) == 1 {
			return &f.Pods[i], nil
		}
		names = append(names, name)
	}
	if only == "" {
		return nil, ui.Retry(ui.Usage, fmt.Errorf("%s contains %s; choose one with --only", file, strings.Join(names, ", ")), "", "--only="+names[0])
	}
	return nil, ui.Instead(ui.Usage, fmt.Errorf("%s has no %s; it has %s", file, only, strings.Join(names, ", ")), "", "--only="+cmp.Or(text.Nearest(only, names), names[0]))
}

// readManifest reads a manifest ("-" is standard input), and returns its display name.
func readManifest(file string) (text []byte, name string, err error) {
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, maxManifest+1))
		return text, "standard input", err
	}
	text, err = readNamed(file, maxManifest)
	return text, file, err
}

// readNamed reads a file that the user named, at most most+1 bytes, so callers detect larger files.
func readNamed(file string, most int64) ([]byte, error) {
	f, err := host.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
