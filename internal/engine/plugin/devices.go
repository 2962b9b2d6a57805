package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// Problem is something about a unit that a person should know and that does not
// stop the other units.
type Problem struct {
	Pos  profile.Pos
	Text string // one sentence in lower case without a full stop
}

func (p Problem) String() string { return p.Pos.String() + ": " + p.Text }

// Assign gives each unit its devices, by unit name. Units take their turn in
// the order given, and a unit takes what matches of the devices that no earlier
// unit of the same type has. A unit whose plug-in has no devices gets no entry;
// one that finds no free device gets an empty list, and nothing of it is to be
// applied, its device-independent options included; that is a problem unless it
// is for all but some devices.
func Assign(ctx context.Context, h *host.Host, table []Plugin, units []*profile.Unit) (map[string][]string, []Problem) {
	assigned, unknown, problems := AssignKnown(ctx, h, table, units)
	for _, u := range units {
		if err := unknown[u.Name]; err != nil {
			problems = append(problems, Problem{u.At("devices_udev_regex"), fmt.Sprintf("[%s]: %v", u.Name, err)})
		}
	}
	return assigned, problems
}

// AssignKnown is Assign with the units of which it is not known what devices they
// have, and why, apart from the problems: the machine's devices could not be listed,
// or those of the unit, or of an earlier one of its type, not be told from the others.
// Such a unit gets no device.
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
			err = fmt.Errorf("which devices it is for is known when applied: %s", u.Deferred[0].Text)
		}
		earlier := unclaimed[u.Type]
		switch {
		case unlisted[u.Type] != nil:
			unknown[u.Name] = unlisted[u.Type] // those that are known stay its own
		case err != nil:
			unknown[u.Name], assigned[u.Name] = err, nil
			var invalid *InvalidError
			if !errors.As(err, &invalid) && earlier == nil {
				unclaimed[u.Type] = fmt.Errorf("which devices are left is not known, as those of [%s] are not: %w", u.Name, err)
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
		return fmt.Sprintf("[%s] does nothing: devices_udev_regex=%s matches no free device", u.Name, u.DevicesUdevRegex)
	case some:
		return fmt.Sprintf("[%s] does nothing: devices=%s matches no free device", u.Name, u.Devices)
	}
	return fmt.Sprintf("[%s] does nothing: no %s device is left for it on this machine", u.Name, u.Type)
}

// matching filters by devices_udev_regex if the unit has one, else by devices=.
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
		case err == nil, props != nil: // those that are known may decide
		case errors.Is(err, fs.ErrNotExist):
			continue // gone since it was listed
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
	left := make([]string, 0, len(all)-len(taken))
	for _, d := range all {
		if !gone[d] {
			left = append(left, d)
		}
	}
	return left
}

// DevicesOfType lists the devices below a directory of /sys whose uevent has this
// DEVTYPE, sorted.
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

// SortDevices sorts names as people count: cpu2 before cpu10.
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
	return left < right // they differ in leading zeros only
}

func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
