package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// What the real TuneD (2.20 of Debian 12) leaves in the kernel is what why calls the
// winner: its profile's line, or the administrator's that it applies after it.
func TestWhyIsWhatTuneDWrites(t *testing.T) {
	testkitroot.Real(t, "runs TuneD in the Debian test root")
	cases := map[string]string{ // the administrator's lines
		"none":      "",
		"plain":     "kernel.panic = 9\n",
		"ignored":   "-kernel.panic = 9\n",
		"slashes":   "kernel/panic = 9\n",
		"pattern":   "kernel.pan* = 9\n",
		"excluded":  "kernel.panic = 9\n-kernel.panic\n",
		"conf":      "kernel.panic = 4\n#",
		"twice":     "kernel.panic = 8\nkernel.panic = 9\n",
		"commented": "# kernel.panic = 9\n",
	}
	root := testkitroot.New(t, testkitroot.Options{})
	for name, text := range cases {
		dir := filepath.Join(root.Share(), name)
		for path, content := range map[string]string{
			"proc/sys/kernel/panic": "0\n", "etc/sysctl.d/10-a.conf": text, "etc/tuned/active_profile": "mine\n", "etc/tuned/profile_mode": "manual\n",
			"etc/tuned/tuned-main.conf": "daemon = 0\n", "etc/tuned/mine/tuned.conf": "[sysctl]\nkernel.panic = 3\n",
			"usr/lib/systemd/system/tuned.service": "[Service]\n", "etc/systemd/system/multi-user.target.wants/tuned.service": "-> /usr/lib/systemd/system/tuned.service",
			"proc/1/comm": "systemd\n", "etc/sysctl.conf": map[bool]string{name == "conf": "kernel.panic = 5\n"}[true],
		} {
			testkitmachine.Write(t, dir, map[string]string{path: content})
		}
	}
	root.Must("sh", "-euc", `
for d in run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d; do rm -rf "/$d"; done
for tree in "$1"/*; do
  rm -f /etc/sysctl.conf; ln -s "$tree/etc/sysctl.conf" /etc/sysctl.conf
  rm -rf /etc/sysctl.d; ln -s "$tree/etc/sysctl.d" /etc/sysctl.d
  rm -rf /etc/tuned; cp -r "$tree/etc/tuned" /etc/tuned
  mount --bind "$tree/proc/sys" /proc/sys
  tuned --no-dbus --profile mine >"$tree/log" 2>&1 || :
  umount /proc/sys
done`, "sh", root.Share())
	panicAt := setting.Setting{Kind: "sysctl", Name: "kernel.panic"}
	for name := range cases {
		dir := filepath.Join(root.Share(), name)
		b, err := os.ReadFile(filepath.Join(dir, "proc/sys/kernel/panic"))
		if err != nil {
			t.Fatal(err)
		}
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		h, err := host.Copy(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := &app{root: dir, screen: ui.NewScreen(os.Stdout, os.Stderr)}
		m, err := a.machineOn(t.Context(), h, func(err error) error { return err })
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := why.Explain(t.Context(), m, panicAt)
		if err != nil {
			t.Fatal(err)
		}
		all := w.Claims
		if name == "slashes" { // versions differ, and why says so
			if c := all[len(all)-1]; c.Source != override.TuneD || c.Condition == "" {
				t.Errorf("slashes: %+v is not conditional", c)
			}
			continue
		}
		winner, ok := override.Winner(all)
		if got := strings.TrimSpace(string(b)); !ok || got != winner.Value.Text {
			t.Errorf("%s: TuneD leaves %s, the winner is %q at %s\n%s", name, got, winner.Value, winner.Place(), log)
		}
	}
}
