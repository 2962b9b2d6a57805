package calls

import (
	"encoding/json"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// Headlines checks that the schema of each kind of JSON output has a headline, except the kinds
// in without, which gives the reason.
func Headlines(t *testing.T, documents map[string]any, without map[string]string) {
	for kind, doc := range documents {
		text, err := ui.Schema("fettle/"+kind+"/v1", doc)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		_, has := schema.Properties["headline"]
		if why, excepted := without[kind]; has == excepted {
			t.Errorf("%s has a headline: %v; excepted: %q", kind, has, why)
		}
	}
}
