package cpu

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

var place = setting.Setting{Kind: KindName, Name: DMALatency}

func effective(t *testing.T, k setting.Kind) string {
	t.Helper()
	v, err := k.Read(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	return v.Text
}

// The kernel combines the limits of all that ask, which no plain file does.
func TestHoldOnThisMachine(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	h := host.Live()
	if _, err := h.Files.Stat(dmaLatencyFile); errors.Is(err, fs.ErrNotExist) {
		root.Missing(t, "this machine has no %s", dmaLatencyFile)
	}
	ours, other := NewPMQoS(h), NewPMQoS(h)
	before := effective(t, ours)
	if n, err := strconv.Atoi(before); err != nil || n < 100 {
		root.Missing(t, "somebody else holds a latency of %s µs on this machine (see who has /dev/cpu_dma_latency open)", before)
	}
	write := func(k setting.Kind, v setting.Value, want string) {
		t.Helper()
		if err := k.Write(ctx, place, v); err != nil {
			t.Fatal(err)
		}
		if got := effective(t, ours); got != want {
			t.Fatalf("after writing %s the limit is %s µs, want %s", v, got, want)
		}
	}
	write(ours, setting.Text("70"), "70")
	write(ours, setting.Text("30"), "30") // through the same descriptor
	write(other, setting.Text("10"), "10")
	write(ours, setting.Text("50"), "10") // the least of both
	write(other, setting.Absent, "50")
	write(ours, setting.Text(before), before) // undo gives it up
	write(ours, setting.Text(strconv.Itoa(NoLimit)), before)
	plugin.Proves(t, plugin.Here(), "cpu", "force_latency")
}

func TestPMQoSRefuses(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/dev/cpu_dma_latency": "\x00\x94\x35\x77"})
	k := NewPMQoS(h)
	if got := effective(t, k); got != strconv.Itoa(NoLimit) {
		t.Errorf("no limit reads %s, want %d", got, NoLimit)
	}
	for _, bad := range []string{"-1", "x", "", "4294967296"} {
		if err := k.Write(context.Background(), place, setting.Text(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := k.Resolve(setting.Setting{Kind: KindName, Name: "network_latency"}); err == nil {
		t.Error("another name was taken")
	}
	if v, err := NewPMQoS(machine.Mounted(t, nil)).Read(context.Background(), place); err != nil || !v.Absent {
		t.Errorf("a machine without the device reads %v (%v)", v, err)
	}
}
