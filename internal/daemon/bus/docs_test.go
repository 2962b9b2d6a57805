package bus

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestManual holds the manual's tables against the differences of the daemon and
// of its answers, which TestProtocol asserts.
func TestManual(t *testing.T) {
	var behaviour, answers strings.Builder
	behaviour.WriteString("| name | TuneD | what TuneD does | what fettle does | why |\n|---|---|---|---|---|\n")
	for _, d := range daemon.Differences {
		fmt.Fprintf(&behaviour, "| `%s` | %s | %s | %s | %s |\n", d.ID, d.Versions, root.Cell(d.TuneD), root.Cell(d.Fettle), root.Cell(d.Why))
	}
	answers.WriteString("| asked | what is different |\n|---|---|\n")
	for _, d := range differences {
		var asked []string
		for _, step := range strings.Split(d.steps, "\n") {
			if len(step) > 100 {
				step = step[:40] + "..."
			}
			asked = append(asked, "`"+strings.ReplaceAll(step, "|", `\|`)+"`")
		}
		fmt.Fprintf(&answers, "| %s | %s |\n", strings.Join(asked, "<br>"), root.Cell(d.why))
	}
	root.Manual(t, "daemon-tuned.md",
		root.Generated{Name: "differences", Text: behaviour.String()},
		root.Generated{Name: "answers", Text: answers.String()})
}
