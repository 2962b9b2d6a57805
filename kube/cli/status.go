package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/operator"
	"fettle.dev/fettle/kube/tuned"
)

// maxValues limits the values per node, and the nodes per sentence.
const maxValues = 5

// kindsHint is the advice for creating the kinds Tuned and Profile.
const kindsHint = "create them with kubectl apply -f kube/deploy/kinds/plain (not on OpenShift)"

func statusCommand(a *app) *cobra.Command {
	var d deciding
	var file string
	var details bool
	c := &cobra.Command{
		Use: "status [NODE]...", Short: "Show the requested and the active profile of each node",
		Long: `Shows the requested and the active profile of each node, the rule that chose it, and
values that are not in force. For named nodes it also shows the last switches of
profiles, from the node's journal.

If the agent of a node is not running, the agent's last report is shown, and the node
does not count as ok. If the operator has not reported the rule of a node, this program
evaluates the rules itself. Then give --allow and --pod-labels the operator's values.

With --file it adds the Tuned objects of FILE (- for standard input) and shows which
profile each node would get. An object of FILE replaces the cluster's object of the same
name. Nothing is changed. Exit code 4 if an object of FILE is invalid, or if a node
would not get the profile of its rule.`,
		RunE: a.reading(func(ctx context.Context, names []string) error {
			if file != "" {
				return a.statusOfFile(ctx, d, file, names)
			}
			return a.status(ctx, d, names, details)
		}),
		Args: cobra.ArbitraryArgs,
	}
	d.flags(c)
	c.Flags().BoolVar(&details, "details", false, "list all nodes and warnings")
	c.Flags().StringVarP(&file, "file", "f", "", "file with Tuned objects: show which profile each node would get (- for standard input)")
	return c
}

func (a *app) status(ctx context.Context, d deciding, names []string, details bool) error {
	cluster, err := a.readCluster(ctx, d, nil)
	if err != nil {
		return err
	}
	doc := nodestatus.Look(cluster)
	if doc.AgentsUnknown != "" {
		a.screen.Say("unknown whether agents run: %s", doc.AgentsUnknown)
	}
	if len(names) > 0 {
		if err := only(&doc, names); err != nil {
			return err
		}
	}
	doc.Headline = statusHeadline(&doc)
	return a.show(doc, nil, func() { a.printStatus(&doc, len(names) > 0, details) })
}

// readCluster reads all data for status. over are objects that replace the cluster's, or nil. If
// over is set, the cluster need not have the kinds.
func (a *app) readCluster(ctx context.Context, d deciding, over []tuned.Tuned) (nodestatus.Cluster, error) {
	out := nodestatus.Cluster{Namespace: a.namespaceOr(tuned.Namespace)}
	var err error
	if out.Options, err = d.options(); err != nil {
		return out, err
	}
	config, err := a.config()
	if err != nil {
		return out, err
	}
	api, err := cluster.Client(within(ctx, config), operator.Scheme())
	if err != nil {
		return out, err
	}
	var tuneds tuned.TunedList
	var profiles tuned.ProfileList
	for _, list := range []client.ObjectList{&tuneds, &profiles} {
		if err := api.List(ctx, list, client.InNamespace(out.Namespace)); meta.IsNoMatchError(err) {
			if len(over) > 0 {
				break
			}
			return out, ui.Hinted(ui.Failed, operator.ErrNotServed, kindsHint)
		} else if err != nil {
			return out, err
		}
	}
	if len(over) > 0 {
		if tuneds.Items, err = laidOver(tuneds.Items, over); err != nil {
			return out, err
		}
	}
	if len(tuneds.Items) == 0 {
		if err := a.noTuneds(ctx, api, out.Namespace); err != nil {
			return out, err
		}
	}
	for i := range tuneds.Items {
		out.Tuneds = append(out.Tuneds, &tuneds.Items[i])
	}
	out.Profiles = profiles.Items
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := api.List(ctx, &nodes); err != nil {
		return out, err
	}
	pods, err := a.pods(ctx, api, d)
	if err != nil {
		return out, err
	}
	for _, n := range nodes.Items {
		out.Nodes = append(out.Nodes, tuned.RecommendedNode{Name: n.Name, Labels: n.Labels, Pods: pods[n.Name]})
	}
	pools := unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(kubelet.MachineConfigPool)
	if err := api.List(ctx, &pools); err != nil && !meta.IsNoMatchError(err) {
		return out, err
	}
	out.Pools = operator.Pools(pools.Items)
	return out, seeAgents(ctx, api, &out)
}

// seeAgents reads the agents' pods, if the user may list them.
func seeAgents(ctx context.Context, api client.Reader, c *nodestatus.Cluster) error {
	var pods corev1.PodList
	err := api.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels(nodestatus.AgentSelector))
	if apierrors.IsForbidden(err) {
		c.AgentsUnknown = fmt.Sprintf("allow this user to list pods in %s", c.Namespace)
		return nil
	}
	if err != nil {
		return err
	}
	c.Agents = nodestatus.Agents(pods.Items)
	return nil
}

// noTuneds reports that a namespace has no Tuned objects. If the namespace does not exist, it
// returns an error; without the right to read namespaces it assumes that it exists.
func (a *app) noTuneds(ctx context.Context, api client.Reader, namespace string) error {
	var n metav1.PartialObjectMetadata
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := api.Get(ctx, client.ObjectKey{Name: namespace}, &n); apierrors.IsNotFound(err) {
		if a.namespace() != "" {
			return ui.Without(fmt.Errorf("namespace %s not found; Tuned objects are read from %s unless -n names another", namespace, tuned.Namespace), "--namespace")
		}
		return ui.Hinted(ui.Failed, fmt.Errorf("namespace %s of the Tuned objects not found", namespace), "choose another namespace with -n, or create it: kubectl apply -f kube/deploy/kinds/plain")
	}
	a.screen.Say("no Tuned object in %s, so no rule can choose a profile", namespace)
	return nil
}

// pods returns each node's pods, if rules may use pod labels.
func (a *app) pods(ctx context.Context, api client.Reader, d deciding) (map[string][]tuned.Pod, error) {
	out := map[string][]tuned.Pod{}
	if !d.podLabels {
		return out, nil
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !cluster.Ended(p) {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], tuned.Pod{Name: p.Namespace + "/" + p.Name, Labels: p.Labels})
		}
	}
	return out, nil
}

// only removes all but the named nodes.
func only(doc *nodestatus.Document, names []string) error {
	byName := map[string]nodestatus.Node{}
	for _, n := range doc.Nodes {
		byName[n.Node] = n
	}
	doc.Nodes, doc.Counts, doc.Stray = []nodestatus.Node{}, map[nodestatus.State]int{}, []string{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		n, ok := byName[name]
		if !ok {
			return ui.Hinted(ui.Usage, fmt.Errorf("no node is named %q", name), "kubectl get nodes lists all nodes")
		}
		doc.Nodes = append(doc.Nodes, n)
		doc.Counts[n.State]++
	}
	return nil
}

// ties returns notes about rules of equal priority with different profiles.
func ties(n *nodestatus.Node) (texts []string) {
	for _, note := range n.Decision.Notes {
		if note.Reason == tuned.Tie {
			texts = append(texts, note.Text)
		}
	}
	return texts
}

// absent returns a sentence if a node's agent does not run.
func absent(n *nodestatus.Node) []string {
	if text := n.Absent(); text != "" {
		return []string{text}
	}
	return nil
}

// together merges equal sentences about nodes into one with the nodes' names.
func together(nodes []nodestatus.Node, said func(*nodestatus.Node) []string) []string {
	var texts []string
	on := map[string][]string{}
	for i := range nodes {
		for _, message := range said(&nodes[i]) {
			if on[message] == nil {
				texts = append(texts, message)
			}
			on[message] = append(on[message], nodes[i].Node)
		}
	}
	for i, message := range texts {
		texts[i] = fmt.Sprintf("node %s: %s", cluster.First(on[message], maxValues), message)
	}
	return texts
}

// printHistory prints the nodes' profile switches.
func (a *app) printHistory(nodes []nodestatus.Node) {
	g := ui.Grid{Columns: []ui.Column{{Head: "node"}, {Head: "since"}, {Head: "from"}, {Head: "to"}, {Head: "by", Optional: true}, {Head: "why", Below: true}}}
	for _, n := range nodes {
		for _, x := range n.History {
			to := dash(x.To)
			if x.To == x.From {
				to += " (its content has changed)"
			}
			g.Rows = append(g.Rows, []string{n.Node, x.Time.UTC().Format("2006-01-02 15:04:05Z"), dash(x.From), to, x.By, x.Why})
		}
	}
	section(a.screen, "Last switches", &g)
}

// dash returns s, or "-" if it is empty.
func dash(s string) string { return cmp.Or(s, "-") }
