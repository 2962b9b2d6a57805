package rhel6

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/text"
)

// call is a command that calls a program or function with plain words, and may redirect its
// output.
type call struct {
	words  []token
	target *token // target of a plain "> FILE"; nil for none and for /dev/null
}

func (c call) name() string { return c.words[0].value }

func (c call) literal() bool {
	for _, w := range c.words {
		if !w.literal {
			return false
		}
	}
	return true
}

func (c call) args() []string {
	var out []string
	for _, w := range c.words[1:] {
		out = append(out, w.value)
	}
	return out
}

// call parses the command as a call. It returns false if the command is anything else.
func (c command) call() (call, bool) {
	var out call
	for i := 0; i < len(c.tokens); i++ {
		t := c.tokens[i]
		if t.kind == word {
			out.words = append(out.words, t)
			continue
		}
		if t.kind != operator || i+1 >= len(c.tokens) || c.tokens[i+1].kind != word {
			return call{}, false
		}
		to := c.tokens[i+1]
		i++
		descriptor := ""
		if n := len(out.words); n > 1 && out.words[n-1].end == t.start && (out.words[n-1].text == "1" || out.words[n-1].text == "2") {
			descriptor = out.words[n-1].text
			out.words = out.words[:n-1]
		}
		switch {
		case t.text == ">&" && (to.text == "1" || to.text == "2"):
		case (t.text == ">" || t.text == ">>" || t.text == "&>") && to.text == "/dev/null":
		case t.text == ">" && descriptor != "2" && out.target == nil:
			out.target = &to
		default:
			return call{}, false
		}
	}
	if len(out.words) == 0 || !out.words[0].literal || strings.Contains(out.words[0].value, "=") {
		return call{}, false
	}
	return out, true
}

// helper is a function of RHEL 6's library that plug-ins replace.
type helper struct {
	name  string
	args  int
	valid func() *regexp.Regexp // pattern of valid first arguments
	// undo lists the helpers that reverted this one; the plug-in now reverts it.
	undo []string
	// to converts a call to options. It returns false if the call must stay in the script.
	to func(im *importer, args []string, from origin) bool
}

var (
	plainWord = text.LazyRegexp(`^[a-z][a-z0-9_-]*$`)
	number    = text.LazyRegexp(`^[0-9]{1,9}$`)
	factor    = text.LazyRegexp(`^[0-9]{1,6}(\.[0-9]{1,6})?$`)
)

// readaheadDisks and hdparmDisks are the disks that the old helpers set.
var (
	readaheadDisks = []string{"sd*", "cciss*", "dm-*", "vd*", "dasd*", "xvd*"}
	hdparmDisks    = []string{"sd*", "hd*"}
)

func option(section, name string) func(*importer, []string, origin) bool {
	return func(im *importer, args []string, from origin) bool {
		im.set(section, name, args[0], from)
		return true
	}
}

func fixed(section, name, value string) func(*importer, []string, origin) bool {
	return func(im *importer, _ []string, from origin) bool {
		im.set(section, name, value, from)
		return true
	}
}

func disks(devices []string, name string) func(*importer, []string, origin) bool {
	return func(im *importer, args []string, from origin) bool {
		im.out.setDisks(devices, name, args[0], from)
		im.note(from, fmt.Sprintf("[disk] devices=%s %s=%s", strings.Join(devices, ","), name, args[0]))
		return true
	}
}

// dropped returns the conversion of a helper that is no longer needed, with the reason for the
// warning.
func dropped(why string) func(*importer, []string, origin) bool {
	return func(im *importer, _ []string, from origin) bool {
		im.warn(from.file, from.line, from.text, "%s: not imported", why)
		return true
	}
}

const ac97 = "/sys/module/snd_ac97_codec/parameters/power_save"

// helpers returns all replaced helpers. functions.sh has the others.
var helpers = sync.OnceValue(func() []helper {
	return []helper{
		{"set_cpu_governor", 1, plainWord, []string{"restore_cpu_governor"}, governor},
		{"enable_cpu_multicore_powersave", 0, nil, []string{"disable_cpu_multicore_powersave"}, dropped("the kernel lost sched_mc_power_savings in Linux 3.5")},
		{"set_transparent_hugepages", 1, text.LazyRegexp(`^(always|madvise|never)$`), []string{"restore_transparent_hugepages"}, option("vm", "transparent_hugepages")},
		{"enable_transparent_hugepages", 0, nil, []string{"restore_transparent_hugepages", "disable_transparent_hugepages"}, fixed("vm", "transparent_hugepages", "always")},
		{"disable_transparent_hugepages", 0, nil, []string{"restore_transparent_hugepages", "enable_transparent_hugepages"}, fixed("vm", "transparent_hugepages", "never")},
		{"set_elevator", 2, nil, []string{"restore_elevator"}, setElevator},
		{"multiply_disk_readahead", 1, factor, []string{"restore_disk_readahead"}, disks(readaheadDisks, "readahead_multiply")},
		{"set_disk_readahead", 1, number, []string{"restore_disk_readahead"}, disks(readaheadDisks, "readahead")},
		{"set_disk_apm", 1, number, nil, disks(hdparmDisks, "apm")},
		{"set_disk_spindown", 1, number, nil, disks(hdparmDisks, "spindown")},
		{"set_disk_alpm", 1, plainWord, []string{"restore_disk_alpm"}, alpm},
		{"set_sata_alpm", 1, plainWord, []string{"restore_disk_alpm"}, alpm},
		{"set_alpm", 1, plainWord, []string{"restore_disk_alpm"}, alpm},
		{"set_disk_scheduler_quantum", 1, number, []string{"restore_disk_scheduler_quantum"}, dropped("a value of CFQ, which left the kernel in Linux 5.0")},
		{"enable_usb_autosuspend", 0, nil, []string{"disable_usb_autosuspend"}, fixed("usb", "autosuspend", "1")},
		{"disable_usb_autosuspend", 0, nil, []string{"enable_usb_autosuspend"}, fixed("usb", "autosuspend", "0")},
		{"disable_cd_polling", 0, nil, []string{"enable_cd_polling"}, fixed("sysfs", "/sys/block/sr*/events_poll_msecs", "0")},
		{"set_hda_intel_powersave", 1, number, []string{"restore_hda_intel_powersave"}, option("audio", "timeout")},
		{"enable_snd_powersave", 0, nil, []string{"disable_snd_powersave", "restore_snd_powersave"}, fixed("audio", "timeout", "10")},
		{"enable_snd_ac97_powersave", 0, nil, []string{"restore_snd_ac97_powersave", "disable_snd_ac97_powersave"}, fixed("sysfs", ac97, "1")},
		{"disable_snd_ac97_powersave", 0, nil, []string{"restore_snd_ac97_powersave", "enable_snd_ac97_powersave"}, fixed("sysfs", ac97, "0")},
		{"set_radeon_powersave", 1, text.LazyRegexp(`^(default|auto|low|mid|high|dynpm|dpm-(battery|balanced|performance))$`), nil, option("video", "radeon_powersave")},
		{"disable_logs_syncing", 0, nil, []string{"restore_logs_syncing"}, dropped("rsyslog has not waited for the disk after each message since its version 3")},
	}
})

// governors maps old governors to current alternatives; the first one that the driver supports
// applies.
var governors = map[string]string{
	"ondemand":     "ondemand|schedutil|powersave",
	"conservative": "conservative|schedutil|powersave",
}

func governor(im *importer, args []string, from origin) bool {
	name := args[0]
	if today, ok := governors[name]; ok {
		im.warn(from.file, from.line, from.text, "the drivers of today's processors may not have this governor: imported as %s; the first one that exists is used", today)
		name = today
	}
	im.set("cpu", "governor", name, from)
	return true
}

func alpm(im *importer, args []string, from origin) bool {
	policy := args[0]
	switch policy {
	case "min_power":
		policy = "med_power_with_dipm"
		im.warn(from.file, from.line, from.text, "min_power loses data on some disks: imported as med_power_with_dipm, which saves nearly as much")
	case "medium_power", "max_performance", "med_power_with_dipm":
	default:
		return false
	}
	im.set("scsi_host", "alpm", policy, from)
	return true
}

// setElevator converts a call with its arguments in either of the two usual orders.
func setElevator(im *importer, args []string, from origin) bool {
	devices, name := args[0], args[1]
	if !strings.Contains(devices, "/") {
		devices, name = name, devices
	}
	if _, ok := elevators[name]; !ok {
		return false
	}
	im.elevator(name, line{no: from.line, value: devices}, from)
	return true
}

type assignmentArg struct{ name, value string }

// sysctlArguments parses the arguments of sysctl -w. It returns false for other calls.
func sysctlArguments(c call) ([]assignmentArg, bool) {
	var out []assignmentArg
	for _, a := range c.args() {
		switch a {
		case "-w", "-q", "-e", "-n", "-qw", "-wq", "-ew", "-we":
			continue
		}
		name, value, ok := strings.Cut(a, "=")
		if !ok || !sysctlName().MatchString(name) || value == "" {
			return nil, false
		}
		out = append(out, assignmentArg{name, value})
	}
	return out, len(out) > 0
}

var (
	sysPath    = text.LazyRegexp(`^/sys/[A-Za-z0-9_./:!@+-]+$`)
	thpPath    = text.LazyRegexp(`^/sys/kernel/mm/(?:redhat_)?transparent_hugepage/(enabled|defrag)$`)
	queueValue = text.LazyRegexp(`^/sys/block/([A-Za-z0-9_!-]+)/queue/(scheduler|read_ahead_kb)$`)
)

// write converts "echo VALUE > FILE".
func (im *importer) write(file, value string, from origin) bool {
	if name, ok := strings.CutPrefix(file, "/proc/sys/"); ok {
		name = strings.ReplaceAll(name, "/", ".")
		if !sysctlName().MatchString(name) {
			return false
		}
		im.sysctl(file, value, from)
		return true
	}
	plain, err := plainValue(value)
	if err != nil || !sysPath().MatchString(file) || strings.Contains(file, "/..") || strings.Contains(file, "//") {
		return false
	}
	if m := thpPath().FindStringSubmatch(file); m != nil {
		name := "transparent_hugepages"
		if m[1] == "defrag" {
			name = "transparent_hugepage.defrag"
		}
		im.set("vm", name, plain, from)
		return true
	}
	if m := queueValue().FindStringSubmatch(file); m != nil {
		if m[2] == "scheduler" {
			return setElevator(im, []string{file, value}, from)
		}
		return number().MatchString(value) && disks([]string{m[1]}, "readahead")(im, []string{value}, from)
	}
	if there, known := im.hasSys(file); known && !there {
		im.warn(from.file, from.line, from.text, "this machine has no such file: the line is kept, and verify reports it as unsupported")
	}
	im.set("sysfs", file, plain, from)
	return true
}

func (im *importer) hasSys(file string) (there, known bool) {
	if _, err := im.host.Files.Lstat("/sys/kernel"); err != nil {
		return false, false
	}
	_, err := im.host.Files.Stat(file)
	return err == nil, true
}

var netDevice = text.LazyRegexp(`^[A-Za-z0-9_.:-]{1,15}$`)

// ethtool converts the options that have the same names in the plug-in.
func (im *importer) ethtool(args []string, from origin) bool {
	if !netDevice().MatchString(args[1]) {
		return false
	}
	words := args[2:]
	for _, w := range words {
		if !regexp.MustCompile(`^[A-Za-z0-9-]+$`).MatchString(w) {
			return false
		}
	}
	name := map[string]string{"-K": "features", "-C": "coalesce", "-A": "pause", "-G": "ring", "-L": "channels"}[args[0]]
	switch {
	case args[0] == "-s" && len(words) == 2 && words[0] == "wol":
		im.set("net."+args[1], "wake_on_lan", words[1], from)
	case name != "" && len(words) > 0 && len(words)%2 == 0:
		im.set("net."+args[1], name, strings.Join(words, " "), from)
	default:
		return false
	}
	return true
}
