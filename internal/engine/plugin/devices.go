package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Problem is a warning about a unit; the other units still apply.
type Problem struct {
	Pos  profile.Pos
	Text string // one sentence in lower case without a full stop
}

func (p Problem) String() string { return p.Pos.String() + ": " + p.Text }

// Assign returns the devices of each unit, by unit name. In the given order, a unit gets the
// matching devices that no earlier unit of its type has. A unit whose plug-in has no devices gets
// no entry. A unit without a free device gets an empty list and must not be applied, including its
// device-independent options. That is a problem unless its devices= only excludes devices.
func Assign(ctx context.Context, h *host.Host, table []Plugin, units []*profile.Unit) (map[string][]string, []Problem) {
	assigned, unknown, problems := AssignKnown(ctx, h, table, units)
	for _, u := range units {
		if err := unknown[u.Name]; err != nil {
			problems = append(problems, Problem{u.At("devices_udev_regex"), fmt.Sprintf("[%s]: %v", u.Name, err)})
		}
	}
	return assigned, problems
}

// AssignKnown is Assign, but returns units with unknown devices separately, each with the error.
// Either the machine's devices could not be listed, or it is unknown which of them belong to the
// unit or to an earlier one of its type. Such a unit gets no device.
func AssignKnown(ctx context.Context, h *host.Host, table []Plugin, units []*profile.Unit) (assigned map[string][]string, unknown map[string]error, problems []Problem) {
	assigned, unknown = map[string][]string{}, map[string]error{}
	free, unlisted, unclaimed := map[string][]string{}, map[string]error{}, map[string]error{}
	for _, u := range units {
		pl, ok := Find(table, u.Type)
		if !ok || pl.Devices == nil {
			continue
		}
		if _, listed := free[u.Type]; !listed {
			all, err := pl.Devices(ctx, h)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				unlisted[u.Type] = fmt.Errorf("the devices of plug-in %q cannot be listed: %w", u.Type, err)
			}
			SortDevices(all)
			free[u.Type] = all
		}
		taken, err := matching(h, pl, u, free[u.Type])
		if err == nil && len(u.Deferred) > 0 && u.DevicesUdevRegex == "" && strings.Contains(u.Devices, "${f:") {
			err = fmt.Errorf("the devices are only known when the profile is applied: %s", u.Deferred[0].Text)
		}
		earlier := unclaimed[u.Type]
		switch {
		case unlisted[u.Type] != nil:
			unknown[u.Name] = unlisted[u.Type] // it keeps the known devices
		case err != nil:
			unknown[u.Name], assigned[u.Name] = err, nil
			var invalid *InvalidError
			if !errors.As(err, &invalid) && earlier == nil {
				unclaimed[u.Type] = fmt.Errorf("remaining devices unknown, because the devices of [%s] are unknown: %w", u.Name, err)
			}
			continue
		case earlier != nil && len(taken) > 0:
			unknown[u.Name], assigned[u.Name] = earlier, nil
			continue
		}
		assigned[u.Name] = taken
		if len(taken) == 0 && unlisted[u.Type] == nil && (u.DevicesUdevRegex != "" || !profile.NewDeviceMatcher(u.Devices).Rest()) && pl.NoDevice == nil {
			problems = append(problems, Problem{u.Pos, noDevice(u, len(free[u.Type]) > 0)})
		}
		free[u.Type] = without(free[u.Type], taken)
	}
	return assigned, unknown, problems
}

func noDevice(u *profile.Unit, some bool) string {
	switch {
	case u.DevicesUdevRegex != "":
		return fmt.Sprintf("[%s] does nothing: devices_udev_regex=%s matches no unassigned device", u.Name, u.DevicesUdevRegex)
	case some:
		return fmt.Sprintf("[%s] does nothing: devices=%s matches no unassigned device", u.Name, u.Devices)
	}
	return fmt.Sprintf("[%s] does nothing: this machine has no unassigned %s device", u.Name, u.Type)
}

// matching returns the free devices that match devices_udev_regex, or without that devices=.
func matching(h *host.Host, pl *Plugin, u *profile.Unit, free []string) ([]string, error) {
	if u.DevicesUdevRegex == "" {
		return profile.NewDeviceMatcher(u.Devices).Filter(free), nil
	}
	if pl.DevicePath == nil {
		return nil, Invalid("plug-in %q has no udev devices, so devices_udev_regex cannot select any; use devices=", pl.Name)
	}
	var out []string
	for _, d := range free {
		props, err := UdevProperties(h, pl.DevicePath(d))
		switch {
		case err == nil, props != nil: // the known properties may decide
		case errors.Is(err, fs.ErrNotExist):
			continue // removed since listing
		default:
			return out, err
		}
		ok, invalid := profile.MatchUdev(u.DevicesUdevRegex, props)
		switch {
		case invalid != nil:
			return nil, invalid
		case ok:
			out = append(out, d)
		case err != nil:
			return out, err
		}
	}
	return out, nil
}

func without(all, taken []string) []string {
	gone := make(map[string]bool, len(taken))
	for _, d := range taken {
		gone[d] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(d string) bool { return gone[d] })
}

// DevicesOfType returns the sorted names of devices below a /sys directory whose uevent has this
// DEVTYPE.
func DevicesOfType(h *host.Host, dir, devtype string) ([]string, error) {
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		uevent, _ := Attribute(h, path.Join(dir, e.Name(), "uevent"))
		for line := range strings.Lines(uevent) {
			if strings.TrimSpace(line) == "DEVTYPE="+devtype {
				out = append(out, e.Name())
			}
		}
	}
	SortDevices(out)
	return out, nil
}

// SortDevices sorts names and compares numbers in them numerically: cpu2 before cpu10.
func SortDevices(names []string) {
	sort.Slice(names, func(i, j int) bool { return deviceLess(names[i], names[j]) })
}

func deviceLess(left, right string) bool {
	a, b := left, right
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
			if x != y {
				return x < y
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return left < right // they differ only in leading zeros
}

func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// UdevProperties returns the properties of the device whose sysfs directory is dir, as udev's
// library does (systemd, sd-device.c: device_read_uevent_file, device_read_db,
// device_properties_prepare). They are from the kernel's uevent file and, if udevd runs, from
// udev's database, with DEVPATH, SUBSYSTEM, DEVNAME, DEVLINKS, TAGS and CURRENT_TAGS. If a copied
// machine lacks some, it returns the others with an error that satisfies host.Unknown.
func UdevProperties(h *host.Host, dir string) (map[string]string, error) {
	real, err := h.Files.Resolve(dir)
	if err != nil {
		return nil, err
	}
	props := map[string]string{"DEVPATH": strings.TrimPrefix(real, "/sys")}
	var missing error // data that a copied machine lacks
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

// SysName converts a device's file name in sysfs to udev's name. sysfs replaces a slash by an
// exclamation mark (cciss!c0d0 is cciss/c0d0).
func SysName(file string) string { return strings.ReplaceAll(file, "!", "/") }

// SysFile is the inverse of SysName.
func SysFile(device string) string { return strings.ReplaceAll(device, "/", "!") }

// udevID returns the name of the device's file in udev's database (sd-device.c,
// sd_device_get_device_id), or "".
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

// addUdevRecord adds the properties of a database file. Its lines are a letter, a colon and the
// content.
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
