package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/operator"
	"fettle.dev/fettle/kube/tuned"
)

// Interval between checks of an uninstall, and time after which it reports a lack of progress.
const (
	uninstallEvery = 2 * time.Second
	uninstallQuiet = 2 * time.Minute
)

type uninstallOptions struct {
	yes     bool
	timeout time.Duration
}

func uninstallCommand(a *app) *cobra.Command {
	var o uninstallOptions
	c := &cobra.Command{
		Use: "uninstall", Short: "Restore all nodes before fettle is deleted",
		Long: `Restores all nodes that fettle has changed, after asking. Values of profiles are
restored at once. Kubelets are restored on at most maxUnavailable nodes of each pool at a
time, and nodes are drained where needed. The command waits until the last node is restored. Then delete
fettle:

    kubectl delete -k kube/deploy
    helm uninstall fettle (if it was installed with Helm)

The command sets managementState to Removed in the Tuned object default and in all
KubeletPools. KubeletConfig objects stay unchanged. After Ctrl-C the operator and the
agents continue to restore the nodes; run the same call to wait again. To cancel, set
managementState to Managed: the nodes get their settings again.

Exit code 1 if a node failed or the time is over, 4 if something blocks the removal or
the answer was not yes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.uninstall(c.Context(), o)
		},
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().DurationVar(&o.timeout, "timeout", 2*time.Hour, "how long to wait for the nodes, such as 2h; each drain may take ten minutes")
	cliutil.Between(c.Flags(), "timeout", time.Second, 7*24*time.Hour, 2*time.Hour)
	return c
}

func (a *app) uninstall(ctx context.Context, o uninstallOptions) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	api, err := cluster.Client(config, cluster.Scheme(tuned.AddToScheme, kubelet.AddToScheme))
	if err != nil {
		return err
	}
	r := &operator.Removal{
		API: api, Namespace: a.namespaceOr(tuned.Namespace), Interval: uninstallEvery, Quiet: uninstallQuiet,
		Say: func(format string, args ...any) { a.screen.Progress(format, args...) },
	}
	doc, err := a.uninstallAll(ctx, r, o)
	if doc == nil {
		return err
	}
	h := &doc.Headline
	switch {
	case doc.State == operator.Done:
		h.Line("all nodes restored. Now delete the manifests: kubectl delete -k kube/deploy, or your overlay, or the Helm release")
	default:
		h.Line("%s: %s", doc.State, doc.Words())
	}
	if a.data() {
		return a.result(doc, err)
	}
	if err == nil && doc.State == operator.Done {
		ui.PrintHeadline(a.screen, h)
		ui.PrintLine(a.screen, "now delete the applied manifests, or your overlay (with Helm: helm uninstall):")
		ui.PrintCommand(a.screen, "kubectl delete -k kube/deploy")
	}
	return err
}

// uninstallAll restores the nodes and waits. It returns the last observed state, or nil without
// confirmation.
func (a *app) uninstallAll(ctx context.Context, r *operator.Removal, o uninstallOptions) (*operator.Document, error) {
	doc, err := r.Look(ctx)
	if err != nil || doc.State == operator.Done {
		return doc, err
	}
	if doc.State == operator.RemovalStopped && !doc.Asked {
		return doc, ui.Hinted(ui.Refused, fmt.Errorf("nothing changed: %s", strings.Join(doc.Stopped, "; ")), "see kubectl get nodekubelets, and kubectl get kubeletpools -o yaml for details")
	}
	if !o.yes {
		if !a.data() {
			a.printUninstall(doc)
		}
		if err := a.confirm(ctx, "Restore all nodes?"); err != nil {
			return nil, err
		}
	}
	if err := r.Ask(ctx); err != nil {
		return doc, err
	}
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	last, err := r.Wait(waiting)
	if last != nil {
		doc = last
	}
	const again = "run the same call to continue; kubectl get nodekubelets shows the nodes"
	switch {
	case ctx.Err() != nil:
		return doc, ui.Exit(ui.Interrupted, errors.New("interrupted; operator and agents continue to restore nodes. To stop them, set managementState to Managed in Tuned default and the KubeletPools"))
	case errors.Is(err, context.DeadlineExceeded):
		return doc, ui.Hinted(ui.Failed, fmt.Errorf("not restored after %s: %s", o.timeout, doc.Words()), again)
	case err != nil:
		return doc, err
	case doc.State == operator.RemovalStopped:
		return doc, ui.Hinted(ui.Failed, fmt.Errorf("some nodes are not fully restored: %s", strings.Join(doc.Stopped, "; ")), again)
	}
	return doc, nil
}

// printUninstall prints what will be restored.
func (a *app) printUninstall(d *operator.Document) {
	s := a.screen
	line := a.line
	line("profiles of %s, at once", text.Count(len(d.Profiles), "node"))
	if len(d.Kubelets) == 0 {
		return
	}
	line("kubelet settings of %s: each kubelet is restarted, if needed after a drain", text.Count(len(d.Kubelets), "node"))
	g := ui.Grid{Columns: ui.Columns("POOL", "NODES", "AT ONCE")}
	left := len(d.Kubelets)
	for _, p := range d.Pools {
		g.Rows = append(g.Rows, []string{p.Name, thousands(p.Nodes), p.MaxUnavailable})
		left -= p.Nodes
	}
	if left > 0 {
		g.Rows = append(g.Rows, []string{"- (no pool)", thousands(left), "1"})
	}
	g.Write(s)
}
