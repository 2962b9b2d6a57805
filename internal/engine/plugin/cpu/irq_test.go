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
		{[]string{"devices=irq9", "affinity=40"}, []string{"irq:9/affinity ! rejected: this machine has no CPU 40, only 0-39"}},
		{[]string{"devices=irq9", "affinity=all"}, []string{`irq:9/affinity ! rejected: "all" is not a value for affinity: want a CPU list, such as 1,3-4`}},
		{[]string{"devices=irq9", "affinity=1", "mode=some"}, []string{`irq:9/affinity ! rejected: "some" is not a mode: want set or intersect`}},
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
	k := IRQKinds(h)[irqKind]
	if v, err := k.Read(ctx, irqSetting("10")); err != nil || v.Text != "39" {
		t.Errorf("mask 80,00000000 reads as %s, %v", v, err)
	}
	if v, err := k.Read(ctx, irqSetting("77")); err != nil || !v.Absent || !setting.Ended(k, v) {
		t.Errorf("an interrupt that is not there: %s, %v", v, err)
	}
	if err := k.Write(ctx, irqSetting("10"), setting.Text("0,33")); err != nil {
		t.Fatal(err)
	}
	if b, _ := h.Files.ReadFile("/proc/irq/10/smp_affinity"); !strings.HasPrefix(string(b), "00000002,00000001") {
		t.Errorf("written: %q", b)
	}
	for _, name := range []string{"../x/affinity", "9", "/affinity", "9/smp_affinity"} {
		if _, err := k.Resolve(setting.Setting{Kind: irqKind, Name: name}); err == nil {
			t.Errorf("%q is taken as a name", name)
		}
	}
}

// TestOnThisKernel moves every interrupt of this machine and restores it. An interrupt that the
// kernel does not move is reported as unsupported.
func TestOnThisKernel(t *testing.T) {
	root.Disposable(t)
	ctx := context.Background()
	h := host.Live()
	k := IRQKinds(h)[irqKind]
	numbers, err := irqNumbers(h)
	if err != nil || len(numbers) == 0 {
		t.Fatal(numbers, err)
	}
	moved, managed := 0, 0
	for _, n := range append(numbers, "default") {
		s := irqSetting(n)
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
			if !strings.Contains(err.Error(), "the kernel manages this interrupt, or its controller cannot move it:") || !k.Equal(now, before) {
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

func TestBytesComeBack(t *testing.T) {
	for _, c := range []struct{ name, text, applied string }{
		{"empty", "", "IRQBALANCE_BANNED_CPULIST=2,4\n"},
		{"comments", "# IRQBALANCE_BANNED_CPULIST=\n#IRQBALANCE_BANNED_CPULIST=1\n", "# IRQBALANCE_BANNED_CPULIST=\n#IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=2,4\n"},
		{"no line feed", "A=1", "A=1\nIRQBALANCE_BANNED_CPULIST=2,4"},
		{"its own", " IRQBALANCE_BANNED_CPULIST=\"1\" \nB=2\n", " IRQBALANCE_BANNED_CPULIST=2,4\nB=2\n"},
		{"two", "IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=3\nB=2\n", "IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=2,4\nB=2\n"},
		{"last without line feed", "B=2\nIRQBALANCE_BANNED_CPULIST=", "B=2\nIRQBALANCE_BANNED_CPULIST=2,4"},
	} {
		for _, file := range files {
			t.Run(c.name+file, func(t *testing.T) {
				h := machine.Mounted(t, map[string]string{file: c.text, "/run/systemd/system/": "", "/sys/devices/system/cpu/present": "0-7\n"})
				p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": nil}}
				h.Exec = p
				kinds := plugin.Kinds(h, IRQBalanceKinds(h))
				images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &IRQBalance, h, kinds, "banned_cpus=2,4"))
				if b, _ := h.Files.ReadFile(file); string(b) != c.applied {
					t.Errorf("applied: %q", b)
				}
				plugin.Undo(t, kinds, images)
				if b, _ := h.Files.ReadFile(file); string(b) != c.text {
					t.Errorf("undone: %q", b)
				}
				call := "systemctl try-restart irqbalance.service"
				if d := cmp.Diff([]string{call, call}, p.Calls); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestIRQBalancePlan(t *testing.T) {
	h := machine.Mounted(t, map[string]string{files[1]: `IRQBALANCE_BANNED_CPULIST="2-4"`, "/sys/devices/system/cpu/present": "0-7\n"})
	kinds := plugin.Kinds(h, IRQBalanceKinds(h))
	for value, want := range map[string][]string{
		"2,3,4": {"irqbalance:/etc/default/irqbalance = 2-4"},
		"":      {"irqbalance:/etc/default/irqbalance = "},
		"4-9":   {"irqbalance:/etc/default/irqbalance unsupported: the machine has CPUs 0-7, not 8-9"},
	} {
		if d := cmp.Diff(want, plugin.Lines(plugin.PlanUndotest(t, &IRQBalance, h, kinds, "banned_cpus="+value))); d != "" {
			t.Errorf("%q: %s", value, d)
		}
	}
	if images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &IRQBalance, h, kinds, "banned_cpus=2,3,4")); len(images) > 0 {
		t.Errorf("the same CPUs in other words were written: %v", images)
	}
	if _, err := plugin.TryPlan(&IRQBalance, h, kinds, "banned_cpus=none of them"); err == nil {
		t.Error("words were taken as CPUs")
	}
	// irqbalance uses a mask, if there is one, instead of the list.
	for text, masked := range map[string]bool{
		"A=1\nIRQBALANCE_BANNED_CPUS=3\n": true, "IRQBALANCE_BANNED_CPUS=\"3\"": true,
		"#IRQBALANCE_BANNED_CPUS=3\n": false, "IRQBALANCE_BANNED_CPUS=\n": false, "IRQBALANCE_BANNED_CPUS=3\nIRQBALANCE_BANNED_CPUS=''\n": false,
	} {
		h := machine.Mounted(t, map[string]string{files[1]: text})
		got := plugin.Lines(plugin.PlanUndotest(t, &IRQBalance, h, plugin.Kinds(h, IRQBalanceKinds(h)), "banned_cpus=1"))
		if len(got) != 1 || strings.Contains(got[0], " overridden: not written: /etc/default/irqbalance:") != masked {
			t.Errorf("%q: %q", text, got)
		}
	}
	h = machine.Mounted(t, map[string]string{"/etc/": ""})
	got := plugin.Lines(plugin.PlanUndotest(t, &IRQBalance, h, plugin.Kinds(h, IRQBalanceKinds(h)), "banned_cpus=1"))
	if len(got) != 1 || !strings.Contains(got[0], "unsupported: irqbalance is not installed") {
		t.Error(got)
	}
}

// TestIRQBalanceArguments: the other variable is set and removed in its own line only.
func TestIRQBalanceArguments(t *testing.T) {
	const before = "IRQBALANCE_BANNED_CPULIST=1\n# end\n"
	h := machine.Mounted(t, map[string]string{files[1]: before})
	k := IRQBalanceKinds(h)["irqbalance"]
	s, err := k.Resolve(setting.Setting{Kind: "irqbalance", Name: files[1] + "/IRQBALANCE_ARGS"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want setting.Value
		text string
	}{
		{setting.Text(`"--banirq=40"`), before + "IRQBALANCE_ARGS=\"--banirq=40\"\n"},
		{setting.Text(`"--banirq=40 --banirq=41"`), before + "IRQBALANCE_ARGS=\"--banirq=40 --banirq=41\"\n"},
		{setting.Absent, before},
	} {
		if err := k.Write(t.Context(), s, c.want); err != nil {
			t.Fatal(err)
		}
		if b, _ := h.Files.ReadFile(files[1]); string(b) != c.text {
			t.Errorf("%v: %q", c.want, b)
		}
		if v, err := k.Read(t.Context(), s); err != nil || v != c.want {
			t.Errorf("reads %v, %v", v, err)
		}
	}
	if err := k.Write(t.Context(), s, setting.Text("a\nLD_PRELOAD=x")); err == nil {
		t.Error("a second line was written")
	}
	if _, err := k.Resolve(setting.Setting{Kind: "irqbalance", Name: files[1] + "/PATH"}); err == nil {
		t.Error("another variable is a setting")
	}
}

func TestRestartOnlyWhatRuns(t *testing.T) {
	for status, want := range map[int][]string{
		0: {"service irqbalance status", "service irqbalance restart"},
		3: {"service irqbalance status"},
	} {
		h := machine.Mounted(t, map[string]string{"/etc/": ""})
		p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"service": func(c host.Command) host.Result {
			if c.Argv[2] == "status" {
				return host.Result{ExitCode: status}
			}
			return host.Result{}
		}}}
		h.Exec = p
		if err := restart(t.Context(), h); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, p.Calls); d != "" {
			t.Error(d)
		}
	}
}

func FuzzLastValue(f *testing.F) {
	f.Add("A=1\nIRQBALANCE_BANNED_CPULIST=3", "2")
	f.Add("\tIRQBALANCE_BANNED_CPULIST=3\r\n#\n\n", "2")
	f.Add("x", "1-4")
	f.Fuzz(func(t *testing.T, text, value string) {
		if strings.Contains(value, "\n") {
			return
		}
		set := setLast(text, irqbalanceVariable, value)
		if got, ok := lastValue(set, irqbalanceVariable); !ok || got != value {
			t.Errorf("set %q in %q: reads %q", value, text, got)
		}
		old, had := lastValue(text, irqbalanceVariable)
		back := dropLast(set, irqbalanceVariable)
		if had {
			back = setLast(set, irqbalanceVariable, old)
		}
		if back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	})
}
