package boot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// grubEnv is GRUB with boot loader entries (Fedora's family since release 30). The entries
// reference the variables $tuned_params and $tuned_initrd in GRUB's environment block. The names
// are TuneD's, because its package's hook adds them to the entries of new kernels.
type grubEnv struct{ host *host.Host }

const (
	entriesDir   = "/boot/loader/entries"
	kernelHook   = "/usr/lib/kernel/install.d/92-tuned.install"
	argsVariable = "tuned_params"
	initrdVar    = "tuned_initrd"
)

var envFiles = []string{"/boot/grub2/grubenv", "/boot/grub/grubenv"}

var blsEnabled = text.LazyRegexp(`(?mi)^[ \t]*GRUB_ENABLE_BLSCFG[ \t]*=[ \t]*"?[ \t]*true[ \t]*"?[ \t]*$`)

// usesEntries reports whether GRUB uses boot loader entries.
func usesEntries(h *host.Host) bool {
	if _, err := h.Files.Stat(entriesDir); err != nil {
		return false
	}
	b, err := h.Files.ReadFile(defaults)
	return err == nil && blsEnabled().Match(b)
}

func (g grubEnv) file() (string, error) {
	if f := plugin.FirstFile(g.host, envFiles); f != "" {
		return f, nil
	}
	return "", fmt.Errorf("GRUB's environment block is missing: %s", strings.Join(envFiles, ", "))
}

func (g grubEnv) plan(_ context.Context, _ *plugin.Request, o profile.Option, want boot) ([]plugin.Item, error) {
	s := setting.Setting{Kind: "bootloader", Name: "grubenv"}
	entries, err := entriesOf(g.host)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "no entry in %s uses GRUB variables", entriesDir)}, nil
	}
	f, err := g.file()
	if err != nil {
		return plugin.LacksFiles(g.host, s, o, envFiles, "%v", err), nil
	}
	if why := g.tooLong(f, want); why != "" {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "%s", why)}, nil
	}
	refs := refsOf(true, want.initrd != "")
	reference := func(p, refs, why string) plugin.Item {
		it := plugin.Want(setting.Setting{Kind: "bootvars", Name: p}, refs, o)
		it.Why = why
		return it
	}
	var items []plugin.Item
	// RHEL 8 starts all entries with $kernelopts and rewrites only that variable. Later releases
	// have the arguments in each entry and rewrite the entries.
	expanded := !slices.ContainsFunc(entries, func(e bootEntry) bool { return strings.Contains(e.text, "$kernelopts") })
	has := func(p string) bool {
		_, err := g.host.Files.Stat(p)
		return err == nil || host.Unknown(err)
	}
	again := false
	if expanded {
		items = append(items, reference(defaults, argsRef, "for grub2-mkconfig --update-bls-cmdline"))
		if has(path.Dir(kernelCmdline)) {
			items = append(items, reference(kernelCmdline, argsRef, "for new kernels"))
		} else {
			again = true
		}
	}
	if _, err := g.host.Files.Stat(kernelHook); err != nil && (!expanded || want.initrd != "") {
		if has(ownHookDir) {
			items = append(items, reference(ownHook, refs, "for new kernels"))
		} else {
			again = true
		}
	}
	for _, e := range entries {
		// TuneD's reference to its overlay stays.
		_, image := entryLines(e.text)
		overlay := want.initrd != "" || image >= 0 && hasWord(lineAt(e.text, image), initrdRef)
		items = append(items, reference(e.path, refsOf(true, overlay), ""))
	}
	it := plugin.Want(s, want.text(), o)
	it.Why = "takes effect at the next boot"
	if again {
		it.Why += "; after installing a kernel, apply the profile again"
	}
	return append(items, it), nil
}

// tooLong explains why the environment block has no room for the arguments, or returns "".
func (g grubEnv) tooLong(f string, want boot) string {
	b, err := g.host.Files.ReadFile(f)
	if err != nil || len(b) == 0 {
		return ""
	}
	used := len(strings.TrimRight(string(b), "#"))
	line := func(name, value string) int {
		return len(name) + len(value) + strings.Count(value, "\\") + 2 // = and the line feed
	}
	for name, value := range parseEnv(string(b)) {
		if name == argsVariable || name == initrdVar && want.initrd != "" {
			used -= line(name, value)
		}
	}
	need := line(argsVariable, want.args)
	if want.initrd != "" {
		need += line(initrdVar, bootDirOfGrub(g.host)+want.initrd)
	}
	if used+need <= len(b) {
		return ""
	}
	return fmt.Sprintf("the arguments need %d bytes, and %s has %d of its %d left", need, f, max(0, len(b)-used), len(b))
}

// grubEntry reports whether an entry is GRUB's own: it has GRUB's keys or variables.
func grubEntry(text string) bool {
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
		if strings.HasPrefix(key, "grub_") || strings.Contains(line, "$grub") || strings.Contains(line, "$kernelopts") {
			return true
		}
	}
	return false
}

func hasWord(line, word string) bool {
	return slices.Contains(strings.Fields(line), word)
}

func (g grubEnv) read(context.Context) (setting.Value, error) {
	f, err := g.file()
	if err != nil {
		return setting.Value{}, err
	}
	b, err := g.host.Files.ReadFile(f)
	if err != nil {
		return setting.Value{}, err
	}
	env := parseEnv(string(b))
	args, ok := env[argsVariable]
	if !ok {
		return setting.Absent, nil
	}
	text := args
	if image, ok := env[initrdVar]; ok {
		name := path.Base(image)
		if image == "" {
			name = ""
		}
		text += "\ninitrd=" + name
	}
	return setting.Text(text), nil
}

// parseEnv parses GRUB's environment block: a title line, NAME=VALUE lines with backslash escapes,
// and # as padding (GRUB, grub-core/lib/envblk.c).
func parseEnv(text string) map[string]string {
	env := map[string]string{}
	var line strings.Builder
	done := func() {
		name, v, ok := strings.Cut(line.String(), "=")
		if ok && !strings.HasPrefix(name, "#") {
			env[name] = v
		}
		line.Reset()
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			line.WriteByte(text[i])
		case text[i] == '\n':
			done()
		default:
			line.WriteByte(text[i])
		}
	}
	return env
}

// write uses grub2-editenv, which also handles blocks outside the file system (btrfs).
func (g grubEnv) write(ctx context.Context, v setting.Value) error {
	f, err := g.file()
	if err != nil {
		return err
	}
	program := "grub2-editenv"
	if !host.HasProgram(g.host, program) {
		program = "grub-editenv"
	}
	if v.Absent {
		_, err := host.Run(ctx, g.host, program, f, "unset", argsVariable, initrdVar)
		return err
	}
	args, image, hasImage := strings.Cut(v.Text, "\n")
	set := []string{program, f, "set", argsVariable + "=" + args}
	if hasImage {
		name := strings.TrimPrefix(image, "initrd=")
		if name != "" {
			name = bootDirOfGrub(g.host) + name
		}
		set = append(set, initrdVar+"="+name)
	}
	if _, err := host.Run(ctx, g.host, set...); err != nil {
		return err
	}
	if hasImage {
		return nil
	}
	b, err := g.host.Files.ReadFile(f)
	if err != nil || parseEnv(string(b))[initrdVar] == "" {
		return err // an empty variable, as TuneD leaves it, keeps its place in the block
	}
	_, err = host.Run(ctx, g.host, program, f, "unset", initrdVar)
	return err
}

var bootImage = text.LazyRegexp(`^\s*BOOT_IMAGE=(?:\([^)]*\))?(\S*/)`)

// bootDirOfGrub returns the path by which GRUB loaded the running kernel's /boot: "/" if /boot is
// a separate file system.
func bootDirOfGrub(h *host.Host) string {
	b, err := h.Files.ReadFile("/proc/cmdline")
	if err != nil {
		return "/"
	}
	if m := bootImage().FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return "/"
}
