package cli

import (
	"encoding/json"
	"strings"
	"testing"

	internaltext "fettle.dev/fettle/internal/text"
)

// rawCommands are those of programs whose work a verb of fettle does: a rule names the verb.
var rawCommands = internaltext.LazyRegexp(`\b(fio --|fio -|dd if=|hdparm -[tT]|pgbench -|etcdctl check perf|sysbench |storage-benchmark \S*/|iperf3 -)`)

// A rule that cannot be answered by reading says which fact is missing and what brings
// it; and none sends its reader to another program where fettle has a verb.
func TestRulesNameFettle(t *testing.T) {
	named := map[string]bool{}
	for _, r := range loadCatalogue(t).Rules() {
		if r.Reminder && len(r.Missing) < 20 {
			t.Errorf("%s: %s reminds without saying which fact is missing", r.At, r.ID)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if found := rawCommands().FindString(string(text)); found != "" {
			t.Errorf("%s: %s prints %q", r.At, r.ID, found)
		}
		for _, verb := range []string{"fettle bench", "fettle load", "fettle prove", "fettle logs"} {
			if strings.Contains(string(text), verb) {
				named[verb] = true
			}
		}
	}
	if len(named) < 4 {
		t.Errorf("rules name only %v", named)
	}
}
