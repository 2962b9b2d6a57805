package plugin

import (
	"errors"
	"io/fs"
	"path"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// UdevProperties are the properties of the device whose sysfs directory is dir,
// as udev's library gives them (systemd, sd-device.c: device_read_uevent_file,
// device_read_db, device_properties_prepare): those of the kernel's uevent
// file, those of udev's database where udevd runs, and DEVPATH, SUBSYSTEM,
// DEVNAME, DEVLINKS, TAGS and CURRENT_TAGS. Where a copied machine lacks some of
// them, the others come with an error that is host.Unknown.
func UdevProperties(h *host.Host, dir string) (map[string]string, error) {
	real, err := h.Files.Resolve(dir)
	if err != nil {
		return nil, err
	}
	props := map[string]string{"DEVPATH": strings.TrimPrefix(real, "/sys")}
	var missing error // what the copy of a machine lacks
	link, err := h.Files.Readlink(real + "/subsystem")
	if err == nil {
		props["SUBSYSTEM"] = path.Base(link)
	} else if host.Unknown(err) {
		missing = err
	}
	uevent, err := h.Files.ReadFile(real + "/uevent")
	switch {
	case host.Unknown(err):
		missing = err
	case errors.Is(err, fs.ErrNotExist) && !h.Live:
		missing = host.NotRecorded(real + "/uevent: every device has one")
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return nil, err
	}
	for line := range strings.Lines(string(uevent)) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			props[k] = v
		}
	}
	if name := props["DEVNAME"]; name != "" && !strings.HasPrefix(name, "/") {
		props["DEVNAME"] = "/dev/" + name
	}
	if id := udevID(props, SysName(path.Base(real))); id != "" {
		db, err := h.Files.ReadFile("/run/udev/data/" + id)
		switch {
		case err == nil:
			addUdevRecord(props, string(db))
		case host.Unknown(err):
			missing = err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return props, missing
}

// SysName is udev's name of a device for the kernel's file name: a slash in a
// device's name is an exclamation mark in sysfs (cciss!c0d0 is cciss/c0d0).
func SysName(file string) string { return strings.ReplaceAll(file, "!", "/") }

// SysFile is the inverse of SysName.
func SysFile(device string) string { return strings.ReplaceAll(device, "/", "!") }

// udevID is the name of a device's file in udev's database (sd-device.c,
// sd_device_get_device_id).
func udevID(props map[string]string, name string) string {
	major, minor, subsystem := props["MAJOR"], props["MINOR"], props["SUBSYSTEM"]
	switch {
	case subsystem == "":
		return ""
	case major != "" && major != "0" && subsystem == "block":
		return "b" + major + ":" + minor
	case major != "" && major != "0":
		return "c" + major + ":" + minor
	case props["IFINDEX"] != "":
		return "n" + props["IFINDEX"]
	}
	return "+" + subsystem + ":" + SysFile(name)
}

// addUdevRecord reads a database file: one letter, a colon and the content in
// each line.
func addUdevRecord(props map[string]string, db string) {
	var links, tags, current []string
	for line := range strings.Lines(db) {
		kind, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if !ok {
			continue
		}
		switch kind {
		case "S":
			links = append(links, "/dev/"+value)
		case "E":
			if k, v, ok := strings.Cut(value, "="); ok {
				props[k] = v
			}
		case "I":
			props["USEC_INITIALIZED"] = value
		case "G":
			tags = append(tags, value)
		case "Q":
			current = append(current, value)
		}
	}
	join := func(key string, values []string, before, between string) {
		if len(values) > 0 {
			sort.Strings(values)
			props[key] = before + strings.Join(values, between) + before
		}
	}
	join("DEVLINKS", links, "", " ")
	join("TAGS", tags, ":", ":")
	join("CURRENT_TAGS", current, ":", ":")
}
