package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/operator"
	"fettle.dev/fettle/kube/tuned"
)

// Intervals at which an uninstall looks, and after which it reports that nothing changes.
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
		Long: `Shows what fettle has changed on the nodes, asks, and has operator and agents restore it:
values of profiles at once, settings of kubelets one after the other by the slots of their
pools, with drains where needed. It waits until the last node is done. After that this
loses nothing:

    kubectl delete -k kube/deploy

It sets managementState of the Tuned object default and of all KubeletPools to Removed;
KubeletConfig objects stay as they are. After Ctrl-C nodes continue to be restored, and
the same call waits again; with managementState Managed they get their settings again.

Exit code 1 if a node failed or the time is over, 4 if something is in the way or the
answer was not yes.`,
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
	api, err := client.New(config, client.Options{Scheme: cluster.Scheme(tuned.AddToScheme, kubelet.AddToScheme)})
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
		h.Line("no node has anything of fettle's any more")
	default:
		h.Line("%s: %s", doc.State, doc.Words())
	}
	if a.data() {
		return a.result(doc, err)
	}
	if err == nil && doc.State == operator.Done {
		ui.PrintHeadline(a.screen, h)
		ui.PrintLine(a.screen, "now delete what was applied, or your overlay:")
		ui.PrintCommand(a.screen, "kubectl delete -k kube/deploy")
	}
	return err
}

// uninstallAll restores the nodes and waits. It returns the last state seen, or nil if the user
// did not confirm.
func (a *app) uninstallAll(ctx context.Context, r *operator.Removal, o uninstallOptions) (*operator.Document, error) {
	doc, err := r.Look(ctx)
	if err != nil || doc.State == operator.Done {
		return doc, err
	}
	if doc.State == operator.RemovalStopped && !doc.Asked {
		return doc, ui.Hinted(ui.Refused, fmt.Errorf("nothing is changed: %s", strings.Join(doc.Stopped, "; ")), "kubectl get nodekubelets shows the nodes; kubectl get kubeletpools -o yaml says more")
	}
	if !o.yes {
		if !a.data() {
			a.printUninstall(doc)
		}
		if err := a.confirm(ctx, "Give all of it back?"); err != nil {
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
	const again = "the same call goes on; kubectl get nodekubelets shows the nodes"
	switch {
	case ctx.Err() != nil:
		return doc, ui.Exit(ui.Interrupted, errors.New("interrupted: operator and agents go on giving back; managementState Managed of Tuned default and of the KubeletPools ends that"))
	case errors.Is(err, context.DeadlineExceeded):
		return doc, ui.Hinted(ui.Failed, fmt.Errorf("after %s nodes still have something of fettle's: %s", o.timeout, doc.Words()), again)
	case err != nil:
		return doc, err
	case doc.State == operator.RemovalStopped:
		return doc, ui.Hinted(ui.Failed, fmt.Errorf("what nodes have is not all given back: %s", strings.Join(doc.Stopped, "; ")), again)
	}
	return doc, nil
}

// printUninstall prints what is to be restored.
func (a *app) printUninstall(d *operator.Document) {
	s := a.screen
	line := a.line
	line("profiles of %s, at once", text.Count(len(d.Profiles), "node"))
	if len(d.Kubelets) == 0 {
		return
	}
	line("kubelet settings of %s: each kubelet is started again, where it is needed after a drain", text.Count(len(d.Kubelets), "node"))
	g := ui.Grid{Columns: ui.Columns("POOL", "NODES", "AT ONCE")}
	left := len(d.Kubelets)
	for _, p := range d.Pools {
		g.Rows = append(g.Rows, []string{p.Name, fmt.Sprint(p.Nodes), p.MaxUnavailable})
		left -= p.Nodes
	}
	if left > 0 {
		g.Rows = append(g.Rows, []string{"- (no pool)", fmt.Sprint(left), "1"})
	}
	g.Write(s)
}
