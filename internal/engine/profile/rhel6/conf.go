package rhel6

import (
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

const onlyDynamic = "done only if tuned-main.conf has dynamic_tuning=1"

// conf converts the daemon's tuned.conf, whose plug-ins change values by load: today's dynamic
// tuning.
func (im *importer) conf(text string) error {
	sections, err := parseConf(text)
	if err != nil {
		return err
	}
	for _, s := range sections {
		enabled := true // "Default is True. Any other value disables it."
		at := origin{confFile, s.no, "[" + s.name + "]"}
		keys := map[string]line{}
		for _, l := range s.lines {
			keys[l.name] = l
			if l.name == "enabled" {
				enabled = isTrue(l.value)
				at.line, at.text = l.no, "["+s.name+"] "+l.text
			}
		}
		switch strings.ToLower(s.name) {
		case "main":
			for _, l := range s.lines {
				if l.name == "interval" && l.value == "10" {
					im.warn(confFile, l.no, l.text, "daemon setting, not imported; update_interval of tuned-main.conf has this default, 10 seconds")
					continue
				}
				im.warn(confFile, l.no, l.text, "daemon setting; set it in tuned-main.conf (interval is named update_interval)")
			}
			continue
		case "diskmonitor", "netmonitor", "cpumonitor":
			continue // dynamic tuning starts its monitors by itself
		case "disktuning":
			if enabled {
				im.diskTuning(keys, at)
			}
		case "nettuning":
			if enabled {
				im.set("net", "dynamic", "1", at)
				im.warn(confFile, at.line, at.text, "%s; it lowers the speed of idle links, which makes some switches drop the link", onlyDynamic)
			}
		case "cputuning":
			if enabled {
				im.out.add("cpu")
				im.note(at, "[cpu]")
				im.warn(confFile, at.line, at.text, "%s", onlyDynamic)
			}
		default:
			im.warn(confFile, s.no, "["+s.name+"]", "not a section of RHEL 6's tuned: not imported")
			continue
		}
		for _, l := range s.lines {
			if l.name != "enabled" && l.name != "logging" && !(strings.EqualFold(s.name, "disktuning") && (l.name == "hdparm" || l.name == "alpm")) {
				im.warn(confFile, l.no, l.text, "key without a modern equivalent: not imported")
			}
		}
	}
	return nil
}

func (im *importer) diskTuning(keys map[string]line, at origin) {
	if l, ok := keys["alpm"]; ok && isTrue(l.value) {
		from := origin{confFile, l.no, l.text}
		im.set("scsi_host", "alpm", "med_power_with_dipm", from)
		im.warn(confFile, l.no, l.text, "this line set min_power while the disk was idle. Its replacement, med_power_with_dipm, always applies; it saves as much on today's controllers, and does not lose data")
	}
	if l, ok := keys["hdparm"]; !ok || isTrue(l.value) {
		if ok {
			at = origin{confFile, l.no, l.text}
		}
		im.set("disk", "dynamic", "1", at)
		im.warn(confFile, at.line, at.text, "%s", onlyDynamic)
	}
}

func isTrue(v string) bool {
	return strings.EqualFold(v, "true") || v == "1" || strings.EqualFold(v, "yes")
}

// elevators maps old I/O schedulers to those of the multi-queue block layer, the only ones since
// Linux 5.0.
var elevators = map[string]string{
	"deadline": "mq-deadline", "cfq": "bfq", "noop": "none", "as": "bfq", "anticipatory": "bfq",
	"mq-deadline": "mq-deadline", "bfq": "bfq", "kyber": "kyber", "none": "none",
}

// ktuneDevices is ktune's default for ELEVATOR_TUNE_DEVS.
const ktuneDevices = "/sys/block/{sd,cciss,dm-}*/queue/scheduler"

// sysconfig converts the settings of the ktune service.
func (im *importer) sysconfig(text string) error {
	lines, rest, err := parseSysconfig(text)
	if err != nil {
		return err
	}
	for _, l := range rest {
		im.warn(sysconfigFile, l.no, l.text, "not a plain assignment: not imported, because the old profile is not executed")
	}
	last := map[string]line{}
	for _, l := range lines {
		last[l.name] = l
	}
	for _, l := range lines {
		if last[l.name].no != l.no {
			im.warn(sysconfigFile, l.no, l.name+"="+l.value, "overridden by line %d", last[l.name].no)
			continue
		}
		from := origin{sysconfigFile, l.no, l.name + "=" + l.value}
		switch l.name {
		case "ELEVATOR":
			devices, ok := last["ELEVATOR_TUNE_DEVS"]
			if !ok || devices.value == "" {
				devices = line{no: l.no, value: ktuneDevices}
			}
			im.elevator(l.value, devices, from)
		case "ELEVATOR_TUNE_DEVS":
			if e := last["ELEVATOR"]; e.value == "" {
				im.warn(sysconfigFile, l.no, from.text, "ELEVATOR is not set, so this line has no effect: not imported")
			}
		case "USE_KTUNE_D":
			if !isTrue(l.value) && l.value != "" {
				im.warn(sysconfigFile, l.no, from.text, "this line turned off sysctl.ktune and ktune.sh; both files are imported anyway")
			} else {
				im.warn(sysconfigFile, l.no, from.text, "other files of /etc/ktune.d are not part of the profile; move them to /etc/sysctl.d if still needed")
			}
		case "SYSCTL":
			if err := im.sysctlPath(l, from); err != nil {
				return err
			}
		case "SYSCTL_POST":
			if l.value == "" {
				break
			}
			if path.Base(l.value) == "sysctl.conf" {
				break // the administrator's file applies after the profile, as today
			}
			im.warn(sysconfigFile, l.no, from.text, "ktune applied this file after the administrator's; today the administrator's files always win over a profile")
			if err := im.sysctlPath(l, from); err != nil {
				return err
			}
		default:
			im.warn(sysconfigFile, l.no, from.text, "not a ktune setting: not imported")
		}
	}
	return nil
}

// sysctlPath handles the name of another sysctl file. The machine reads the administrator's own
// files anyway. A file in the profile's directory is imported. Any other file gets a warning.
func (im *importer) sysctlPath(l line, from origin) error {
	base := path.Base(l.value)
	if l.value == "" || l.value == "/etc/sysctl.conf" || base == sysctlFile {
		return nil
	}
	if !profileName().MatchString(base) {
		im.warn(sysconfigFile, l.no, from.text, "not a file name: not imported")
		return nil
	}
	text, err := im.read(base)
	if err != nil && !host.NotFound(err) {
		return err
	}
	if err != nil {
		im.warn(sysconfigFile, l.no, from.text, "%s is not in the profile's directory: not imported; copy it there, or into /etc/sysctl.d", base)
		return nil
	}
	im.used = append(im.used, base)
	return im.sysctls(base, text)
}

var queuePath = text.LazyRegexp(`^/sys/block/([A-Za-z0-9_!*?\[\]-]+)/queue/scheduler$`)

// elevator converts ELEVATOR, for the queues in ELEVATOR_TUNE_DEVS, to a section of the disk
// plug-in.
func (im *importer) elevator(name string, devices line, from origin) {
	if name == "" {
		return
	}
	today, ok := elevators[name]
	if !ok {
		im.warn(from.file, from.line, from.text, "%q is not an elevator: not imported", oneLine(name))
		return
	}
	var patterns []string
	for _, glob := range strings.Fields(devices.value) {
		words, err := expandBraces(glob)
		if err != nil {
			im.warn(from.file, devices.no, devices.value, "%v: not imported", err)
			return
		}
		for _, w := range words {
			m := queuePath().FindStringSubmatch(w)
			if m == nil {
				im.warn(from.file, devices.no, w, "not a pattern such as /sys/block/NAME/queue/scheduler: not imported")
				continue
			}
			patterns = append(patterns, m[1])
		}
	}
	if len(patterns) == 0 {
		return
	}
	im.out.setDisks(patterns, "elevator", today, from)
	im.note(from, fmt.Sprintf("[disk] devices=%s elevator=%s", strings.Join(patterns, ","), today))
	if today != name {
		im.warn(from.file, from.line, from.text, "called %s since Linux 5.0, which has only multi-queue elevators", today)
	}
	for _, p := range patterns {
		if strings.HasPrefix(p, "dm-") {
			im.warn(from.file, devices.no, p, "of the device-mapper disks, only request-based multipath has an elevator of its own; verify reports the others as unsupported")
			break
		}
	}
}
