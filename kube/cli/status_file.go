package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/tuned"
)

// TunedPreview lists the profile of each node if the Tuned objects of a file were applied.
type TunedPreview struct {
	Schema    string      `json:"schema"` // fettle/tuned-preview/v1
	Headline  ui.Headline `json:"headline"`
	Namespace string      `json:"namespace"`
	// Management is the operator's managementState.
	Management tuned.ManagementState `json:"management_state"`
	Changed    int                   `json:"nodes_changed"`
	Nodes      []NodePreview         `json:"nodes"`
	// Objects are the file's objects with the operator's verdict.
	Objects []tuned.Object `json:"tuned_objects"`
}

// NodePreview is a node's present and future profile.
type NodePreview struct {
	Node string `json:"node"`
	// Now is the profile of the node's Profile object. Would is the profile after the change, or
	// Now for a held node. "" means none.
	Now   string `json:"now,omitempty"`
	Would string `json:"would,omitempty"`
	// Rule is a sentence that explains the decision.
	Rule     string         `json:"rule"`
	Decision tuned.Decision `json:"decision"`
}

// statusOfFile prints the profile of each node if a file were applied.
func (a *app) statusOfFile(ctx context.Context, d deciding, file string, names []string) error {
	data, file, err := readManifest(file)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	objects, err := tuned.Read(file, data)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	if len(objects.Tuneds) == 0 {
		return ui.Exit(ui.Usage, fmt.Errorf("%s: no Tuned object found", file))
	}
	namespace := a.namespaceOr(tuned.Namespace)
	for _, o := range objects.Tuneds {
		if o.Namespace != "" && o.Namespace != namespace {
			return ui.Instead(ui.Usage, fmt.Errorf("%s: Tuned %s is in namespace %s, but the operator reads namespace %s", file, o.Name, o.Namespace, namespace), "for an operator of that namespace", "--namespace="+o.Namespace)
		}
	}
	cluster, err := a.readCluster(ctx, d, objects.Tuneds)
	if err != nil {
		return err
	}
	now := nodestatus.Look(cluster)
	if len(names) > 0 {
		if err := only(&now, names); err != nil {
			return err
		}
	}
	doc := previewOf(&now, objects.Tuneds)
	refused := doc.refused()
	return a.show(doc, refused, func() {
		a.printPreview(doc)
		if refused == nil && doc.Changed > 0 && file != "-" {
			ui.PrintLine(a.screen, "to apply it:")
			ui.PrintCommand(a.screen, text.CommandLine([]string{"kubectl", "apply", "-f", file}))
		}
	})
}

// laidOver returns the cluster's objects, with those of a file added or replacing objects of the
// same name. It adds the object default if it is missing, like the operator.
func laidOver(has, over []tuned.Tuned) ([]tuned.Tuned, error) {
	named := func(name string) func(tuned.Tuned) bool { return func(t tuned.Tuned) bool { return t.Name == name } }
	for _, o := range over {
		has = append(slices.DeleteFunc(has, named(o.Name)), o)
	}
	if slices.ContainsFunc(has, named(tuned.DefaultName)) {
		return has, nil
	}
	own, err := defaultTuned()
	if err != nil {
		return nil, err
	}
	return append(has, *own), nil
}

func previewOf(now *nodestatus.Document, over []tuned.Tuned) TunedPreview {
	doc := TunedPreview{Schema: "fettle/tuned-preview/v1", Namespace: now.Namespace, Management: now.Management, Nodes: []NodePreview{}, Objects: []tuned.Object{}}
	for _, n := range now.Nodes {
		p := NodePreview{Node: n.Node, Now: n.Wanted, Rule: n.Decision.Why(), Decision: n.Decision}
		switch {
		case now.Management == tuned.Removed:
		case now.Management != tuned.Managed, n.Decision.State == tuned.Held:
			p.Would = p.Now
		case n.Decision.State == tuned.Decided:
			p.Would = n.Decision.Profile
		}
		if p.Would != p.Now {
			doc.Changed++
		}
		doc.Nodes = append(doc.Nodes, p)
	}
	for _, o := range now.Objects {
		if slices.ContainsFunc(over, func(t tuned.Tuned) bool { return t.Name == o.Name }) {
			doc.Objects = append(doc.Objects, o)
		}
	}
	doc.Headline = doc.headline()
	return doc
}

// headline counts the nodes that would change, the held nodes, and invalid objects.
func (p *TunedPreview) headline() (h ui.Headline) {
	held, invalid := 0, 0
	for _, n := range p.Nodes {
		if n.Decision.State == tuned.Held {
			held++
		}
	}
	for _, o := range p.Objects {
		if !o.Valid {
			invalid++
		}
	}
	line := fmt.Sprintf("%s: %s would get another profile", h.Count("nodes", len(p.Nodes), "node"), h.Count("nodes_changed", p.Changed, ""))
	if held > 0 {
		line += fmt.Sprintf(", %s would not get the profile of its rule", h.Count("nodes_held", held, ""))
	}
	h.Line("%s", line)
	if invalid > 0 {
		h.Line("✗ %s of %s would not be valid", h.Count("objects_invalid", invalid, ""), h.Count("objects", len(p.Objects), "Tuned object"))
	}
	return h
}

// refused returns an error if an object of the file is invalid or a node would be held.
func (p *TunedPreview) refused() error {
	for _, o := range p.Objects {
		if !o.Valid {
			return ui.Retry(ui.Refused, fmt.Errorf("Tuned %s would be invalid: %s", o.Name, o.Condition().Message), "correct the file")
		}
	}
	if slices.ContainsFunc(p.Nodes, func(n NodePreview) bool { return n.Decision.State == tuned.Held }) {
		return ui.Retry(ui.Refused, errors.New("some nodes would not get the profile of their rule"), "see the reason for each node below, and correct it")
	}
	return nil
}

func (a *app) printPreview(doc TunedPreview) {
	line := a.line
	ui.PrintHeadline(a.screen, &doc.Headline)
	g := ui.Grid{Columns: []ui.Column{{Head: "NODE"}, {Head: "NOW"}, {Head: "WOULD GET"}, {Head: "RULE", Below: true}}}
	for _, n := range doc.Nodes {
		g.Rows = append(g.Rows, []string{n.Node, dash(n.Now), dash(n.Would), n.Rule})
	}
	if len(g.Rows) > 0 {
		g.Write(a.screen)
	}
	if doc.Management != tuned.Managed {
		line("! managementState of Tuned %s is %s", tuned.DefaultName, cmp.Or(doc.Management, tuned.Managed))
	}
	for _, o := range doc.Objects {
		if c := o.Condition(); o.Valid && c.Message != "" {
			line("- Tuned %s: %s", o.Name, c.Message)
		}
	}
}
