package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// headlineVerbs are calls that work on a copy of a machine. Those whose rows may be folded
// print at most 40 lines.
var headlineVerbs = []struct {
	call   string
	folded bool
}{
	{"check", true},
	{"check linux", true},
	{"check --details", false},
	{"check --all", false},
	{"facts", true},
	{"facts --brief", true},
	{"facts --details", false},
	{"facts memory disk", false},
	{"recommend", true},
	{"list", true},
	{"list plugins", false},
	{"rules list", false},
	{"show virtual-guest", true},
	{"show throughput-performance", true},
	{"rules show S12", false},
	{"check satellite", true},
	{"check postgresql --details", false},
	{"check --explain T19", true},
	{"diff", false},
	{"size puppet --cpus 4 --ram 16GiB --log ../../examples/logs/puppet.log", true},
	{"size httpd --log ../../internal/logformat/testdata/real/httpd-combined_TD.log", true},
	{"size router --cpus 4 --ram 16GiB --log ../../internal/logformat/testdata/real/haproxy-local.log", true},
	{"schedule next", true},
	{"status", true},
	{"diff throughput-performance", false},
	{"diff virtual-guest", false},
	{"diff openshift-control-plane", false},
	{"verify latency-performance", false},
	{"why vm.swappiness", false},
	{"why vm.dirty_ratio", false},
	{"schedule list", true},
	{"numa show", true},
	{"power", true},
	{"irq show", true},
	{"irq advise", true},
}

// TestLogsOfACopy: the logs of a copy have the headline too.
func TestLogsOfACopy(t *testing.T) {
	root := t.TempDir()
	text, err := os.ReadFile("../../internal/logformat/testdata/real/httpd-combined_TD.log")
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "var/log/httpd"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "var/log/httpd/access_log"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if call := "logs --root " + root + " /var/log/httpd/access_log"; !program.Headline(t, call, strings.Fields(call), true) {
		t.Error("no result")
	}
}

// On every recorded machine the first lines are the headline that the JSON output has, with the
// figures of these lines; on a terminal of 80 columns no line is longer but a path or command
// that stands alone.
func TestHeadlines(t *testing.T) {
	for _, machine := range recordedMachines(t) {
		t.Run(strings.TrimSuffix(filepath.Base(machine), ".txt"), func(t *testing.T) {
			t.Parallel()
			for _, v := range headlineVerbs {
				args := append([]string{"--root", machine, "--state-dir", filepath.Join(t.TempDir(), "state")}, strings.Fields(v.call)...)
				program.Headline(t, v.call, args, v.folded)
			}
		})
	}
}
