package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/testkit/calls"
)

// reply runs a call without a terminal.
func reply(args ...string) (code int, printed, said string) {
	var out, errw bytes.Buffer
	code = Main("test", args, &out, &errw)
	return code, out.String(), errw.String()
}

const anyMachine = "../../testdata/hosts/kvm-guest.txt"

// TestStuck makes calls that leave a person stuck: an option of another verb, a blank inside of a
// name, a required input left out. The printed call is one that works.
func TestStuck(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for call, want := range map[string]string{
		"bench disk --root " + anyMachine:     "for the other machine: run fettle there",
		"size satellite --root " + anyMachine: "run: fettle size satellite --hosts=12000",
		"size postgresql --memory 64GB":       "run: fettle size postgresql --connections=200",
		"size openshift --apps no-such-file":  "run: fettle size openshift --pods=500",
		"size router":                         "--log=/var/log/haproxy.log",
		"facts --root":                        "without it, run: fettle facts",
		"why vm swappiness":                   "for example: fettle why vm.swappiness",
		"diff virtual guest":                  `did you mean "virtual-guest"?`,
		"import rhel6":                        "for example: fettle import rhel6 ",
		"runs export":                         "for example: fettle runs export before.run\n",
		"runs show zzz --state-dir " + state:  "fettle --state-dir " + state + " runs list shows all runs",
		"undo 99 --state-dir " + state:        "fettle --state-dir " + state + " history lists all transactions",
		"schema chekc":                        "run: fettle schema check",
		"load http example.com":               "run: fettle load http http://example.com --rate=100/s",
		"numa balance":                        "run: fettle numa balance --all --dry-run",
		"numa run":                            "for example: fettle numa run -N 0",
	} {
		code, _, said := reply(strings.Fields(call)...)
		if code == 0 || !strings.Contains(strings.ReplaceAll(said, "\n  ", " "), want) {
			t.Errorf("%s: exit code %d, no %q in %s", call, code, want, said)
		}
		if next := calls.Printed("fettle", said); next != nil && !strings.Contains(want, ">") {
			if err := cliutil.Parse(tree("test", next), next); err != nil {
				t.Errorf("%s: %q is not taken: %v", call, next, err)
			}
		}
	}
}

// The name of a group of rules, as check prints it, names all of them to fix.
func TestFixGroup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	code, printed, said := reply("fix", "O16", "--root", "../../testdata/hosts/openshift-node-overloaded.txt", "--write", dir)
	if code != 0 || !strings.Contains(printed, "etc/sysctl.d/60-fettle.conf") {
		t.Errorf("exit code %d: %s%s", code, printed, said)
	}
}

// The answer to "why is it slow?" is in each format for people.
func TestSlowInAllFormats(t *testing.T) {
	for _, format := range []string{"table", "markdown", "html"} {
		code, printed, said := reply("check", "--root", "../../testdata/hosts/debian-guest-overloaded.txt", "--output", format)
		if code != 0 || !strings.Contains(printed, "Above a limit on average since boot") {
			t.Errorf("%s: exit code %d, %s", format, code, said)
		}
	}
}

// Only interrupts that are known are counted as far from their device.
func TestUnknownInterrupts(t *testing.T) {
	const machine = "../../testdata/hosts/amd-epyc.txt"
	if _, printed, _ := reply("numa", "show", "--root", machine); strings.Contains(printed, "0 devices") || !strings.Contains(printed, "off the device's node: unknown") {
		t.Errorf("numa show: %s", printed)
	}
	code, printed, said := reply("irq", "show", "--root", machine)
	if code != 1 || !strings.Contains(printed, "queues of") || strings.Contains(said, "nothing could") || !strings.Contains(said, "fettle facts --archive FILE") {
		t.Errorf("irq show: exit code %d: %s%s", code, printed, said)
	}
}

// Sizes and times of facts have units.
func TestFactUnits(t *testing.T) {
	for _, of := range []string{"memory", "kernel", "disk"} {
		_, printed, _ := reply("facts", of, "--root", "../../testdata/hosts/intel-2s-bare-metal.txt")
		for line := range strings.Lines(printed) {
			f := strings.Fields(line)
			if len(f) == 3 && strings.HasSuffix(f[0], "_bytes") && len(f[2]) > 4 {
				t.Errorf("no unit: %s", line)
			}
		}
	}
}

// The tasks of the page for a first visit name verbs that exist.
func TestVerbsOfReadme(t *testing.T) {
	for _, name := range []string{"../../README.md", "../../docs/README.md"} {
		for line := range strings.Lines(readFile(t, name)) {
			line, isTask := strings.CutPrefix(line, "- **")
			row, isRow := strings.CutPrefix(line, "| `")
			if isRow {
				line, _, _ = strings.Cut("`"+row, "|")
			}
			if !isTask && !isRow || strings.Contains(line, "kubectl") {
				continue
			}
			words := strings.Split(line, "`")
			for i := 1; i < len(words); i += 2 {
				verb := strings.TrimPrefix(words[i], "fettle ")
				if c, _, err := tree("test", nil).Find(strings.Fields(verb)); err != nil || c.Name() == "fettle" {
					t.Errorf("%s: no verb %q", name, verb)
				}
			}
		}
	}
}
