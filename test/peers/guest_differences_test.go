package peers

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/testkit/root"
)

// compared is one value of the guest as the two programs left it.
type compared struct {
	key                  string
	before, theirs, ours root.Tree
	profile              guestProfile
}

// guestDifferences are what fettle leaves otherwise than Debian's TuneD 2.20, on purpose.
var guestDifferences = []struct {
	why string
	is  func(compared) bool
}{
	{"TuneD 2.20 has no plug-in irq", func(c compared) bool {
		return strings.HasPrefix(c.key, "/proc/irq/") && c.profile.plugins["irq"]
	}},
	{"TuneD moves the interrupts that a driver handles; fettle also those whose driver comes later", func(c compared) bool {
		return strings.HasPrefix(c.key, "/proc/irq/") && c.theirs[c.key] == c.before[c.key] &&
			!strings.Contains(c.profile.handled, " "+strings.Split(c.key, "/")[3]+":")
	}},
	{"the arguments of the next boot are kept in other files (they are compared)", func(c compared) bool {
		return c.key == "/boot/grub/grub.cfg" || strings.HasPrefix(c.key, "/etc/default/grub") || c.key == "/etc/tuned/bootcmdline"
	}},
	{"skip_grub_config: TuneD notes the arguments in a file of its own, and says that they will not be applied", func(c compared) bool {
		return c.key == "arguments of the next boot" && strings.Contains(c.profile.all[0]+c.profile.all[1], "skip_grub_config=1")
	}},
	{"irqbalance's file has a mask from TuneD and a list from fettle (the CPUs are compared)", func(c compared) bool {
		return c.key == "/etc/default/irqbalance"
	}},
	{"write barriers stay on: the option is refused with the reason", func(c compared) bool {
		return strings.HasPrefix(c.key, "mount ") && c.profile.plugins["mounts"] && c.ours[c.key] == c.before[c.key]
	}},
	{"TuneD 2.20 cannot read the CQE mode that ethtool 6 prints, and sets no coalescing", func(c compared) bool {
		return strings.HasPrefix(c.key, "ethtool -c ") && c.theirs[c.key] == c.before[c.key]
	}},
	{"[audio] reset_controller is on by default since TuneD 2.28, and off in 2.20", func(c compared) bool {
		return c.key == "/sys/module/snd_hda_intel/parameters/power_save_controller" && !strings.Contains(c.profile.all[0]+c.profile.all[1], "reset_controller=")
	}},
	{"[usb] autosuspend: TuneD takes all but 1 and true as 0; fettle takes the kernel's seconds, -1 for never", func(c compared) bool {
		return (strings.HasSuffix(c.key, "/power/autosuspend") || strings.HasSuffix(c.key, "/power/autosuspend_delay_ms")) &&
			strings.Contains(c.profile.all[0]+c.profile.all[1], "autosuspend=-1")
	}},
	{"TuneD sets nr_requests before the scheduler, which changes it", func(c compared) bool {
		return strings.HasSuffix(c.key, "/vdb/queue/nr_requests") && strings.Contains(c.profile.all[0]+c.profile.all[1], "elevator=")
	}},
	{"[disk] elevator: alternatives a|b, and noop for none, came after TuneD 2.20, which has them refused by the kernel", func(c compared) bool {
		return strings.Contains(c.key, "/queue/") && c.theirs[c.key] == c.before[c.key] && strings.Contains(c.profile.all[0]+c.profile.all[1], "elevator=noop|none")
	}},
	{"TuneD writes the number of huge pages twice, and the kernel takes the surplus from the nodes in turn (the sum is compared)", func(c compared) bool {
		ok, _ := path.Match("/sys/devices/system/node/node?/hugepages/hugepages-2048kB/nr_hugepages", c.key)
		const sum = "/proc/sys/vm/nr_hugepages"
		return ok && c.theirs[sum] == c.ours[sum] && strings.Count(c.profile.all[0]+c.profile.all[1], "nr_hugepages") > 1
	}},
	{"TuneD writes ip_forward after the device's own forwarding, and the kernel sets that to the same; fettle writes ip_forward first", func(c compared) bool {
		device, ok := strings.CutPrefix(c.key, "/proc/sys/net/ipv4/conf/")
		device, ok2 := strings.CutSuffix(device, "/forwarding")
		return ok && ok2 && strings.Contains(c.profile.all[0]+c.profile.all[1], "net.ipv4.conf."+device+".forwarding="+c.ours[c.key]) &&
			c.theirs[c.key] == c.theirs["/proc/sys/net/ipv4/ip_forward"]
	}},
	{"TuneD ends with an exception at a value that is not a number, or a state that the CPU does not have, and leaves the rest as it was", func(c compared) bool {
		return c.profile.failed && c.theirs[c.key] == c.before[c.key]
	}},
	{"TuneD sets both sizes of a ring with one call, which the kernel refuses as a whole; fettle sets each", func(c compared) bool {
		return strings.HasPrefix(c.key, "ethtool -g ") && c.theirs[c.key] == c.before[c.key] && strings.Contains(c.profile.all[0]+c.profile.all[1], "ring=")
	}},
	{"debugfs takes a scheduler's slice of any length; fettle keeps to the limits that the sysctl had up to Linux 5.12", func(c compared) bool {
		return c.key == "/sys/kernel/debug/sched/min_granularity_ns" && c.ours[c.key] == c.before[c.key] &&
			strings.Contains(c.profile.all[0]+c.profile.all[1], "_ns="+c.theirs[c.key]+"\n") && len(c.theirs[c.key]) < len("100000")
	}},
}

// listedInGuest names the difference that explains a value, "" for none.
func listedInGuest(key string, before, theirs, ours root.Tree, p guestProfile) string {
	if why := listedHere(key, before, theirs, ours, p.all[0]+p.all[1]); why != "" {
		return why
	}
	for _, d := range guestDifferences {
		if d.is(compared{key, before, theirs, ours, p}) {
			return d.why
		}
	}
	return ""
}
