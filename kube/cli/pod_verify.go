package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/corestate"
	kubepod "fettle.dev/fettle/kube/pod"
	"fettle.dev/fettle/kube/pod/admission/node"
)

func podVerifyCommand(a *app) *cobra.Command {
	var o machineOptions
	c := &cobra.Command{
		Use: "verify POD", Short: "Verify the CPUs of a running pod (run on the node)",
		Long: `Verifies a pod on its node: its QoS class, the CPUs that the kubelet's CPU manager holds
for its containers, those of their control groups (version 1 or 2) and of each thread,
what else may run there, the CPU weights and their share of the CPUs, and what is left for
other pods. It runs on the pod's node, as root, and needs to see all processes; in a pod
of that node it needs hostPID and the node's root (--root /host).

Exit code 3 if the pod does not have what it was promised.`,
		Args: cobra.ExactArgs(1),
		RunE: a.reading(func(ctx context.Context, args []string) error { return a.podVerify(ctx, args[0], o) }),
	}
	o.flags(c.Flags())
	return c
}

func (a *app) podVerify(ctx context.Context, name string, o machineOptions) error {
	facts, err := a.podFacts(ctx, strings.TrimPrefix(name, "pod/"), o)
	if err != nil {
		return asRoot(err)
	}
	d := kubepod.Verify(facts)
	switch d.Result {
	case kubepod.Fail:
		err = ui.Exit(ui.GateNotMet, fmt.Errorf("pod %s/%s has not what it was promised", d.Namespace, d.Pod))
	case kubepod.Unknown:
		err = ui.Exit(ui.Failed, fmt.Errorf("not everything about pod %s/%s could be determined", d.Namespace, d.Pod))
	}
	return a.show(d, err, func() { printVerified(a.screen, d) })
}

// podFacts reads everything about a pod on this machine.
func (a *app) podFacts(ctx context.Context, name string, o machineOptions) (*kubepod.PinningFacts, error) {
	h, err := o.machine()
	if err != nil {
		return nil, err
	}
	namespace, err := a.namespaceOfContext()
	if err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	full := namespace + "/" + name
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("pod %s not found", full), "--namespace names another namespace; kubectl get pods --all-namespaces lists all")
	}
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, ui.Hinted(ui.Refused, fmt.Errorf("pod %s is on no node yet: it is %s", full, pod.Status.Phase), "kubectl -n "+namespace+" describe pod "+name+" shows why the scheduler finds none")
	}
	if corestate.Ended(pod) {
		return nil, ui.Hinted(ui.Refused, fmt.Errorf("pod %s has ended: it is %s %s", full, pod.Status.Phase, pod.Status.Reason), "it has no CPUs and devices any more; kubectl -n "+namespace+" get pods shows those that run")
	}
	s := &node.Snapshot{From: h.Name, Taken: time.Now(), Files: h.Files, KubeletDir: o.kubeletDir, Unasked: "devices are not looked at here"}
	if s.Node, err = (placed{client: client, h: h}).nodeOf(ctx, pod.Spec.NodeName); err != nil {
		return nil, fmt.Errorf("pod %s is on node %s: %w", full, pod.Spec.NodeName, err)
	}
	if s.Config, err = configz(ctx, client, s.Node); err != nil {
		return nil, err
	}
	if s.Pods, err = podsOn(ctx, client, s.Node.Name); err != nil {
		return nil, err
	}
	return kubepod.ReadPinningFacts(h.Files, s, pod)
}

// printVerified prints the tables for people.
func printVerified(s *ui.Screen, d *kubepod.Document) {
	color := map[string]string{kubepod.Pass: ui.Green, kubepod.Fail: ui.Red, kubepod.Unknown: ui.Yellow, kubepod.Warn: ui.Yellow}
	fmt.Fprintf(s.Out, "pod %s/%s on %s: %s\n", ui.Printable(d.Namespace), ui.Printable(d.Pod), ui.Printable(d.Node), s.Paint(color[d.Result], d.Result))
	heading := func(text string) {
		if s.Format == ui.Markdown {
			text = "## " + text + "\n"
		}
		fmt.Fprintf(s.Out, "\n%s\n", text)
	}
	heading("Checks")
	g := ui.Grid{Columns: ui.Columns("CONTAINER", "CHECK", "RESULT", "BECAUSE"), Color: func(row, col int) string {
		if col != 2 {
			return ""
		}
		return color[d.Checks[row].Result]
	}}
	for _, c := range d.Checks {
		g.Rows = append(g.Rows, []string{dash(c.Of), c.What, c.Result, c.Says})
	}
	g.Write(s)

	heading("Processes")
	g = ui.Grid{Columns: ui.Columns("CONTAINER", "PID", "NAME", "THREADS", "ALLOWED CPUS")}
	for _, c := range d.Containers {
		for _, p := range c.Processes {
			g.Rows = append(g.Rows, []string{c.Name, fmt.Sprint(p.PID), p.Name, fmt.Sprint(p.Threads), p.CPUs})
		}
	}
	g.Write(s)

	if len(d.Left.Resources) > 0 {
		heading("Left for other pods")
		g = ui.Grid{Columns: ui.Columns("RESOURCE", "ALLOCATABLE", "REQUESTED", "LEFT")}
		for _, r := range d.Left.Resources {
			g.Rows = append(g.Rows, []string{r.Name, r.Allocatable, r.Requested, r.Left})
		}
		g.Write(s)
	}
}
