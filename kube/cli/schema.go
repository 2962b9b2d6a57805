package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	hostaudit "fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/etcd"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/operator"
	"fettle.dev/fettle/kube/pod"
)

// documents maps each kind of JSON output to its type.
var documents = map[string]any{
	"check":               findings.Audit{},
	"cluster-load-plan":   LoadPlan{},
	"cluster-load-run":    LoadRun{},
	"cluster-load-status": LoadStatus{},
	"cluster-load-undo":   LoadUndo{},
	"cluster-load-mirror": LoadMirror{},
	"compare":             prove.Comparison{},
	"error":               cliutil.Failure{},
	"load-http":           load.Result{},
	"load-scenario":       scenario.Result{},
	"logs":                logs.Report{},
	"scenario-undo":       scenario.Undone{},
	"run":                 RunResult{},
	"etcd-defragment":     etcd.Result{},
	"explain":             hostaudit.Explanation{},
	"kubelet-plan":        kubelet.Plan{},
	"machine-health":      MachineHealth{},
	"node-history":        agent.History{},
	"node-status":         nodestatus.Document{},
	"node-values":         agent.Values{},
	"pod-admission":       pod.Explanation{},
	"pod-verify":          pod.Document{},
	"scale-plan":          ScalePlan{},
	"scale-run":           ScaleRun{},
	"tuned-preview":       TunedPreview{},
	"size":                sizing.Result{},
	"uninstall":           operator.Document{},
	"version":             Version{},
}

func schemaCommand(a *app) *cobra.Command {
	kinds := slices.Sorted(maps.Keys(documents))
	return &cobra.Command{
		Use: "schema [KIND]", Short: "Print the JSON Schema of an output",
		Long: "Prints the JSON Schema of one kind of JSON output. Without KIND it lists the kinds.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, k := range kinds {
					fmt.Fprintln(a.screen.Out, k)
				}
				return nil
			}
			doc, ok := documents[args[0]]
			if !ok {
				err := fmt.Errorf("unknown document kind %q%s", args[0], text.Suggest(args[0], kinds))
				if near := text.Nearest(args[0], kinds); near != "" {
					return ui.OtherWord(err, args[0], near)
				}
				return ui.Hinted(ui.Usage, err, "kubectl fettle schema lists all kinds")
			}
			schema, err := ui.Schema("fettle/"+args[0]+"/v1", doc)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.screen.Out, "%s\n", schema)
			return nil
		},
	}
}
