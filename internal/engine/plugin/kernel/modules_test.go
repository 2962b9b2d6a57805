package kernel

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

const dep = "kernel/net/netrom/netrom.ko.xz: kernel/net/ax25/ax25.ko.xz\nkernel/sound/snd-hda-intel.ko:\n"

func modulesMachine(t *testing.T, more map[string]string) *host.Host {
	files := map[string]string{
		"/proc/sys/kernel/osrelease": "6.1.0-test\n", "/lib/modules/6.1.0-test/modules.dep": dep,
		"/lib/modules/6.1.0-test/modules.builtin": "kernel/drivers/cpufreq/cpufreq-conservative.ko\n",
		"/sys/module/nvme_core/initstate":         "live\n", "/sys/module/nvme_core/parameters/io_timeout": "30\n",
		"/sys/module/nvme_core/parameters/multipath": "Y\n", "/sys/module/nvme_core/parameters/names": "(null)\n",
		"/sys/module/rcutree/parameters/kthread_prio": "0\n", "/etc/modprobe.d/": "",
	}
	for p, c := range more {
		files[p] = c
	}
	return machine.Mounted(t, files)
}

func TestModulesPlan(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"netrom=nr_ndevs=2", []string{"modprobe:netrom = nr_ndevs=2"}},
		{"netrom=+r nr_ndevs=2", []string{"modprobe:netrom = +r nr_ndevs=2", "module:netrom = loaded nr_ndevs=2"}},
		{"netrom= +r, nr_ndevs=2  x=3 ", []string{"modprobe:netrom = +r nr_ndevs=2 x=3", "module:netrom = loaded nr_ndevs=2 x=3"}},
		{"netrom=+r", []string{"module:netrom = loaded"}},
		{"snd-hda-intel=power_save=1", []string{"modprobe:snd_hda_intel = power_save=1"}},
		{"netrom=", []string{"module:netrom drifted: not loaded, and fettle loads it only with +r"}},
		{"nvme-core=", []string{"module:nvme_core ok: loaded"}},
		{"nosuch=a=1", []string{"modprobe:nosuch unsupported: this kernel has no module nosuch"}},
		{"rcutree=kthread_prio=1", []string{"modprobe:rcutree unsupported: rcutree is built into this kernel, so modprobe.d has no effect; put rcutree.kthread_prio=1 on the kernel command line"}},
		{"cpufreq_conservative=+r", []string{"modprobe:cpufreq_conservative ok: built into this kernel"}}, // no parameters, so nothing in /sys/module
		{"rcutree=kthread_prio=0", []string{"modprobe:rcutree ok: built into this kernel, with these options"}},
	} {
		h := modulesMachine(t, nil)
		got := plugin.Lines(plugin.PlanUndotest(t, &Modules, h, plugin.Kinds(h, ModulesKinds(h)), c.line))
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.line, d)
		}
	}
	h := modulesMachine(t, nil)
	if _, err := plugin.TryPlan(&Modules, h, plugin.Kinds(h, ModulesKinds(h)), "a b=c"); err == nil {
		t.Error("a module called \"a b\" was taken")
	}
}

// TestBuiltInOptions tests that an option that the kernel does not show is in force only if the
// kernel command line sets it.
func TestBuiltInOptions(t *testing.T) {
	const cmdline = "/proc/cmdline"
	for _, c := range []struct {
		line, cmdline string
		want          engineplugin.Verdict
	}{
		{"cpufreq_conservative=x=1", "quiet\n", engineplugin.Unsupported},
		{"cpufreq_conservative=x=1", "quiet cpufreq-conservative.x=0x1\n", engineplugin.OK},
		{"cpufreq_conservative=x=1", "cpufreq_conservative.x=1 cpufreq_conservative.x=2\n", engineplugin.Unsupported},
		{"cpufreq_conservative=x=1", "quiet -- cpufreq_conservative.x=1\n", engineplugin.Unsupported},
		{"cpufreq_conservative=x=1", "", engineplugin.Unknown},
		{"cpufreq_conservative=+r", "", engineplugin.OK},
		{"rcutree=kthread_prio=0 hidden=1", "rcutree.hidden=1\n", engineplugin.OK},
		{"rcutree=kthread_prio=0 hidden=1", "quiet\n", engineplugin.Unsupported},
		{"rcutree=kthread_prio=0", "", engineplugin.OK},
	} {
		more := map[string]string{}
		if c.cmdline != "" {
			more[cmdline] = c.cmdline
		}
		h := modulesMachine(t, more)
		items, err := plugin.TryPlan(&Modules, h, plugin.Kinds(h, ModulesKinds(h)), c.line)
		if err != nil || len(items) != 1 || items[0].Verdict != c.want {
			t.Errorf("%s with %q: %v %v", c.line, c.cmdline, items, err)
		}
	}
}

// TestListsOfACopy tests a module that is not in the lists of a copy: it may be in a list that the
// copy lacks (sos copies modules.dep but not modules.builtin).
func TestListsOfACopy(t *testing.T) {
	const lib = "/lib/modules/6.1.0-test/modules."
	files := map[string]string{"/proc/sys/kernel/osrelease": "6.1.0-test\n", lib + "dep": dep, "/etc/modprobe.d/x.conf": "\n"}
	for _, c := range []struct {
		also string
		want engineplugin.Verdict
	}{
		{"", engineplugin.Unknown},
		{"alias", engineplugin.Unknown},
		{"alias builtin", engineplugin.Unsupported},
	} {
		for _, list := range strings.Fields(c.also) {
			files[lib+list] = "\n"
		}
		h := machine.Copy(t, files)
		items, err := plugin.TryPlan(&Modules, h, plugin.Kinds(h, ModulesKinds(h)), "nosuch=a=1")
		if err != nil || len(items) != 1 || items[0].Verdict != c.want {
			t.Errorf("with %q: %v %v", c.also, items, err)
		}
	}
}

// modprobe simulates modprobe(8) on the tree.
func modprobe(t *testing.T, h *host.Host, dir string) *plugin.Programs {
	return &plugin.Programs{Answer: map[string]func(host.Command) host.Result{
		"modprobe": func(c host.Command) host.Result {
			name := c.Argv[1]
			if name == "-r" {
				if err := os.RemoveAll(filepath.Join(dir, "sys/module", c.Argv[2])); err != nil {
					t.Fatal(err)
				}
				return host.Result{}
			}
			p := filepath.Join(dir, "sys/module", name, "parameters")
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(filepath.Dir(p), "initstate"), []byte("live\n"), 0o644)
			conf, _ := h.Files.ReadFile(confFile)
			opts, _ := lineOf(string(conf), name)
			for _, f := range append(strings.Fields(opts), c.Argv[2:]...) {
				k, v, _ := strings.Cut(f, "=")
				os.WriteFile(filepath.Join(p, k), []byte(v+"\n"), 0o644)
			}
			return host.Result{}
		},
	}}
}

func TestApplyAndUndo(t *testing.T) {
	for _, line := range []string{"netrom=nr_ndevs=2", "netrom=+r nr_ndevs=2", "nvme_core=+r io_timeout=255 multipath=0"} {
		for name, conf := range map[string]string{"no file": "", "lines of others": "# mine\noptions other a=1\n", "no line feed": "options other a=1"} {
			t.Run(line+" "+name, func(t *testing.T) {
				more := map[string]string{}
				if conf != "" {
					more[confFile] = conf
				}
				h := modulesMachine(t, more)
				h.Exec = modprobe(t, h, h.Name)
				kinds := plugin.Kinds(h, ModulesKinds(h))
				before := plugin.Snapshot(t, h)
				images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Modules, h, kinds, line))
				if len(images) == 0 {
					t.Fatal("nothing was changed")
				}
				plugin.Undo(t, kinds, images)
				after := plugin.Snapshot(t, h)
				// An unset string parameter has no file any more in this play.
				delete(before, "/sys/module/nvme_core/parameters/names")
				delete(after, "/sys/module/nvme_core/parameters/names")
				if d := cmp.Diff(before, after); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestEffect(t *testing.T) {
	h := modulesMachine(t, nil)
	k := ModulesKinds(h)["modprobe"].(options)
	for _, c := range []struct {
		module, opts string
		want         engineplugin.Verdict
	}{
		{"nvme_core", "io_timeout=30 multipath=1 hidden=7", engineplugin.OK},
		{"nvme_core", "io_timeout=0x1e", engineplugin.OK},
		{"nvme_core", "+r io_timeout=31", engineplugin.NeedsReboot},
		{"netrom", "nr_ndevs=2", engineplugin.NeedsRestart},
	} {
		if v, why := k.Effect(context.Background(), setting.Setting{Kind: "modprobe", Name: c.module}, setting.Text(c.opts)); v != c.want {
			t.Errorf("%s %s: %s (%s)", c.module, c.opts, v, why)
		}
	}
}

// TestNoModules plans on a kernel without installed modules.
func TestNoModules(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/proc/sys/kernel/osrelease": "6.1.0-test\n", "/sys/module/loop/parameters/max_loop": "0\n", "/etc/modprobe.d/": ""})
	kinds := plugin.Kinds(h, ModulesKinds(h))
	got := plugin.Lines(plugin.PlanUndotest(t, &Modules, h, kinds, "dummy=+r numdummies=1", "loop=max_loop=0"))
	want := []string{"modprobe:dummy unsupported: this kernel has no module dummy", "modprobe:loop ok: built into this kernel, with these options"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestInUse(t *testing.T) {
	h := modulesMachine(t, nil)
	h.Exec = &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"modprobe": func(host.Command) host.Result {
		return host.Result{ExitCode: 1, Stderr: []byte("modprobe: FATAL: Module nvme_core is in use.\n")}
	}}}
	err := ModulesKinds(h)["module"].Write(context.Background(), setting.Setting{Kind: "module", Name: "nvme_core"}, setting.Text("loaded io_timeout=255"))
	if err == nil || !strings.Contains(err.Error(), "is in use") || !strings.Contains(err.Error(), "next boot") {
		t.Error(err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("", "a=1")
	f.Add("options x y=1\noptions m b=2", "a=1 c=\"d\"")
	f.Add("# options m\n\noptions  m\tz=1\n", "a")
	f.Fuzz(func(t *testing.T, text, opts string) {
		if strings.ContainsAny(opts, "\n\\#") || strings.TrimSpace(opts) == "" || reload().MatchString(opts) {
			return
		}
		norm := strings.Join(strings.Fields(opts), " ")
		set := setLine(text, "m", opts)
		if got, ok := lineOf(set, "m"); !ok || got != norm {
			t.Errorf("set %q in %q: reads %q", opts, text, got)
		}
		if _, had := lineOf(text, "m"); !had && text != header && text+"\n" != header {
			if got := dropLine(set, "m"); got != text {
				t.Errorf("set %q in %q and dropped: %q", opts, text, got)
			}
		}
		if _, ok := lineOf(dropLine(set, "m"), "m"); ok {
			t.Errorf("still there after drop: %q", set)
		}
	})
}
