package peers

import (
	"strings"

	"fettle.dev/fettle/internal/testroot"
)

// listedInGuest names the difference between Debian's TuneD and fettle that explains a
// value, "" for none.
func listedInGuest(key string, before, theirs, ours testroot.Tree, p guestProfile) string {
	if why := listedHere(key, before, theirs, ours, p.all[0]+p.all[1]); why != "" {
		return why
	}
	switch {
	case strings.HasPrefix(key, "/proc/irq/") && p.plugins["irq"]:
		return "TuneD 2.20 has no plug-in irq"
	case strings.HasPrefix(key, "/proc/irq/") && theirs[key] == before[key] && !strings.Contains(p.handled, " "+strings.Split(key, "/")[3]+":"):
		return "TuneD moves the interrupts that a driver handles; fettle also those whose driver comes later"
	case key == "/boot/grub/grub.cfg" || strings.HasPrefix(key, "/etc/default/grub") || key == "/etc/tuned/bootcmdline":
		return "the arguments of the next boot are kept in other files (they are compared)"
	}
	return ""
}
