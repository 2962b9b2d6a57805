package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/ui"
)

// ProfileList is the JSON form of fettle list.
type ProfileList struct {
	Schema   string        `json:"schema"` // fettle/list/v1
	Headline ui.Headline   `json:"headline"`
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
		Use: "list [profiles|plugins]", Short: "List the profiles, or the plug-ins and their options",
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"profiles", "plugins", "plug-ins"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "profiles" {
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
	g := ui.Grid{Columns: []ui.Column{{}, {Head: "profile"}, {Head: "from"}, {Head: "summary", Cut: true}}}
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
		g.Rows = append(g.Rows, []string{mark, p.Name, from, p.Summary})
	}
	doc.Headline = headlineOfProfiles(doc.Profiles)
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	fmt.Fprintln(a.screen.Out)
	g.Write(a.screen)
	return nil
}

func headlineOfProfiles(all []ListProfile) (h ui.Headline) {
	var active []string
	own, failed := 0, 0
	for _, p := range all {
		if p.Active {
			active = append(active, p.Name)
		}
		if p.Builtin {
			own++
		}
		if p.Error != "" {
			failed++
		}
	}
	line := h.Count("profiles", len(all), "profile") + ", " + h.Count("own", own, "") + " built into fettle"
	if failed > 0 {
		line += ", " + h.Count("unreadable", failed, "") + " cannot be read"
	}
	h.Line("%s; active: %s", line, cmp.Or(strings.Join(active, " "), "none"))
	return h
}

// PluginList is the JSON form of fettle list plugins.
type PluginList struct {
	Schema   string       `json:"schema"` // fettle/plugins/v1
	Headline ui.Headline  `json:"headline"`
	Plugins  []ListPlugin `json:"plugins"`
}

// ListPlugin describes one plug-in and its options.
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
	options := 0
	g := ui.Grid{Columns: []ui.Column{{Head: "plug-in"}, {Head: "option"}, {Head: "default"}, {Head: "what it does", Cut: true}}}
	for _, p := range table.All {
		lp := ListPlugin{Name: p.Name, Doc: p.Doc, Devices: p.Devices != nil, Options: []ListOption{}}
		g.Rows = append(g.Rows, []string{p.Name, "", "", p.Doc})
		for _, o := range p.Options {
			lp.Options = append(lp.Options, ListOption{o.Name, o.Default, o.Doc})
			g.Rows = append(g.Rows, []string{"", o.Name, o.Default, o.Doc})
		}
		doc.Plugins = append(doc.Plugins, lp)
		options += len(lp.Options)
	}
	doc.Headline.Line("%s with %s", doc.Headline.Count("plug_ins", len(doc.Plugins), "plug-in"), doc.Headline.Count("options", options, "option"))
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	fmt.Fprintln(a.screen.Out)
	g.Write(a.screen)
	return nil
}

// ShownProfile is the JSON form of fettle show.
type ShownProfile struct {
	Schema   string           `json:"schema"` // fettle/profile/v1
	Headline ui.Headline      `json:"headline"`
	Profile  *profile.Profile `json:"profile"`
}

func showCommand(a *app) *cobra.Command {
	var details bool
	c := &cobra.Command{
		Use: "show PROFILE...", Short: "Show a profile merged with its includes",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.show(c.Context(), args, details) },
	}
	c.Flags().BoolVar(&details, "details", false, "also explain why sections were left out")
	return c
}

func (a *app) show(ctx context.Context, names []string, details bool) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	p, err := m.Load(ctx, false, names...)
	if err != nil {
		return err
	}
	left := refusals(p)
	for i := range p.Units {
		if pl, ok := plugin.Find(m.Engine.Plugins, p.Units[i].Type); ok {
			pl.ReadUnit(p.Units[i], func(pos profile.Pos, text string) {
				p.Warnings = append(p.Warnings, profile.Warning{Pos: pos, Text: text})
			})
		}
	}
	doc := ShownProfile{"fettle/profile/v1", p.Headline(shortRefusals(left)), p}
	if a.data() {
		a.sayRefusals(left)
		return ui.Data(a.screen, doc, ui.Done)
	}
	ui.PrintHeadline(a.screen, &doc.Headline)
	profile.Print(a.screen, p)
	if details {
		a.printRefusals(left)
	}
	for _, w := range p.Warnings {
		a.screen.Say("%s", w)
	}
	return nil
}
