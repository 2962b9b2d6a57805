// Package boot is the plug-in for kernel arguments and initrd overlays. It supports GRUB 2 with
// the distribution's own generator, GRUB with boot loader entries, rpm-ostree and bootc. Its
// changes take effect at the next boot.
package boot

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// Bootloader turns [bootloader] sections into changes.
var Bootloader = plugin.Plugin{
	Name: "bootloader",
	Doc:  "adds kernel arguments and initrd overlays, from the next boot on",
	Options: []plugin.Option{
		{Name: "grub2_cfg_file", Control: true, Doc: "path of GRUB's configuration, if it is not in one of the usual places"},
		{Name: "initrd_dst_img", Control: true, Doc: "name of the overlay in /boot; default the name of the source"},
		{Name: "initrd_remove_dir", Control: true, Doc: "y, yes, t, true or 1: remove the directory in initrd_add_dir afterwards; undo does not restore the directory"},
		{Name: "skip_grub_config", Control: true, Doc: "y, yes, t, true or 1: only compare cmdline with the running kernel's command line, and change nothing"},
		{Name: "initrd_add_img", Doc: "image to add as an overlay; a relative path is below the profile directory", Plan: planImage},
		{Name: "initrd_add_dir", Doc: "directory to make an overlay of; below /tmp or a profile directory", Plan: planDir},
		cmdlineOption("cmdline"),
	},
	Free: func(name string) (plugin.Option, bool) {
		if !strings.HasPrefix(name, "cmdline") {
			return plugin.Option{}, false
		}
		return cmdlineOption(name), true
	},
}

func cmdlineOption(name string) plugin.Option {
	return plugin.Option{
		Name: name,
		Doc:  "kernel arguments; all cmdline options of the section are added in order; +ARGS adds, -ARGS removes arguments that earlier options added",
		Plan: planCmdline,
	}
}

func isCmdline(o profile.Option) bool { return strings.HasPrefix(o.Name, "cmdline") }

// cmdline joins all cmdline options of a unit. An operator counts only if the profile has it
// literally; one from a variable does not.
func cmdline(options []profile.Option) string {
	var args []string
	for _, o := range options {
		if !isCmdline(o) || o.Value == "" {
			continue
		}
		op, rest := byte(0), o.Value
		switch written := o.Raw; {
		case written == "":
		case written[0] == '+' || written[0] == '-':
			op = written[0]
		case len(written) > 1 && written[0] == '\\' && strings.IndexByte(`\+-`, written[1]) >= 0:
			op = '+'
		}
		if op != 0 {
			rest = rest[1:]
		}
		words := strings.Fields(rest)
		if op != '-' {
			args = append(args, words...)
			continue
		}
		for _, w := range words {
			kept := args[:0]
			for _, a := range args {
				if a != w {
					kept = append(kept, a)
				}
			}
			args = kept
		}
	}
	text := strings.Join(args, " ")
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	return text
}

// truth parses the boolean options initrd_remove_dir and skip_grub_config as TuneD does.
func truth(r *plugin.Request, name string) bool {
	o, ok := r.Option(name)
	return ok && slices.Contains(plugin.YesWords.Yes, strings.ToLower(strings.TrimSpace(o.Value)))
}

// planCmdline plans all cmdline options of the unit at the first one, because they form one
// command line.
func planCmdline(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	for _, first := range r.Unit.Options {
		if isCmdline(first) {
			if first.Name != o.Name {
				return nil, nil
			}
			break
		}
	}
	return planBoot(ctx, r, o)
}

func planBoot(ctx context.Context, r *plugin.Request, o profile.Option) ([]plugin.Item, error) {
	for _, other := range r.Unit.Options {
		if isCmdline(other) && len(other.Deferred) > 0 {
			it := plugin.Refuse(setting.Setting{Kind: "bootloader", Name: "grub"}, other, plugin.Deferred, "known only when applied: %s", other.Deferred[0].Text)
			return []plugin.Item{it}, nil
		}
	}
	want := boot{args: cmdline(r.Unit.Options)}
	image, err := overlay(r)
	if err != nil {
		return nil, err
	}
	want.initrd = path.Base(image)
	if image == "" {
		want.initrd = ""
	}
	if strings.ContainsAny(want.args, "\n\x00") {
		return nil, plugin.Invalid("%q cannot be kernel arguments", want.args)
	}
	if want == (boot{}) {
		return nil, nil
	}
	if why := unknownPageSize(r.Host, want.args); why != "" {
		it := plugin.Refuse(setting.Setting{Kind: "bootloader", Name: "none"}, o, plugin.Rejected, "%s", why)
		it.Change.Want = setting.Text(want.args)
		return []plugin.Item{it}, nil
	}
	if truth(r, "skip_grub_config") {
		it := plugin.Refuse(setting.Setting{Kind: "bootloader", Name: "none"}, o, plugin.OK, "skip_grub_config: boot loader unchanged; the running kernel has these arguments")
		it.Change.Want = setting.Text(want.args)
		missing, err := missingArguments(r.Host, want.args)
		switch {
		case err != nil:
			it.Verdict, it.Why = plugin.Unknown, err.Error()
		case len(missing) > 0:
			it.Verdict = plugin.NeedsReboot
			it.Why = "skip_grub_config: boot loader unchanged; add the arguments yourself, the running kernel lacks " + strings.Join(missing, " ")
		}
		return []plugin.Item{it}, nil
	}
	l, err := detect(ctx, r.Host, r)
	var invalid *plugin.InvalidError
	switch {
	case errors.As(err, &invalid):
		return nil, err
	case errors.Is(err, errNoLoader):
		return plugin.LacksFiles(r.Host, setting.Setting{Kind: "bootloader", Name: "none"}, o, configs, "%v", err), nil
	case err != nil:
		return []plugin.Item{plugin.Refuse(setting.Setting{Kind: "bootloader", Name: "none"}, o, plugin.Unsupported, "%v", err)}, nil
	}
	return l.plan(ctx, r, o, want)
}

// unknownPageSize explains why this kernel would not reserve the huge pages of the arguments, or
// returns "". It ignores a size that it does not have, and the hugepages= after it
// (mm/hugetlb.c, hugepagesz_setup): 1G on x86-64 without pdpe1gb, and on arm64 with pages of 64 KiB.
func unknownPageSize(h *host.Host, args string) string {
	const pools = "/sys/kernel/mm/hugepages"
	entries, err := h.Files.ReadDir(pools)
	var sizes []string
	for _, e := range entries {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB"), 10, 64)
		if err == nil {
			sizes = append(sizes, unit.Size(kib<<10).Human())
		}
	}
	for _, word := range strings.Fields(args) {
		name, size, _ := strings.Cut(word, "=")
		if name != "hugepagesz" && name != "default_hugepagesz" {
			continue
		}
		kib, ok := override.PageKiB(size)
		switch {
		case err != nil && !host.NotFound(err): // not recorded
		case len(sizes) == 0:
			return word + ": this kernel has no huge pages"
		case !ok || !slices.Contains(sizes, unit.Size(kib<<10).Human()):
			slices.Sort(sizes)
			return fmt.Sprintf("%s: this kernel has huge pages of %s; it would ignore this size and the hugepages= after it", word, strings.Join(sizes, ", "))
		}
	}
	return ""
}

// overlay returns the path of the unit's initrd overlay in /boot, or "".
func overlay(r *plugin.Request) (string, error) {
	var source string
	for _, name := range []string{"initrd_add_img", "initrd_add_dir"} { // if both are set, TuneD uses the second
		if o, ok := r.Option(name); ok && !plugin.IsNone(o.Value) {
			source = o.Value
		}
	}
	if source == "" {
		return "", nil
	}
	name := path.Base(strings.TrimSpace(source))
	if o, ok := r.Option("initrd_dst_img"); ok && !plugin.IsNone(o.Value) {
		name = strings.TrimSpace(o.Value)
	}
	dst := path.Clean(name)
	if !path.IsAbs(dst) {
		dst = path.Join("/boot", name)
	}
	// Boot loaders reference the overlay by its file name in the kernel's directory.
	if path.Dir(dst) != "/boot" || strings.ContainsAny(dst, " \t\n'\"\\$") {
		return "", plugin.Invalid("initrd_dst_img: %q is not a plain file name in /boot", name)
	}
	return dst, nil
}

// bootItems plans the boot loader after an overlay, unless a cmdline option plans it.
func bootItems(ctx context.Context, r *plugin.Request, o profile.Option) ([]plugin.Item, error) {
	if slices.ContainsFunc(r.Unit.Options, isCmdline) {
		return nil, nil // planned with cmdline, after the image
	}
	return planBoot(ctx, r, o)
}

func planImage(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	dst, err := overlay(r)
	if err != nil {
		return nil, err
	}
	source := strings.TrimSpace(o.Value)
	if !path.IsAbs(source) {
		source = path.Join(path.Dir(o.Pos.File), source)
	}
	s := setting.Setting{Kind: "initrd", Name: dst}
	if it, refused := noOverlay(r, s, o); refused {
		return []plugin.Item{it}, nil
	}
	if err := profile.Trusted(r.Host, source); err != nil {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unusable(err), "%v", err)}, nil
	}
	b, err := r.Host.Files.ReadFile(source)
	if err != nil {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Rejected, "%v", err)}, nil
	}
	if dir, ok := r.Option("initrd_add_dir"); ok && !plugin.IsNone(dir.Value) {
		return nil, nil // both are set: the directory's image replaces this one
	}
	more, err := bootItems(ctx, r, o)
	return append([]plugin.Item{plugin.Want(s, string(b), o)}, more...), err
}

func planDir(ctx context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	dst, err := overlay(r)
	if err != nil {
		return nil, err
	}
	s := setting.Setting{Kind: "initrd", Name: dst}
	if it, refused := noOverlay(r, s, o); refused {
		return []plugin.Item{it}, nil
	}
	dir := path.Clean(strings.TrimSpace(o.Value))
	if err := usableDir(r.Host, dir, r.ProfileDirs); err != nil {
		// The directory of an existing overlay may have been removed, as the profile requests.
		if now, rerr := r.Kinds.Read(ctx, s); rerr != nil || sourceOf(now.Text) == "" {
			return []plugin.Item{plugin.Refuse(s, o, plugin.Unusable(err), "%v", err)}, nil
		}
	}
	it := plugin.Want(s, archiveOf+dir, o)
	if truth(r, "initrd_remove_dir") {
		it.Change.Want = setting.Text(archiveOf + dir + thenRemoved)
		it.Why = dir + " is removed afterwards; undo does not restore it"
	}
	more, err := bootItems(ctx, r, o)
	return append([]plugin.Item{it}, more...), err
}

func noOverlay(r *plugin.Request, s setting.Setting, o profile.Option) (plugin.Item, bool) {
	switch {
	case truth(r, "skip_grub_config"):
		return plugin.Refuse(s, o, plugin.Refused, "skip_grub_config is set, so no boot loader would load the overlay"), true
	case isOSTree(r.Host):
		return plugin.Refuse(s, o, plugin.Unsupported, "rpm-ostree and bootc have no initrd overlays"), true
	}
	if _, err := r.Host.Files.Stat("/sys/firmware/opal"); err == nil {
		return plugin.Refuse(s, o, plugin.Unsupported, "Petitboot does not load initrd overlays"), true
	}
	return plugin.Item{}, false
}
