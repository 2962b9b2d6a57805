package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
	"fettle.dev/fettle/kube/tuned"
)

type agentOptions struct {
	node, root string
	set        string
	metrics    cluster.Options
	allow      string
	interval   time.Duration
	debug      bool
	uninstall  bool
	unit       string
}

func agentCommand(a *app) *cobra.Command {
	var o agentOptions
	var kinds []string
	for _, k := range tuned.Kinds {
		kinds = append(kinds, string(k.Kind))
	}
	c := &cobra.Command{
		Use: "agent", Short: "Run the agent of a node (runs in the cluster)", Args: cobra.NoArgs,
		Long: `Applies the Profile object of its node through fettle's journal, and reports the result in
the object's status. It runs in a pod on each node, with the node's root mounted and its
network, process and IPC namespaces. Values stay when the agent ends. They are restored
when the node has no profile any more, or the agent's DaemonSet is deleted (--daemonset).

To restore a node without an agent, run it on the node with --uninstall. This also
restores the kubelet's settings, with a drain if needed. That needs an administrator's
--kubeconfig. Exit code 7 if only values were restored.

In clusters with KubeletPools the agent also changes the kubelet's settings, when the
node's NodeKubelet object allows it.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.agent(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "name of the node (default $NODE_NAME)")
	f.StringVar(&o.root, "root", "/host", "directory at which the root of the node is mounted")
	f.StringVar(&o.allow, "allow", "", "allow profiles to use: "+strings.Join(kinds, ", "))
	f.DurationVar(&o.interval, "interval", time.Minute, "how often values are verified, such as 1m; drift is reported, not corrected")
	f.StringVar(&o.unit, "kubelet-unit", agent.DefaultUnit, "systemd unit of the node's kubelet")
	f.StringVar(&o.set, "daemonset", "", "name of the agent's DaemonSet; when it or its namespace is deleted, the node is restored")
	cliutil.Between(f, "interval", time.Second, 24*time.Hour, time.Minute)
	cliutil.Reads(f, "allow", "service", readsAllow)
	metricFlags(f, &o.metrics, "0")
	f.BoolVar(&o.debug, "debug", false, "log the requests to the API server")
	f.BoolVar(&o.uninstall, "uninstall", false, "restore the node and its kubelet, remove the agent's files, and exit")
	return c
}

func (a *app) agent(ctx context.Context, o agentOptions) error {
	allow, err := tuned.ParseAllow(o.allow)
	if err != nil {
		return err
	}
	switch {
	case o.node == "":
		return ui.Retry(ui.Usage, errors.New("node name missing"), "name it with --node, or set NODE_NAME from spec.nodeName", "--node=worker-1")
	case o.metrics.Check() != nil:
		return ui.Exit(ui.Usage, o.metrics.Check())
	}
	if st, err := os.Stat(o.root); err != nil || !st.IsDir() {
		return ui.Instead(ui.Usage, fmt.Errorf("--root %s is not a directory", o.root), "mount the node's root file system and name it; / is this machine", "--root=/")
	}
	apart, err := host.ForeignNamespaces(o.root)
	if err != nil {
		return err
	}
	if len(apart) > 0 {
		return ui.Hinted(ui.Refused, fmt.Errorf("this process runs outside the node's namespaces (%s), so its changes would not reach the node", strings.Join(apart, ", ")),
			"run it with hostNetwork, hostPID and hostIPC, as kubectl apply -k kube/deploy does")
	}
	n := &agent.Node{Name: o.node, Root: o.root, Allow: allow}
	if o.uninstall {
		return a.uninstallAgent(ctx, n, o)
	}
	config, err := a.config()
	if err != nil {
		return err
	}
	l := logTo(a.screen.Err, o.debug)
	log := slog.New(logr.ToSlogHandler(l))
	kubelet, err := kubeletOptions(o, config, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- agent.RunKubelet(ctx, kubelet)
	}()
	go func() {
		// The agent tunes the node even if it cannot serve metrics.
		if err := cluster.Serve(ctx, config, o.metrics, l); err != nil {
			log.Error("no metrics are served", "address", o.metrics.Address, "error", err)
		}
	}()
	err = agent.Run(ctx, agent.Options{
		Node: n, Config: config, Namespace: a.namespaceOr(tuned.Namespace), Set: o.set, Interval: o.interval, Log: log, Metrics: metrics.Registry,
	})
	cancel()
	return errors.Join(err, <-ended)
}

// kubeletOptions returns the options of the agent's kubelet part, which runs independently of the
// profile part.
func kubeletOptions(o agentOptions, config *rest.Config, log *slog.Logger) (agent.KubeletOptions, error) {
	objects, err := client.NewWithWatch(config, client.Options{Scheme: cluster.Scheme(kubelet.AddToScheme)})
	if err != nil {
		return agent.KubeletOptions{}, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return agent.KubeletOptions{}, err
	}
	direct, err := node.NewDirect(config)
	if err != nil {
		return agent.KubeletOptions{}, err
	}
	m, err := agent.NewMachine(o.node, o.root, o.unit, api, direct)
	if err != nil {
		return agent.KubeletOptions{}, err
	}
	return agent.KubeletOptions{Node: o.node, Visitor: m, Client: objects, Interval: o.interval, Log: log}, nil
}

// uninstallAgent removes the agent from a node. It restores the profile's values without a cluster.
// The kubelet's settings need one, because restoring them may need a drain.
func (a *app) uninstallAgent(ctx context.Context, n *agent.Node, o agentOptions) error {
	n.Tell = func(text string) { a.screen.Say("%s", text) }
	out, err := n.Uninstall(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if out.Tx == 0 {
		a.screen.Say("no cluster profile is active on node %s", n.Name)
	} else {
		a.screen.Say("node %s restored: transaction %d", n.Name, out.Tx)
	}
	kept, open, err := agent.Kept(n.Root)
	if err != nil || kept == "" && !open {
		return err
	}
	left := fmt.Sprintf("the kubelet of node %s keeps its settings %s (%s; the journal is %s)", n.Name, kept, node.DropIn, node.DefaultStateDir)
	if open {
		left = fmt.Sprintf("an interrupted change of the kubelet of node %s was found (journal %s)", n.Name, node.DefaultStateDir)
	}
	config, err := a.config()
	if err != nil {
		return ui.Hinted(ui.Partial, errors.New(left+"; not restored, because that may need a drain, which goes through the cluster"),
			"to restore it, run the same command with an administrator's --kubeconfig FILE")
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	m, err := agent.NewMachine(n.Name, n.Root, o.unit, api, nil)
	if err != nil {
		return err
	}
	a.screen.Progress("%s; restoring it", left)
	r, err := m.Run(ctx, kubelet.Want{})
	switch {
	case err != nil:
		return ui.Exit(ui.Partial, fmt.Errorf("%s: %w", left, err))
	case r.Result == node.RolledBack:
		return ui.Exit(ui.RolledBack, fmt.Errorf("%s; restoring it failed and was rolled back: %s: %s", left, r.Step, r.Error))
	case r.Result == node.Incomplete:
		return ui.Exit(ui.Incomplete, fmt.Errorf("the kubelet of node %s has neither its original settings nor fettle's; the node stays cordoned. Run the same command to try again: %s", n.Name, r.Error))
	}
	if err := m.Mark(ctx, ""); err != nil {
		return err
	}
	if err := m.Forget(); err != nil {
		return err
	}
	a.screen.Say("kubelet of node %s: original settings restored", n.Name)
	return nil
}
