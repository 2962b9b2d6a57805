package host

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// OpenRoot opens a copied machine: a directory (Copy) or an archive (OpenArchive).
func OpenRoot(root string) (*Host, error) {
	st, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return OpenArchive(root)
	}
	if inner := machineBelow(root); inner != "" {
		return nil, fmt.Errorf("%s does not contain a machine, but its subdirectory %s does; use that", root, inner)
	}
	return Copy(root)
}

// FindCopies returns the copied machines that a path names: itself, or the archives and copied
// trees in a directory, sorted by name. Other files of the directory are in others. Files that
// should be archives, by name or content, are not among them, even if they cannot be read.
func FindCopies(root string) (copies, others []string, err error) {
	st, err := os.Stat(root)
	if err != nil {
		return nil, nil, err
	}
	if !st.IsDir() || looksLikeMachine(root) {
		return []string{root}, nil, nil
	}
	list, err := os.ReadDir(root)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range list {
		p := filepath.Join(root, d.Name())
		st, err := os.Stat(p)
		switch {
		case strings.HasPrefix(d.Name(), "."):
		case err == nil && st.IsDir() && looksLikeMachine(p), err == nil && st.Mode().IsRegular() && likeArchive(p):
			copies = append(copies, p)
		default:
			others = append(others, p)
		}
	}
	return copies, others, nil
}

// likeArchive reports whether a file is an archive of fettle by its name or by its first line.
func likeArchive(p string) bool {
	if strings.Contains(filepath.Base(p), ".txt") {
		return true
	}
	f, err := OpenRegular(p)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(archiveHeading)-1)
	_, err = io.ReadFull(f, head)
	return err == nil && strings.HasPrefix(archiveHeading, string(head))
}

// machineBelow returns the only directory in root that looks like a machine's root, or "". It
// is for users who name the parent directory of an unpacked sosreport.
func machineBelow(root string) string {
	if looksLikeMachine(root) {
		return ""
	}
	list, err := os.ReadDir(root)
	if err != nil {
		return ""
	}
	found := ""
	for _, d := range list {
		if d.IsDir() && looksLikeMachine(filepath.Join(root, d.Name())) {
			if found != "" {
				return ""
			}
			found = d.Name()
		}
	}
	return found
}

func looksLikeMachine(dir string) bool {
	for _, name := range []string{"etc", "proc", "sys", "usr", "run", "boot", "sos_commands"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

// OpenArchive opens an archive that Record or a person wrote. The host is read-only. Commands
// return their recorded results, or ErrNotRecorded. The error for a damaged archive has file
// and line. A truncated archive is read as far as possible (Host.Incomplete).
func OpenArchive(name string) (*Host, error) {
	f, err := OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if packed(f) {
		return nil, fmt.Errorf("%s is packed; unpack it with %s", name, unpack(f, name))
	}
	size := 0
	if st, err := f.Stat(); err == nil && st.Size() > maxArchiveSize {
		return nil, fmt.Errorf("%s: archive larger than %d MiB", name, maxArchiveSize>>20)
	} else if err == nil {
		size = int(st.Size())
	}
	var text strings.Builder
	text.Grow(size)
	if _, err := io.Copy(&text, io.LimitReader(f, maxArchiveSize+1)); err != nil {
		return nil, err
	}
	return parseArchive(name, text.String())
}

// packings are the magic numbers of gzip, xz, bzip2 and zstd.
var packings = []string{"\x1f\x8b", "\xfd7zXZ\x00", "BZh", "\x28\xb5\x2f\xfd"}

// packed reports whether a file is compressed or a tar archive.
func packed(f io.ReaderAt) bool {
	head := make([]byte, 512)
	n, _ := f.ReadAt(head, 0)
	return slices.ContainsFunc(packings, func(magic string) bool { return bytes.HasPrefix(head[:n], []byte(magic)) }) || tarred(head[:n])
}

// tarred reports whether head is the first block of a tar archive.
func tarred(head []byte) bool { return len(head) == 512 && string(head[257:262]) == "ustar" }

// unpack returns the end of a sentence: the command that unpacks a file, and the name to use then.
// A gzip file without a tar archive, or a file such as NAME.txt.xz, becomes a single file. All
// others are unpacked with tar.
func unpack(f io.ReadSeeker, name string) string {
	head := make([]byte, 512)
	if _, err := f.Seek(0, io.SeekStart); err == nil {
		if z, err := gzip.NewReader(f); err == nil {
			n, _ := io.ReadFull(z, head)
			if single := strings.TrimSuffix(name, ".gz"); n > 0 && !tarred(head[:n]) {
				if single == name {
					single += ".txt"
				}
				return fmt.Sprintf("gzip -dc %s >%s, then name the new file", name, single)
			}
		}
	}
	for suffix, program := range map[string]string{".txt.xz": "xz", ".txt.bz2": "bzip2", ".txt.zst": "zstd"} {
		if strings.HasSuffix(name, suffix) {
			return fmt.Sprintf("%s -dc %s >%s, then name the new file", program, name, strings.TrimSuffix(name, path.Ext(name)))
		}
	}
	return fmt.Sprintf("tar -xf %s -C DIR, then name the directory in DIR", name)
}
