package cli

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/scenarios"
)

// ScenarioList is the JSON form of fettle load scenario list.
type ScenarioList struct {
	Schema    string            `json:"schema"` // fettle/scenarios/v1
	Headline  ui.Headline       `json:"headline"`
	Scenarios []ShippedScenario `json:"scenarios"`
}

// ShippedScenario describes a shipped scenario.
type ShippedScenario struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Changes bool     `json:"changes"` // objects on a server
	Servers []string `json:"servers"`
	Steps   []string `json:"steps"`
	// Source is the first comment of the file.
	Source string `json:"source"`
}

func loadScenarioListCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the shipped scenarios", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := shipped()
			if err != nil {
				return err
			}
			if a.data() {
				return a.result(list, nil)
			}
			printShipped(a.screen, list)
			return nil
		}}
}

func loadScenarioShowCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Print the file of a shipped scenario", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := fs.ReadFile(scenarios.FS, args[0]+".yaml")
			if err != nil {
				return ui.Hinted(ui.Usage, fmt.Errorf("no shipped scenario %q%s", args[0], internaltext.Suggest(args[0], loadcli.ShippedScenarios())), "fettle load scenario list shows the shipped scenarios")
			}
			_, err = a.screen.Out.Write(text)
			return err
		}}
}

// shipped describes the shipped scenarios.
func shipped() (*ScenarioList, error) {
	list := &ScenarioList{Schema: "fettle/scenarios/v1"}
	for _, name := range loadcli.ShippedScenarios() {
		text, err := fs.ReadFile(scenarios.FS, name+".yaml")
		if err != nil {
			return nil, err
		}
		// A secret of the environment is not needed to describe a scenario.
		s, err := scenario.Parse(name+".yaml", text, scenarios.FS.ReadFile, func(string) (string, bool) { return "", true })
		if err != nil {
			return nil, err
		}
		one := ShippedScenario{Name: name, Title: s.Title, Changes: s.Changes || s.Creates, Servers: []string{}, Steps: s.Steps(), Source: comment(string(text))}
		for _, server := range s.Servers {
			one.Servers = append(one.Servers, server.Name)
		}
		list.Scenarios = append(list.Scenarios, one)
	}
	list.Headline.Line("%s", list.Headline.Count("scenarios", len(list.Scenarios), "shipped scenario"))
	return list, nil
}

// comment returns the first lines of comment of a file as one text.
func comment(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		line, is := strings.CutPrefix(line, "#")
		if !is {
			break
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(slices.DeleteFunc(out, func(line string) bool { return line == "" }), " ")
}

func printShipped(s *ui.Screen, list *ScenarioList) {
	ui.PrintHeadline(s, &list.Headline)
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "name"}, {Head: "changes"}, {Head: "servers"}, {Head: "steps", Right: true}, {Head: "title", Cut: true}}}
	for _, one := range list.Scenarios {
		changes := "no"
		if one.Changes {
			changes = "yes"
		}
		g.Rows = append(g.Rows, []string{one.Name, changes, strings.Join(one.Servers, ", "), fmt.Sprint(len(one.Steps)), one.Title})
	}
	g.Write(s)
}
