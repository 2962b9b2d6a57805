// mounts is the plug-in that parses [mounts] sections and refuses their request: fettle never
// disables write barriers.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Mounts is the plug-in for [mounts] sections.
var Mounts = plugin.Plugin{
	Name: "mounts",
	Doc:  "lists the file systems whose write barriers a profile would turn off, and leaves the barriers on",
	Options: []plugin.Option{{
		Name:      "disable_barriers",
		Doc:       "true, or force (also above a write-back cache): accepted for compatibility, but refused with a reason",
		PerDevice: true,
		Words:     plugin.OnlyTrue,
		Plan:      planMounts,
	}},
	NoDevice: noDevice,
	Devices: func(_ context.Context, h *host.Host) ([]string, error) {
		all, err := read(h)
		var points []string
		for _, m := range all {
			if m.disk(h) != "" && !slices.Contains(points, m.point) {
				points = append(points, m.point)
			}
		}
		slices.Sort(points)
		return points, err
	},
}

// reason is why barriers stay on: they keep a journal's writes in order on the medium (kernel,
// Documentation/block/writeback_cache_control.rst).
const reason = "write-barriers-off: write barriers stay on; without them a crash or power loss can corrupt the file system, " +
	"and on storage without a volatile cache they cost nothing"

// barriersOff reports whether a value requests barriers off, and whether on any storage (force).
func barriersOff(value string) (off, force bool, err error) {
	if strings.EqualFold(strings.TrimSpace(value), "force") {
		return true, true, nil
	}
	if plugin.IsNone(value) {
		return false, false, nil
	}
	off, ok := plugin.Truth(value)
	if !ok {
		return false, false, plugin.Invalid("%q: want true, false or force", value)
	}
	return off, false, nil
}

// noDevice returns a refusal for a unit without a file system, so that the user does not assume
// that barriers are off.
func noDevice(r *plugin.Request) []plugin.Item {
	o, given := r.Option("disable_barriers")
	if !given || len(o.Deferred) > 0 {
		return nil
	}
	switch off, _, err := barriersOff(o.Value); {
	case err != nil:
		return []plugin.Item{plugin.Failed(r.Unit.Name, o, "", err)}
	case off:
		return []plugin.Item{plugin.Refuse(plugin.OptionPlace(r.Unit.Name, o.Name, ""), o, plugin.Refused, "%s", reason)}
	}
	return nil
}

func planMounts(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	off, force, err := barriersOff(o.Value)
	if err != nil || !off {
		return nil, err
	}
	all, err := read(r.Host)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(all) { // of two mounts on one point only the later is visible
		if m.point != device {
			continue
		}
		// Requests that TuneD ignores are refused too, so that the user sees them.
		also := ""
		switch {
		case m.fstype == "xfs":
			also = "; Linux 4.19 removed this option for this file system"
		case !strings.HasPrefix(m.fstype, "ext"):
			also = ", for which this plug-in has no barrier option"
		case !force && m.writeBack(r.Host):
			also = ", above a write-back cache, which needs them"
		}
		it := plugin.Refuse(setting.Setting{Kind: "barrier", Name: m.point}, o, plugin.Refused, "%s (%s on %s%s)", reason, m.fstype, m.source, also)
		it.Change.Want = setting.Text("off")
		return []plugin.Item{it}, nil
	}
	return nil, nil
}

// mount is a line of /proc/mounts (fstab(5), fields escaped in octal).
type mount struct{ source, point, fstype, options string }

func read(h *host.Host) ([]mount, error) {
	b, err := h.Files.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	var out []mount
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "/dev/") {
			continue
		}
		out = append(out, mount{host.UnescapeMount(f[0]), host.UnescapeMount(f[1]), f[2], f[3]})
	}
	return out, nil
}

// disk returns the sysfs directory of the disk below a partition or LVM volume. It returns "" for
// file systems that TuneD ignores: on whole disks, removable disks and other devices.
func (m mount) disk(h *host.Host) string {
	dev, err := h.Files.Resolve(m.source)
	if err != nil {
		dev = m.source
	}
	dir, err := h.Files.Resolve("/sys/class/block/" + path.Base(dev))
	if err != nil {
		return ""
	}
	if _, err := h.Files.Stat(dir + "/partition"); err == nil {
		dir = path.Dir(dir)
	} else {
		uuid, err := h.Files.ReadFile(dir + "/dm/uuid")
		if err != nil || !strings.HasPrefix(string(uuid), "LVM-") {
			return ""
		}
	}
	if b, err := h.Files.ReadFile(dir + "/removable"); err == nil && strings.TrimSpace(string(b)) == "1" {
		return ""
	}
	return dir
}

// writeBack reports whether a SCSI disk below the file system has a volatile write cache.
func (m mount) writeBack(h *host.Host) bool {
	dir := m.disk(h)
	disks := []string{dir}
	if slaves, err := h.Files.ReadDir(dir + "/slaves"); err == nil {
		for _, s := range slaves {
			if d, err := h.Files.Resolve(dir + "/slaves/" + s.Name()); err == nil {
				disks = append(disks, d, path.Dir(d))
			}
		}
	}
	for _, d := range disks {
		types, _ := host.Glob(h.Files, d+"/device/scsi_disk/*/cache_type")
		for _, t := range types {
			if b, err := h.Files.ReadFile(t); err == nil && strings.TrimSpace(string(b)) == "write back" {
				return true
			}
		}
	}
	return false
}

// MountsKinds returns the setting kinds that this plug-in adds:
//
//	barrier:/MOUNT  "on" or "off": read only
func MountsKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{"barrier": barrier{h}}
}

type barrier struct{ host *host.Host }

func (barrier) Resolve(s setting.Setting) (setting.Setting, error) {
	if !path.IsAbs(s.Name) {
		return setting.Setting{}, fmt.Errorf("%s: want the absolute path of a mount point", s)
	}
	s.Name = path.Clean(s.Name)
	return s, nil
}

// Read parses the ext4 options barrier, barrier=N and nobarrier (kernel,
// Documentation/admin-guide/ext4.rst). Without any of them barriers are on.
func (k barrier) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	all, err := read(k.host)
	if err != nil {
		return setting.Value{}, err
	}
	for _, m := range slices.Backward(all) {
		if m.point != s.Name {
			continue
		}
		state := "on"
		for _, o := range strings.Split(m.options, ",") {
			switch o {
			case "nobarrier", "barrier=0":
				state = "off"
			case "barrier", "barrier=1":
				state = "on"
			}
		}
		return setting.Text(state), nil
	}
	return setting.Absent, nil
}

func (barrier) Write(context.Context, setting.Setting, setting.Value) error {
	return errors.New(reason)
}

func (barrier) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (barrier) Coupled(setting.Setting) []setting.Setting { return nil }
func (barrier) Lifetime() setting.Lifetime                { return setting.Runtime }
