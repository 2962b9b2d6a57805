package boot

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Kept holds a file or commands that keep kernel arguments without fettle, by the means of the
// distribution.
type Kept struct {
	Arguments []string
	// File is the path of a file with Content, or "".
	File, Content string
	// Command adds the arguments, or makes the boot loader read File. It may be empty.
	Command []string
}

// Files of other names than fettle's own, so that undo leaves them.
const (
	keptGrub  = dropInDir + "/zz-tuning.cfg"
	keptBootc = "/usr/lib/bootc/kargs.d/90-tuning.toml"
	keptHead  = "# Written by fettle eject.\n"
)

// Keep returns the files and commands that keep the value of a boot loader's setting. orig is the
// value without fettle, or Unknown. It returns an error if a part of the value has no native form.
func Keep(h *host.Host, s setting.Setting, want, orig setting.Value) (Kept, error) {
	if want.Absent {
		return Kept{}, fmt.Errorf("no kernel arguments to keep")
	}
	b, err := parseBoot(want.Text)
	if err != nil {
		return Kept{}, err
	}
	if b.initrd != "" {
		return Kept{}, fmt.Errorf("contains the initrd overlay %s, which dracut or initramfs-tools must replace; the kernel arguments are %s", b.initrd, b.args)
	}
	k := Kept{Arguments: words(b.args)}
	l, err := kind{h}.loader(s)
	if err != nil {
		return Kept{}, err
	}
	switch l := l.(type) {
	case grub:
		if l.place() != dropIn {
			k.Command = append([]string{"grubby", "--update-kernel=ALL"}, "--args="+b.args)
			return k, nil
		}
		k.File, k.Content = keptGrub, keptHead+argsHead+shellQuote(grubQuote(b.args))+"'\n"
		mkconfig := "grub-mkconfig"
		if h.Live {
			if found, err := l.mkconfig(); err == nil {
				mkconfig = found
			}
		}
		k.Command = l.generator(mkconfig)
		if !h.Live && l.cfg == "/boot/grub/grub.cfg" {
			k.Command = []string{"update-grub"}
		}
	case grubEnv:
		k.Command = []string{"grubby", "--update-kernel=ALL", "--args=" + b.args}
	case rpmOSTree:
		if orig.Unknown {
			return Kept{}, fmt.Errorf("the kernel arguments without fettle are unknown, so fettle's own cannot be identified")
		}
		k.Arguments = without(k.Arguments, words(orig.Text))
		k.Command = []string{"rpm-ostree", "kargs"}
		for _, a := range k.Arguments {
			k.Command = append(k.Command, "--append-if-missing="+a)
		}
	case bootc:
		quoted := make([]string, len(k.Arguments))
		for i, a := range k.Arguments {
			quoted[i] = strconv.Quote(a)
		}
		k.File, k.Content = keptBootc, keptHead+"kargs = ["+strings.Join(quoted, ", ")+"]\n"
	}
	return k, nil
}
