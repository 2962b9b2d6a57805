// disk is the plug-in for block devices: I/O scheduler, read-ahead and
// the power management of ATA disks.

package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Disk is the plug-in for [disk] sections.
var Disk = plugin.Plugin{
	Name:       "disk",
	Doc:        "sets I/O scheduler, read-ahead and power management of the disks that are not removable",
	Devices:    diskDevices,
	DevicePath: diskSysDir,
	Dynamic:    diskDynamic,
	Options: []plugin.Option{
		{Name: "dynamic", Default: "true", Control: true, Words: plugin.OnlyTrue, Check: plugin.CheckDynamic,
			Doc: "true or false: apm and spindown follow the load if dynamic tuning is on"},
		{Name: "elevator", PerDevice: true, Plan: planElevator,
			Doc: "I/O scheduler: none, mq-deadline, bfq or kyber, or alternatives a|b; the first that the disk offers is used; the names of Linux before 5.0 (noop, deadline, cfq) are mapped"},
		{Name: "apm", PerDevice: true, Plan: planAPM,
			Doc: "Advanced Power Management of an ATA disk: 1 (most saving) to 254 (most speed), 255 turns it off; 1 to 127 let the disk spin down"},
		{Name: "spindown", PerDevice: true, Plan: planSpindown,
			Doc: "standby timer of an ATA disk, in hdparm -S steps: 0 never; N from 1 to 240: N times 5 s; N from 241 to 251: (N-240) times 30 min; 252: 21 min; 253: the disk's own time; 255: 21 min 15 s"},
		{Name: "readahead", PerDevice: true, Plan: planReadahead,
			Doc: "read-ahead in KiB, or in sectors of 512 bytes as \"N s\"; >N only raises and <N only lowers it; whole pages"},
		{Name: "readahead_multiply", PerDevice: true, Plan: planMultiply,
			Doc: "factor for the read-ahead that the disk has without the profile (greater than 0, may be a fraction)"},
		{Name: "scheduler_quantum", PerDevice: true, Plan: planQuantum,
			Doc: "requests that the CFQ scheduler dispatches at a time (1 or more); Linux 5.0 removed CFQ"},
	},
}

// renamed maps single-queue schedulers to their successors since Linux 5.0.
var renamed = map[string]string{"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}

func planElevator(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := plugin.Sysfs(diskSysDir(device) + "/queue/scheduler")
	wanted, ok := plugin.Alternatives(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "a scheduler such as mq-deadline, or alternatives a|b"), nil
	}
	offered := plugin.Choices(r.Host, s.Name)
	if len(offered) == 0 {
		return plugin.Lacks(r.Host, s, o, "%s has no I/O scheduler", device), nil
	}
	for _, name := range wanted {
		if chosen, why := current(name, offered); slices.Contains(offered, chosen) {
			return wantElevator(s, chosen, why, o), nil
		}
	}
	for _, name := range wanted {
		// The kernel loads a scheduler's module when its name is first written (block/elevator.c,
		// elv_iosched_load_module).
		chosen, why := current(name, offered)
		if !stacked(offered) && plugin.HasModule(r.Host, chosen, chosen+"-iosched") {
			return wantElevator(s, chosen, joinDisk(why, "the kernel then loads the module "+chosen), o), nil
		}
	}
	if stacked(offered) {
		return plugin.Lacks(r.Host, s, o, "%s has no queue of its own, so it offers only the scheduler none", device), nil
	}
	return plugin.Lacks(r.Host, s, o, "%s offers only %s", device, strings.Join(offered, ", ")), nil
}

// current returns the current name of a scheduler. It adds a note if the scheduler was renamed.
func current(name string, offered []string) (string, string) {
	now, old := renamed[name]
	switch {
	case !old || slices.Contains(offered, name):
		return name, ""
	case name == "cfq":
		return now, "cfq left Linux in 5.0; bfq replaces it"
	}
	return now, fmt.Sprintf("%s is called %s since Linux 5.0", name, now)
}

func wantElevator(s setting.Setting, name, why string, o profile.Option) []plugin.Item {
	it := plugin.Want(s, name, o)
	it.Why = why
	return []plugin.Item{it}
}

// stacked reports whether the block layer offers no choice: the driver has no request
// queue (device mapper, md) or forbids schedulers.
func stacked(offered []string) bool { return len(offered) == 1 && offered[0] == "none" }

func joinDisk(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func readaheadSetting(device string) setting.Setting {
	return plugin.Sysfs(diskSysDir(device) + "/queue/read_ahead_kb")
}

// parseReadahead parses "N" in KiB or "N s" in sectors of 512 bytes, and returns KiB.
func parseReadahead(text string) (kib int64, ok bool) {
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, false
	}
	if len(fields) == 2 {
		if fields[1] != "s" {
			return 0, false
		}
		n /= 2
	}
	return n, true
}

// wholePages rounds KiB down to whole pages as the kernel does (block/blk-sysfs.c,
// queue_ra_store). It adds a note if that changes the value.
func wholePages(h *host.Host, kib int64) (int64, string) {
	page := h.PageSize() / 1024
	if rest := kib % page; rest != 0 {
		return kib - rest, fmt.Sprintf("%d KiB in whole pages of %d KiB", kib, page)
	}
	return kib, ""
}

func planReadahead(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := readaheadSetting(device)
	op, text := plugin.Modifier(o.Value)
	kib, ok := parseReadahead(text)
	if !ok {
		return plugin.BadValue(s, o, "KiB (4096), or sectors of 512 bytes (\"8192 s\"), after > or < if wanted"), nil
	}
	if _, both := r.Option("readahead_multiply"); both {
		return nil, nil // planned with the absolute value, to which the factor applies
	}
	kib, why := wholePages(r.Host, kib)
	it := plugin.Want(s, strconv.FormatInt(kib, 10), o)
	it.Change.Op, it.Why = op, why
	return []plugin.Item{it}, nil
}

func planMultiply(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := readaheadSetting(device)
	factor, err := strconv.ParseFloat(strings.TrimSpace(o.Value), 64)
	if err != nil || factor <= 0 || factor > 1e6 {
		return plugin.BadValue(s, o, "a factor greater than 0, such as 4 or 0.5"), nil
	}
	before, err := r.Original(s)
	if err != nil {
		return nil, err
	}
	if before.Absent {
		return plugin.Lacks(r.Host, s, o, "%s has no read-ahead", device), nil
	}
	base, ok := parseReadahead(before.Text)
	if !ok {
		return nil, fmt.Errorf("%s holds %q, which is not a number of KiB", s, before.Text)
	}
	if ra, given := r.Option("readahead"); given {
		op, text := plugin.Modifier(ra.Value)
		kib, ok := parseReadahead(text)
		if ok && (op == setting.Set || op == setting.Raise && kib > base || op == setting.Lower && kib < base) {
			base = kib
		}
	}
	kib, _ := wholePages(r.Host, min(int64(factor*float64(base)), math.MaxInt32))
	it := plugin.Want(s, strconv.FormatInt(kib, 10), o)
	it.Why = fmt.Sprintf("%s times %d KiB", strings.TrimSpace(o.Value), base)
	return []plugin.Item{it}, nil
}

func planQuantum(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	s := plugin.Sysfs(diskSysDir(device) + "/queue/iosched/quantum")
	if !plugin.Exists(r.Host, s.Name) {
		return plugin.Lacks(r.Host, s, o, "quantum belongs to the CFQ scheduler, which %s does not use; Linux 5.0 removed CFQ", device), nil
	}
	return plugin.Number(s, o, 1, math.MaxInt32, "a number of requests, 1 or more"), nil
}

func planAPM(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	return planHdparm(r, o, DiskSetting(device, apm), 1, 255, "1 to 254, or 255 for off")
}

func planSpindown(_ context.Context, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	return planHdparm(r, o, DiskSetting(device, spindown), 0, 255, "0 to 255, in the steps of hdparm -S")
}

func planHdparm(r *plugin.Request, o profile.Option, s setting.Setting, lo, hi int64, want string) ([]plugin.Item, error) {
	items := plugin.Number(s, o, lo, hi, want)
	if items[0].Verdict != "" {
		return items, nil
	}
	device, _, _ := parseName(s.Name)
	if !isATA(r.Host, device) {
		return plugin.Lacks(r.Host, s, o, "%s is not an ATA disk", device), nil
	}
	if _, err := r.Host.Exec.LookPath("hdparm"); errors.Is(err, fs.ErrNotExist) {
		return plugin.Lacks(r.Host, s, o, "the program hdparm, which talks to ATA disks, is not installed"), nil
	}
	return items, nil
}

// buses are the subsystems of the disks that are tuned, as in TuneD. Disks without a parent device
// (loop, zram, device mapper, md) are tuned too.
var buses = []string{"scsi", "virtio", "xen", "nvme", "mmc"}

// diskDevices lists the whole disks, without removable ones.
func diskDevices(_ context.Context, h *host.Host) ([]string, error) {
	dir := "/sys/class/block"
	entries, err := h.Files.ReadDir(dir)
	if host.NotFound(err) {
		dir = "/sys/block"
		entries, err = h.Files.ReadDir(dir)
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if tunable(h, path.Join(dir, e.Name())) {
			out = append(out, plugin.SysName(e.Name()))
		}
	}
	plugin.SortDevices(out)
	return out, nil
}

func tunable(h *host.Host, dir string) bool {
	if plugin.Exists(h, dir+"/partition") {
		return false
	}
	if removable, ok := plugin.Attribute(h, dir+"/removable"); !ok || removable != "0" {
		return false
	}
	subsystem, ok := parentSubsystem(h, dir)
	return !ok || slices.Contains(buses, subsystem)
}

// parentSubsystem returns the subsystem of the nearest parent directory that is a device, that is,
// has a uevent file (sd_device_get_parent).
func parentSubsystem(h *host.Host, dir string) (string, bool) {
	real, err := h.Files.Resolve(dir)
	if err != nil {
		return "", false
	}
	// The first three elements of /sys/devices/virtual/CLASS/NAME are not devices.
	for p := path.Dir(real); strings.HasPrefix(p, "/sys/devices/") && path.Dir(p) != "/sys/devices/virtual"; p = path.Dir(p) {
		if !plugin.Exists(h, p+"/uevent") {
			continue
		}
		link, err := h.Files.Readlink(p + "/subsystem")
		if err != nil {
			return "", true
		}
		return path.Base(link), true
	}
	return "", false
}

// diskSysDir returns the sysfs directory of a disk.
func diskSysDir(device string) string { return "/sys/block/" + plugin.SysFile(device) }

// isATA reports whether a disk uses ATA, directly or through the kernel's translation
// (drivers/ata/libata-scsi.c gives such disks the vendor "ATA").
func isATA(h *host.Host, device string) bool {
	if vendor, ok := plugin.Attribute(h, diskSysDir(device)+"/device/vendor"); ok {
		return vendor == "ATA"
	}
	return strings.HasPrefix(device, "hd")
}
