package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// TestBenchEnergy: a benchmark's record has the energy of its run, and no such field where RAPL is
// absent or does not count.
func TestBenchEnergy(t *testing.T) {
	const zone = "/sys/class/powercap/intel-rapl:0/"
	files := map[string]string{zone + "name": "package-0\n", zone + "energy_uj": "1000000\n", zone + "max_energy_range_uj": "900000000\n"}
	for _, x := range []struct {
		files       map[string]string
		later, want string
	}{
		{files, "4500000\n", `"energy_j":3.5`},
		{files, "1000000\n", ""},
		{map[string]string{"/etc/": ""}, "", ""},
	} {
		h := machine.Mounted(t, x.files)
		m := &tune.Machine{Engine: &tune.Engine{Host: h, StateDir: t.TempDir()}}
		k := (&app{system: thisSystem()}).keeper(m, "bench-memory")
		if x.later != "" {
			machine.WriteFile(t, h.Name, zone+"energy_uj", x.later)
		}
		if err := k.Record("done", struct{}{}); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(RunResult{ui.Headline{}, k.Run})
		if err != nil || strings.Contains(string(text), "energy_j") != (x.want != "") || !strings.Contains(string(text), x.want) {
			t.Errorf("later %q: %s, %v", x.later, text, err)
		}
	}
}
