package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/ui"
)

// TestRunOfCluster tests that the command that removes the objects of a run is one of the program
// that made the record, as the pods of a cluster created them.
func TestRunOfCluster(t *testing.T) {
	body, err := json.Marshal(&scenario.Result{Schema: scenario.Schema, Word: scenario.Measured, Text: "all 3 hosts did all steps", Scenario: "register", Hosts: 3, Repeat: 1, RunID: "20261130-080000-4711ab", Created: &scenario.Created{Intended: 3, Known: 3}, Whole: scenario.Figures{Runs: 3, Latency: engine.Times{N: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"kubectl fettle load scenario register.yaml --generators 8": "\n    kubectl fettle load scenario undo 20261130-080000-4711ab --namespace shop --image fettle:1\n",
		"fettle load scenario register.yaml":                        "\n    fettle load scenario undo 20261130-080000-4711ab\n",
	} {
		store := evidence.Store{Dir: t.TempDir()}
		run := &evidence.Run{Kind: scenario.Kind, Command: command, Version: "1", Verdict: "done", Body: body, Machine: evidence.Machine{Settings: map[string]string{evidence.GeneratorNamespace: "shop", evidence.GeneratorImage: "fettle:1"}}}
		if err := store.Put(run); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		if code := Main("test", []string{"runs", "show", filepath.Join(store.Dir, run.ID+".json")}, &out, &said); code != ui.Done || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %q is not in\n%s%s", command, code, want, &out, &said)
		}
	}
}
