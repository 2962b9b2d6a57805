package peers

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// grubMkconfig does what grub-mkconfig does with the lines that tuners change.
const grubMkconfig = `. /etc/default/grub
for f in /etc/default/grub.d/*.cfg; do if [ -e "$f" ]; then . "$f"; fi; done
if [ "$1" = -o ]; then exec >"$2"; fi
early=
for f in $GRUB_EARLY_INITRD_LINUX_CUSTOM; do if [ -e "/boot/$f" ]; then early="$early /boot/$f"; fi; done
echo "linux /boot/vmlinuz root=/dev/nvme0n1p1 ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
echo "initrd$early /boot/initrd.img"`

// grubConfig is what it makes of the invented machine's defaults.
const grubConfig = "linux /boot/vmlinuz root=/dev/nvme0n1p1 ro  quiet\ninitrd /boot/initrd.img\n"

var (
	tunedArguments = regexp.MustCompile(`(?m)^TUNED_BOOT_CMDLINE="(.*)"$`)
	tunedInitrd    = regexp.MustCompile(`(?m)^TUNED_BOOT_INITRD_ADD="(.*)"$`)
	grubArguments  = regexp.MustCompile(`(?m)^linux /boot/vmlinuz root=/dev/nvme0n1p1 ro (.*)$`)
	grubInitrd     = regexp.MustCompile(`(?m)^initrd(.*) /boot/initrd.img$`)
)

// Names of what a tuner does to the next boot, wherever it writes that.
const (
	bootArguments = "arguments of the next boot"
	bootInitrd    = "images before the initrd of the next boot"
)

// file notes a file that a tuner wrote. What changes the next boot is written
// in different places by the two, and is noted by what it means.
func (e effect) file(t *testing.T, name, text string) {
	t.Helper()
	words := func(re *regexp.Regexp, without string) string {
		m := re.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s has no line %s:\n%s", name, re, text)
			return ""
		}
		list := slices.DeleteFunc(strings.Fields(m[1]), func(w string) bool { return w == without })
		for i, w := range list {
			list[i] = strings.TrimPrefix(w, "/boot/")
		}
		return strings.Join(list, " ")
	}
	set := func(name, value string) {
		if value != "" {
			e[name] = value
		}
	}
	switch {
	case name == "/etc/tuned/bootcmdline":
		set(bootArguments, words(tunedArguments, ""))
		set(bootInitrd, words(tunedInitrd, ""))
	case name == "/boot/grub2/grub.cfg":
		set(bootArguments, words(grubArguments, "quiet"))
		set(bootInitrd, words(grubInitrd, ""))
	case strings.HasPrefix(name, "/etc/default/grub"): // seen in grub.cfg
	case strings.HasSuffix(name, "initrd.img"):
		for member, content := range cpio(t, name, text) {
			e[name+": "+member] = content
		}
	default:
		e[name] = text
	}
}

// cpio reads the regular files of an archive in the formats odc (cpio(5), "Old
// Character Format") and newc ("New ASCII Format").
func cpio(t *testing.T, name, text string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for len(text) > 0 {
		var mode, nameSize, fileSize, header, align int
		number := func(from, to, base int) int {
			n, err := strconv.ParseInt(text[from:to], base, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return int(n)
		}
		switch {
		case strings.HasPrefix(text, "070707") && len(text) >= 76:
			mode, nameSize, fileSize, header, align = number(18, 24, 8), number(59, 65, 8), number(65, 76, 8), 76, 1
		case strings.HasPrefix(text, "070701") && len(text) >= 110:
			mode, fileSize, nameSize, header, align = number(14, 22, 16), number(54, 62, 16), number(94, 102, 16), 110, 4
		default:
			t.Fatalf("%s: not an archive from %q", name, text[:min(len(text), 20)])
		}
		up := func(n int) int { return (n + align - 1) / align * align }
		body := up(header + nameSize)
		member := text[header : header+nameSize-1]
		if member == "TRAILER!!!" {
			return files
		}
		if mode&0o170000 == 0o100000 {
			files[member] = fmt.Sprintf("mode %o\n%s", mode&0o7777, text[body:body+fileSize])
		}
		text = text[body+up(fileSize):]
	}
	t.Fatalf("%s ends in the middle", name)
	return nil
}
