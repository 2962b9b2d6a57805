package override

import (
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// readKtune reads the files that RHEL 6's ktune service applies (tuned 0.2.19, ktune/ktune.init):
// SYSCTL= in /etc/sysconfig/ktune, then /etc/ktune.d/*.conf with USE_KTUNE_D=yes, then again the
// administrator's files of SYSCTL_POST=.
func readKtune(r *reader) {
	const sysconfig = "/etc/sysconfig/ktune"
	text, ok := r.file(sysconfig)
	if !ok {
		return
	}
	vars := map[string]string{}
	for _, a := range parseShellVars(text) {
		vars[a.key] = a.value
	}
	void, condition := "", ""
	if !r.initLinked("ktune") {
		if void, condition = r.needsUnit("ktune.service", "this file"); void != "" {
			void = "the service ktune, which applies this file, is not enabled"
		}
	}
	files := strings.Fields(vars["SYSCTL"])
	if vars["USE_KTUNE_D"] == "yes" {
		if found, err := host.Glob(r.host.Files, "/etc/ktune.d/*.conf"); err == nil {
			files = append(files, found...)
		}
	}
	own := len(files)
	for _, pattern := range strings.Fields(vars["SYSCTL_POST"]) {
		if found, err := host.Glob(r.host.Files, pattern); err == nil {
			files = append(files, found...)
		}
	}
	for i, f := range files {
		when := "at boot by ktune"
		if i >= own {
			when = "again by ktune, after its own files (SYSCTL_POST of " + sysconfig + ")"
		}
		r.ktuneFile(f, when, void, condition)
	}
}

func (r *reader) ktuneFile(file, when, void, condition string) {
	text, ok := r.file(file)
	if !ok {
		return
	}
	lines, problems := parseSysctl(text)
	r.invalid(file, problems)
	for _, l := range lines {
		c := Claim{Source: Ktune, File: file, Line: l.line, Text: l.text, Administrator: true, Void: void, Condition: condition, When: when,
			Setting: setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + l.key)}}
		value := l.value
		if rest, raises := strings.CutPrefix(value, ">"); raises {
			value, c.Condition = rest, both(condition, "the current value is lower")
		}
		if strings.HasPrefix(value, "$") {
			c.Condition = both(condition, "the value equals the shell variable "+value)
		}
		c.Value = setting.Text(value)
		r.add(c, 0)
	}
}

// ppdConf is the file that maps desktop power profiles to TuneD's; ppdBase holds the chosen power
// profile (TuneD 2.28, tuned/ppd/config.py and controller.py).
const (
	ppdConf = "/etc/tuned/ppd.conf"
	ppdBase = "/etc/tuned/ppd_base_profile"
)

// PowerMapping is one line of tuned-ppd's ppd.conf.
type PowerMapping struct {
	Power   string `json:"power_profile"` // power-saver, balanced, performance
	Profile string `json:"profile"`       // TuneD profile
	Battery bool   `json:"battery"`       // in the section for battery power
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// PowerProfile returns the mapping by which tuned-ppd chose a TuneD profile. ok is false if
// tuned-ppd's files do not lead to that profile.
func PowerProfile(h *host.Host, profile string) (m PowerMapping, ok bool) {
	r := &reader{host: h, claims: &Claims{}}
	base, found := r.file(ppdBase)
	text, mapped := r.file(ppdConf)
	if !found || !mapped {
		return m, false
	}
	base = strings.TrimSpace(base)
	section := ""
	for n, raw := range systemdLines(text) {
		l := strings.TrimSpace(raw)
		if strings.HasPrefix(l, "[") {
			section = strings.Trim(l, "[]")
			continue
		}
		key, value, is := strings.Cut(l, "=")
		if !is || section != "profiles" && section != "battery" || strings.HasPrefix(l, "#") {
			continue
		}
		if strings.TrimSpace(key) == base && strings.TrimSpace(value) == profile {
			return PowerMapping{base, profile, section == "battery", ppdConf, n}, true
		}
	}
	return m, false
}

// tlpParameters lists TLP's parameters for fixed files (TLP 1.9, func.d). tlpMay covers its writes
// to the devices of a bus.
var tlpParameters = []struct {
	name  string
	paths []string
	value func(string) string // converts to the written value; nil: unchanged; a result of "" writes nothing
}{
	{"CPU_SCALING_GOVERNOR", []string{everyPolicy + "scaling_governor"}, nil},
	{"CPU_SCALING_MIN_FREQ", []string{everyPolicy + "scaling_min_freq"}, notZero},
	{"CPU_SCALING_MAX_FREQ", []string{everyPolicy + "scaling_max_freq"}, notZero},
	{"CPU_ENERGY_PERF_POLICY", []string{everyPolicy + "energy_performance_preference"}, nil},
	{"CPU_MIN_PERF", []string{"/sys/devices/system/cpu/intel_pstate/min_perf_pct"}, nil},
	{"CPU_MAX_PERF", []string{"/sys/devices/system/cpu/intel_pstate/max_perf_pct"}, nil},
	{"CPU_BOOST", []string{"/sys/devices/system/cpu/cpufreq/boost"}, nil},
	{"CPU_BOOST", []string{"/sys/devices/system/cpu/intel_pstate/no_turbo"}, func(v string) string { return map[string]string{"0": "1", "1": "0"}[v] }},
	{"CPU_HWP_DYN_BOOST", []string{"/sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost"}, nil},
	{"PLATFORM_PROFILE", []string{"/sys/firmware/acpi/platform_profile"}, firstWord},
	{"MEM_SLEEP", []string{"/sys/power/mem_sleep"}, nil},
	{"NMI_WATCHDOG", []string{"/proc/sys/kernel/nmi_watchdog"}, nil},
	{"MAX_LOST_WORK_SECS", []string{
		"/proc/sys/vm/dirty_writeback_centisecs", "/proc/sys/vm/dirty_expire_centisecs",
		"/proc/sys/fs/xfs/age_buffer_centisecs", "/proc/sys/fs/xfs/xfssyncd_centisecs",
	}, centiseconds},
	{"DISK_IDLE_SECS", []string{"/proc/sys/vm/laptop_mode"}, nil},
	{"PCIE_ASPM", []string{"/sys/module/pcie_aspm/parameters/policy"}, nil},
	{"SOUND_POWER_SAVE", []string{"/sys/module/snd_hda_intel/parameters/power_save"}, nil},
	{"SATA_LINKPWR", []string{"/sys/class/scsi_host/host*/link_power_management_policy"}, firstWord},
}

func notZero(v string) string {
	if v == "0" {
		return ""
	}
	return v
}

func firstWord(v string) string {
	first, _, _ := strings.Cut(v, " ")
	return first
}

func centiseconds(v string) string {
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		return ""
	}
	return strconv.Itoa(100 * n)
}

// tlpWhen lists the parameter suffixes for one power source each.
var tlpWhen = []struct{ suffix, condition string }{
	{"_ON_AC", "the machine is on external power (TLP's performance profile)"},
	{"_ON_BAT", "the machine is on battery (TLP's balanced profile)"},
	{"_ON_SAV", "TLP's power-saver profile is chosen"},
	{"", ""},
}

// readTLP reads TLP's parameters: its defaults, /etc/tlp.d sorted by name, then /etc/tlp.conf. A
// parameter's last line is used (TLP 1.9, tlp-readconfs).
func readTLP(r *reader) {
	files := []string{"/usr/share/tlp/defaults.conf"}
	if found, err := host.Glob(r.host.Files, "/etc/tlp.d/*.conf"); err == nil {
		files = append(files, found...)
	}
	files = append(files, "/etc/tlp.conf")
	type setAt struct {
		file string
		sysctlLine
	}
	last := map[string]setAt{}
	for _, f := range files {
		text, ok := r.file(f)
		if !ok {
			continue
		}
		for _, a := range parseShellVars(text) {
			if name, appends := strings.CutSuffix(a.key, "+"); appends {
				a.key, a.value = name, strings.TrimSpace(last[name].value+" "+a.value)
			}
			last[a.key] = setAt{f, a}
		}
	}
	if len(last) == 0 {
		return
	}
	void, condition := r.needsUnit("tlp.service", "this file")
	if at := last["TLP_ENABLE"]; at.value == "0" {
		void = "TLP is switched off: TLP_ENABLE=0 in " + at.file
	}
	for _, p := range tlpParameters {
		for _, w := range tlpWhen {
			at, ok := last[p.name+w.suffix]
			value := at.value
			if ok && p.value != nil {
				value = p.value(value)
			}
			if !ok || value == "" {
				continue
			}
			c := Claim{Source: TLP, File: at.file, Line: at.line, Text: at.text, Administrator: strings.HasPrefix(at.file, "/etc/"),
				Value: setting.Text(value), Void: void, Condition: both(condition, w.condition), When: "by TLP at boot and when the source of power changes"}
			for _, path := range p.paths {
				r.addPath(c, path, 0)
			}
		}
	}
}
