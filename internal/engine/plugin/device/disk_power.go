package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// DiskKindName is the setting kind of an ATA disk's own settings: hdparm:sda/apm,
// hdparm:sda/spindown.
const DiskKindName = "hdparm"

const (
	apm      = "apm"
	spindown = "spindown"
)

// ownTimer selects the vendor's standby timer (ATA SET FEATURES, hdparm(8) -S 253). A disk does
// not report its timer. Until fettle sets one, this value stands for the original, and undo
// restores it, as TuneD does.
const ownTimer = "253"

// notes is the directory that records the standby timers set since boot, because disks do not
// report them.
const notes = "/run/fettle/standby"

// DiskSetting returns a setting of an ATA disk; the argument what is "apm" or "spindown".
func DiskSetting(device, what string) setting.Setting {
	return setting.Setting{Kind: DiskKindName, Name: device + "/" + what}
}

// NewHdparm returns the setting kind that hdparm(8) reads and writes.
func NewHdparm(h *host.Host) setting.Kind { return hdparm{h} }

type hdparm struct{ host *host.Host }

func parseName(name string) (device, what string, err error) {
	i := strings.LastIndexByte(name, '/')
	if i > 0 {
		device, what = name[:i], name[i+1:]
	}
	if device == "" || (what != apm && what != spindown) || strings.Contains(device, "..") || strings.HasPrefix(device, "/") {
		return "", "", fmt.Errorf("hdparm:%s: want DISK/apm or DISK/spindown, such as hdparm:sda/apm", name)
	}
	return device, what, nil
}

// Resolve converts a name below /dev (disk/by-id/...) to the kernel's name.
func (k hdparm) Resolve(s setting.Setting) (setting.Setting, error) {
	device, what, err := parseName(s.Name)
	if err != nil {
		return setting.Setting{}, err
	}
	if real, err := k.host.Files.Resolve("/dev/" + device); err == nil && strings.HasPrefix(real, "/dev/") {
		device = strings.TrimPrefix(real, "/dev/")
	}
	return DiskSetting(device, what), nil
}

var apmLevel = text.LazyRegexp(`APM_level\s*=\s*(\S+)( supported)?`)

// Read returns the APM level reported by the disk, or the standby timer last set since boot, which
// a disk does not report.
func (k hdparm) Read(ctx context.Context, s setting.Setting) (setting.Value, error) {
	device, what, err := parseName(s.Name)
	if err != nil {
		return setting.Value{}, err
	}
	if !plugin.Exists(k.host, diskSysDir(device)) {
		return setting.Absent, nil
	}
	if what == spindown {
		if told, ok := plugin.Attribute(k.host, notePath(device)); ok && told != "" {
			return setting.Text(told), nil
		}
		return setting.Text(ownTimer), nil
	}
	res, err := k.run(ctx, "-B", "/dev/"+device)
	if err != nil {
		return setting.Value{}, err
	}
	m := apmLevel().FindStringSubmatch(res)
	switch {
	case m == nil:
		return setting.Value{}, fmt.Errorf("hdparm -B /dev/%s: no APM level in the output", device)
	case m[1] == "not": // "= not supported"
		return setting.Absent, nil
	case m[1] == "off":
		return setting.Text("255"), nil
	}
	return setting.Text(m[1]), nil
}

func (k hdparm) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	device, what, err := parseName(s.Name)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(v.Text); v.Absent || err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%s: %s is not an APM level from 0 to 255", s, v)
	}
	flag := "-B"
	if what == spindown {
		flag = "-S"
	}
	if _, err := k.run(ctx, flag, v.Text, "/dev/"+device); err != nil {
		return err
	}
	if what == spindown {
		return k.note(device, v.Text)
	}
	return nil
}

func (k hdparm) run(ctx context.Context, args ...string) (string, error) {
	c := host.Command{Argv: append([]string{"hdparm"}, args...)}
	res, err := k.host.Exec.Run(ctx, c)
	if err != nil {
		return "", err
	}
	// hdparm exits with the errno of a rejected ioctl. Some releases exit with 0 and only print a
	// message.
	msg := strings.TrimSpace(string(res.Stderr))
	if res.ExitCode != 0 || strings.Contains(msg, "failed") {
		return "", fmt.Errorf("%s: %s", c, plain(msg, res.ExitCode))
	}
	return string(res.Stdout), nil
}

func plain(msg string, code int) string {
	if i := strings.LastIndexByte(msg, '\n'); i >= 0 {
		msg = strings.TrimSpace(msg[i+1:])
	}
	if msg == "" {
		return fmt.Sprintf("exit code %d", code)
	}
	return msg
}

func notePath(device string) string { return notes + "/" + plugin.SysFile(device) }

// note records a standby timer. It removes the record when the disk has its own timer again.
func (k hdparm) note(device, told string) error {
	p := notePath(device)
	if told == ownTimer {
		if err := k.host.Files.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	for _, dir := range []string{path.Dir(notes), notes} {
		if err := k.host.Files.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return k.host.Files.Replace(p, []byte(told+"\n"), host.Attr{Mode: 0o644})
}

func (hdparm) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (hdparm) Coupled(setting.Setting) []setting.Setting { return nil }
func (hdparm) Lifetime() setting.Lifetime                { return setting.Runtime }

// power is one power-saving level.
type power struct{ apm, spindown int }

// powers are TuneD's levels; level 0 is for a busy disk. Timers are in steps of hdparm -S. As in
// TuneD, those from 241 to 255 are not in order.
var powers = []power{
	{254, 0}, {225, 250}, {195, 230}, {165, 210}, {145, 190}, {125, 170},
	{105, 150}, {85, 130}, {70, 110}, {55, 90}, {30, 70}, {20, 60},
}

// diskLadder has TuneD's thresholds. An interval is idle if both directions have less than a
// hundredth of the busiest interval's requests. After six such intervals the disk saves more
// power.
var diskLadder = plugin.Ladder{Top: len(powers) - 1, Patience: 6, Rest: 0.01}

// decision is the state of a disk's loop.
type decision struct {
	plugin.Standing
	// apm and spindown are the values last set; -1 for none.
	apm, spindown int
}

func beginDisk() decision {
	return decision{Standing: plugin.Standing{Most: [2]float64{1, 1}}, apm: -1, spindown: -1}
}

// next decides after an interval with a load. A sleeping disk gets its timer only after it has
// woken up, because setting the timer restarts it. spinning is called only if needed.
func (d decision) next(load [2]float64, spinning func() bool) decision {
	was := d.Level
	d.Standing = diskLadder.Next(d.Standing, load)
	if d.Level != was {
		d.apm = d.Level
	}
	if d.apm >= 0 && d.spindown != d.Level && (d.Level < was || spinning()) {
		d.spindown = d.Level
	}
	return d
}

func (d decision) wishes(device string) []plugin.Wish {
	var out []plugin.Wish
	if d.spindown >= 0 {
		out = append(out, plugin.Wish{Setting: DiskSetting(device, spindown), Want: number(powers[d.spindown].spindown)})
	}
	if d.apm >= 0 {
		out = append(out, plugin.Wish{Setting: DiskSetting(device, apm), Want: number(powers[d.apm].apm)})
	}
	return out
}

func number(n int) setting.Value { return setting.Text(strconv.Itoa(n)) }

// diskDynamic makes the power management of each ATA disk of a unit follow its load.
func diskDynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	var loops []plugin.Loop
	var items []plugin.Item
	on, given := r.Dynamic()
	if !on {
		return nil, nil, nil
	}
	for _, device := range r.Devices {
		s := DiskSetting(device, apm)
		o, _ := r.Option("dynamic")
		if !isATA(r.Host, device) {
			if given {
				items = append(items, plugin.Lacks(r.Host, s, o, "%s is not an ATA disk, so it has no dynamic tuning", device)...)
			}
			continue
		}
		if _, err := r.Host.Exec.LookPath("hdparm"); errors.Is(err, fs.ErrNotExist) {
			if given {
				items = append(items, plugin.Lacks(r.Host, s, o, "the program hdparm, which talks to ATA disks, is not installed")...)
			}
			continue
		}
		loops = append(loops, diskLoop(r, device))
	}
	return loops, items, nil
}

func diskLoop(r *plugin.Request, device string) plugin.Loop {
	levels, timers := make([]setting.Value, len(powers)), make([]setting.Value, len(powers))
	for i, p := range powers {
		levels[i], timers[i] = number(p.apm), number(p.spindown)
	}
	reason := plugin.UnitReason(r.Unit, "the power management of "+device+" follows its load")
	d, counters := beginDisk(), plugin.Counters{}
	return plugin.Loop{
		Device: device,
		Places: []plugin.Varying{
			{Setting: DiskSetting(device, spindown), Values: timers, Reason: reason},
			{Setting: DiskSetting(device, apm), Values: levels, Reason: reason},
		},
		Next: func(ctx context.Context, elapsed time.Duration) ([]plugin.Wish, error) {
			now, err := requests(r.Host, device)
			if err != nil {
				return nil, err
			}
			if load, ok := counters.Load(now, elapsed); ok {
				d = d.next(load, func() bool { return isSpinning(ctx, r.Host, device) })
			}
			return d.wishes(device), nil
		},
	}
}

// requests returns the numbers of completed reads and writes of a disk
// (Documentation/block/stat.rst, first and fifth field).
func requests(h *host.Host, device string) (n [2]uint64, err error) {
	path := diskSysDir(device) + "/stat"
	b, err := h.Files.ReadFile(path)
	if err != nil {
		return n, err
	}
	f := strings.Fields(string(b))
	for i, field := range []int{0, 4} {
		if field >= len(f) {
			return n, fmt.Errorf("%s: %d fields, want 11 or more", path, len(f))
		}
		if n[i], err = strconv.ParseUint(f[field], 10, 64); err != nil {
			return n, fmt.Errorf("%s: %q is not a count", path, f[field])
		}
	}
	return n, nil
}

// isSpinning reports whether a disk is spinning, without waking it (ATA CHECK POWER MODE, hdparm
// -C).
func isSpinning(ctx context.Context, h *host.Host, device string) bool {
	out, err := hdparm{h}.run(ctx, "-C", "/dev/"+device)
	return err != nil || !strings.Contains(out, "standby") && !strings.Contains(out, "sleeping")
}
