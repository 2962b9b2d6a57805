package peers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// saptuneVariable names the variable with the path of a static saptune 3 binary.
const saptuneVariable = "FETTLE_TEST_SAPTUNE"

// saptuneNote is what network-latency sets on the invented machine, as a note of
// an administrator's own (saptune-note(5)); those of each CPU follow. They stand in
// it as plain attributes, because for those of its section [cpu] saptune wants
// cpupower.
const saptuneNote = `[version]
VERSION=1
DATE=01.11.2026
DESCRIPTION=The values of network-latency
REFERENCES=

[sysctl]
vm.dirty_ratio = 10
vm.dirty_background_ratio = 3
vm.swappiness = 10
net.core.busy_read = 50
net.core.busy_poll = 50
net.ipv4.tcp_fastopen = 3
kernel.numa_balancing = 0

[vm]
THP=never

[sys]
devices.system.cpu.intel_pstate.min_perf_pct = 100
`

// saptuneConfig is a configuration in which nothing is selected yet.
const saptuneConfig = `TUNE_FOR_SOLUTIONS=""
TUNE_FOR_NOTES=""
NOTE_APPLY_ORDER=""
SAPTUNE_VERSION="3"
STAGING="false"
COLOR_SCHEME=""
SKIP_SYSCTL_FILES="/boot"
IGNORE_RELOAD="no"
`

// needSaptune skips where there is no saptune: Debian has none, and the set-up of
// the test root gets nothing from elsewhere.
func needSaptune(t *testing.T) {
	t.Helper()
	path := os.Getenv(saptuneVariable)
	if path == "" {
		t.Skipf("the second negative control, saptune, is not at hand: %s names a static binary of it (test/README.md)", saptuneVariable)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v", saptuneVariable, err)
	}
}

// newSaptune is saptune as it is run by hand.
func newSaptune(t *testing.T) *subject {
	var note strings.Builder
	note.WriteString(saptuneNote)
	for cpu := range 8 {
		fmt.Fprintf(&note, "devices.system.cpu.cpufreq.policy%d.scaling_governor = performance\ndevices.system.cpu.cpu%d.power.energy_perf_bias = 0\n", cpu, cpu)
	}
	s := newSubject(t, root.Options{
		Binds: []root.Bind{{Source: os.Getenv(saptuneVariable), Target: "/usr/sbin/saptune", ReadOnly: true}},
		Files: map[string]string{
			"/etc/sysconfig/saptune":                        saptuneConfig,
			"/usr/share/fillup-templates/sysconfig.saptune": saptuneConfig,
			"/etc/saptune/extra/latency.conf":               note.String(),
			"/etc/saptune/extra/latency.sol":                "[ArchX86]\nlatency\n",
			"/etc/saptune/override/.dir":                    "",
			"/usr/share/saptune/notes/.dir":                 "",
			"/usr/share/saptune/sols/.dir":                  "",
			"/usr/share/saptune/deprecated/.dir":            "",
			"/var/lib/saptune/working/notes/.dir":           "",
			"/var/lib/saptune/working/sols/.dir":            "",
			"/var/log/saptune/.dir":                         "",
		},
	})
	s.tune = func() { s.run("saptune", "note", "apply", "latency") }
	s.undo = func() { s.run("saptune", "revert", "all") }
	s.recover = func() string {
		out, code := s.root.Run("saptune", "revert", "all")
		if code == 0 {
			return ""
		}
		return out
	}
	s.reset = func() { s.run("sh", "-c", "echo yes | saptune configure reset") }
	return s
}
