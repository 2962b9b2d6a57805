package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/ui"
)

// ProfileList is the JSON form of fettle list.
type ProfileList struct {
	Schema   string        `json:"schema"` // fettle/list/v1
	Profiles []ListProfile `json:"profiles"`
}

// ListProfile is one profile of a list.
type ListProfile struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Path    string `json:"path"`
	Builtin bool   `json:"builtin"` // one of fettle's own
	Active  bool   `json:"active"`
	Error   string `json:"error,omitempty"`
}

func listCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list [plugins]", Short: "List the profiles, or the plug-ins and their options",
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"profiles", "plugins"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "plugins" {
				return a.listPlugins()
			}
			return a.list(c.Context())
		},
	}
	return c
}

func (a *app) list(ctx context.Context) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	sums, err := m.Loader.List()
	if err != nil {
		return err
	}
	active := map[string]bool{}
	if s, err := m.ReadStateIfAllowed(); err == nil {
		if _, sel, err := m.InForce(ctx, s); err == nil && sel != nil {
			for _, n := range sel.Profiles {
				active[n] = true
			}
		}
	}
	doc := ProfileList{Schema: "fettle/list/v1", Profiles: []ListProfile{}}
	g := ui.Grid{Columns: ui.Columns("", "profile", "summary", "from")}
	for _, s := range sums {
		p := ListProfile{Name: s.Name, Summary: s.Summary, Path: s.Path, Builtin: s.Builtin, Active: active[s.Name]}
		mark, from := "", "installed"
		if p.Active {
			mark = "*"
		}
		if s.Builtin {
			from = "fettle"
		}
		if s.Err != nil {
			p.Error = s.Err.Error()
			p.Summary = "cannot be read: " + p.Error
		}
		doc.Profiles = append(doc.Profiles, p)
		g.Rows = append(g.Rows, []string{mark, p.Name, p.Summary, from})
	}
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	g.Write(a.screen)
	return nil
}

// PluginList is the JSON form of fettle list plugins.
type PluginList struct {
	Schema  string       `json:"schema"` // fettle/plugins/v1
	Plugins []ListPlugin `json:"plugins"`
}

// ListPlugin is one plug-in with its options.
type ListPlugin struct {
	Name    string       `json:"name"`
	Doc     string       `json:"doc"`
	Devices bool         `json:"devices"` // accepts devices=
	Options []ListOption `json:"options"`
}

// ListOption is one option of a plug-in.
type ListOption struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"`
	Doc     string `json:"doc"`
}

func (a *app) listPlugins() error {
	doc := PluginList{Schema: "fettle/plugins/v1", Plugins: []ListPlugin{}}
	g := ui.Grid{Columns: ui.Columns("plug-in", "option", "default", "what it does")}
	for _, p := range table.All {
		lp := ListPlugin{Name: p.Name, Doc: p.Doc, Devices: p.Devices != nil, Options: []ListOption{}}
		g.Rows = append(g.Rows, []string{p.Name, "", "", p.Doc})
		for _, o := range p.Options {
			lp.Options = append(lp.Options, ListOption{o.Name, o.Default, o.Doc})
			g.Rows = append(g.Rows, []string{"", o.Name, o.Default, o.Doc})
		}
		doc.Plugins = append(doc.Plugins, lp)
	}
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	g.Write(a.screen)
	return nil
}

// ShownProfile is the JSON form of fettle show.
type ShownProfile struct {
	Schema  string           `json:"schema"` // fettle/profile/v1
	Profile *profile.Profile `json:"profile"`
}

func showCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show PROFILE...", Short: "Show a profile merged with its includes",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.show(c.Context(), args) },
	}
}

func (a *app) show(ctx context.Context, names []string) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	p, err := m.Load(ctx, false, names...)
	if err != nil {
		return err
	}
	a.sayRefusals(p)
	for i := range p.Units {
		if pl, ok := plugin.Find(m.Engine.Plugins, p.Units[i].Type); ok {
			pl.ReadUnit(p.Units[i], func(pos profile.Pos, text string) {
				p.Warnings = append(p.Warnings, profile.Warning{Pos: pos, Text: text})
			})
		}
	}
	if a.data() {
		return ui.Data(a.screen, ShownProfile{"fettle/profile/v1", p}, ui.Done)
	}
	fmt.Fprintf(a.screen.Out, "%s: %s\n", p.Name(), ui.Printable(p.Summary))
	profile.Print(a.screen, p)
	for _, w := range p.Warnings {
		a.screen.Say("%s", w)
	}
	return nil
}
