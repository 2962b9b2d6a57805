package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	health     string
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
		Long: `Applies the node's Profile object through fettle's journal, and reports the result in
the object's status. The agent runs in a pod on each node. The pod mounts the node's
root file system, and uses the node's network, process and IPC namespaces.

The applied values remain when the agent ends. The agent restores the former values when
the node no longer has a Profile object, or when the agent's DaemonSet (--daemonset) is
deleted.

If the node has no agent, run this command with --uninstall on the node to restore it.
To restore the kubelet's settings too, name an administrator's --kubeconfig, because
this may need a drain. Exit code 7 if only the profile's values were restored.

In clusters with KubeletPools the agent also changes the kubelet's settings, when the
node's NodeKubelet object allows it.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.agent(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "name of the node (default $NODE_NAME)")
	f.StringVar(&o.root, "root", "/host", "directory where the node's root file system is mounted")
	f.StringVar(&o.allow, "allow", "", "features that profiles may use, comma-separated: "+strings.Join(kinds, ", "))
	f.DurationVar(&o.interval, "interval", time.Minute, "interval between checks of the applied values, such as 1m; drift is reported, not corrected")
	f.StringVar(&o.unit, "kubelet-unit", agent.DefaultUnit, "systemd unit of the node's kubelet")
	f.StringVar(&o.set, "daemonset", "", "name of the agent's DaemonSet; the node is restored when this DaemonSet or its namespace is deleted")
	cliutil.Between(f, "interval", time.Second, 24*time.Hour, time.Minute)
	cliutil.Reads(f, "allow", "service", readsAllow)
	metricFlags(f, &o.metrics, "0")
	f.StringVar(&o.health, "health-address", "0", "address of /healthz and /readyz, HOST:PORT; 0 turns both off")
	cliutil.Reads(f, "health-address", "127.0.0.1:9544", readsAddress)
	f.BoolVar(&o.debug, "debug", false, "log the requests to the API server")
	f.BoolVar(&o.uninstall, "uninstall", false, "restore the node and its kubelet, remove the agent's files, and exit")
	return c
}

// readsAddress validates HOST:PORT, or 0.
func readsAddress(word string) error {
	if word == "0" {
		return nil
	}
	_, _, err := net.SplitHostPort(word)
	return err
}

func (a *app) agent(ctx context.Context, o agentOptions) error {
	allow, err := tuned.ParseAllow(o.allow)
	if err != nil {
		return err
	}
	switch {
	case o.node == "":
		return ui.Retry(ui.Usage, errors.New("node name missing"), "name the node with --node, or set NODE_NAME from spec.nodeName", "--node=worker-1")
	case o.metrics.Check() != nil:
		return ui.Exit(ui.Usage, o.metrics.Check())
	}
	if st, err := os.Stat(o.root); err != nil || !st.IsDir() {
		return ui.Instead(ui.Usage, fmt.Errorf("--root %s is not a directory", o.root), "mount the node's root file system and name its directory; to use this machine's, name /", "--root=/")
	}
	apart, err := host.ForeignNamespaces(o.root)
	if err != nil {
		return err
	}
	if len(apart) > 0 {
		return ui.Hinted(ui.Refused, fmt.Errorf("this process runs outside the node's namespaces (%s), so its changes would not reach the node", strings.Join(apart, ", ")),
			"run the agent in a pod with hostNetwork, hostPID and hostIPC, as kubectl apply -k kube/deploy does")
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
			log.Error("cannot serve metrics", "address", o.metrics.Address, "error", err)
		}
	}()
	health := agent.NewHealth(o.interval)
	if o.health != "0" {
		go func() {
			if err := health.Serve(ctx, o.health); err != nil {
				log.Error("cannot answer the kubelet's probes", "address", o.health, "error", err)
			}
		}()
	}
	err = agent.Run(ctx, agent.Options{
		Node: n, Config: config, Namespace: a.namespaceOr(tuned.Namespace), Set: o.set, Interval: o.interval, Log: log, Metrics: metrics.Registry, Health: health,
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
	left := fmt.Sprintf("the kubelet of node %s still has fettle's settings %s (drop-in %s, journal %s)", n.Name, kept, node.DropIn, node.DefaultStateDir)
	if open {
		left = fmt.Sprintf("an interrupted change of the kubelet of node %s was found (journal %s)", n.Name, node.DefaultStateDir)
	}
	config, err := a.config()
	if err != nil {
		return ui.Hinted(ui.Partial, errors.New(left+"; not restored, because a drain may be needed, which requires access to the cluster"),
			"to restore the kubelet, run the same command with an administrator's --kubeconfig FILE")
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	m, err := agent.NewMachine(n.Name, n.Root, o.unit, api, nil)
	if err != nil {
		return err
	}
	a.screen.Progress("%s; restoring the kubelet", left)
	r, err := m.Run(ctx, kubelet.Want{})
	switch {
	case err != nil:
		return ui.Exit(ui.Partial, fmt.Errorf("%s: %w", left, err))
	case r.Result == node.RolledBack:
		return ui.Exit(ui.RolledBack, fmt.Errorf("%s; restoring the kubelet failed and was rolled back: %s: %s", left, r.Step, r.Error))
	case r.Result == node.Incomplete:
		return ui.Exit(ui.Incomplete, fmt.Errorf("the kubelet of node %s has neither its original settings nor fettle's; the node stays cordoned: %s; run the same command to try again", n.Name, r.Error))
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
