package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	kubepod "fettle.dev/fettle/kube/pod"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/node"
)

func podVerifyCommand(a *app) *cobra.Command {
	var o machineOptions
	var details bool
	c := &cobra.Command{
		Use: "verify POD", Short: "Verify the CPUs of a running pod (run on the node)",
		Long: `Verifies on a node that a pod has the resources it was promised: its QoS class, and the
CPUs of its containers. It compares the CPUs in three places. These are the state of the
kubelet's CPU manager, the control groups (version 1 or 2), and the affinity of each
thread. It also shows what else may run on these CPUs, the CPU weights, and what is left
for other pods.

Run this command on the pod's node, as root. In a pod it needs hostPID and the node's
root file system (--root /host).

Exit code 3 if the pod lacks promised resources.`,
		Args: cobra.ExactArgs(1),
		RunE: a.reading(func(ctx context.Context, args []string) error { return a.podVerify(ctx, args[0], o, details) }),
	}
	o.flags(c.Flags())
	c.Flags().BoolVar(&details, "details", false, "also show checks that passed, notes, processes, and what is left for other pods")
	return c
}

func (a *app) podVerify(ctx context.Context, name string, o machineOptions, details bool) error {
	facts, err := a.podFacts(ctx, strings.TrimPrefix(name, "pod/"), o)
	if err != nil {
		return asRoot(err)
	}
	d := kubepod.Verify(facts)
	d.Headline = verifiedHeadline(d)
	switch d.Result {
	case kubepod.Fail:
		err = ui.Exit(ui.GateNotMet, fmt.Errorf("pod %s/%s does not have the resources it was promised", d.Namespace, d.Pod))
	case kubepod.Unknown:
		err = ui.Exit(ui.Failed, fmt.Errorf("incomplete: some properties of pod %s/%s could not be determined", d.Namespace, d.Pod))
	}
	return a.show(d, err, func() { printVerified(a.screen, d, details) })
}

// podFacts reads all facts about a pod that runs on this machine.
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
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("pod %s not found", full), "choose its namespace with --namespace; kubectl get pods --all-namespaces lists all pods")
	}
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, ui.Hinted(ui.Refused, fmt.Errorf("pod %s is not on a node yet: %s", full, pod.Status.Phase), "kubectl -n "+namespace+" describe pod "+name+" shows why no node fits")
	}
	if cluster.Ended(pod) {
		return nil, ui.Hinted(ui.Refused, fmt.Errorf("pod %s has ended: %s", full, strings.TrimSpace(string(pod.Status.Phase)+" "+pod.Status.Reason)), "it no longer has CPUs and devices; kubectl -n "+namespace+" get pods lists running pods")
	}
	s := &node.Snapshot{From: h.Name, Taken: time.Now(), Files: h.Files, KubeletDir: o.kubeletDir, Unasked: "pod verify does not check devices"}
	if s.Node, err = (placed{client: client, h: h}).nodeOf(ctx, pod.Spec.NodeName); err != nil {
		return nil, fmt.Errorf("pod %s runs on node %s: %w", full, pod.Spec.NodeName, err)
	}
	if s.Config, err = configz(ctx, client, s.Node); err != nil {
		return nil, err
	}
	if s.Pods, err = podsOn(ctx, client, s.Node.Name); err != nil {
		return nil, err
	}
	return kubepod.ReadPinningFacts(h.Files, s, pod)
}

// verifiedOrder are the check results, most harmful first.
var verifiedOrder = []string{kubepod.Fail, kubepod.Unknown, kubepod.Warn, kubepod.Note, kubepod.Pass}

// countVerified returns the number of checks with the given result.
func countVerified(d *kubepod.Document, result string) (n int) {
	for _, c := range d.Checks {
		if c.Result == result {
			n++
		}
	}
	return n
}

// verifiedHeadline summarizes the checks and names the first failed one.
func verifiedHeadline(d *kubepod.Document) (h ui.Headline) {
	words := map[string]string{
		kubepod.Pass:    "has the promised resources",
		kubepod.Fail:    "lacks promised resources",
		kubepod.Unknown: "not everything could be determined",
	}
	counts := []string{}
	for _, x := range []struct{ result, name, noun string }{
		{kubepod.Fail, "failed", "failed check"}, {kubepod.Unknown, "unknown", "unknown check"}, {kubepod.Warn, "warnings", "warning"},
		{kubepod.Note, "notes", "note"}, {kubepod.Pass, "passed", "passed check"},
	} {
		if n := countVerified(d, x.result); n > 0 {
			counts = append(counts, h.Count(x.name, n, x.noun))
		}
	}
	h.Line("pod %s/%s on %s: %s: %s", d.Namespace, d.Pod, d.Node, words[d.Result], strings.Join(counts, ", "))
	for _, c := range d.Checks {
		if d.Result != kubepod.Pass && c.Result == d.Result {
			h.Line("first: %s: %s", strings.TrimPrefix(c.Of+", "+c.What, ", "), c.Says)
			break
		}
	}
	return h
}

// printVerified prints the containers' CPUs and the checks that did not pass. With details it
// prints all checks, the processes and the rest.
func printVerified(s *ui.Screen, d *kubepod.Document, details bool) {
	ui.PrintHeadline(s, &d.Headline)
	processes := ui.Grid{Columns: []ui.Column{{Head: "container"}, {Head: "pid", Right: true}, {Head: "name"}, {Head: "threads", Right: true}, {Head: "allowed cpus"}}}
	containers := ui.Grid{Columns: []ui.Column{{Head: "container"}, {Head: "processes", Right: true}, {Head: "threads", Right: true}, {Head: "use"}, {Head: "cpus"}}}
	for _, c := range d.Containers {
		threads := 0
		for _, p := range c.Processes {
			threads += p.Threads
			processes.Rows = append(processes.Rows, []string{c.Name, fmt.Sprint(p.PID), p.Name, thousands(p.Threads), p.CPUs})
		}
		use := "shared"
		switch {
		case !c.Running:
			use = "not running"
		case c.Exclusive:
			use = "exclusive"
		}
		containers.Rows = append(containers.Rows, []string{c.Name, thousands(len(c.Processes)), thousands(threads), use, dash(c.CPUs)})
	}
	section(s, "Containers", &containers)
	section(s, "Checks", verifiedChecks(d, details))
	var left ui.Grid
	left.Columns = []ui.Column{{Head: "resource"}, {Head: "allocatable", Right: true}, {Head: "requested", Right: true}, {Head: "left", Right: true}}
	for _, r := range d.Left.Resources {
		left.Rows = append(left.Rows, []string{r.Name, admission.Human(r.Name, r.Allocatable), admission.Human(r.Name, r.Requested), admission.Human(r.Name, r.Left)})
	}
	if details {
		section(s, "Processes", &processes)
		section(s, "Left for other pods", &left)
		return
	}
	notShown(s, text.Count(countVerified(d, kubepod.Pass), "passed check"), text.Count(countVerified(d, kubepod.Note), "note"),
		text.CountPlural(uint64(len(processes.Rows)), "process", "processes"), "what is left for other pods")
}

// verifiedChecks returns a table of the checks, most harmful first. Without details it omits passed
// checks and notes.
func verifiedChecks(d *kubepod.Document, details bool) *ui.Grid {
	color := map[string]string{kubepod.Pass: ui.Green, kubepod.Fail: ui.Red, kubepod.Unknown: ui.Yellow, kubepod.Warn: ui.Yellow}
	g := ui.Grid{Columns: []ui.Column{{Head: "result"}, {Head: "container"}, {Head: "check"}, {Head: "because", Below: true}}}
	for _, result := range verifiedOrder {
		for _, c := range d.Checks {
			if c.Result == result && (details || result != kubepod.Pass && result != kubepod.Note) {
				g.Rows = append(g.Rows, []string{c.Result, dash(c.Of), c.What, c.Says})
			}
		}
	}
	g.Color = func(row, col int) string {
		if col != 0 {
			return ""
		}
		return color[g.Rows[row][0]]
	}
	return &g
}

// section prints a titled table unless it is empty.
func section(s *ui.Screen, title string, g *ui.Grid) {
	if len(g.Rows) > 0 {
		ui.Heading(s, title)
		g.Write(s)
	}
}

// notShown prints counts of what only --details shows; it omits counts of 0.
func notShown(s *ui.Screen, parts ...string) {
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "0 ") })
	if len(parts) > 0 {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "Not shown: %s (--details)", strings.Join(parts, ", "))
	}
}
