package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/calls"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

const noFile = "(takes no file"

// missingFiles has for each verb the calls in which an argument or option names a missing file X,
// separated by "|", or in parentheses the reason for having none. The test adds calls with a missing
// --root.
var missingFiles = map[string]string{
	"bench disk": "X", "bench etcd": noFile, "bench memory": noFile, "bench network": noFile, "bench postgres": "(asks the server first",
	"check": "--baseline X", "confirm": noFile, "daemon": noFile, "diff": "--compliance X", "eject": noFile, "import compliance": "X", "facts": "--archive X/new", "facts compare": "X",
	"fix": noFile, "history": noFile, "import rhel6": "X", "irq advise": noFile, "irq show": noFile, "list": noFile,
	"load http": "--rate 1/s --urls X|--rate 1/s --body @X http://localhost:1|--rate 1/s --cacert X https://localhost:1|--replay X http://localhost:1",
	"load mqtt": "--hosts 2 --cacert X mqtts://localhost:1|--hosts 2 --host-certs X mqtts://localhost:1", "load worker": noFile,
	"load scenario": "X.yaml|X|example --cacert X|example --host-certs X", "load scenario list": noFile, "load scenario show": noFile, "load scenario undo": noFile,
	"logs": "X|LOG --save X/new|LOG --since-last X/new|--config X", "logs compare": "LOG X", "logs export": "X --parquet new|LOG --parquet X/new", "logs merge": "X|LOG --save X/new", "logs puppet-reports": "X",
	"numa advise": noFile, "numa balance": noFile, "numa run": noFile, "numa show": noFile, "power": noFile, "power record": "-- X",
	"prove": "--plan X -- true", "search": noFile, "quiet": "-- X", "quiet check": noFile, "recommend": noFile, "rules lint": "X.yaml", "rules release": "(TestRulesUpdate", "rules stage": "X", "rules staged": "(TestRulesUpdate", "rules withdraw": noFile, "rules list": noFile, "rules show": noFile, "rules test": "X.yaml",
	"runs compare": "X X", "runs export": "X", "runs list": noFile, "runs prune": noFile, "runs show": "X", "runs trend": "X",
	"schedule add": noFile, "schedule import-cron": "X", "schedule list": noFile, "schedule next": noFile, "schedule remove": noFile,
	"schema": noFile, "show": noFile, "size hugepages": noFile, "size httpd": "--log X", "size network": noFile, "size openshift": "--pods 10 --apps X",
	"size postgresql": noFile, "size puppet": "--log X", "size router": "--log X", "size satellite": noFile, "status": noFile,
	"tune": "--plan X|virtual-guest --compliance X", "undo": noFile, "verify": noFile, "version": noFile, "why": noFile,
}

// TestMissingFiles: each verb rejects a missing file with exit code 2, names it, and prints what
// to do.
func TestMissingFiles(t *testing.T) {
	state, missing := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "missing")
	words := strings.NewReplacer("LOG", "../../internal/logformat/testdata/real/httpd-combined.log", "X", missing)
	eachVerb(t, "missingFiles", missingFiles, func(verb, named string) {
		for _, call := range strings.Split(named, "|") {
			if strings.HasPrefix(call, "(") {
				break
			}
			args := append([]string{"--state-dir", state}, strings.Fields(verb+" "+words.Replace(call))...)
			wantAdvice(t, args, ui.Usage, missing)
		}
		if call := headlineCalls[verb]; call != "" && !strings.HasPrefix(call, "(") && !strings.Contains(call, "--root") && !strings.HasPrefix(call, "size ") && call != "load scenario list" && !strings.Contains(call, "PART") {
			wantAdvice(t, append([]string{"--state-dir", state, "--root", missing}, strings.Fields(words.Replace(call))...), ui.Usage, missing)
		}
	})
}

// TestCalendarWithMore: an argument that is a calendar and more is not suggested again.
func TestCalendarWithMore(t *testing.T) {
	for arg, want := range map[string]string{
		"22:00 fettle recommend":  "for example: fettle schedule add 22:00 throughput-performance\n",
		"Mon..Fri 08:00 balanced": "for example: fettle schedule add 'Mon..Fri 08:00' throughput-performance\n",
		"every evening":           `"every evening": "every" is not a weekday`,
	} {
		wantAdvice(t, []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "schedule", "add", arg}, ui.Usage, want)
	}
}

// TestFailuresHaveAdvice: failures that have nothing to do with files print what to do too.
func TestFailuresHaveAdvice(t *testing.T) {
	for call, c := range map[string]struct {
		code int
		says string
	}{
		"schedule add":               {ui.Usage, "'Mon..Fri 08:00' throughput-performance"},
		"schedule add daily":         {ui.Usage, "add daily throughput-performance"},
		"list nosuch":                {ui.Usage, "profiles, plugins or plug-ins"},
		"list plugin":                {ui.Usage, `did you mean "plugins"?`},
		"why vm.nosuch":              {ui.Failed, "vm.nosuch"},
		"why vm.swappines":           {ui.Failed, `did you mean "vm.swappiness"?`},
		"confirm":                    {ui.Failed, "--try 10m"},
		"undo 99":                    {ui.Usage, "history lists all transactions"},
		"runs show 99":               {ui.Usage, "runs list shows all runs"},
		"size hugepages --size -1":   {ui.Usage, `--size "-1": must not be negative`},
		"bench etcd --member nosuch": {ui.Failed, "etcd not found"},
		"load http --rate 1/s --for 1s http://127.0.0.1:1/": {ui.Failed, "cannot connect to 127.0.0.1:1: connection refused\n"},
		"load mqtt --hosts 2 127.0.0.1:1":                   {ui.Usage, `"127.0.0.1:1" is not a URL`},
		"load scenario nosuch":                              {ui.Usage, "load scenario list"},
		"load scenario show exampel":                        {ui.Usage, `did you mean "example"?`},
		"load scenario undo nosuch":                         {ui.Usage, `no objects of a run "nosuch"`},
		"load scenario example --for 1m":                    {ui.Usage, "--for needs a rate"},
		"load scenario example --rate 5/s":                  {ui.Usage, "--for=1m"},
		"load scenario example --expect=fron<5":             {ui.Usage, "want a threshold"},
		"load scenario example --most-hosts 5":              {ui.Refused, "--hosts=5"},
		"power record -- no-such-program":                   {ui.Usage, "no-such-program: not found in $PATH"},
	} {
		wantAdvice(t, append([]string{"--state-dir", filepath.Join(t.TempDir(), "state")}, strings.Fields(call)...), c.code, c.says)
	}
}

// goWords match what errors of Go's libraries begin with.
var goWords = internaltext.LazyRegexp(`\b(exec|parse|lookup|dial|open|stat|lstat|strconv\.\w+): |\b(open|stat|lstat|lookup|dial tcp|parse) ["/\d]|exit status`)

// quotation matches a quoted argument.
var quotation = internaltext.LazyRegexp(`"[^"]+"`)

// wantAdvice makes a call that fails. The message has says, no words of Go and no argument twice;
// the lines after it say what to do.
func wantAdvice(t *testing.T, args []string, code int, says string) {
	t.Helper()
	var out, said bytes.Buffer
	got := Main("test", args, &out, &said)
	call := strings.Join(args, " ")
	first, advice, _ := strings.Cut(said.String(), "\n")
	if got != code || !strings.Contains(said.String(), says) {
		t.Errorf("%s: exit code %d, want %d and %q: %s", call, got, code, says, &said)
	}
	if advice == "" && !strings.Contains(first, "did you mean") {
		t.Errorf("%s: no word about what to do: %s", call, &said)
	}
	if goWords().MatchString(said.String()) {
		t.Errorf("%s: words of Go: %s", call, &said)
	}
	seen := map[string]bool{}
	for _, q := range quotation().FindAllString(first, -1) {
		if seen[q] {
			t.Errorf("%s: %s twice: %s", call, q, first)
		}
		seen[q] = true
	}
	for _, fault := range calls.Figures(said.String()) {
		t.Errorf("%s: %s", call, fault)
	}
}
