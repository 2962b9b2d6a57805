package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/ui"
)

// TestAnsweredAudit: what check --on prints of a host's answer is what check prints there.
func TestAnsweredAudit(t *testing.T) {
	for _, machine := range recordedMachines(t) {
		var answer, shown, want strings.Builder
		Main("test", []string{"check", "--root", machine, "--output", "json"}, &answer, io.Discard)
		Main("test", []string{"check", "--root", machine}, &want, io.Discard)
		a, err := answeredAudit("web1", []byte(answer.String()))
		if err != nil {
			t.Fatal(err)
		}
		a.From, a.Copied, a.On = machine, true, ""
		findings.Print(&ui.Screen{Out: &shown, Format: ui.Table}, a, findings.View{})
		if shown.String() != want.String() {
			t.Errorf("%s: check --on prints\n%s\nand check itself\n%s", machine, shown.String(), want.String())
		}
	}
}

// TestAnsweredAuditInvalid: a diagnosis that cannot be printed is an error.
func TestAnsweredAuditInvalid(t *testing.T) {
	for slow, valid := range map[string]bool{
		`{"reason":"cpu-steal","causes":[],"sample":{}}`: false, `{"reason":"","causes":[]}`: false, `{"reason":"a","causes":[{"id":"b"}],"sample":{}}`: false,
		`{"reason":"a","causes":[{"id":"a"}],"sample":{}}`: true, `null`: true,
	} {
		answer := `{"schema":"fettle/check/v1","findings":[{"id":"A","state":"pass"}],"slow":` + slow + `}`
		if !json.Valid([]byte(answer)) {
			t.Fatal(answer)
		}
		if _, err := answeredAudit("web1", []byte(answer)); (err == nil) != valid {
			t.Errorf("%s: %v", slow, err)
		}
	}
}
