package cpu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

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
	h = machine.Mounted(t, map[string]string{"/etc/": ""})
	got := plugin.Lines(plugin.PlanUndotest(t, &IRQBalance, h, plugin.Kinds(h, IRQBalanceKinds(h)), "banned_cpus=1"))
	if len(got) != 1 || !strings.Contains(got[0], "unsupported: irqbalance is not installed") {
		t.Error(got)
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
		set := setLast(text, value)
		if got, ok := lastValue(set); !ok || got != value {
			t.Errorf("set %q in %q: reads %q", value, text, got)
		}
		old, had := lastValue(text)
		back := dropLast(set)
		if had {
			back = setLast(set, old)
		}
		if back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	})
}
