package cli

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// uninstallAgent takes the agent from a node. The values of its profile go back without
// any cluster; its kubelet's settings, which may need a drain, only with one.
func (a *app) uninstallAgent(ctx context.Context, n *agent.Node, o agentOptions) error {
	n.Tell = func(text string) { a.screen.Say("%s", text) }
	out, err := n.Uninstall(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if out.Tx == 0 {
		a.screen.Say("nothing of the cluster's is in force on node %s", n.Name)
	} else {
		a.screen.Say("node %s has what it had before: transaction %d", n.Name, out.Tx)
	}
	kept, open, err := agent.Kept(n.Root)
	if err != nil || kept == "" && !open {
		return err
	}
	left := fmt.Sprintf("the kubelet of node %s keeps its settings %s (%s; the journal is %s)", n.Name, kept, node.DropIn, node.DefaultStateDir)
	if open {
		left = fmt.Sprintf("a change of the kubelet of node %s was cut off (the journal is %s)", n.Name, node.DefaultStateDir)
	}
	config, err := a.config()
	if err != nil {
		return ui.Hinted(ui.Partial, errors.New(left+", since giving them back may take a drain, for which the cluster is asked"),
			"the same command with --kubeconfig FILE, of an administrator, gives them back")
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	m, err := agent.NewMachine(n.Name, n.Root, o.unit, api, nil)
	if err != nil {
		return err
	}
	a.screen.Progress("%s: they are given back", left)
	r, err := m.Run(ctx, kubelet.Want{})
	switch {
	case err != nil:
		return ui.Exit(ui.Partial, fmt.Errorf("%s: %w", left, err))
	case r.Result == node.RolledBack:
		return ui.Exit(ui.RolledBack, fmt.Errorf("%s, as before: %s: %s", left, r.Step, r.Error))
	case r.Result == node.Incomplete:
		return ui.Exit(ui.Incomplete, fmt.Errorf("the kubelet of node %s runs neither with the settings that it had before fettle came nor with those since, and stays cordoned; the same command tries again: %s", n.Name, r.Error))
	}
	if err := m.Mark(ctx, ""); err != nil {
		return err
	}
	if err := m.Forget(); err != nil {
		return err
	}
	a.screen.Say("the kubelet of node %s has the settings that it had before", n.Name)
	return nil
}
