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
	names, err := g.host.Files.ReadDir(entriesDir)
	if err != nil {
		return nil, err
	}
	var items []plugin.Item
	usable := 0
	for _, e := range names {
		p := entriesDir + "/" + e.Name()
		if path.Ext(p) != ".conf" || strings.HasSuffix(p, "-rescue.conf") {
			continue
		}
		b, err := g.host.Files.ReadFile(p)
		if err != nil {
			return nil, err
		}
		if !grubEntry(string(b)) {
			continue // made by boom, zipl or systemd, which lack variables
		}
		usable++
		if text := namingVariables(string(b), want.initrd != ""); text != string(b) {
			items = append(items, plugin.Want(setting.Setting{Kind: "bootfile", Name: p}, text, o))
		}
	}
	if usable == 0 {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "no entry in %s uses GRUB variables", entriesDir)}, nil
	}
	if _, err := g.file(); err != nil {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "%v", err)}, nil
	}
	it := plugin.Want(s, want.text(), o)
	it.Why = "takes effect at the next boot"
	if _, err := g.host.Files.Stat(kernelHook); err != nil {
		it.Why += "; after installing a kernel, apply the profile again"
	}
	return append(items, it), nil
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

// namingVariables adds the variables to the options and initrd lines of an entry.
func namingVariables(text string, overlay bool) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		tail := line[len(body):]
		key, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(body, " \t"), "\t", " "), " ")
		switch {
		case key == "options" && !hasWord(body, "$"+argsVariable):
			body += " $" + argsVariable
		case key == "initrd" && overlay && !hasWord(body, "$"+initrdVar):
			body += " $" + initrdVar
		}
		out.WriteString(body + tail)
	}
	return out.String()
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
	if !hasImage {
		_, err = host.Run(ctx, g.host, program, f, "unset", initrdVar)
	}
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
