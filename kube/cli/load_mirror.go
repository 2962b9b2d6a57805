package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
)

// LoadMirror is the result of load mirror.
type LoadMirror struct {
	Schema     string        `json:"schema"` // fettle/cluster-load-mirror/v1
	Headline   ui.Headline   `json:"headline"`
	File       string        `json:"file"`
	Namespaces int           `json:"namespaces"`
	Objects    int           `json:"objects"`
	Spaces     []MirrorSpace `json:"spaces"`
	Left       []load.Left   `json:"not_mirrored"`
	Notes      []string      `json:"notes,omitempty"`
}

// MirrorSpace describes namespaces with identical content.
type MirrorSpace struct {
	Namespaces int           `json:"namespaces"`
	Kinds      []MirrorCount `json:"kinds"` // in each namespace
}

// MirrorCount is the number of objects of a kind, and of their distinct variants.
type MirrorCount struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Sorts int    `json:"sorts"`
}

func (a *app) loadMirrorCommand(o *loadOptions) *cobra.Command {
	c := &cobra.Command{
		Use: "mirror [NAMESPACE]...", Short: "Write a load that imitates existing namespaces",
		Long: `Writes load files into --write DIR that imitate existing namespaces: the same number of
objects and pods, and the same object sizes. Without NAMESPACE it reads all namespaces
except those of the system. Names, values, images, commands and selectors are not
copied. Of secrets only the metadata is read. The cluster is not changed.`,
		RunE: func(c *cobra.Command, args []string) error { return a.loadMirror(c.Context(), o, args) },
	}
	c.Flags().StringVar(&o.write, "write", "", "directory for the load; existing files are not overwritten")
	c.Flags().StringVar(&o.image, "image", load.Pause, "image of all containers of the load; the default image only sleeps")
	return c
}

func (a *app) loadMirror(ctx context.Context, o *loadOptions, namespaces []string) error {
	if o.write == "" {
		return ui.Retry(ui.Usage, errors.New("--write DIR missing; name the directory for the load"), "", "--write=load")
	}
	if a.namespace() != "" {
		namespaces = append(namespaces, a.namespace())
	}
	cluster, err := a.loadCluster(o, 1)
	if err != nil {
		return err
	}
	m, err := load.ReadWorkloads(ctx, cluster.Server, load.MirrorOptions{Namespaces: namespaces, Image: o.image})
	if err != nil {
		return loadExit(err)
	}
	file, err := m.Write(o.write)
	switch {
	case errors.Is(err, load.ErrNothingToMirror):
		return err
	case errors.Is(err, fs.ErrExist):
		return ui.Instead(ui.Refused, err, "name another directory; existing files are not overwritten", "--write="+o.write+".new")
	case err != nil:
		return err
	}
	doc := newLoadMirror(m, file)
	// The printed result is read from the written file.
	l, err := load.Read(file, load.ReadOptions{})
	if err != nil {
		return fmt.Errorf("cannot read back the written configuration: %w", err)
	}
	p, err := plan.Compile(ctx, l, "plan", nil)
	if err != nil {
		return fmt.Errorf("cannot read back the written load: %w", err)
	}
	if want := doc.Objects + doc.Namespaces; p.Len() != want {
		return text.Errorf("%s creates %d objects, but %d were counted", file, p.Len(), want)
	}
	return a.show(doc, nil, func() { a.printMirror(doc) })
}

func newLoadMirror(m *load.Mirror, file string) *LoadMirror {
	doc := &LoadMirror{Schema: "fettle/cluster-load-mirror/v1", File: file, Spaces: []MirrorSpace{}, Left: append([]load.Left{}, m.Left...), Notes: m.Notes}
	for _, s := range m.Spaces {
		x := MirrorSpace{Namespaces: s.Count, Kinds: []MirrorCount{}}
		for _, g := range s.Groups {
			if n := len(x.Kinds); n == 0 || x.Kinds[n-1].Kind != g.Kind {
				x.Kinds = append(x.Kinds, MirrorCount{Kind: g.Kind})
			}
			k := &x.Kinds[len(x.Kinds)-1]
			k.Count += g.Count
			k.Sorts++
			doc.Objects += s.Count * g.Count
		}
		doc.Namespaces += s.Count
		doc.Spaces = append(doc.Spaces, x)
	}
	h := &doc.Headline
	h.Line("%s with %s in %s", h.Count("namespaces", doc.Namespaces, "namespace"), h.Count("objects", doc.Objects, "object"), file)
	left := 0
	for _, l := range doc.Left {
		left += l.Count
	}
	if left > 0 {
		h.Line("%s %s not mirrored", h.Count("not_mirrored", left, "object"), either(left, "is", "are"))
	}
	return doc
}

func (a *app) printMirror(d *LoadMirror) {
	ui.PrintHeadline(a.screen, &d.Headline)
	fmt.Fprintln(a.screen.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "namespaces", Right: true}, {Head: "each has", Below: true}}}
	for _, s := range d.Spaces {
		var words []string
		for _, k := range s.Kinds {
			each := text.Sprintf("%d %s", k.Count, k.Kind)
			if k.Sorts > 1 {
				each += text.Sprintf(" of %d sorts", k.Sorts)
			}
			words = append(words, each)
		}
		if words == nil {
			words = []string{"nothing"}
		}
		g.Rows = append(g.Rows, []string{thousands(s.Namespaces), strings.Join(words, ", ")})
	}
	g.Write(a.screen)
	if len(d.Left) > 0 {
		fmt.Fprintln(a.screen.Out)
		g = ui.Grid{Columns: []ui.Column{{Head: "not mirrored"}, {Head: "number", Right: true}, {Head: "because", Below: true}}}
		for _, l := range d.Left {
			g.Rows = append(g.Rows, []string{l.Kind, thousands(l.Count), l.Why})
		}
		g.Write(a.screen)
	}
	for _, n := range d.Notes {
		a.screen.Say("%s", n)
	}
	ui.PrintLine(a.screen, "to check whether the load fits into this cluster:")
	ui.PrintCommand(a.screen, text.CommandLine([]string{"kubectl", "fettle", "load", "plan", d.File}))
}
