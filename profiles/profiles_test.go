package profiles_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/profiles"
)

// want are the profiles that there have to be.
var want = []string{
	"balanced", "cpu-partitioning", "default", "desktop-powersave", "enterprise-storage", "hugepages", "laptop-ac-powersave",
	"laptop-battery-powersave", "latency-performance", "network-latency", "network-throughput", "openshift",
	"openshift-4.4", "openshift-control-plane", "openshift-control-plane-4.4", "openshift-node",
	"openshift-node-4.4", "postgresql", "realtime", "sap", "server-powersave", "spindown-disk", "throughput-performance",
	"virtual-guest", "virtual-host",
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(profiles.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProfilesAreThere(t *testing.T) {
	entries, err := fs.ReadDir(profiles.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.IsDir() {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("profiles are\n%q, want\n%q", got, want)
	}
	if !strings.Contains(read(t, "recommend.conf"), "[throughput-performance]") {
		t.Error("no recommendation")
	}
}

// structural lines say what a section is or which devices it has; they are no
// values and need no source.
var structural = []string{"summary", "include", "type", "devices", "devices_udev_regex", "drop", "priority"}

func TestEveryValueHasASource(t *testing.T) {
	for _, name := range want {
		section, before := "", ""
		for i, line := range strings.Split(read(t, name+"/tuned.conf"), "\n") {
			at := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s/tuned.conf:%d: "+format, append([]any{name, i + 1}, args...)...)
			}
			switch key, value, isOption := strings.Cut(line, "="); {
			case line == "":
			case strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "["):
				section = strings.Trim(line, "[]")
			case !isOption:
				at("no section, no option, no comment: %q", line)
			case slices.Contains(structural, key):
			case !strings.HasPrefix(before, "# source: "):
				at("%s in [%s] has no source in the line above it", key, section)
			case section == "script" || strings.HasPrefix(section, "bootloader") && name != "cpu-partitioning" && name != "realtime":
				at("[%s] is not for embedded profiles", section)
			case key == "elevator" && !slices.Contains([]string{"none", "mq-deadline", "kyber", "bfq"}, value):
				at("%s is not an elevator of a multi-queue kernel", value)
			case section == "sysctl" && strings.HasPrefix(key, "kernel.sched_") && !slices.Contains([]string{"kernel.sched_autogroup_enabled", "kernel.sched_rt_runtime_us"}, key):
				at("%s left /proc/sys in Linux 5.13: set it in [scheduler]", key)
			case strings.Contains(key, "barrier"):
				at("barriers are never switched off")
			}
			before = line
		}
	}
}

// TestSourcesAreListed holds README.md's table against the comments.
func TestSourcesAreListed(t *testing.T) {
	listed := []string{
		"Red Hat Linux Performance (Skinner), ", "RHEL 6 Power Management Guide, ", "RHEL 7 Performance Tuning Guide, ", "Satellite 6.12 Tuning Guide, ",
		"OpenShift 4.4 Scalability and Performance, ", "TuneD 2.28 ", "SAP Note ", "S. Thomas, ", "PowerTOP, ", "hdparm(8), ",
		"vm.rst", "kernel.rst", "net.rst", "ip-sysctl.rst", "intel_pstate.rst", "cpufreq.rst", "transhuge.rst",
		"hugetlbpage.rst", "switching-sched.rst", "bfq-iosched.rst", "laptop-mode.rst", "powersave.rst of sound",
		"sysfs-platform_profile.rst", "libata", "kernel-parameters.txt", "workqueue.rst", "machinecheck.rst", "ksm.rst", "sched-rt-group.rst",
	}
	for _, name := range want {
		for i, line := range strings.Split(read(t, name+"/tuned.conf"), "\n") {
			source, ok := strings.CutPrefix(line, "# source: ")
			if ok && !slices.ContainsFunc(listed, func(s string) bool { return strings.HasPrefix(source, s) }) {
				t.Errorf("%s/tuned.conf:%d: %q is not in README.md's table of sources", name, i+1, source)
			}
		}
	}
}

func TestRefusalsAreNamedWhereTheyApply(t *testing.T) {
	re := regexp.MustCompile(`(?m)^# refused: (\S+)$`)
	in := map[string][]string{} // id -> profiles whose text names it
	for _, name := range want {
		for _, m := range re.FindAllStringSubmatch(read(t, name+"/tuned.conf"), -1) {
			in[m[1]] = append(in[m[1]], name)
		}
	}
	for _, r := range profiles.Refusals {
		sorted := slices.Sorted(slices.Values(r.Profiles))
		if !slices.Equal(in[r.ID], sorted) {
			t.Errorf("%s: named in the text of %q, but the table says %q", r.ID, in[r.ID], sorted)
		}
		if r.Guidance == "" || r.Reason == "" || r.Source == "" {
			t.Errorf("%s: guidance, reason or source is missing", r.ID)
		}
		delete(in, r.ID)
	}
	for id := range in {
		t.Errorf("refusal %s is in no table", id)
	}
}
