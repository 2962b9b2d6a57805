package boot

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

// Kinds returns the kinds of setting that this plug-in adds:
//
//	bootloader:grub:CFG    the arguments in fettle's part of GRUB's defaults; CFG is generated
//	bootloader:grubenv     the arguments in GRUB's environment block, for boot loader entries
//	bootloader:rpm-ostree  every argument of the default deployment
//	bootloader:bootc       the arguments of bootc's source "fettle"
//	bootvars:/PATH         the variables of GRUB that a boot file references
//	initrd:/boot/NAME      an initrd overlay: its bytes, or "archive of DIR"
//	cmdline:ARGUMENT       one argument of the running kernel: read only
func Kinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{
		argumentKind: argument{h},
		"bootloader": kind{h},
		"bootvars":   vars{h},
		"initrd":     initrd{setting.NewFile(h, setting.Reboot), h},
	}
}

// boot is the value of a boot loader: the arguments and the overlay that fettle adds.
type boot struct {
	args   string
	initrd string // file name in /boot; "" for none
}

// text formats a boot as a value: the arguments, then the overlay on a second line.
func (b boot) text() string {
	if b.initrd == "" {
		return b.args
	}
	return b.args + "\ninitrd=" + b.initrd
}

func parseBoot(text string) (boot, error) {
	args, more, two := strings.Cut(text, "\n")
	if !two {
		return boot{args: args}, nil
	}
	name, ok := strings.CutPrefix(more, "initrd=")
	if !ok || strings.ContainsAny(name, "\n/ ") {
		return boot{}, fmt.Errorf("boot loader value %q: want kernel arguments, and initrd=NAME on a second line", text)
	}
	return boot{args, name}, nil
}

// loader is a boot loader: it passes arguments to the next boot.
type loader interface {
	plan(ctx context.Context, r *plugin.Request, o profile.Option, want boot) ([]plugin.Item, error)
	read(ctx context.Context) (setting.Value, error)
	write(ctx context.Context, v setting.Value) error
}

var errNoLoader = errors.New("no supported boot loader found (GRUB 2, GRUB with boot loader entries, rpm-ostree or bootc)")

// detect returns the boot loader in use. bootc comes first if it keeps arguments by source,
// because it overwrites rpm-ostree's.
func detect(ctx context.Context, h *host.Host, r *plugin.Request) (loader, error) {
	if isOSTree(h) {
		if b := (bootc{h}); b.keepsSources(ctx) {
			return b, nil
		}
		return rpmOSTree{h}, nil
	}
	cfg := ""
	if o, ok := r.Option("grub2_cfg_file"); ok && !plugin.IsNone(o.Value) {
		cfg = path.Clean(strings.TrimSpace(o.Value))
		if !path.IsAbs(cfg) {
			return nil, plugin.Invalid("grub2_cfg_file: %q is not an absolute path", o.Value)
		}
	} else if usesEntries(h) {
		return grubEnv{h}, nil
	}
	g := grub{h, cfg}
	if cfg == "" {
		g.cfg = plugin.FirstFile(h, configs)
	}
	if g.cfg == "" {
		if _, err := h.Files.Stat("/boot/loader/entries"); err == nil {
			return nil, errors.New("boot loader entries without GRUB (systemd-boot, zipl) are not supported; add the arguments to /etc/kernel/cmdline")
		}
		return nil, errNoLoader
	}
	return g, nil
}

func isOSTree(h *host.Host) bool {
	_, err := h.Files.Lstat("/run/ostree-booted")
	return err == nil
}

type kind struct{ host *host.Host }

func (k kind) loader(s setting.Setting) (loader, error) {
	switch cfg, isGrub := strings.CutPrefix(s.Name, "grub:"); {
	case isGrub && path.IsAbs(cfg) && path.Clean(cfg) == cfg:
		return grub{k.host, cfg}, nil
	case s.Name == "grubenv":
		return grubEnv{k.host}, nil
	case s.Name == "rpm-ostree":
		return rpmOSTree{k.host}, nil
	case s.Name == "bootc":
		return bootc{k.host}, nil
	}
	return nil, fmt.Errorf("%s: want bootloader:grub:/PATH, :grubenv, :rpm-ostree or :bootc", s)
}

// Files returns GRUB's files: the file with fettle's part and the generated configuration, or the
// environment block.
func (k kind) Files(s setting.Setting) []string {
	l, _ := k.loader(s)
	switch l := l.(type) {
	case grub:
		return []string{l.place(), l.cfg}
	case grubEnv:
		if file, err := l.file(); err == nil {
			return []string{file}
		}
	}
	return nil
}

func (k kind) Resolve(s setting.Setting) (setting.Setting, error) {
	_, err := k.loader(s)
	return s, err
}

func (k kind) Read(ctx context.Context, s setting.Setting) (setting.Value, error) {
	l, err := k.loader(s)
	if err != nil {
		return setting.Value{}, err
	}
	return l.read(ctx)
}

func (k kind) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	l, err := k.loader(s)
	if err != nil {
		return err
	}
	return l.write(ctx, v)
}

// Equal treats an empty overlay name, which TuneD may leave, as no overlay.
func (kind) Equal(a, b setting.Value) bool {
	return strings.TrimSuffix(a.Text, "\ninitrd=") == strings.TrimSuffix(b.Text, "\ninitrd=")
}

func (kind) Coupled(setting.Setting) []setting.Setting { return nil }
func (kind) Lifetime() setting.Lifetime                { return setting.Reboot }

// Effect reports whether the running kernel's command line has the arguments.
func (k kind) Effect(_ context.Context, _ setting.Setting, want setting.Value) (plugin.Verdict, string) {
	b, err := parseBoot(want.Text)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	missing, err := missingArguments(k.host, b.args)
	switch {
	case err != nil:
		return plugin.Unknown, err.Error()
	case len(missing) > 0:
		return plugin.NeedsReboot, "the running kernel was started without " + strings.Join(missing, " ")
	}
	return plugin.OK, ""
}

// missingArguments returns the arguments that /proc/cmdline lacks.
func missingArguments(h *host.Host, args string) ([]string, error) {
	b, err := h.Files.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	now := strings.Fields(string(b))
	var missing []string
	for _, a := range strings.Fields(args) {
		if !slices.Contains(now, a) && !slices.Contains(missing, a) {
			missing = append(missing, a)
		}
	}
	return missing, nil
}
