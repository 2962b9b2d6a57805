package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

func kubeletCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "kubelet", Short: "Plan changes of kubelet settings",
		Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var details bool
	plan := &cobra.Command{
		Use: "plan FILE", Short: "Show what KubeletConfig objects would change on nodes",
		Long: `Shows how the KubeletConfig and KubeletPool objects of FILE (- for standard input) would
change each kubelet. It reads the cluster's objects, nodes and pods, and the agents'
reports. It reads each kubelet's configuration through the API server (/configz). An
object of FILE replaces the cluster's object of the same name. Nothing is changed.

Exit code 4 if a change would be refused, 1 if the configuration of a kubelet could not
be read.`,
		Args: cobra.ExactArgs(1),
		RunE: a.reading(func(ctx context.Context, args []string) error { return a.kubeletPlan(ctx, args[0], details) }),
	}
	plan.Flags().BoolVar(&details, "details", false, "list all nodes of each pool")
	c.AddCommand(plan)
	return c
}

func (a *app) kubeletPlan(ctx context.Context, arg string, details bool) error {
	data, file, err := readManifest(arg)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	objects, err := kubelet.Read(file, data)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	cluster, openshift, err := a.readKubelets(ctx, objects)
	if errors.Is(err, errNoKubeconfig) {
		return ui.Retry(ui.Usage, err, "name a kubeconfig file with --kubeconfig; without a cluster, kubectl fettle check --root DIR audits the KubeletConfig objects of a must-gather or of a directory of manifests", "--kubeconfig=/etc/kubernetes/admin.conf")
	}
	if err != nil {
		return err
	}
	plan := kubelet.Of(cluster)
	if openshift {
		plan.Notes = append(plan.Notes, "this cluster has MachineConfigPools: OpenShift's Machine Config Operator applies KubeletConfig objects, with a reboot per node; fettle does not")
	}
	plan.Headline = kubeletHeadline(&plan)
	err = planned(&plan)
	return a.show(plan, err, func() {
		a.printKubeletPlan(&plan, details)
		if err == nil && plan.Headline.Figures["nodes_changed"] > 0 && file == arg {
			ui.Heading(a.screen, "Roll it out with")
			ui.PrintCommand(a.screen, text.CommandLine([]string{"kubectl", "apply", "-f", file}))
		}
	})
}

// planned returns an error for a plan with a refusal, or with unreadable kubelets.
func planned(plan *kubelet.Plan) error {
	refused, unread, all := false, 0, 0
	for _, p := range plan.Pools {
		refused = refused || p.Refused != ""
		for _, n := range p.Nodes {
			all++
			if n.Unread {
				unread++
			} else if n.Problem != "" {
				refused = true
			}
		}
	}
	const advice = "see the plan for each node's problem"
	switch {
	case refused:
		return ui.Retry(ui.Refused, errors.New("the plan contains changes that would be refused"), "correct the objects that the plan names")
	case unread == 0:
		return nil
	case unread == all:
		return ui.Hinted(ui.Failed, errors.New("nothing could be determined: cannot read the kubelet of any node"), advice)
	}
	return ui.Hinted(ui.Failed, text.Errorf("incomplete: %d of %d kubelets could not be read", unread, all), advice)
}

// readKubelets reads the cluster's kubelets, nodes and settings; openshift reports whether it has
// OpenShift's pools.
func (a *app) readKubelets(ctx context.Context, objects kubelet.Objects) (c kubelet.Cluster, openshift bool, err error) {
	config, err := a.config()
	if err != nil {
		return c, false, err
	}
	config.QPS, config.Burst = 50, 100
	api, err := cluster.Client(within(ctx, config), cluster.Scheme(kubelet.AddToScheme, core.AddToScheme))
	if err != nil {
		return c, false, err
	}
	ask, err := kubernetes.NewForConfig(config)
	if err != nil {
		return c, false, err
	}
	var configs kubelet.KubeletConfigList
	var pools kubelet.KubeletPoolList
	var kubelets kubelet.NodeKubeletList
	theirs := unstructured.UnstructuredList{}
	theirs.SetGroupVersionKind(kubelet.MachineConfigPools)
	served := map[client.ObjectList]bool{}
	for _, list := range []client.ObjectList{&configs, &pools, &kubelets, &theirs} {
		err := api.List(ctx, list)
		if err != nil && !meta.IsNoMatchError(err) {
			return c, false, err
		}
		served[list] = err == nil
	}
	created(configs.Items, objects.Configs, metav1.NewTime(time.Now()))
	c.Configs = over(configs.Items, objects.Configs, func(k kubelet.KubeletConfig) string { return k.Name })
	retry := map[string]string{} // applying a file without the annotation keeps the cluster's
	for _, p := range pools.Items {
		retry[p.Name] = p.Annotations[kubelet.RetryAnnotation]
	}
	for _, p := range over(pools.Items, objects.Pools, func(p kubelet.KubeletPool) string { return p.Name }) {
		c.Pools = append(c.Pools, kubelet.PoolPreview{Name: p.Name, Labels: p.Labels, NodeSelector: p.Spec.NodeSelector, MaxUnavailable: p.Spec.MaxUnavailable, Paused: p.Spec.Paused, Retry: cmp.Or(p.Annotations[kubelet.RetryAnnotation], retry[p.Name]), Removed: p.Spec.ManagementState == kubelet.Removed})
	}
	for _, p := range theirs.Items {
		// Both kinds have these fields under the same names.
		var same kubelet.KubeletPool
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": p.Object["metadata"], "spec": p.Object["spec"]}, &same); err != nil {
			return c, false, fmt.Errorf("MachineConfigPool %s: %w", p.GetName(), err)
		}
		c.Pools = append(c.Pools, kubelet.PoolPreview{Name: p.GetName(), Labels: p.GetLabels(), NodeSelector: same.Spec.NodeSelector, MaxUnavailable: same.Spec.MaxUnavailable, Paused: same.Spec.Paused, Theirs: true})
	}
	c.Nodes, err = readNodes(ctx, api, ask)
	for i := range c.Nodes {
		if k := slices.IndexFunc(kubelets.Items, func(k kubelet.NodeKubelet) bool { return k.Name == c.Nodes[i].Name }); k >= 0 {
			c.Nodes[i].Kubelet = &kubelets.Items[k]
		}
	}
	return c, served[&theirs], err
}

// created sets the creation times of a file's objects, because the later of two objects takes
// precedence. An object that exists in the cluster keeps its time there. A new object gets now,
// whatever its file contains.
func created(cluster, file []kubelet.KubeletConfig, now metav1.Time) {
	for i := range file {
		file[i].CreationTimestamp = now
		for _, k := range cluster {
			if k.Name == file[i].Name {
				file[i].CreationTimestamp = k.CreationTimestamp
			}
		}
	}
}

// over returns the cluster's objects, with those of a file added or replacing objects of the same
// name.
func over[T any](cluster, file []T, name func(T) string) []T {
	out := slices.DeleteFunc(cluster, func(o T) bool {
		return slices.ContainsFunc(file, func(f T) bool { return name(f) == name(o) })
	})
	return append(out, file...)
}

// asked is the number of kubelets queried concurrently.
const asked = 16

func readNodes(ctx context.Context, api client.Reader, ask kubernetes.Interface) ([]kubelet.NodePreview, error) {
	var nodes core.NodeList
	var pods core.PodList
	for _, list := range []client.ObjectList{&nodes, &pods} {
		if err := api.List(ctx, list); err != nil {
			return nil, err
		}
	}
	on := map[string][]core.Pod{}
	for _, p := range pods.Items {
		if !cluster.Ended(&p) {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	out := make([]kubelet.NodePreview, len(nodes.Items))
	var all sync.WaitGroup
	slots := make(chan struct{}, asked)
	for i, n := range nodes.Items {
		out[i] = kubelet.NodePreview{Node: n, Pods: on[n.Name]}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			runs, err := (&node.RunningKubelet{Client: ask, Node: n.Name}).Configz(ctx)
			if err != nil {
				out[i].Unread = unread(&n, err)
				return
			}
			out[i].Runs = runs
		})
	}
	all.Wait()
	return out, ctx.Err()
}

// unread returns why a kubelet did not answer through the API server.
func unread(n *core.Node, err error) string {
	switch lacks := cluster.NoWay(n); {
	case apierrors.IsForbidden(err):
		return "allow this user to get nodes/proxy: " + err.Error()
	case lacks != "":
		return lacks
	case timedOut(err):
		return "no answer in time"
	}
	return err.Error()
}
