package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// DiskKindName is the kind of an ATA disk's own settings: hdparm:sda/apm,
// hdparm:sda/spindown.
const DiskKindName = "hdparm"

const (
	apm      = "apm"
	spindown = "spindown"
)

// ownTimer is the standby timer that the disk's maker chose (ATA SET FEATURES,
// hdparm(8) -S 253). A disk cannot be asked for its timer, so this stands for
// "as it was" until fettle has set another, and undo gives it back; TuneD does
// the same.
const ownTimer = "253"

// notes is where the standby timers are written down that the disks have been
// told since boot, because the disks cannot be asked.
const notes = "/run/fettle/standby"

// DiskSetting names one setting of an ATA disk.
func DiskSetting(device, what string) setting.Setting {
	return setting.Setting{Kind: DiskKindName, Name: device + "/" + what}
}

// NewHdparm is the kind of settings that hdparm(8) reads and writes.
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

// Resolve follows a name below /dev (disk/by-id/...) to the kernel's.
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

// Read asks the disk for its APM level. Its standby timer it cannot be asked
// for: that is what it was last told since boot.
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
		return setting.Value{}, fmt.Errorf("hdparm -B /dev/%s: no APM level in its answer", device)
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
		return fmt.Errorf("%s: %s is no level between 0 and 255", s, v)
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
	// hdparm ends with the errno of a refused ioctl, and some releases with 0
	// and only a message.
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

// note writes a told standby timer down, and forgets it where the disk has its
// own again.
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
