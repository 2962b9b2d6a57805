package host

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// foreman-debug (script/foreman-debug of Foreman, and Katello's foreman-debug.d) copies a
// machine's files to their paths below its top directory, except empty and binary ones. It
// also stores command output in files, after a line "COMMAND> ..." and an empty line. The code
// in this file derives files that were not copied from that output. It provides no processes,
// because no listing reliably has the kernel's process names.

// foremanDebug is a copied tree, possibly made by foreman-debug.
type foremanDebug struct {
	files rootedFiles
	facts func() map[string]string // facter's output by fact: "os.release.full"
}

func newForemanDebug(files rootedFiles) *foremanDebug {
	d := &foremanDebug{files: files}
	d.facts = sync.OnceValue(func() map[string]string {
		text, _ := d.output("facts", "facter")
		return facter(text)
	})
	return d
}

// is reports whether foreman-debug made the tree.
func (d *foremanDebug) is() bool {
	for _, name := range []string{"/foreman_packages", "/installed_packages"} {
		if b, err := d.files.ReadFile(name); err == nil && bytes.HasPrefix(b, []byte("COMMAND> ")) {
			return true
		}
	}
	return false
}

// output returns the output of a command from a file. It returns false if the file lacks it.
func (d *foremanDebug) output(name, command string) (string, bool) {
	b, err := d.files.ReadFile("/" + name)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), "COMMAND> "+command+"\n\n")
}

// debugCommands maps files to command outputs with the same content.
var debugCommands = map[string]string{"/proc/cpuinfo": "cpuinfo", "/proc/meminfo": "meminfo", "/etc/hosts": "hosts"}

// debugFacts maps files to facter facts with the same content (Facter's core facts).
var debugFacts = map[string]string{
	"/proc/sys/kernel/osrelease":          "kernelrelease",
	"/proc/sys/kernel/hostname":           "networking.hostname",
	"/proc/uptime":                        "system_uptime.seconds",
	"/sys/class/dmi/id/sys_vendor":        "dmi.manufacturer",
	"/sys/class/dmi/id/product_name":      "dmi.product.name",
	"/sys/class/dmi/id/bios_vendor":       "dmi.bios.vendor",
	"/sys/class/dmi/id/bios_version":      "dmi.bios.version",
	"/sys/class/dmi/id/bios_date":         "dmi.bios.release_date",
	"/sys/class/dmi/id/board_vendor":      "dmi.board.manufacturer",
	"/sys/class/dmi/id/board_name":        "dmi.board.product",
	"/sys/class/dmi/id/chassis_asset_tag": "dmi.chassis.asset_tag",
}

// file derives the content of a file from command output, or returns false.
func (d *foremanDebug) file(p string) ([]byte, bool) {
	if name, ok := debugCommands[p]; ok {
		text, ok := d.output(name, "cat "+p)
		return []byte(text), ok && text != ""
	}
	if name, ok := debugFacts[p]; ok {
		if v := d.facts()[name]; v != "" {
			return []byte(v + "\n"), true
		}
		return d.uname(p)
	}
	switch p {
	case "/etc/os-release":
		return d.release()
	case "/proc/mounts", "/proc/self/mounts":
		return d.mounts()
	}
	return nil, false
}

// uname returns the host name or the kernel release from the output of uname -a.
func (d *foremanDebug) uname(p string) ([]byte, bool) {
	text, _ := d.output("uname", "uname -a")
	w := strings.Fields(text)
	if len(w) < 4 || w[0] != "Linux" {
		return nil, false
	}
	switch p {
	case "/proc/sys/kernel/hostname":
		return []byte(w[1] + "\n"), true
	case "/proc/sys/kernel/osrelease":
		return []byte(w[2] + "\n"), true
	}
	return nil, false
}

// distributions maps distribution names of facter and lsb_release(1) to the ids of
// os-release(5). For all other distributions the id is the name in lower case.
var distributions = map[string]string{"redhat": "rhel", "redhatenterprise": "rhel", "redhatenterpriseserver": "rhel", "oraclelinux": "ol"}

// release builds the lines of os-release(5) from the output of facter or
// lsb_release(1).
func (d *foremanDebug) release() ([]byte, bool) {
	name, version, whole := d.facts()["os.name"], d.facts()["os.release.full"], d.facts()["os.distro.description"]
	text, _ := d.output("lsb_release", "lsb_release -a")
	for line := range strings.Lines(text) {
		key, v, ok := strings.Cut(strings.TrimSpace(line), ":\t")
		switch v = strings.TrimSpace(v); {
		case !ok:
		case key == "Distributor ID" && name == "":
			name = v
		case key == "Release" && version == "":
			version = v
		case key == "Description" && whole == "":
			whole = v
		}
	}
	if name == "" || version == "" || strings.ContainsAny(name+version+whole, "\"\\\n$`") {
		return nil, false
	}
	id := strings.ToLower(name)
	if known := distributions[id]; known != "" {
		id = known
	}
	if whole == "" {
		whole = name + " " + version
	}
	return fmt.Appendf(nil, "ID=%q\nVERSION_ID=%q\nPRETTY_NAME=%q\n", id, version, whole), true
}

// mountPoints returns the sorted mount points that facter found.
func (d *foremanDebug) mountPoints() []string {
	var points []string
	for name := range d.facts() {
		if rest, ok := strings.CutPrefix(name, "mountpoints."); ok {
			if point, ok := strings.CutSuffix(rest, ".filesystem"); ok && strings.HasPrefix(point, "/") {
				points = append(points, point)
			}
		}
	}
	slices.Sort(points)
	return points
}

func (d *foremanDebug) mounts() ([]byte, bool) {
	var out bytes.Buffer
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\\", `\134`)
	for _, point := range d.mountPoints() {
		at := "mountpoints." + point + "."
		fmt.Fprintf(&out, "%s %s %s %s 0 0\n", escape.Replace(d.facts()[at+"device"]), escape.Replace(point), escape.Replace(d.facts()[at+"filesystem"]), escape.Replace(d.facts()[at+"options"]))
	}
	return out.Bytes(), out.Len() > 0
}

// space returns the size and the free space of a path's file system, in bytes, or false if
// unknown.
func (d *foremanDebug) space(p string) (size, free uint64, ok bool) {
	if at, err := d.files.Resolve(p); err == nil {
		p = at
	}
	best := ""
	for _, point := range d.mountPoints() {
		if below(path.Clean(p), point) && len(point) >= len(best) {
			best = point
		}
	}
	at := "mountpoints." + best + "."
	size, err1 := strconv.ParseUint(d.facts()[at+"size_bytes"], 10, 63)
	free, err2 := strconv.ParseUint(d.facts()[at+"available_bytes"], 10, 63)
	return size, free, best != "" && err1 == nil && err2 == nil && free <= size
}

// debugClock is the clock of a foreman-debug tree. Now returns when the tree was made; its UTC
// offset may be wrong, because date(1) prints only the time zone's abbreviation.
type debugClock struct {
	noClock
	*foremanDebug
}

func (c debugClock) Now() time.Time {
	text, _ := c.output("date", "date")
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return t
		}
	}
	return c.noClock.Now()
}

func (c debugClock) SinceBoot() (time.Duration, error) {
	s, err := strconv.ParseUint(c.facts()["system_uptime.seconds"], 10, 32)
	if err != nil {
		return c.noClock.SinceBoot()
	}
	return time.Duration(s) * time.Second, nil
}

// facter parses the output of facter: "NAME => VALUE", maps in braces, lists in
// brackets, text in quotes. List items are joined with commas.
func facter(text string) map[string]string {
	const most = 20000
	out := map[string]string{}
	var within []string // names of the enclosing maps
	list := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if len(out) > most || len(within) > 20 {
			return out
		}
		name, value, ok := strings.Cut(line, " => ")
		switch {
		case list != "" && line == "]":
			out[list], list = strings.TrimSuffix(out[list], ","), ""
		case list != "":
			out[list] += unquoted(line) + ","
		case line == "}" && len(within) > 0:
			within = within[:len(within)-1]
		case !ok:
		case value == "{":
			within = append(within, unquoted(name))
		case value == "[":
			list = strings.Join(append(slices.Clip(within), unquoted(name)), ".")
			out[list] = ""
		default:
			out[strings.Join(append(slices.Clip(within), unquoted(name)), ".")] = unquoted(value)
		}
	}
	return out
}

func unquoted(s string) string {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
