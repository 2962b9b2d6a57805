package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/ui"
)

// TestWhyNames: why takes the names that check and facts print, and explains the setting whose
// value they show.
func TestWhyNames(t *testing.T) {
	for name, want := range map[string]string{
		"disk.sda.scheduler":                    "sysfs:/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/host0/target0:2:0/0:2:0:0/block/sda/queue/scheduler",
		"memory.transparent_huge_pages.enabled": "sysfs:/sys/kernel/mm/transparent_hugepage/enabled",
		"kernel.release":                        "sysctl:kernel.osrelease",
		"postgresql.data.shared_buffers":        "postgresql:/var/lib/pgsql/data/postgresql.conf#shared_buffers",
		"puma.foreman.workers":                  "puma:/etc/systemd/system/foreman.service.d/installer.conf#FOREMAN_PUMA_WORKERS",
		"memory.total_bytes":                    "", // a value that cannot be set
		"satellite.puma_workers":                "",
		"nonsense.of.mine":                      "",
	} {
		var out strings.Builder
		code := Main("test", []string{"why", name, "--root", "../../testdata/hosts/satellite-612-overloaded.txt", "-o", "json"}, &out, io.Discard)
		var w why.Why
		if err := json.Unmarshal([]byte(out.String()), &w); code == 0 && err != nil {
			t.Fatal(err)
		}
		if got := w.Setting.String(); want != "" && got != want || (want == "") != (code == ui.Failed) {
			t.Errorf("%s: exit code %d, %s, want %s", name, code, got, want)
		}
	}
}
