package tune_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// ppdUnits simulates systemd with TuneD and tuned-ppd, which requires it: starting tuned-ppd starts
// TuneD, and stopping TuneD stops tuned-ppd. Running units are processes of the machine.
type ppdUnits struct {
	units
	t *testing.T
	h *host.Host
}

var ppdProcesses = map[string]string{"tuned.service": "7", "tuned-ppd.service": "8"}

func (u *ppdUnits) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	u.wrote = append(u.wrote, s.Name+"="+v.Text)
	u.set(s.Name, v.Text)
	return nil
}

func (u *ppdUnits) set(name, value string) {
	unit, aspect, _ := strings.Cut(name, "/")
	u.values[name] = value
	link := "/etc/systemd/system/" + unit
	switch {
	case aspect == "active" && value == "active":
		if unit == "tuned-ppd.service" {
			u.set("tuned.service/active", "active")
		}
		testkitmachine.WriteFile(u.t, u.h.Name, "/proc/"+ppdProcesses[unit]+"/comm", strings.TrimSuffix(unit, ".service")+"\n")
	case aspect == "active":
		if unit == "tuned.service" {
			u.set("tuned-ppd.service/active", "inactive")
		}
		os.RemoveAll(filepath.Join(u.h.Name, "proc", ppdProcesses[unit]))
	case value == "masked":
		if err := os.Symlink("/dev/null", u.h.Name+link); err != nil {
			u.t.Fatal(err)
		}
	default:
		os.Remove(u.h.Name + link)
		target := map[string]string{"tuned.service": "multi-user", "tuned-ppd.service": "graphical"}[unit]
		wanted := u.h.Name + "/etc/systemd/system/" + target + ".target.wants/" + unit
		os.Remove(wanted)
		if value == "enabled" {
			if err := os.Symlink("/usr/lib/systemd/system/"+unit, wanted); err != nil {
				u.t.Fatal(err)
			}
		}
	}
}

// TestTakeOverFromTunedPPD takes over from TuneD and tuned-ppd on RHEL 10, and hands back. Meanwhile
// no client of the bus can start tuned-ppd, which would start TuneD.
func TestTakeOverFromTunedPPD(t *testing.T) {
	h := testkitmachine.Unpack(t, "../../../testdata/hosts/rhel-10.txt")
	testkitmachine.Write(t, h.Name, map[string]string{
		"/proc/1/comm": "systemd\n", "/proc/7/comm": "tuned\n", "/proc/8/comm": "tuned-ppd\n", "/proc/sys/kernel/random/boot_id": "boot-1\n",
	})
	state := map[string]string{
		"tuned.service/active": "active", "tuned.service/enabled": "enabled", "tuned-ppd.service/active": "active", "tuned-ppd.service/enabled": "enabled",
	}
	u := &ppdUnits{units: units{values: map[string]string{}}, t: t, h: h}
	for k, v := range state {
		u.values[k] = v
	}
	kinds := setting.Kernel(h)
	kinds["unit"] = u
	kinds[tune.TunerKind] = tune.NewTunerKind(h, u)
	e := newEngine(t, h)
	e.Kinds = kinds
	m := &tune.Machine{Engine: e}
	nothing := func() []setting.Setting { return nil }
	_, err := m.OneTuner(t.Context(), false, "fettle tune --take-over", nothing)
	if ui.Code(err) != ui.Refused || !strings.HasPrefix(err.Error(), "TuneD ") {
		t.Errorf("without --take-over: %v", err)
	}
	if _, err := m.OneTuner(t.Context(), true, "", nothing); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"tuned.service/active": "inactive", "tuned.service/enabled": "disabled", "tuned-ppd.service/active": "inactive", "tuned-ppd.service/enabled": "masked",
	}
	if d := cmp.Diff(want, u.values); d != "" {
		t.Errorf("taken over (-want +got):\n%s", d)
	}
	if left, err := m.OtherTuners(t.Context(), nothing); err != nil || len(left) > 0 {
		t.Errorf("still in force: %+v, %v", left, err)
	}
	testkitmachine.WriteFile(t, h.Name, "/etc/tuned/active_profile", "throughput-performance\n") // fettle's daemon
	u.wrote = nil
	if _, err := e.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(state, u.values); d != "" {
		t.Errorf("after undo (-want +got):\n%s", d)
	}
	if b, err := h.Files.ReadFile("/etc/tuned/active_profile"); err != nil || string(b) != "balanced\n" {
		t.Errorf("TuneD's profile: %q, %v", b, err)
	}
	if first := slices.IndexFunc(u.wrote, func(w string) bool { return strings.HasSuffix(w, "/active=active") }); first < 0 || u.wrote[first] != "tuned.service/active=active" {
		t.Errorf("TuneD must start first, with its profile: %v", u.wrote)
	}
}
