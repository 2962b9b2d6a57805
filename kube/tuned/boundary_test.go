package tuned

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
)

func check(t testing.TB, text string, allow Allow) []Refusal {
	t.Helper()
	all, err := profile.Sections("p", []byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return Check("p", all, allow)
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing to refuse", "[main]\nsummary=a ${f:exec:x} in words\ninclude=a,${f:virt_check:b:c}\n[variables]\na=1\nb=${a},${f:cpulist_pack:${a}}\n[sysctl]\nvm.swappiness=${b}\n[cpu]\ncpuinfo_regex=^model.*$\ngovernor=a|b\n", nil},
		{"sections", "[script]\nscript=x\n[bootloader]\ncmdline=a\n[service]\nservice.x=stop\n[systemd]\ncpu_affinity=1\n[modules]\nkvm=+r\n",
			[]string{"1 script [script] is refused", "3 bootloader [bootloader] is refused", "5 service [service] is refused", "7 systemd [systemd] is refused", "9 modules [modules] is refused"}},
		{"a section by another name", "[net]\ntype=script\nscript=x\n", []string{"1 script [net] (type=script) is refused"}},
		{"a type for all sections", "[DEFAULT]\ntype=script\n[net]\nmtu=1\n", []string{"3 script [net] (type=script) is refused"}},
		{"another type under the name", "[script]\ntype=net\nmtu=9000\n", nil},
		{"switching off what is included", "[bootloader]\nenabled=0\n[x]\ntype=script\nenabled=no\n", nil},
		{"switched off, but with more", "[script]\nenabled=0\nscript=x\n", []string{"1 script [script] is refused"}},
		{"switched on", "[script]\nenabled=1\n", []string{"1 script [script] is refused"}},
		{"programs around a section", "[net]\nscript_pre=/x\nscript_post=/y\n", []string{"2 script script_pre in [net] is refused", "3 script script_post in [net] is refused"}},
		{"exec", "[sysctl]\nvm.swappiness=${f:exec:cat:/x}\n", []string{"2 exec ${f:exec:cat:/x} runs a program"}},
		{"control bytes", "[sysctl]\nx=${f:exec:a\n \x1b[2J}\n", []string{"2 exec ${f:exec:a  [2J} runs a program"}},
		{"exec inside", "[sysctl]\nvm.swappiness=${f:strip:${f:exec:cat:/x}}\n", []string{"2 exec ${f:exec:cat:/x} runs a program"}},
		{"exec in include", "[main]\ninclude=-provider-${f:exec:cat:/x},openshift\n", []string{"2 exec ${f:exec:cat:/x} runs a program"}},
		{"exec in a name", "[modules]\ntype=net\n${f:exec:x}=1\n", []string{"3 exec ${f:exec:x} runs a program"}},
		{"exec in devices", "[net]\ndevices=${f:exec:x}\n", []string{"2 exec ${f:exec:x} runs a program"}},
		{"exec in a section called main", "[x]\ntype=main\nsummary=${f:exec:x}\n", []string{"3 exec ${f:exec:x} runs a program"}},
		{"programs that are always the same", "[sysctl]\na=${f:virt_check:1:2}${f:lscpu_check:a:b}\n", nil},
		{"a name out of a variable", "[sysctl]\na=${f:${x}:id}\n", []string{"2 exec ${f:${x}:id} could become a function call on the node; "}},
		{"a name out of a function", "[sysctl]\na=${${f:strip:f}:exec:id}\n", []string{"2 exec ${${f:strip:f}:exec:id} could become a function call on the node; "}},
		{"an end out of a variable", "[sysctl]\na=${f:exec:id${x}\n", []string{"2 exec ${f:exec:id${x} could become a function call on the node; "}},
		{"a sign out of a variable", "[variables]\nx=a$\n", []string{"2 exec $ could become a function call on the node; "}},
		{"a sign before a variable", "[sysctl]\na=$${x}\n", []string{"2 exec $${x} could become a function call on the node; "}},
		{"signs that stay", "[sysctl]\na=5$ {x} } $\n", nil},
		// Put into another text it is a call, but of no other function.
		{"escapes", "[variables]\nx=\\${f:strip:id}\ny=\\${f:exec:id}\n[sysctl]\na=\\${x}\n", []string{"3 exec ${f:exec:id} runs a program"}},
		{"variables by type", "[x]\ntype=variables\ny=$\n", []string{"3 exec $ could become a function call on the node; "}},
		{"kernel variables", "[sysctl]\nkernel.core_pattern=core.%e\nkernel.modprobe=/x\nkernel/core_pattern=\"|/x\"\n/proc/sys/kernel/hotplug=/x\nkernel.poweroff_cmd=/x\nfs.binfmt_misc.register=:a:\nkernel.core_pattern=${x}\n",
			[]string{"3 exec kernel.modprobe ", "4 exec kernel/core_pattern ", "5 exec /proc/sys/kernel/hotplug ", "6 exec kernel.poweroff_cmd ", "7 exec fs.binfmt_misc.register ", "8 exec kernel.core_pattern "}},
		{"attributes", "[sysfs]\n/sys/kernel/uevent_helper=/x\n/sys/./kernel/u*=1\n/sys/fs/cgroup/cpu/a/release_agent=/x\n/sys/fs/cgroup/*/[r]elease_agent=/x\n/sys/kernel/mm/*/x=1\n/sys/block/*/queue/*=1\n",
			[]string{"2 exec /sys/kernel/uevent_helper ", "3 exec /sys/./kernel/u* ", "4 exec /sys/fs/cgroup/cpu/a/release_agent ", "5 exec /sys/fs/cgroup/*/[r]elease_agent "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(t, c.text, nil)
			for i, r := range got {
				s := strings.Join([]string{string('0' + rune(r.Line)), string(r.Kind), r.Text}, " ")
				if i >= len(c.want) || !strings.HasPrefix(s, c.want[i]) {
					t.Errorf("refused: %s", s)
				}
			}
			if len(got) < len(c.want) {
				t.Errorf("%d refused, want %q", len(got), c.want)
			}
			all := Allow{}
			for _, k := range Kinds {
				all[k.Kind] = true
			}
			if got := check(t, c.text, all); len(got) > 0 {
				t.Errorf("refused though all is allowed: %v", got)
			}
		})
	}
}

func TestAllowedOneByOne(t *testing.T) {
	const text = "[script]\nscript=x\n[bootloader]\ncmdline=a\n[service]\na=b\n[systemd]\na=b\n[modules]\na=b\n[sysctl]\na=${f:exec:x}\n"
	if got := check(t, text, nil); len(got) != len(Kinds) {
		t.Fatalf("%d refused, want one of each kind: %v", len(got), got)
	}
	for _, k := range Kinds {
		allow, err := ParseAllow(string(k.Kind))
		if err != nil {
			t.Fatal(err)
		}
		got := check(t, text, allow)
		if len(got) != len(Kinds)-1 || slices.ContainsFunc(got, func(r Refusal) bool { return r.Kind == k.Kind }) {
			t.Errorf("%s allowed, but refused are %v", k.Kind, got)
		}
	}
}

func TestRefusalIsPlain(t *testing.T) {
	all, err := profile.Sections("x", []byte("[main]\n\n[script]\nscript=x\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := Check("openshift-ingress", all, nil)
	if len(got) != 1 || got[0].Reason("operator") != "profile openshift-ingress, line 3: [script] is refused; to allow it, start the operator with --allow=script" {
		t.Errorf("%v", got)
	}
}

func TestParseAllow(t *testing.T) {
	got, err := ParseAllow(" script, exec,")
	if d := cmp.Diff(Allow{Script: true, Exec: true}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if got, err := ParseAllow(""); len(got) != 0 || err != nil {
		t.Errorf("nothing: %v %v", got, err)
	}
	if _, err := ParseAllow("scripts"); err == nil || err.Error() != `unknown word "scripts"; want one or more of script, bootloader, service, systemd, modules, exec (did you mean "script"?)` {
		t.Errorf("%v", err)
	}
}

// harmless are the plug-ins that run nothing of the profile's choice. One that is
// added has to be looked at, and named here or refused.
var harmless = []string{
	"acpi", "audio", "cpu", "disk", "eeepc_she", "irq", "irqbalance", "mounts", "net", "rtentsk", "scheduler", "scsi_host",
	"selinux", "sysctl", "sysfs", "uncore", "usb", "video", "vm",
}

func TestEveryPlugInAndFunctionWasLookedAt(t *testing.T) {
	known := 0
	for _, p := range table.All {
		if _, refused := sections[p.Name]; refused == slices.Contains(harmless, p.Name) {
			t.Errorf("[%s]: does it run what the profile names? then refuse it in sections of boundary.go, else list it in harmless of boundary_test.go", p.Name)
		}
		known++
	}
	if known != len(sections)+len(harmless) {
		t.Errorf("%d plug-ins, but %d are refused and %d harmless", known, len(sections), len(harmless))
	}
	for _, f := range profile.Functions {
		if f.Executes && !slices.Contains(append(fixed, "exec"), f.Name) {
			t.Errorf("%s: does it run what the profile names? list it in fixed if not", f.Name)
		}
	}
	if !runs("exec") {
		t.Error("exec is not refused")
	}
}
