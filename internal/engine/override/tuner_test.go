package override

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestTunersFromFiles(t *testing.T) {
	h := claimMachine(t, `
-- usr/lib/systemd/system/tuned.service --
[Service]
-- etc/systemd/system/multi-user.target.wants/tuned.service --
-> /usr/lib/systemd/system/tuned.service
-- etc/tuned/active_profile --
virtual-guest my
-- usr/lib/systemd/system/numad.service --
[Service]
-- usr/lib/systemd/system/power-profiles-daemon.service --
[Service]
-- etc/systemd/system/graphical.target.wants/power-profiles-daemon.service --
-> /usr/lib/systemd/system/power-profiles-daemon.service
-- var/lib/power-profiles-daemon/state.ini --
[State]
CpuDriver=intel_pstate
Profile=power-saver
-- etc/systemd/system/multi-user.target.wants/irqbalance.service --
-> /usr/lib/systemd/system/irqbalance.service
-- etc/systemd/system/irqbalance.service --
-> /dev/null
-- proc/7/comm --
python3
-- proc/7/cmdline --
/usr/bin/python3`+"\x00-Es\x00/usr/sbin/tuned\x00-l\x00"+`
-- proc/7/status --
Uid:	0	0	0	0
NSpid:	7
-- proc/8/comm --
vim
-- proc/9/comm --
numad
-- proc/9/status --
Uid:	1000	1000	1000	1000
-- proc/10/comm --
numad
-- proc/10/status --
NSpid:	10	3
-- etc/rc3.d/S27ktune --
#!/bin/sh
`)
	got, err := Tuners(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	want := []Tuner{
		{Name: "TuneD", Exclusive: true, Unit: "tuned.service", Enabled: true, Running: true, PID: 7, Profile: "virtual-guest my"},
		{Name: "power-profiles-daemon", Exclusive: true, Unit: "power-profiles-daemon.service", Enabled: true, Profile: "power-saver"},
		{Name: "ktune", Unit: "ktune.service", Enabled: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Tuner{}, "Sets", "HandOver", "Stays", "BusNames")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOwnUnitIsNoOtherTuner tests that fettle's own unit, which has TuneD's name as an alias if
// TuneD is absent, is not another tuner.
func TestOwnUnitIsNoOtherTuner(t *testing.T) {
	got, _ := Tuners(context.Background(), claimMachine(t, `
-- usr/lib/systemd/system/fettle.service --
[Service]
-- etc/systemd/system/tuned.service --
-> /usr/lib/systemd/system/fettle.service
-- etc/systemd/system/multi-user.target.wants/tuned.service --
-> /usr/lib/systemd/system/fettle.service
`))
	if len(got) > 0 {
		t.Errorf("fettle's own unit: %+v", got)
	}
}

func TestTunersOfACopy(t *testing.T) {
	h, err := host.Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Tuners(context.Background(), h); !host.Unknown(err) || len(got) > 0 {
		t.Errorf("%+v, %v: want that running programs are not recorded", got, err)
	}
}

// TestRealTuneD tests Debian's real TuneD: it is detected on its own machine. From outside it is
// not a tuner of this machine, because it runs in the PID namespace of a container.
func TestRealTuneD(t *testing.T) {
	root.Real(t, "starts TuneD in the Debian test root")
	running := func(h *host.Host) string {
		tuners, err := Tuners(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range tuners {
			if x.Running {
				names = append(names, x.Name+" "+x.Profile)
			}
		}
		return strings.Join(names, ", ")
	}
	before := running(host.Live())
	bus := root.NewBus(t, root.Options{})
	inside := host.Mounted(bus.Root.Path("/"))
	if got := running(inside); got != "" {
		t.Errorf("before TuneD was started: %q", got)
	}
	d := bus.StartTuned("virtual-guest")
	if got := running(inside); got != "TuneD virtual-guest" {
		t.Errorf("while TuneD runs: %q", got)
	}
	if got := running(host.Live()); got != before {
		t.Errorf("on this machine: %q, before %q", got, before)
	}
	d.Signal("TERM")
	if got := running(inside); got != "" {
		t.Errorf("after TuneD has ended: %q", got)
	}
}
