package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/compare"
	"fettle.dev/fettle/internal/fact/irq"
	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/measure/balance"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/network"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/measure/trend"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/logs/export"
	"fettle.dev/fettle/internal/requests/puppetrun"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	internalupdate "fettle.dev/fettle/internal/update"
)

// documents maps the kinds of JSON output to their types.
var documents = map[string]any{
	"bench-disk":          disk.Evidence{},
	"bench-disk-plan":     disk.DryRun{},
	"bench-etcd":          etcd.Result{},
	"bench-network":       network.Result{},
	"bench-network-serve": network.Served{},
	"bench-memory":        memory.Result{},
	"bench-postgres":      postgres.Result{},
	"check":               findings.Audit{},
	"compare":             prove.Comparison{},
	"compliance":          ComplianceResult{},
	"confirm":             ConfirmResult{},
	"eject":               EjectResult{},
	"error":               cliutil.Failure{},
	"explain":             audit.Explanation{},
	"facts":               fact.Facts{},
	"facts-compare":       compare.Result{},
	"fix":                 FixResult{},
	"fleet":               findings.Fleet{},
	"history":             History{},
	"import":              ImportResult{},
	"irq":                 irq.Report{},
	"list":                ProfileList{},
	"logs":                logs.Report{},
	"logs-compare":        logs.Comparison{},
	"logs-export":         export.Summary{},
	"logs-puppet":         puppetrun.Runs{},
	"load-http":           load.Result{},
	"load-mqtt":           mqtt.Result{},
	"load-scenario":       scenario.Result{},
	"numa":                placement.View{},
	"numa-advice":         placement.Advice{},
	"numa-plan":           placement.Plan{},
	"numa-balance":        balance.Report{},
	"numa-processes":      placement.Processes{},
	"plan":                tune.Plan{},
	"plugins":             PluginList{},
	"power":               power.Report{},
	"postgres-tables":     PostgresTables{},
	"profile":             ShownProfile{},
	"run":                 RunResult{},
	"runs":                RunList{},
	"prove":               prove.Evidence{},
	"prune":               PruneResult{},
	"search":              search.Evidence{},
	"search-plan":         search.Plan{},
	"quiet":               quiet.Result{},
	"quiet-check":         quiet.Check{},
	"recommend":           RecommendResult{},
	"rules":               RuleList{},
	"rules-update":        internalupdate.Changes{},
	"scenario-undo":       scenario.Undone{},
	"scenarios":           ScenarioList{},
	"schedule":            ScheduleList{},
	"size":                sizing.Result{},
	"status":              tune.Status{},
	"trend":               trend.Report{},
	"tune":                TuneResult{},
	"undo":                UndoResult{},
	"version":             Version{},
	"verify":              tune.Verification{},
	"why":                 why.Why{},
}

func documentKinds() []string {
	var out []string
	for k := range documents {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func schemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema [KIND]", Short: "Print the JSON Schema of an output",
		Long: "Prints the JSON Schema of one kind of JSON output. Without KIND it lists the kinds.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, k := range documentKinds() {
					fmt.Fprintln(a.screen.Out, k)
				}
				return nil
			}
			doc, ok := documents[args[0]]
			if !ok {
				err := fmt.Errorf("unknown document kind %q%s", args[0], internaltext.Suggest(args[0], documentKinds()))
				if near := internaltext.Nearest(args[0], documentKinds()); near != "" {
					return ui.OtherWord(err, args[0], near)
				}
				return ui.Hinted(ui.Usage, err, "fettle schema lists all kinds")
			}
			text, err := ui.Schema("fettle/"+args[0]+"/v1", doc)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.screen.Out, "%s\n", text)
			return nil
		},
	}
}
