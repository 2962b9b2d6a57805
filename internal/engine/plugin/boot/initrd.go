package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// initrd is the kind of overlays in /boot. The value is the file's content. The wanted value may
// be "archive of DIR" instead, because a profile's script may fill DIR only while the profile is
// applied.
type initrd struct {
	setting.Kind
	host *host.Host
}

const (
	archiveOf   = "archive of "
	thenRemoved = ", which is then removed"
	// sourceName is a file in the archive that names its source. An overlay can thus be compared
	// with the wanted value.
	sourceName = ".fettle-overlay"
	// maxOverlay is the maximum size of an overlay in bytes; its before-image is in the journal.
	maxOverlay = 16 << 20
)

func (k initrd) Resolve(s setting.Setting) (setting.Setting, error) {
	if path.Dir(s.Name) != "/boot" {
		return setting.Setting{}, fmt.Errorf("%s: want a file in /boot", s)
	}
	return s, nil
}

// CheckRequest rejects an archive of a directory that usableDir rejects, also if the request
// removes the directory afterwards.
func (k initrd) CheckRequest(s setting.Setting, want setting.Value, profileDirs []string) error {
	source, ok := strings.CutPrefix(want.Text, archiveOf)
	if !ok {
		return nil // content of an image
	}
	dir, _ := strings.CutSuffix(source, thenRemoved)
	if err := usableDir(k.host, dir, profileDirs); err != nil {
		return fmt.Errorf("%s: %w: %w", s, setting.ErrNotSettable, err)
	}
	return nil
}

func (k initrd) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	source, ok := strings.CutPrefix(v.Text, archiveOf)
	if v.Absent || !ok {
		return k.Kind.Write(ctx, s, v)
	}
	dir, remove := strings.CutSuffix(source, thenRemoved)
	if err := owned(k.host, dir); err != nil {
		return err
	}
	archive, err := pack(k.host, dir, v.Text)
	if err != nil {
		return err
	}
	if err := k.Kind.Write(ctx, s, setting.Value{Text: string(archive), Attr: &host.Attr{Mode: 0o644}}); err != nil {
		return err
	}
	if remove {
		return removeTree(k.host, dir)
	}
	return nil
}

// Equal treats an archive made from DIR as equal to "archive of DIR".
func (k initrd) Equal(a, b setting.Value) bool {
	if strings.HasPrefix(a.Text, archiveOf) {
		a, b = b, a
	}
	if strings.HasPrefix(b.Text, archiveOf) {
		return a.Text == b.Text || sourceOf(a.Text) == b.Text
	}
	return k.Kind.Equal(a, b)
}

// usableDir returns an error for a directory that must not become part of an initrd.
func usableDir(h *host.Host, dir string, profileDirs []string) error {
	if !path.IsAbs(dir) {
		return fmt.Errorf("%s: not an absolute path; write ${i:PROFILE_DIR}/%s", dir, dir)
	}
	real, err := h.Files.Resolve(dir)
	if err != nil {
		return err
	}
	for _, d := range append([]string{"/tmp"}, profileDirs...) {
		if at, err := h.Files.Resolve(d); err == nil && strings.HasPrefix(real, at+"/") {
			return owned(h, dir)
		}
	}
	return fmt.Errorf("%s is neither below /tmp nor below a profile directory", dir)
}

// owned returns an error for a directory that users other than root could have prepared. In /tmp
// the sticky bit keeps others from replacing root's directories.
func owned(h *host.Host, dir string) error {
	st, err := h.Files.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ok || sys.Uid != 0:
		return fmt.Errorf("%s: %w: it does not belong to root", dir, profile.ErrUntrusted)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: %w: writable by users other than root (mode %s)", dir, profile.ErrUntrusted, host.Octal(st.Mode()))
	}
	return nil
}

// removeTree removes a directory and its content, without following links.
func removeTree(h *host.Host, dir string) error {
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if e.IsDir() {
			err = removeTree(h, p)
		} else {
			err = h.Files.Remove(p)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return h.Files.Remove(dir)
}

// pack makes a newc archive of a directory (kernel,
// Documentation/driver-api/early-userspace/buffer-format.rst). All files belong to root and have
// no times, so equal files make equal archives.
func pack(h *host.Host, dir, source string) ([]byte, error) {
	var out bytes.Buffer
	inode := 0
	add := func(name string, mode uint32, data []byte) {
		inode++
		links := 1
		if mode&syscall.S_IFMT == syscall.S_IFDIR {
			links = 2
		}
		fmt.Fprintf(&out, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
		out.WriteString(name)
		out.WriteByte(0)
		pad(&out)
		out.Write(data)
		pad(&out)
	}
	add(sourceName, syscall.S_IFREG|0o444, []byte(source))
	add(".", syscall.S_IFDIR|0o755, nil)
	var walk func(rel string) error
	walk = func(rel string) error {
		entries, err := h.Files.ReadDir(path.Join(dir, rel))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(rel, e.Name())
			st, err := h.Files.Lstat(path.Join(dir, name))
			if err != nil {
				return err
			}
			perm := uint32(st.Mode().Perm())
			switch {
			case name == sourceName:
			case st.IsDir():
				add(name, syscall.S_IFDIR|perm, nil)
				err = walk(name)
			case st.Mode()&fs.ModeSymlink != 0:
				var to string
				if to, err = h.Files.Readlink(path.Join(dir, name)); err == nil {
					add(name, syscall.S_IFLNK|0o777, []byte(to))
				}
			case st.Mode().IsRegular():
				var b []byte
				if b, err = h.Files.ReadFile(path.Join(dir, name)); err == nil {
					add(name, syscall.S_IFREG|perm, b)
				}
			default:
				err = fmt.Errorf("%s: not a file, directory or link", path.Join(dir, name))
			}
			if err == nil && out.Len() > maxOverlay {
				err = fmt.Errorf("%s: larger than %d MiB", dir, maxOverlay>>20)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(""); err != nil {
		return nil, err
	}
	inode = -1
	add("TRAILER!!!", 0, nil)
	return out.Bytes(), nil
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}

// sourceOf returns the source of an archive made by fettle, or "" for any other file.
func sourceOf(archive string) string {
	const header = 110
	nameEnd := header + len(sourceName) + 1
	if len(archive) < nameEnd || !strings.HasPrefix(archive, "070701") || archive[header:nameEnd] != sourceName+"\x00" {
		return ""
	}
	var size int
	if _, err := fmt.Sscanf(archive[54:62], "%08X", &size); err != nil || size < 0 {
		return ""
	}
	start := (nameEnd + 3) &^ 3
	if start+size > len(archive) || size > 4096 {
		return ""
	}
	return archive[start : start+size]
}
