package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/kube/tuned"
)

// TestApplySwitchRemove adds, changes and removes a label: the values follow, and in the end the
// node has its former values. Each step uses a new agent.
func TestApplySwitchRemove(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart=", restart), func(t *testing.T) {
			f := newNode(t, nil)
			again := func() {
				if restart {
					f.start()
				}
			}
			out := f.look(f.profile("", "day", day), Apply)
			f.want(swappiness, "10", dirtyRatio, "40", somaxconn, "4096")
			if c := condition(t, out, "day", tuned.Applied); c.Status != "True" || c.Reason != "AsExpected" || c.Message != "profile day is in force: 2 values: 2 ok" {
				t.Errorf("%+v", c)
			}
			if c := condition(t, out, "day", tuned.Degraded); c.Status != "False" || c.Reason != "AsExpected" {
				t.Errorf("%+v", c)
			}
			again()
			f.look(f.profile("", "day", day), Leave)
			again()
			f.look(f.profile("", "night", night, "day", day), Apply)
			f.want(swappiness, "30", dirtyRatio, "20", somaxconn, "1024")
			again()
			if got := f.read("/var/lib/fettle-agent/profiles/night/tuned.conf"); got != strings.TrimSpace(night) {
				t.Errorf("the text on the node: %q", got)
			}
			f.look(f.profile("", "night", night), Leave) // a text that is not needed has gone
			again()
			f.look(f.profile("", "night", night+"vm.dirty_ratio=15\n"), Apply)
			f.want(swappiness, "30", dirtyRatio, "15", somaxconn, "1024")
			again()
			out = f.look(nil, Restore)
			f.wantPristine()
			if out.Profile != "" || out.Values != nil {
				t.Errorf("in force: %+v", out)
			}
			again()
			f.look(nil, Leave)
			f.look(&tuned.Profile{}, Leave) // it names no profile
		})
	}
}

// TestNothingHeard tests that values stay, also across a boot, until the API server has answered.
func TestNothingHeard(t *testing.T) {
	f := newNode(t, nil)
	f.look(f.profile("", "day", day), Apply)
	f.start()
	if out := f.Look(t.Context(), false, nil); out.Err != nil || out.Decision.Action != Leave || out.Profile != "day" {
		t.Errorf("%+v", out)
	}
	f.boot("boot-2")
	if out := f.Look(t.Context(), false, nil); out.Err != nil || out.Decision.Action != Again {
		t.Errorf("%+v", out)
	}
	f.want(swappiness, "10", dirtyRatio, "40")
	f.look(nil, Restore)
	f.wantPristine()
}

func TestDeferred(t *testing.T) {
	t.Run("always", func(t *testing.T) {
		f := newNode(t, nil)
		p := f.profile(tuned.DeferAlways, "day", day)
		out := f.look(p, Leave)
		if a, d := condition(t, out, "day", tuned.Applied), condition(t, out, "day", tuned.Degraded); a.Status != "False" || a.Reason != Deferred || d.Status != "True" || d.Reason != TunedDeferredUpdate {
			t.Errorf("%+v %+v", a, d)
		}
		f.start() // a restart of the agent is no boot
		f.look(p, Leave)
		f.wantPristine()
		f.boot("boot-2")
		f.Look(t.Context(), false, nil)
		f.wantPristine()
		f.start() // killed before it had heard
		out = f.look(p, Apply)
		f.want(swappiness, "10", dirtyRatio, "40")
		if a := condition(t, out, "day", tuned.Applied); a.Status != "True" {
			t.Errorf("%+v", a)
		}
		edited := f.profile(tuned.DeferAlways, "day", day+"net.core.somaxconn=99\n")
		f.look(edited, Leave)
		f.want(somaxconn, "4096")
		out = f.look(p, Leave) // the edit is taken back
		if out.Decision.Waits {
			t.Error("it waits for what is in force")
		}
		f.look(edited, Leave)
		f.look(nil, Restore)
		f.wantPristine()
	})
	t.Run("update", func(t *testing.T) {
		f := newNode(t, nil)
		f.look(f.profile(tuned.DeferUpdate, "day", day), Apply)
		edited := f.profile(tuned.DeferUpdate, "day", day+"net.core.somaxconn=99\n")
		if out := f.look(edited, Leave); !out.Decision.Waits {
			t.Error("an edit does not wait")
		}
		f.look(f.profile(tuned.DeferUpdate, "night", night), Apply)
		f.want(swappiness, "30")
		f.look(f.profile(tuned.DeferUpdate, "night", night+"vm.dirty_ratio=15\n"), Leave)
		f.want(dirtyRatio, "20")
		f.boot("boot-2")
		f.look(f.profile(tuned.DeferUpdate, "night", night+"vm.dirty_ratio=15\n"), Apply)
		f.want(swappiness, "30", dirtyRatio, "15")
	})
}

// TestRefused tests that a forbidden action is refused, whether a text requests it directly or
// together with the node's own profiles.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		files      map[string]string
		says       string
	}{
		{"a script", "[script]\nscript=${i:PROFILE_DIR}/x.sh\n", nil, "is refused; to allow it, start the agent with --allow=script"},
		{"a program", "[sysctl]\nvm.swappiness=${f:exec:echo:1}\n", nil, "${f:exec:echo:1} runs a program; to allow it, start the agent with --allow=exec"},
		{"no profile's language", "[sysctl\nvm.swappiness=1\n", nil, "profile bad cannot be read"},
		{"a program of the node's own profile with the cluster's argument", "[main]\ninclude=site\n[variables]\ncommand=/bin/evil\n",
			map[string]string{"/etc/tuned/site/tuned.conf": "[sysctl]\nvm.swappiness=${f:exec:${command}}\n"}, "function exec is not allowed on this node; to allow it, start the agent with --allow=exec"},
		{"a file that is none of profiles", "[variables]\ninclude=/etc/tuned/../shadow\n[sysctl]\nvm.swappiness=1\n",
			map[string]string{"/etc/shadow": "root=$6$secret\n"}, "may read only files below the node's profile directories"},
		{"a profile that is nowhere", "[main]\ninclude=nowhere\n", nil, "nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newNode(t, c.files)
			f.look(f.profile("", "day", day), Apply)
			out := f.look(f.profile("", "bad", c.text), Leave)
			a, d := condition(t, out, "bad", tuned.Applied), condition(t, out, "bad", tuned.Degraded)
			if a.Status != "False" || a.Reason != Failed || d.Status != "True" || d.Reason != TunedError || !strings.Contains(d.Message, c.says) {
				t.Errorf("%+v\n%+v\nwant the words %q", a, d, c.says)
			}
			f.want(swappiness, "10", dirtyRatio, "40")
			// A switch away from it recovers.
			f.look(f.profile("", "night", night), Apply)
		})
	}

	t.Run("a program that the node's own profile names by the cluster's variable", func(t *testing.T) {
		f := newNode(t, map[string]string{"/etc/tuned/site/tuned.conf": "[sysctl]\nkernel.modprobe=${x}\n"})
		out := f.look(f.profile("", "sly", "[main]\ninclude=site\n[variables]\nx=/tmp/evil\n[sysctl]\nvm.swappiness=1\n"), Apply)
		f.want(modprobe, "/sbin/modprobe", swappiness, "1")
		if v, why := verdict(t, out, "kernel.modprobe"); v != plugin.Refused || !strings.Contains(why, "names a program that the kernel runs; to allow it, start the agent with --allow=exec") {
			t.Errorf("%q %q", v, why)
		}
	})
	t.Run("a program that the kernel runs, allowed", func(t *testing.T) {
		f := newNode(t, nil)
		f.Allow = tuned.Allow{tuned.Exec: true}
		f.look(f.profile("", "sly", "[sysctl]\nkernel.modprobe=/tmp/mine\n"), Apply)
		f.want(modprobe, "/tmp/mine")
	})
	t.Run("a section of the node's own profile", func(t *testing.T) {
		f := newNode(t, map[string]string{"/etc/tuned/site/tuned.conf": "[bootloader]\ncmdline=quiet\n[sysctl]\nvm.swappiness=5\n"})
		out := f.look(f.profile("", "day", "[main]\ninclude=site\n"), Apply)
		f.want(swappiness, "5")
		refused := false
		for _, v := range out.Values.Values {
			refused = refused || v.Verdict == plugin.Refused && strings.Contains(v.Why, "--allow=bootloader")
		}
		if !refused {
			t.Errorf("%+v", out.Values.Values)
		}
	})
	t.Run("variables of the node's", func(t *testing.T) {
		f := newNode(t, map[string]string{"/etc/tuned/site-variables.conf": "x=5\n"})
		f.look(f.profile("", "day", "[variables]\ninclude=/etc/tuned/site-variables.conf\n[sysctl]\nvm.swappiness=${x}\n"), Apply)
		f.want(swappiness, "5")
	})
	t.Run("a bad text that nobody needs", func(t *testing.T) {
		f := newNode(t, nil)
		f.look(f.profile("", "day", day, "bad", "[script]\nscript=x\n"), Apply)
		f.want(swappiness, "10")
	})
	t.Run("a bad text with the name of a built-in profile", func(t *testing.T) {
		f := newNode(t, nil)
		out := f.look(f.profile("", "mine", "[main]\ninclude=network-throughput\n", "network-throughput", "[script]\nscript=x\n"), Leave)
		if out.Decision.Why == "" {
			t.Error("the built-in profile is taken in its place")
		}
	})
	t.Run("a name that leads elsewhere", func(t *testing.T) {
		f := newNode(t, nil)
		if out := f.look(f.profile("", "..", day), Leave); out.Decision.Why == "" {
			t.Error("taken")
		}
		f.wantPristine()
	})
}

// TestOthersGoFirst tests that the node's administrator and the kubelet take precedence.
func TestOthersGoFirst(t *testing.T) {
	f := newNode(t, map[string]string{"/etc/sysctl.d/90-site.conf": "vm.swappiness = 7\n"})
	f.write(swappiness, "7\n")
	p := f.profile("", "day", day+"vm.overcommit_memory=2\n")
	out := f.look(p, Apply)
	f.want(swappiness, "7", dirtyRatio, "40", overcommit, "0")
	if v, why := verdict(t, out, "vm.swappiness"); v != plugin.Overridden || !strings.Contains(why, "/etc/sysctl.d/90-site.conf:1") {
		t.Errorf("%q %q", v, why)
	}
	if v, why := verdict(t, out, "vm.overcommit_memory"); v != plugin.Kept || !strings.Contains(why, "kubelet") {
		t.Errorf("%q %q", v, why)
	}
	c := condition(t, out, "day", tuned.Degraded)
	if c.Status != "True" || c.Reason != TunedSysctlOverride || !strings.Contains(c.Message, "vm.swappiness: want 10, has 7") || !strings.Contains(c.Message, "vm.overcommit_memory: want 2, has 0") {
		t.Errorf("%+v", c)
	}
	// The operator may let the profile win over the administrator, not over the kubelet.
	no := false
	p.Spec.Config.TuneDConfig.ReapplySysctl = &no
	out = f.look(p, Apply)
	f.want(swappiness, "10", overcommit, "0")
	if c := condition(t, out, "day", tuned.Degraded); c.Reason != TunedSysctlOverride || strings.Contains(c.Message, "swappiness") {
		t.Errorf("%+v", c)
	}
	// So it does at a boot, before the API server has answered.
	f.boot("boot-2")
	f.write(swappiness, "7\n")
	if out := f.Look(t.Context(), false, nil); out.Err != nil {
		t.Fatal(out.Err)
	}
	f.want(swappiness, "10")
	f.look(p, Leave)
	// The kubelet's own value is not written either: an undo would take it away again.
	f.look(f.profile("", "night", "[sysctl]\nvm.overcommit_memory=1\n"), Apply)
	f.want(overcommit, "0")
	f.write(overcommit, "1\n") // the kubelet starts
	out = f.look(f.profile("", "night", "[sysctl]\nvm.overcommit_memory=1\n"), Leave)
	if c := condition(t, out, "night", tuned.Degraded); c.Status != "False" {
		t.Errorf("%+v", c)
	}
	f.look(nil, Restore)
	f.want(overcommit, "1", swappiness, "7", dirtyRatio, "20")
}

// TestDrift tests that drift is reported and not corrected, and that a removal of the profile
// restores only fettle's own values.
func TestDrift(t *testing.T) {
	f := newNode(t, nil)
	p := f.profile("", "day", day)
	before := f.look(p, Apply)
	f.write(swappiness, "55\n")
	out := f.look(p, Leave)
	f.want(swappiness, "55")
	if c := condition(t, out, "day", tuned.Degraded); c.Status != "True" || c.Reason != ValuesDrifted || !strings.Contains(c.Message, "vm.swappiness: want 10, has 55") {
		t.Errorf("%+v", c)
	}
	if c := condition(t, out, "day", tuned.Applied); c.Status != "True" {
		t.Errorf("%+v", c)
	}
	if e := Events(before, out, "day"); len(e) != 1 || e[0].Reason != "ValueDrifted" || !e[0].Warning {
		t.Errorf("%+v", e)
	}
	if e := Events(out, f.look(p, Leave), "day"); len(e) != 0 {
		t.Errorf("told again: %+v", e)
	}
	f.look(nil, Restore)
	f.want(swappiness, "55", dirtyRatio, "20")
}

// TestSomebodyElses tests that a selection made on the node stays.
func TestSomebodyElses(t *testing.T) {
	f := newNode(t, nil)
	f.look(f.profile("", "day", day), Apply)
	m, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.write("/etc/tuned/own/tuned.conf", "[sysctl]\nvm.swappiness=1\n")
	selectOwn(t, m, "own")
	out := f.look(f.profile("", "night", night), Leave)
	f.want(swappiness, "1")
	if c := condition(t, out, "night", tuned.Applied); c.Status != "False" || c.Message != selectedLocally+"; no profile active" {
		t.Errorf("%+v", c)
	}
	f.look(nil, Leave)
	f.want(swappiness, "1")
	// Undone there, the node is the cluster's again.
	state, err := m.engine.State()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.engine.Undo(t.Context(), state.InForce().ID); err != nil {
		t.Fatal(err)
	}
	f.look(nil, Restore)
	f.wantPristine()
}

// TestBusy tests that the agent waits while another transaction runs on the node.
func TestBusy(t *testing.T) {
	f := newNode(t, nil)
	defer func(was time.Duration) { patience = was }(patience)
	patience = 20 * time.Millisecond
	m, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Lock(m.engine.StateDir, journal.Options{BootID: "boot-1"})
	if err != nil {
		t.Fatal(err)
	}
	p := f.profile("", "day", day)
	if out := f.Look(t.Context(), true, p); !out.Busy || out.Err == nil {
		t.Errorf("%+v", out)
	}
	f.wantPristine()
	j.Close()
	f.look(p, Apply)
}

func TestUninstall(t *testing.T) {
	f := newNode(t, nil)
	f.look(f.profile("", "day", day), Apply)
	f.start()
	if _, err := f.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantPristine()
	if _, err := os.Lstat(filepath.Join(f.dir, Dir)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", Dir, err)
	}
	if out, err := f.Uninstall(t.Context()); err != nil || out.Tx != 0 {
		t.Errorf("once more: %+v %v", out, err)
	}
}

// TestPartitioned tests a profile that isolates CPUs, in the form that OpenShift's operator writes:
// it loads on a node without TuneD, because its includes are built in. Sections that the agent does
// not allow are refused values, and not an error.
func TestPartitioned(t *testing.T) {
	const text = "[main]\ninclude=cpu-partitioning\n[variables]\nisolated_cores=2-3\n[irqbalance]\nenabled=false\n[bootloader]\ncmdline_cpu_part=+nohz=on rcu_nocbs=${isolated_cores}\n"
	const mask = "/sys/devices/virtual/workqueue/cpumask"
	f := newNode(t, map[string]string{"/sys/devices/system/cpu/online": "0-7\n", "/sys/devices/system/cpu/present": "0-7\n", mask: "ff\n"})
	f.Node.Allow = tuned.Allow{tuned.BootLoader: true}
	out := f.Look(t.Context(), true, f.profile("", "mine", text))
	if out.Decision.Action != Apply || out.Err != nil || out.Values == nil || out.Values.Counts[plugin.Refused] != 1 {
		t.Fatalf("%+v", out)
	}
	f.want(mask, "000000f3", swappiness, "10")
	// The CPUs are unknown.
	bare := f.Look(t.Context(), true, f.profile("", "bare", "[main]\ninclude=cpu-partitioning\n"))
	if !strings.Contains(bare.fault(), "/etc/tuned/cpu-partitioning-variables.conf") {
		t.Errorf("%q", bare.fault())
	}
}
