package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// grub is GRUB 2 with a configuration generated from /etc/default/grub. The arguments are in
// fettle's part of the defaults. The distribution's own generator makes the configuration, now and
// after every kernel update.
type grub struct {
	host *host.Host
	cfg  string
}

// configs are the paths of GRUB's configuration in different distributions.
var configs = []string{"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/etc/grub2.cfg", "/etc/grub2-efi.cfg"}

const (
	defaults   = "/etc/default/grub"
	dropInDir  = "/etc/default/grub.d"
	dropIn     = dropInDir + "/zz-fettle.cfg" // sorts last, because other files may set the variable again
	begin      = "# fettle begin: from the active profile; fettle undo removes this section\n"
	end        = "# fettle end\n"
	argsHead   = `GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }"'`
	initrdHead = `GRUB_EARLY_INITRD_LINUX_CUSTOM="${GRUB_EARLY_INITRD_LINUX_CUSTOM:+$GRUB_EARLY_INITRD_LINUX_CUSTOM }"'`
	// The generator may probe the disks of other systems.
	generateTimeout = 10 * time.Minute
)

func (g grub) setting() setting.Setting {
	return setting.Setting{Kind: "bootloader", Name: "grub:" + g.cfg}
}

// mkconfig returns the name of the generator. Fedora's family calls it grub2-mkconfig.
func (g grub) mkconfig() (string, error) {
	for _, p := range []string{"grub-mkconfig", "grub2-mkconfig"} {
		if host.HasProgram(g.host, p) {
			return p, nil
		}
	}
	return "", errors.New("neither grub-mkconfig nor grub2-mkconfig is installed")
}

// place returns the file for fettle's part. It is a separate file if the generator reads a
// directory, as Debian's does, and otherwise the defaults file.
func (g grub) place() string {
	for _, p := range []string{"/usr/sbin/grub-mkconfig", "/usr/sbin/grub2-mkconfig", "/usr/bin/grub-mkconfig"} {
		if b, err := g.host.Files.ReadFile(p); err == nil {
			if bytes.Contains(b, []byte("default/grub.d/")) {
				return dropIn
			}
			return defaults
		}
	}
	if plugin.IsDir(g.host, dropInDir) {
		return dropIn
	}
	return defaults
}

func (g grub) plan(_ context.Context, _ *plugin.Request, o profile.Option, want boot) ([]plugin.Item, error) {
	if _, err := g.host.Files.Stat(g.cfg); err != nil {
		return []plugin.Item{plugin.Refuse(g.setting(), o, plugin.Unsupported, "%v", err)}, nil
	}
	var items []plugin.Item
	if g.place() == dropIn {
		items = plugin.WantDir(g.host, dropInDir, o)
	}
	it := plugin.Want(g.setting(), want.text(), o)
	it.Why = "takes effect at the next boot"
	return append(items, it), nil
}

func (g grub) text() (text string, there bool, err error) {
	b, err := g.host.Files.ReadFile(g.place())
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(b), err == nil, err
}

func (g grub) read(context.Context) (setting.Value, error) {
	text, _, err := g.text()
	if err != nil {
		return setting.Value{}, err
	}
	_, b, _, ok, err := splitBlock(text)
	switch {
	case err != nil:
		return setting.Value{}, fmt.Errorf("%s: %w", g.place(), err)
	case !ok:
		// In a copy without the generator, fettle's part may be in either file.
		if _, err := g.host.Files.Stat(dropIn); host.Unknown(err) {
			return setting.Value{}, err
		}
		return setting.Absent, nil
	}
	return setting.Text(b.text()), nil
}

func (g grub) write(ctx context.Context, v setting.Value) error {
	mkconfig, err := g.mkconfig()
	if err != nil {
		return err
	}
	text, there, err := g.text()
	if err != nil {
		return err
	}
	changed, err := withBlock(text, v)
	if err != nil {
		return err
	}
	if changed == text {
		return nil
	}
	now, err := g.host.Files.ReadFile(g.cfg)
	if err != nil {
		return err
	}
	env := locale(now)
	if err := g.sameAsGenerated(ctx, mkconfig, env, now); err != nil {
		return err
	}
	if err := g.put(changed); err != nil {
		return err
	}
	err = g.generate(ctx, mkconfig, env)
	if err == nil {
		err = g.taken(v)
	}
	if err == nil {
		return nil
	}
	// After a failure the defaults must not contain more than the configuration.
	var back error
	if there {
		back = g.put(text)
	} else {
		back = g.host.Files.Remove(g.place())
	}
	if back == nil {
		back = g.generate(ctx, mkconfig, env)
	}
	return errors.Join(err, back)
}

// put writes the file. It removes the drop-in if text is empty, because the drop-in had only
// fettle's part.
func (g grub) put(text string) error {
	p := g.place()
	if text == "" && p == dropIn {
		return g.host.Files.Remove(p)
	}
	attr := host.Attr{Mode: 0o644}
	if st, err := g.host.Files.Stat(p); err == nil {
		attr = host.AttrOf(st)
	}
	return g.host.Files.Replace(p, []byte(text), attr)
}

var language = text.LazyRegexp(`(?m)^[ \t]*set lang=(\w+)[ \t]*$`)

// locale returns environment variables with the language of the current configuration: the
// generator writes the caller's language into it (00_header).
func locale(cfg []byte) []string {
	if m := language().FindSubmatch(cfg); m != nil {
		return []string{"LC_ALL=", "LANG=" + string(m[1]) + ".UTF-8"}
	}
	return nil
}

// sameAsGenerated returns an error unless the generator makes the current configuration from the
// current defaults. Otherwise manual changes would be lost, and undo could not restore them.
func (g grub) sameAsGenerated(ctx context.Context, mkconfig string, env []string, now []byte) error {
	out, err := host.RunCommand(ctx, g.host, host.Command{Argv: []string{mkconfig}, Env: env, Timeout: generateTimeout})
	if err != nil {
		return err
	}
	if out != string(now) {
		return fmt.Errorf("%s differs from the output of %s: edited by hand or out of date; nothing changed. Run %s, or set skip_grub_config=1 and add the arguments yourself",
			g.cfg, mkconfig, strings.Join(g.generator(mkconfig), " "))
	}
	return nil
}

// generator returns the distribution's command that writes the configuration.
func (g grub) generator(mkconfig string) []string {
	if g.cfg == "/boot/grub/grub.cfg" && host.HasProgram(g.host, "update-grub") {
		return []string{"update-grub"}
	}
	return []string{mkconfig, "-o", g.cfg}
}

func (g grub) generate(ctx context.Context, mkconfig string, env []string) error {
	_, err := host.RunCommand(ctx, g.host, host.Command{Argv: g.generator(mkconfig), Env: env, Timeout: generateTimeout})
	return err
}

// taken returns an error unless the generated configuration contains the arguments.
func (g grub) taken(v setting.Value) error {
	if v.Absent {
		return nil
	}
	b, err := parseBoot(v.Text)
	if err != nil {
		return err
	}
	cfg, err := g.host.Files.ReadFile(g.cfg)
	if err != nil {
		return err
	}
	if b.args != "" && !bytes.Contains(cfg, []byte(grubQuote(b.args))) {
		return fmt.Errorf("%s was generated without the arguments: something sets GRUB_CMDLINE_LINUX_DEFAULT after %s", g.cfg, g.place())
	}
	if b.initrd != "" && !bytes.Contains(cfg, []byte("/"+b.initrd)) {
		return fmt.Errorf("%s was generated without %s: this GRUB does not know GRUB_EARLY_INITRD_LINUX_CUSTOM, or %s is missing", g.cfg, b.initrd, path.Join("/boot", b.initrd))
	}
	return nil
}

// block returns fettle's part of the defaults, as shell text.
func block(b boot) string {
	var s strings.Builder
	s.WriteString(begin)
	if b.args != "" {
		s.WriteString(argsHead + shellQuote(grubQuote(b.args)) + "'\n")
	}
	if b.initrd != "" {
		s.WriteString(initrdHead + shellQuote(b.initrd) + "'\n")
	}
	s.WriteString(end)
	return s.String()
}

// splitBlock splits the text into the text before fettle's part, the part, and the text after it.
func splitBlock(text string) (before string, b boot, after string, ok bool, err error) {
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		if strings.Contains(text, strings.TrimSuffix(begin, "\n")) {
			return "", boot{}, "", false, errors.New("fettle's section has no end marker; edited by hand")
		}
		return text, boot{}, "", false, nil
	}
	body, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", boot{}, "", false, errors.New("fettle's section has no end marker; edited by hand")
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if q, ok := strings.CutPrefix(line, argsHead); ok {
			b.args = grubUnquote(shellUnquote(strings.TrimSuffix(q, "'")))
		} else if q, ok := strings.CutPrefix(line, initrdHead); ok {
			b.initrd = shellUnquote(strings.TrimSuffix(q, "'"))
		}
	}
	if block(b) != begin+body+end {
		return "", boot{}, "", false, errors.New("fettle's section was edited by hand; remove it (\"# fettle begin\" to \"# fettle end\") and regenerate GRUB's configuration")
	}
	return before, b, after, true, nil
}

// withBlock inserts fettle's part into the text, or removes exactly the part if v is absent.
func withBlock(text string, v setting.Value) (string, error) {
	before, _, after, ok, err := splitBlock(text)
	if err != nil {
		return "", err
	}
	// If the text lacks a final line feed, a marked one is added before the part and later removed
	// with it.
	if v.Absent {
		if ok && strings.HasSuffix(before, noLineFeed) {
			before = strings.TrimSuffix(before, noLineFeed)
		}
		return before + after, nil
	}
	b, err := parseBoot(v.Text)
	if err != nil {
		return "", err
	}
	if !ok && before != "" && !strings.HasSuffix(before, "\n") {
		before += noLineFeed
	}
	return before + block(b) + after, nil
}

// noLineFeed marks a file that did not end in a line feed.
const noLineFeed = "\n# (no line feed stood here)\n"

// shellQuote escapes text for use within single quotes.
func shellQuote(s string) string   { return strings.ReplaceAll(s, `'`, `'\''`) }
func shellUnquote(s string) string { return strings.ReplaceAll(s, `'\''`, `'`) }

// grubSpecial are the characters with a meaning in GRUB's own language (GRUB manual, "Writing full
// configuration files directly", Shell-like scripting).
const grubSpecial = "\\$\"'|&;<>{}#"

// grubQuote quotes arguments. GRUB then passes them to the kernel unchanged.
func grubQuote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(grubSpecial, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func grubUnquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
