package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// vars is the kind of boot files that reference GRUB's variables. Its value is the references that
// a file has: "", "$tuned_params" or "$tuned_params $tuned_initrd". Only the references are written
// and removed, so an edit by another program stays, and is not taken for a lost value. The files:
//
//	/boot/loader/entries/ID.conf                one boot loader entry
//	/etc/kernel/cmdline                         kernel-install copies it into the entries of new kernels
//	/etc/default/grub                           grub2-mkconfig --update-bls-cmdline copies it into all entries
//	/etc/kernel/install.d/92-fettle.install     adds the references to the entries of new kernels
//
// A variable that is not set expands to nothing, so a reference without a value has no effect.
type vars struct{ host *host.Host }

const (
	kernelCmdline = "/etc/kernel/cmdline"
	vendorCmdline = "/usr/lib/kernel/cmdline"
	ownHookDir    = "/etc/kernel/install.d"
	ownHook       = ownHookDir + "/92-fettle.install"
	argsRef       = "$" + argsVariable
	initrdRef     = "$" + initrdVar

	defaultsBegin = "# fettle begin: keeps $tuned_params in the boot entries; fettle undo removes this section\n"
	// The blank at the start of the line is needed: grubby --update-kernel=ALL replaces every line
	// that begins with GRUB_CMDLINE_LINUX.
	defaultsLine = ` GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }"'` + argsRef + "'\n"
)

// hookHead begins fettle's kernel-install plug-in; the references follow it.
const hookHead = `#!/bin/sh
# Written by fettle: adds GRUB's variables to the boot loader entry of a new kernel, as TuneD's
# 92-tuned.install does. fettle undo removes this file.
[ "$1" = add ] && [ -n "$KERNEL_INSTALL_MACHINE_ID" ] && [ "$KERNEL_INSTALL_LAYOUT" != bls ] || exit 0
entry="/boot/loader/entries/$KERNEL_INSTALL_MACHINE_ID-$2.conf"
[ -f "$entry" ] || exit 0
add() {
	grep -q "^$1[[:blank:]].*[\$]$2" "$entry" || sed -i "s/^$1[[:blank:]].*/& \$$2/" "$entry"
}
`

// hookText returns the kernel-install plug-in for some references.
func hookText(refs string) string {
	text := hookHead + "add options " + argsVariable + "\n"
	if hasWord(refs, initrdRef) {
		text += "add initrd " + initrdVar + "\n"
	}
	return text + "exit 0\n"
}

// refsOf joins references as a value.
func refsOf(args, overlay bool) string {
	switch {
	case args && overlay:
		return argsRef + " " + initrdRef
	case args:
		return argsRef
	case overlay:
		return initrdRef
	}
	return ""
}

func isEntry(p string) bool { return path.Dir(p) == entriesDir && path.Ext(p) == ".conf" }

func (vars) Resolve(s setting.Setting) (setting.Setting, error) {
	if !path.IsAbs(s.Name) {
		return s, fmt.Errorf("%s: want an absolute path", s)
	}
	s.Name = path.Clean(s.Name)
	return s, nil
}

// known returns an error for a file that is not one of the kind's.
func known(s setting.Setting) error {
	if isEntry(s.Name) || slices.Contains([]string{kernelCmdline, defaults, ownHook}, s.Name) {
		return nil
	}
	return fmt.Errorf("%s: %w: use %s/NAME.conf, %s, %s or %s", s, setting.ErrNotSettable, entriesDir, kernelCmdline, defaults, ownHook)
}

// CheckRequest implements setting.RequestChecker.
func (vars) CheckRequest(s setting.Setting, want setting.Value, _ []string) error {
	if err := known(s); err != nil {
		return err
	}
	if slices.Contains([]string{"", argsRef, argsRef + " " + initrdRef}, want.Text) {
		return nil
	}
	return fmt.Errorf("%s: %w: use %s or %s", s, setting.ErrNotSettable, argsRef, argsRef+" "+initrdRef)
}

// Files implements setting.FileLister.
func (vars) Files(s setting.Setting) []string { return []string{s.Name} }

func (k vars) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	if err := known(s); err != nil {
		return setting.Value{}, err
	}
	b, err := k.host.Files.ReadFile(s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return setting.Absent, nil
	}
	if err != nil {
		return setting.Value{}, err
	}
	refs, err := refsIn(s.Name, string(b))
	if err != nil {
		return setting.Value{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	return setting.Text(refs), nil
}

// refsIn returns the references in the text of a file.
func refsIn(name, text string) (string, error) {
	switch {
	case name == kernelCmdline:
		line, _, _ := cmdlineLine(text)
		return refsOf(hasWord(line, argsRef), false), nil
	case name == defaults:
		_, rest, ok := strings.Cut(text, defaultsBegin)
		if ok && !strings.HasPrefix(rest, defaultsLine+end) {
			return "", errors.New("fettle's section was edited by hand; remove it (\"# fettle begin\" to \"# fettle end\")")
		}
		return refsOf(ok, false), nil
	case name == ownHook:
		for _, refs := range []string{argsRef, argsRef + " " + initrdRef} {
			if text == hookText(refs) {
				return refs, nil
			}
		}
		return "", errors.New("not fettle's kernel-install plug-in; move the file away")
	}
	args, image := entryLines(text)
	return refsOf(args >= 0 && hasWord(lineAt(text, args), argsRef), image >= 0 && hasWord(lineAt(text, image), initrdRef)), nil
}

func (k vars) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	if err := known(s); err != nil {
		return err
	}
	b, err := k.host.Files.ReadFile(s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return k.create(s.Name, v)
	}
	if err != nil {
		return err
	}
	text := string(b)
	if _, err := refsIn(s.Name, text); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	var changed string
	switch s.Name {
	case kernelCmdline:
		if v.Absent && k.created(text) {
			return k.host.Files.Remove(s.Name)
		}
		changed = withCmdline(text, v.Text != "")
	case defaults:
		return k.writeDefaults(text, v.Text != "")
	case ownHook:
		if v.Text == "" {
			return k.host.Files.Remove(s.Name)
		}
		changed = hookText(v.Text)
	default:
		changed = withEntry(text, v.Text)
	}
	return k.replace(s.Name, text, changed)
}

func (k vars) replace(name, text, changed string) error {
	if changed == text {
		return nil
	}
	st, err := k.host.Files.Stat(name)
	if err != nil {
		return err
	}
	return k.host.Files.Replace(name, []byte(changed), host.AttrOf(st))
}

// create writes a file that does not exist: the plug-in, or the arguments of new kernels. Without
// that file kernel-install copies the running kernel's arguments, with fettle's among them, and
// undo could not take them back.
func (k vars) create(name string, v setting.Value) error {
	switch {
	case v.Text == "":
		return nil
	case name == ownHook:
		return k.host.Files.Replace(name, []byte(hookText(v.Text)), host.Attr{Mode: 0o755})
	case name == kernelCmdline:
		line, err := k.argumentsOfNew()
		if err != nil {
			return err
		}
		return k.host.Files.Replace(name, []byte(line+" "+argsRef+"\n"), host.Attr{Mode: 0o644})
	}
	return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// argumentsOfNew returns the arguments that a new kernel would get without /etc/kernel/cmdline,
// without references: the vendor's, or else those of the running kernel's entry.
func (k vars) argumentsOfNew() (string, error) {
	if b, err := k.host.Files.ReadFile(vendorCmdline); err == nil {
		return strings.Join(strings.Fields(string(b)), " "), nil
	}
	all, err := entriesOf(k.host)
	if err != nil {
		return "", err
	}
	release, err := k.host.Files.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	for _, e := range all {
		if strings.HasSuffix(e.path, "-"+strings.TrimSpace(string(release))+".conf") {
			return e.arguments(), nil
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%s has no entry with the arguments of a new kernel", entriesDir)
	}
	return all[len(all)-1].arguments(), nil
}

// created reports whether /etc/kernel/cmdline has only what create wrote.
func (k vars) created(text string) bool {
	line, before, after := cmdlineLine(text)
	if before != "" || after != "\n" {
		return false
	}
	line = withoutWord(line, argsRef)
	if b, err := k.host.Files.ReadFile(vendorCmdline); err == nil && line == strings.Join(strings.Fields(string(b)), " ") {
		return true
	}
	all, err := entriesOf(k.host)
	return err == nil && slices.ContainsFunc(all, func(e bootEntry) bool { return e.arguments() == line })
}

// writeDefaults adds or removes the section in /etc/default/grub. kernel-install and grub2-mkconfig
// compare the times of that file and /etc/kernel/cmdline: if the defaults are newer, they overwrite
// the arguments of new kernels. So the order of the two times is kept.
func (k vars) writeDefaults(text string, add bool) error {
	stale := false
	was, err := k.host.Files.Stat(defaults)
	if err != nil {
		return err
	}
	kernel, kerr := k.host.Files.Stat(kernelCmdline)
	if kerr == nil {
		stale = kernel.ModTime().Before(was.ModTime())
	}
	if err := k.replace(defaults, text, withDefaults(text, add)); err != nil || kerr != nil || stale {
		return err
	}
	b, err := k.host.Files.ReadFile(kernelCmdline)
	if err != nil {
		return err
	}
	return k.host.Files.Replace(kernelCmdline, b, host.AttrOf(kernel))
}

// Equal treats a missing file as one without references.
func (vars) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (vars) Coupled(setting.Setting) []setting.Setting { return nil }

// Lifetime returns setting.File: it is the variables' values that take effect at the next boot.
func (vars) Lifetime() setting.Lifetime { return setting.File }

// withDefaults adds fettle's section to the text of /etc/default/grub, or removes it.
func withDefaults(text string, add bool) string {
	before, rest, ok := strings.Cut(text, defaultsBegin)
	switch {
	case ok && !add:
		return strings.TrimSuffix(before, noLineFeed) + strings.TrimPrefix(rest, defaultsLine+end)
	case ok || !add:
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += noLineFeed
	}
	return text + defaultsBegin + defaultsLine + end
}

// cmdlineLine splits the text of /etc/kernel/cmdline at its first line with arguments.
func cmdlineLine(text string) (line, before, after string) {
	for l := range strings.Lines(text) {
		if body := strings.TrimRight(l, "\r\n"); strings.TrimSpace(body) != "" {
			return body, before, text[len(before)+len(body):]
		}
		before += l
	}
	return "", text, ""
}

func withCmdline(text string, add bool) string {
	line, before, after := cmdlineLine(text)
	switch {
	case add == hasWord(line, argsRef):
		return text
	case add && (before == "" || strings.HasSuffix(before, "\n")) && line == "":
		return before + argsRef + after
	case add:
		return before + line + " " + argsRef + after
	}
	return before + withoutWord(line, argsRef) + after
}

// entryLines returns the offsets of two lines of an entry, or -1: the line that GRUB uses for
// arguments, and the line that names the last initrd.
func entryLines(text string) (args, image int) {
	args, image = -1, -1
	at := 0
	for line := range strings.Lines(text) {
		switch key(line) {
		case "options":
			if args < 0 {
				args = at
			}
		case "initrd":
			image = at
		}
		at += len(line)
	}
	return args, image
}

func key(line string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t"), "\t", " "), " ")
	return name
}

// lineAt returns the line at an offset, without its end.
func lineAt(text string, at int) string {
	line, _, _ := strings.Cut(text[at:], "\n")
	return strings.TrimRight(line, "\r")
}

// withEntry gives an entry exactly these references.
func withEntry(text, refs string) string {
	for _, ref := range []string{argsRef, initrdRef} {
		args, at := entryLines(text)
		if ref == argsRef {
			at = args
		}
		if at < 0 {
			continue
		}
		line := lineAt(text, at)
		changed := line
		switch has := hasWord(line, ref); {
		case has && !hasWord(refs, ref):
			changed = withoutWord(line, ref)
		case !has && hasWord(refs, ref):
			changed = line + " " + ref
		}
		text = text[:at] + changed + text[at+len(line):]
	}
	return text
}

// withoutWord removes a word with one blank before it (after it at the start of a line), and leaves
// all else as it is.
func withoutWord(line, word string) string {
	for at := 0; ; {
		i := strings.Index(line[at:], word)
		if i < 0 {
			return line
		}
		i += at
		stop := i + len(word)
		if (i > 0 && line[i-1] != ' ' && line[i-1] != '\t') || (stop < len(line) && line[stop] != ' ' && line[stop] != '\t') {
			at = stop
			continue
		}
		switch {
		case i > 0:
			i--
		case stop < len(line):
			stop++
		}
		line = line[:i] + line[stop:]
		at = i
	}
}

// bootEntry is one of GRUB's boot loader entries.
type bootEntry struct{ path, text string }

// arguments returns the arguments of an entry without references.
func (e bootEntry) arguments() string {
	at, _ := entryLines(e.text)
	if at < 0 {
		return ""
	}
	words := strings.Fields(lineAt(e.text, at))[1:]
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == argsRef }), " ")
}

// entriesOf returns the entries of kernels that GRUB starts with its variables, sorted by name.
// Rescue entries are left as they are, and so are entries of other programs (boom, systemd, zipl),
// which have no variables.
func entriesOf(h *host.Host) ([]bootEntry, error) {
	names, err := h.Files.ReadDir(entriesDir)
	if err != nil {
		return nil, err
	}
	var out []bootEntry
	for _, n := range names {
		p := entriesDir + "/" + n.Name()
		if !isEntry(p) || strings.HasSuffix(p, "-rescue.conf") {
			continue
		}
		b, err := h.Files.ReadFile(p)
		if err != nil {
			return nil, err
		}
		if grubEntry(string(b)) {
			out = append(out, bootEntry{p, string(b)})
		}
	}
	return out, nil
}
