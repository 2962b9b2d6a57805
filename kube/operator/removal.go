// removal restores all nodes' values from before fettle. It requests the removal in the objects
// that the operator follows, and waits for the nodes' reports. Operator and agents do the work with
// the usual limits and drains, so the removal must come before their deletion.

package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// States of a removal.
const (
	Done           = "done"    // no node has settings of fettle any more
	RemovalWaiting = "waiting" // nodes still have settings
	RemovalStopped = "stopped" // waits for an administrator
)

// Document is the progress of a removal.
type Document struct {
	Schema string `json:"schema"` // fettle/uninstall/v1
	// Headline is set by kubectl fettle uninstall.
	Headline ui.Headline `json:"headline"`
	State    string      `json:"state"`
	// Asked reports whether the objects already request the removal.
	Asked bool `json:"asked"`
	// Profiles are the nodes with a Profile object, Kubelets those with kubelet settings of fettle.
	Profiles []string  `json:"profiles"`
	Kubelets []Kubelet `json:"kubelets"`
	// Pools are the pools of these nodes.
	Pools []Pool `json:"pools"`
	// Unseen are pools whose change the operator has not processed yet, so it may still start nodes
	// with the former request.
	Unseen []string `json:"unseen"`
	// Stopped are the reasons that nodes cannot be restored, with advice.
	Stopped []string `json:"stopped"`
}

// Kubelet is a kubelet that has settings of fettle, or is changing.
type Kubelet struct {
	Node string `json:"node"`
	Pool string `json:"pool,omitempty"`
	// Has identifies the settings.
	Has      string `json:"has,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Changing bool   `json:"changing"`
	// Why is the agent's reason for not continuing, or "".
	Why string `json:"why,omitempty"`
}

// Pool is a pool whose nodes still have settings.
type Pool struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// MaxUnavailable is the pool's maximum number of unavailable nodes, as its object has it.
	MaxUnavailable string `json:"max_unavailable"`
}

// Removal removes fettle's changes from a cluster.
type Removal struct {
	// API reads and patches Tuned and KubeletPool objects, and lists Profile and NodeKubelet
	// objects and the metadata of nodes.
	API client.Client
	// Namespace is the namespace of the Tuned and Profile objects.
	Namespace string
	// Interval is the time between two looks. Quiet is when a lack of progress is reported.
	Interval, Quiet time.Duration
	// Say is called with progress messages.
	Say func(format string, args ...any)
}

// objects are the objects that were read.
type objects struct {
	managed  *tuned.Tuned // object default, or nil
	profiles []string
	pools    []kubelet.KubeletPool
	kubelets []kubelet.NodeKubelet
	marked   map[string]string // settings annotation by node name
}

// removalNode is the kind of nodes. Only their metadata is read.
var removalNode = schema.GroupVersionKind{Version: "v1", Kind: "NodeList"}

// Look reads the objects and returns the progress.
func (r *Removal) Look(ctx context.Context) (*Document, error) {
	o, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	return o.document(), nil
}

func (r *Removal) read(ctx context.Context) (*objects, error) {
	o := &objects{marked: map[string]string{}}
	list := func(l client.ObjectList, opts ...client.ListOption) error {
		if err := r.API.List(ctx, l, opts...); err != nil && !meta.IsNoMatchError(err) {
			return err
		}
		return nil
	}
	var tuneds tuned.TunedList
	var profiles tuned.ProfileList
	var pools kubelet.KubeletPoolList
	var kubelets kubelet.NodeKubeletList
	var nodes metav1.PartialObjectMetadataList
	nodes.SetGroupVersionKind(removalNode)
	for _, l := range []client.ObjectList{&tuneds, &profiles} {
		if err := list(l, client.InNamespace(r.Namespace)); err != nil {
			return nil, err
		}
	}
	for _, l := range []client.ObjectList{&pools, &kubelets, &nodes} {
		if err := list(l); err != nil {
			return nil, err
		}
	}
	for i := range tuneds.Items {
		if tuneds.Items[i].Name == tuned.DefaultName {
			o.managed = &tuneds.Items[i]
		}
	}
	for _, p := range profiles.Items {
		o.profiles = append(o.profiles, p.Name)
	}
	slices.Sort(o.profiles)
	o.pools, o.kubelets = pools.Items, kubelets.Items
	for _, n := range nodes.Items {
		if has := n.Annotations[kubelet.SettingsAnnotation]; has != "" {
			o.marked[n.Name] = has
		}
	}
	return o, nil
}

// document derives the progress from the objects.
func (o *objects) document() *Document {
	d := &Document{Schema: "fettle/uninstall/v1", State: RemovalWaiting, Profiles: append([]string{}, o.profiles...), Kubelets: []Kubelet{}, Pools: []Pool{}, Unseen: []string{}, Stopped: []string{}}
	d.Asked = (o.managed == nil || o.managed.Spec.ManagementState == tuned.Removed) && !slices.ContainsFunc(o.pools, kept)
	known := map[string]bool{}
	for _, k := range o.kubelets {
		s := k.Status
		if s.Has == "" && !k.Changing() && s.Phase != kubelet.ConditionBroken && o.marked[k.Name] == "" {
			continue
		}
		known[k.Name] = true
		has := cmp.Or(s.Has, o.marked[k.Name])
		d.Kubelets = append(d.Kubelets, Kubelet{Node: k.Name, Pool: k.Spec.Pool, Has: has, Phase: string(s.Phase), Changing: k.Changing(), Why: cmp.Or(s.Waiting, s.Message)})
	}
	for name, has := range o.marked {
		if !known[name] {
			d.Kubelets = append(d.Kubelets, Kubelet{Node: name, Has: has, Why: "it has no NodeKubelet object yet: the operator creates the object, then the node's agent restores the settings"})
		}
	}
	slices.SortFunc(d.Kubelets, func(a, b Kubelet) int { return cmp.Compare(a.Node, b.Node) })
	for i := range o.pools {
		p := &o.pools[i]
		if seen := p.Status.ObservedGeneration; seen != 0 && seen != p.Generation {
			d.Unseen = append(d.Unseen, p.Name)
		}
		d.pool(p)
	}
	switch {
	case d.Asked && len(d.Profiles) == 0 && len(d.Kubelets) == 0 && len(d.Unseen) == 0:
		d.State = Done
	case len(d.Stopped) > 0:
		d.State = RemovalStopped
	}
	return d
}

func kept(p kubelet.KubeletPool) bool {
	return p.Spec.ManagementState != kubelet.Removed
}

// pool counts the nodes of a pool, and records what stops it.
func (d *Document) pool(p *kubelet.KubeletPool) {
	out := Pool{Name: p.Name, MaxUnavailable: "1"}
	for _, k := range d.Kubelets {
		if k.Pool == p.Name {
			out.Nodes++
		}
	}
	if out.Nodes == 0 {
		return
	}
	if m := p.Spec.MaxUnavailable; m != nil {
		out.MaxUnavailable = m.String()
	}
	d.Pools = append(d.Pools, out)
	stop := func(format string, args ...any) {
		d.Stopped = append(d.Stopped, "pool "+p.Name+" "+fmt.Sprintf(format, args...))
	}
	if p.Spec.Paused {
		stop(`is paused; to resume: kubectl patch kubeletpool %s --type merge -p '{"spec":{"paused":false}}'`, p.Name)
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, kubelet.Updating); c != nil && c.Reason == ReportOnly {
		stop("does not belong to the operator: %s", c.Message)
	}
	if kept(*p) || p.Status.ObservedGeneration != p.Generation {
		return // its status is about the former request
	}
	// A node that has been silent for long may report again.
	if c := meta.FindStatusCondition(p.Status.Conditions, kubelet.Degraded); c != nil && c.Status == metav1.ConditionTrue && c.Reason != kubelet.Stuck {
		stop("is blocked: %s", c.Message)
	}
}

// Ask changes the objects so that they request the removal.
func (r *Removal) Ask(ctx context.Context) error {
	o, err := r.read(ctx)
	if err != nil {
		return err
	}
	if t := o.managed; t != nil && t.Spec.ManagementState != tuned.Removed {
		to := t.DeepCopy()
		to.Spec.ManagementState = tuned.Removed
		if err := r.API.Patch(ctx, to, client.MergeFrom(t)); err != nil {
			return fmt.Errorf("Tuned %s: %w", t.Name, err)
		}
	}
	for i := range o.pools {
		p := &o.pools[i]
		if !kept(*p) {
			continue
		}
		to := p.DeepCopy()
		to.Spec.ManagementState = kubelet.Removed
		if err := r.API.Patch(ctx, to, client.MergeFrom(p)); err != nil {
			return fmt.Errorf("KubeletPool %s: %w", p.Name, err)
		}
	}
	return nil
}

// Wait waits until the removal is done or stopped. It retries failed requests, and returns the
// error of ctx.
func (r *Removal) Wait(ctx context.Context) (*Document, error) {
	var last *Document
	said, since, quiet := "", time.Now(), false
	for {
		d, err := r.Look(ctx)
		words := ""
		if err == nil {
			if last = d; d.State != RemovalWaiting {
				return d, nil
			}
			words = d.Words()
		} else if ctx.Err() == nil {
			words = "cannot query the cluster: " + err.Error()
		}
		switch {
		case words != "" && words != said:
			said, since, quiet = words, time.Now(), false
			r.Say("%s", words)
		case time.Since(since) > r.Quiet && !quiet:
			quiet = true
			r.Say("no progress for %s; check that operator and agents run: kubectl -n %s get pods", r.Quiet, r.Namespace)
		}
		if host.Sleep(ctx, r.Interval) != nil {
			return last, ctx.Err()
		}
	}
}

// named is the maximum number of nodes in a sentence.
const named = 5

// Words describe the remaining work in one sentence.
func (d *Document) Words() string {
	var parts, changing, why []string
	for _, k := range d.Kubelets {
		if k.Changing {
			changing = append(changing, k.Node)
		}
		if k.Why != "" {
			why = append(why, k.Node+": "+k.Why)
		}
	}
	if n := len(d.Profiles); n > 0 {
		parts = append(parts, fmt.Sprintf("profiles of %s (%s)", internaltext.Count(n, "node"), cluster.First(d.Profiles, named)))
	}
	if n := len(d.Kubelets); n > 0 {
		text := "kubelet settings of " + internaltext.Count(n, "node")
		if len(changing) > 0 {
			text += ", now changing: " + cluster.First(changing, named)
		}
		parts = append(parts, text)
	}
	if len(d.Unseen) > 0 {
		parts = append(parts, "waiting for the operator to handle pools "+cluster.First(d.Unseen, named))
	}
	if len(parts) == 0 {
		return "all nodes restored"
	}
	text := "left: " + strings.Join(parts, "; ")
	if len(why) > 0 {
		text += "; " + cluster.First(why, named)
	}
	return text
}
