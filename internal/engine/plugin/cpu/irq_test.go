package cpu

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

var irqTree = map[string]string{
	"/sys/devices/system/cpu/present": "0-39\n",
	"/proc/irq/default_smp_affinity":  "ff,ffffffff\n",
	"/proc/irq/9/smp_affinity":        "00,00000003\n",
	"/proc/irq/10/smp_affinity":       "80,00000000\n",
	"/proc/irq/11/spurious":           "", // without an affinity: a chained interrupt
}

func TestIRQPlan(t *testing.T) {
	for _, tt := range []struct {
		lines, want []string
	}{
		{[]string{"affinity=1,32-33"}, []string{"irq:default/affinity = 1,32-33", "irq:9/affinity = 1,32-33", "irq:10/affinity = 1,32-33"}},
		{[]string{"devices=irq*", "mode=intersect", "affinity=1-38"}, []string{"irq:9/affinity = 1", "irq:10/affinity = 1-38"}},
		{[]string{"devices=DEFAULT", "mode=intersect", "affinity=3"}, []string{"irq:default/affinity = 3"}},
		{[]string{"devices=irq9", "affinity="}, nil},
		{[]string{"devices=irq9", "affinity=40"}, []string{"irq:9/affinity ! rejected: this machine has no CPU 40: it has 0-39"}},
		{[]string{"devices=irq9", "affinity=all"}, []string{`irq:9/affinity ! rejected: "all" is no value for affinity: want a CPU list, such as 1,3-4`}},
		{[]string{"devices=irq9", "affinity=1", "mode=some"}, []string{`irq:9/affinity ! rejected: "some" is no mode: want set or intersect`}},
	} {
		h := machine.Mounted(t, irqTree)
		kinds := plugin.Kinds(h, IRQKinds(h))
		var got []string
		for _, it := range plugin.Items(t, IRQ, h, kinds, plugin.Unit("irq", tt.lines...)) {
			got = append(got, plugin.Line(it))
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
	plugin.Proves(t, plugin.FakeTree, IRQ.Name, "mode")
}

func TestKind(t *testing.T) {
	ctx := context.Background()
	h := machine.Mounted(t, irqTree)
	k := IRQKinds(h)[IRQKindName]
	if v, err := k.Read(ctx, Affinity("10")); err != nil || v.Text != "39" {
		t.Errorf("mask 80,00000000 reads as %s, %v", v, err)
	}
	if v, err := k.Read(ctx, Affinity("77")); err != nil || !v.Absent || !setting.Ended(k, v) {
		t.Errorf("an interrupt that is not there: %s, %v", v, err)
	}
	if err := k.Write(ctx, Affinity("10"), setting.Text("0,33")); err != nil {
		t.Fatal(err)
	}
	if b, _ := h.Files.ReadFile("/proc/irq/10/smp_affinity"); !strings.HasPrefix(string(b), "00000002,00000001") {
		t.Errorf("written: %q", b)
	}
	for _, name := range []string{"../x/affinity", "9", "/affinity", "9/smp_affinity"} {
		if _, err := k.Resolve(setting.Setting{Kind: IRQKindName, Name: name}); err == nil {
			t.Errorf("%q is taken as a name", name)
		}
	}
}

// TestOnThisKernel moves every interrupt of this machine and gives it back. What
// the kernel does not let anybody move is told as unsupported.
func TestOnThisKernel(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	h := host.Live()
	k := IRQKinds(h)[IRQKindName]
	numbers, err := Numbers(h)
	if err != nil || len(numbers) == 0 {
		t.Fatal(numbers, err)
	}
	moved, managed := 0, 0
	for _, n := range append(numbers, "default") {
		s := Affinity(n)
		file := irqPlace(n)
		raw, _ := os.ReadFile(file)
		before, err := k.Read(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		err = k.Write(ctx, s, setting.Text("0"))
		now, _ := k.Read(ctx, s)
		switch {
		case err == nil && now.Text == "0":
			moved++
		case err == nil:
			t.Errorf("%s is %s", s, now)
		default:
			managed++
			if !strings.Contains(err.Error(), "the kernel manages this interrupt itself") || !k.Equal(now, before) {
				t.Errorf("%s is %s: %v", s, now, err)
			}
		}
		if !k.Equal(now, before) {
			if err := k.Write(ctx, s, before); err != nil {
				t.Errorf("%s back to %s: %v", s, before, err)
			}
		}
		if after, _ := os.ReadFile(file); string(after) != string(raw) {
			t.Errorf("%s was %q and is %q", file, raw, after)
		}
	}
	t.Logf("%d moved, %d not movable", moved, managed)
	if moved == 0 {
		t.Error("no interrupt could be moved")
	}
	plugin.Proves(t, plugin.Here(), IRQ.Name, "affinity")
}
