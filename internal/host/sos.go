package host

import (
	"bytes"
	"path"
	"strings"
)

// A sosreport keeps many of the kernel's files at their places below its top
// directory, and what it got from commands below sos_commands/PLUGIN/, named as
// the command with "_" for " ". Where it has only the command's output, these
// stand in for the file (sos 4.x, sos/report/plugins/*.py).

// sosCommands says which saved output is a file's content.
var sosCommands = []struct{ path, output string }{
	{"/proc/cmdline", "sos_commands/boot/cat_.proc.cmdline"},
	{"/proc/swaps", "sos_commands/memory/swapon_--summary"},
}

// sosDMI maps files of /sys/class/dmi/id to "section/key" of dmidecode's text.
var sosDMI = map[string]string{
	"sys_vendor":        "System Information/Manufacturer",
	"product_name":      "System Information/Product Name",
	"product_version":   "System Information/Version",
	"product_family":    "System Information/Family",
	"bios_vendor":       "BIOS Information/Vendor",
	"bios_version":      "BIOS Information/Version",
	"bios_date":         "BIOS Information/Release Date",
	"board_vendor":      "Base Board Information/Manufacturer",
	"board_name":        "Base Board Information/Product Name",
	"chassis_vendor":    "Chassis Information/Manufacturer",
	"chassis_asset_tag": "Chassis Information/Asset Tag",
}

// sosFile answers for a file that a sosreport has only as a command's output.
func sosFile(f rootedFiles, p string) ([]byte, bool) {
	if strings.HasPrefix(p, "/sos_commands/") {
		return nil, false
	}
	if rest, ok := strings.CutPrefix(p, "/proc/sys/"); ok {
		return sosSysctl(f, strings.ReplaceAll(rest, "/", "\x00"))
	}
	if dir, name := path.Split(p); dir == "/sys/class/dmi/id/" {
		return sosDmidecode(f, sosDMI[name])
	}
	for _, c := range sosCommands {
		if c.path != p {
			continue
		}
		if b, err := f.ReadFile("/" + c.output); err == nil {
			return b, true
		}
	}
	return nil, false
}

// sosSysctl finds a key in the saved output of "sysctl -a". The output writes
// "." for "/", and "/" for a "." inside a name (net.ipv4.conf.eth0/100.mtu).
func sosSysctl(f rootedFiles, key string) ([]byte, bool) {
	b, err := f.ReadFile("/sos_commands/kernel/sysctl_-a")
	if err != nil {
		return nil, false
	}
	key = strings.ReplaceAll(strings.ReplaceAll(key, ".", "/"), "\x00", ".") + " = "
	var value []byte
	found := false
	for line := range bytes.Lines(b) { // a value of several lines repeats its key
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			value, found = append(value, rest...), true
		}
	}
	return value, found
}

func sosDmidecode(f rootedFiles, want string) ([]byte, bool) {
	section, key, ok := strings.Cut(want, "/")
	if !ok {
		return nil, false
	}
	for _, name := range []string{"/sos_commands/hardware/dmidecode", "/dmidecode"} {
		b, err := f.ReadFile(name)
		if err != nil {
			continue
		}
		in := ""
		for line := range strings.Lines(string(b)) {
			line = strings.TrimRight(line, "\r\n")
			if !strings.HasPrefix(line, "\t") {
				in = line
			} else if v, ok := strings.CutPrefix(line, "\t"+key+": "); ok && in == section {
				return []byte(strings.TrimSpace(v) + "\n"), true
			}
		}
	}
	return nil, false
}
