package cli

import (
	"bytes"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/measure/runpage"
	"fettle.dev/fettle/internal/testkit/calls"
)

// withoutHeadline has the kinds of documents without a headline, and why.
var withoutHeadline = map[string]string{
	"bench-disk": inRun, "bench-etcd": inRun, "bench-memory": inRun, "bench-network": inRun, "bench-postgres": inRun, "load-http": inRun, "load-mqtt": inRun, "load-scenario": inRun, "prove": inRun, "search": inRun,
	"error":   "the message is the answer",
	"version": "one line",
}

const inRun = "the body of a run; the document of the run has it"

// TestDocumentsHaveHeadlines: each kind of JSON output has a headline in its schema, unless the
// table says why not.
func TestDocumentsHaveHeadlines(t *testing.T) {
	calls.Headlines(t, documents, withoutHeadline)
	for kind, doc := range documents {
		why := withoutHeadline[kind]
		if _, is := reflect.New(reflect.TypeOf(doc)).Interface().(runpage.Result); is != (why == inRun) {
			t.Errorf("%s is the result of a run: %v; excepted: %q", kind, is, why)
		}
	}
}

// Reasons that a verb is not called by TestVerbsHaveHeadlines.
const (
	ofRuns   = "TestRunHeadlines shows its result"
	changes  = "changes this machine; the scripts call it"
	noResult = "prints no result of its own: "
)

// headlineCalls has for each verb a call on a recorded machine, or in parentheses the reason
// for leaving it out.
var headlineCalls = map[string]string{
	"bench disk": "(" + ofRuns, "bench etcd": "(" + ofRuns, "bench memory": "(" + ofRuns, "bench network": "(" + ofRuns, "bench postgres": "(" + ofRuns, "load http": "(" + ofRuns, "load mqtt": "(" + ofRuns, "load scenario": "(" + ofRuns, "load scenario list": "load scenario list", "load scenario show": "(" + noResult + "the file itself", "load scenario undo": "(" + changes,
	"prove": "(" + ofRuns, "search": "(" + ofRuns, "runs compare": "(" + ofRuns, "runs list": "(" + ofRuns, "runs prune": "(" + ofRuns, "runs show": "(" + ofRuns, "runs trend": "(" + ofRuns,
	"confirm": "(" + changes, "daemon": "(" + noResult + "runs until it is ended", "tune": "(" + changes, "undo": "(" + changes, "schedule add": "(" + changes, "schedule import-cron": "(" + changes, "schedule remove": "(" + changes,
	"load worker": "(" + noResult + "speaks to fettle load http", "runs export": "(" + noResult + "copies records", "schema": "(" + noResult + "a schema", "version": "(" + noResult + "one line",
	"rules lint": "(" + noResult + "one line, or errors", "rules release": "(TestRulesUpdate", "rules stage": "(TestRulesUpdate", "rules staged": "(TestRulesUpdate", "rules withdraw": "(" + noResult + "one line", "rules show": "rules show O29", "rules test": "(" + noResult + "one line, or errors",
	"import rhel6": "(" + noResult + "the profile itself, without --write",
	"eject":        "eject virtual-guest", "import compliance": "(" + noResult + "lines for a file in keep.d",
	"check": "check", "diff": "diff virtual-guest", "facts": "facts", "facts compare": "facts compare ../../testdata/hosts/debian-guest.txt", "fix": "--root ../../testdata/hosts/kvm-guest.txt fix --platform linux --write DIR", "history": "(" + changes, "list": "list", "recommend": "recommend", "rules list": "rules list linux",
	"numa balance": "(" + changes, "numa run": "(" + noResult + "runs a command", "numa advise": "--root ../../testdata/hosts/kvm-guest.txt numa advise", "numa show": "--root ../../examples/numa/four-nodes.txt numa show",
	"logs": "logs LOG", "logs compare": "(internal/requests/logs: TestPrintComparisonFits", "logs export": "logs export LOG --parquet NEW", "logs merge": "logs merge PART", "logs puppet-reports": "(internal/requests/puppetrun tests its output on reports",
	"irq advise": "--root ../../examples/irq/two-nodes.txt irq advise", "irq show": "--root ../../examples/irq/two-nodes.txt irq show", "power": "power", "power record": "(testdata/script/power.txtar runs a command on this machine",
	"quiet": "quiet --dry-run", "quiet check": "quiet check",
	"schedule list": "schedule list", "schedule next": "schedule next", "show": "show virtual-guest",
	"size hugepages": "size hugepages --size 1GiB --ram 64GiB", "size httpd": "(TestSizeOutput shows it with a log of its own", "size network": "size network --mtu 1500", "size openshift": "size openshift --pods 500",
	"size postgresql": "size postgresql --connections 100 --ram 64GiB --cpus 8 --disk ssd", "size puppet": "(TestSizeOutput shows it with a log of its own", "size router": "(TestSizeOutput shows it with a log of its own",
	"size satellite": "size satellite --hosts 5000", "status": "status", "verify": "verify virtual-guest", "why": "why vm.swappiness",
}

// TestVerbsHaveHeadlines: each verb and sub-verb prints its headline first, the one of its JSON
// output, or the table says why it is not called.
func TestVerbsHaveHeadlines(t *testing.T) {
	dir := t.TempDir()
	files := strings.NewReplacer("LOG", "../../internal/logformat/testdata/real/httpd-combined.log", "PART", filepath.Join(dir, "a.part"), "NEW", filepath.Join(dir, "new"), "DIR", filepath.Join(dir, "out"))
	Main("test", strings.Fields(files.Replace("logs LOG --save PART")), &bytes.Buffer{}, &bytes.Buffer{})
	eachVerb(t, "headlineCalls", headlineCalls, func(_, call string) {
		if strings.HasPrefix(call, "(") {
			return
		}
		args := append([]string{"--state-dir", filepath.Join(dir, "state")}, strings.Fields(files.Replace(call))...)
		if files.Replace(call) == call && !strings.HasPrefix(call, "size ") {
			args = append([]string{"--root", "../../testdata/hosts/kvm-guest.txt"}, args...)
		}
		if !program.Headline(t, call, args, false) {
			t.Errorf("%s: no result", call)
		}
	})
}

// eachVerb visits each verb with its entry of a table, which must have exactly the verbs of fettle.
func eachVerb(t *testing.T, name string, table map[string]string, visit func(verb, entry string)) {
	t.Helper()
	left := maps.Clone(table)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		verb := strings.TrimPrefix(c.CommandPath(), "fettle ")
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" && (sub.Runnable() || sub.HasSubCommands()) {
				walk(sub)
			}
		}
		if c.HasAvailableSubCommands() && verb != "facts" && verb != "load scenario" && verb != "logs" && verb != "power" && verb != "quiet" || verb == "fettle" {
			return
		}
		entry, listed := table[verb]
		delete(left, verb)
		if !listed {
			t.Errorf("%s lacks fettle %s", name, verb)
			return
		}
		visit(verb, entry)
	}
	walk(Command("test"))
	for verb := range left {
		t.Errorf("%s has %s, which is not a verb", name, verb)
	}
}
