package profiles_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/profiles"
)

// TestIsolating: the isolated CPUs come from TuneD's variables file, or from a profile
// that includes one of ours. Without either the profile is rejected with instructions.
func TestIsolating(t *testing.T) {
	load := func(name string, files map[string]string) (*profile.Profile, error) {
		tree := map[string]string{"/sys/devices/system/cpu/online": "0-7\n", "/sys/devices/system/cpu/present": "0-7\n", "/proc/cpuinfo": "vendor_id\t: AuthenticAMD\n"}
		maps.Copy(tree, files)
		return (&profile.Loader{Host: machine.Mounted(t, tree), Builtin: profiles.FS}).Load(t.Context(), name)
	}
	const child = "/etc/tuned/mine/tuned.conf"
	for name, c := range map[string]struct {
		load  string
		files map[string]string
		want  map[string]string // unit/option
		fault string
	}{
		"nobody says": {load: "cpu-partitioning", fault: "isolated_cores=2-7 to /etc/tuned/cpu-partitioning-variables.conf"},
		"the file": {
			load: "cpu-partitioning", files: map[string]string{"/etc/tuned/cpu-partitioning-variables.conf": "# mine\nisolated_cores=2,4-5\nno_balance_cores=4-5\n"},
			want: map[string]string{
				"sysfs//sys/devices/virtual/workqueue/cpumask": "000000cb", "systemd/cpu_affinity": "0,1,3,6,7", "irqbalance/banned_cpus": "2,4-5", "scheduler/isolated_cores": "2,4-5",
				"bootloader/cmdline_cpu_part": "+nohz=on isolcpus=4-5 nohz_full=2,4-5 rcu_nocbs=2,4-5 intel_pstate=disable nosoftlockup", "sysctl/vm.stat_interval": "10",
			},
		},
		"the CPUs of each socket but the first, as TuneD's own file": {
			load: "cpu-partitioning", files: map[string]string{
				"/etc/tuned/cpu-partitioning-variables.conf":                  "isolated_cores=${f:calc_isolated_cores:1}\n",
				"/sys/devices/system/cpu/cpu0/topology/physical_package_id":   "0\n",
				"/sys/devices/system/cpu/cpu1/topology/physical_package_id":   "0\n",
				"/sys/devices/system/cpu/cpu1/online":                         "1\n",
				"/sys/devices/system/cpu/cpu0/topology/core_cpus_list":        "0\n",
				"/sys/devices/system/cpu/cpu1/topology/thread_siblings_list":  "1\n",
				"/sys/devices/system/cpu/cpu1/topology/physical_package_id_x": "",
			},
			want: map[string]string{"scheduler/isolated_cores": "1"},
		},
		"a child says": {
			load: "mine", files: map[string]string{child: "[main]\ninclude=cpu-partitioning\n[variables]\nisolated_cores=1\n[bootloader]\ncmdline_cpu_part=+nohz=on rcu_nocbs=${isolated_cores}\n[systemd]\nenabled=false\n"},
			want: map[string]string{"sysfs//sys/devices/virtual/workqueue/cpumask": "000000fd", "scheduler/isolated_cores": "1", "bootloader/cmdline_cpu_part": "+nohz=on rcu_nocbs=1"},
		},
		"a CPU that is not there": {load: "mine", files: map[string]string{child: "[main]\ninclude=cpu-partitioning\n[variables]\nisolated_cores=7-8\n"}, fault: "CPUs that are not online"},
		"real time, nobody says":  {load: "realtime", fault: "isolated_cores=2-7 to /etc/tuned/realtime-variables.conf"},
		"real time": {
			load: "realtime", files: map[string]string{"/etc/tuned/realtime-variables.conf": "isolated_cores=4-7\nisolate_managed_irq=Y\nnetdev_queue_count=4\n"},
			want: map[string]string{
				"bootloader/cmdline_realtime": "+isolcpus=managed_irq,domain,4-7 amd_pstate=disable nosoftlockup", "sysctl/kernel.sched_rt_runtime_us": "-1",
				"net/channels": "combined 4", "sysfs//sys/devices/virtual/workqueue/cpumask": "0000000f",
			},
		},
		"real time, with the kernel's own interrupts": {
			load: "realtime", files: map[string]string{"/etc/tuned/realtime-variables.conf": "isolated_cores=4-7\n"},
			want: map[string]string{"bootloader/cmdline_realtime": "+isolcpus=4-7 amd_pstate=disable nosoftlockup"},
		},
		"both": {
			load: "mine", files: map[string]string{child: "[main]\ninclude=cpu-partitioning,realtime\n[variables]\nisolated_cores=6-7\n"},
			want: map[string]string{"bootloader/cmdline_realtime": "+isolcpus=6-7 amd_pstate=disable nosoftlockup", "scheduler/isolated_cores": "6-7"},
		},
	} {
		p, err := load(c.load, c.files)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %s", name, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for place, want := range c.want {
			unit, option, _ := strings.Cut(place, "/")
			if got := value(p, unit, option); got != want {
				t.Errorf("%s: %s is %q, want %q", name, place, got, want)
			}
		}
	}
}

// TestTunedsOwnIsolating applies Debian's TuneD (2.20) with its own profiles,
// and with ours of the same names, to an invented machine. The results are the
// same except for the listed differences.
func TestTunedsOwnIsolating(t *testing.T) {
	root.Real(t, "runs TuneD in the Debian test root")
	const workqueue = "/sys/devices/virtual/workqueue/"
	files := map[string]string{
		workqueue + "cpumask": "f\n", workqueue + "writeback/cpumask": "f\n", "/sys/bus/workqueue/devices/writeback/cpumask": "f\n",
		"/sys/devices/system/machinecheck/machinecheck0/ignore_ce": "0\n", "/proc/sys/kernel/sched_rt_runtime_us": "950000\n", "/sys/kernel/mm/ksm/run": "1\n",
	}
	look := []string{"/proc/sys/vm/stat_interval", "/proc/sys/kernel/nmi_watchdog", "/proc/sys/kernel/timer_migration", "/proc/sys/vm/swappiness"}
	look = append(look, slices.Sorted(maps.Keys(files))...)
	for _, name := range []string{"cpu-partitioning", "realtime"} {
		t.Run(name, func(t *testing.T) {
			has := func(own bool) (map[string]string, string) {
				m := root.NewMachine(t)
				for p, text := range files {
					machine.WriteFile(t, m.Dir, p, text)
				}
				over := map[string]string{"/etc/tuned/" + name + "-variables.conf": "isolated_cores=2-3\nnetdev_queue_count=2\n"}
				if !own {
					for _, p := range []string{name, "network-latency", "latency-performance"} {
						over["/etc/tuned/"+p+"/tuned.conf"] = read(t, p+"/tuned.conf")
					}
				}
				r := root.New(t, root.Options{Machine: m, Stubs: root.TunerStubs(), Files: over})
				r.TunedOnce(name)
				out := map[string]string{}
				for _, p := range look {
					out[p] = strings.TrimSpace(r.Must("cat", p))
				}
				boot, _ := r.Run("cat", "/etc/tuned/bootcmdline")
				_, line, _ := strings.Cut(boot, "TUNED_BOOT_CMDLINE=")
				line, _, _ = strings.Cut(line, "\n")
				return out, strings.Trim(line, `"`)
			}
			theirs, theirLine := has(true)
			ours, ourLine := has(false)
			for _, p := range look {
				if p == "/sys/kernel/mm/ksm/run" {
					continue // by a script there, by [sysfs] here
				}
				if theirs[p] != ours[p] {
					t.Errorf("%s: TuneD's own profile leaves %s, ours %s", p, theirs[p], ours[p])
				}
			}
			if ours[workqueue+"cpumask"] == "f" {
				t.Error("nothing was applied")
			}
			// Differences between 2.20 and 2.28: realtime selects the pstate driver by
			// processor, network-latency has three more arguments.
			drop := []string{"intel_pstate=disable", "amd_pstate=disable", "tsc=reliable", "rcupdate.rcu_normal_after_boot=1", "rcutree.nohz_full_patience_delay=1000"}
			words := func(line string) (out []string) {
				for _, w := range strings.Fields(line) {
					if !slices.Contains(drop, w) && !strings.HasPrefix(w, "tuned.non_isolcpus=") {
						out = append(out, w)
					}
				}
				slices.Sort(out)
				return out
			}
			if a, b := words(theirLine), words(ourLine); !slices.Equal(a, b) || len(a) == 0 {
				t.Errorf("kernel arguments: TuneD's own %q, ours %q", a, b)
			}
		})
	}
}
