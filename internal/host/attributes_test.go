package host

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

// acl is the ACL user::rw- user:1234:r-- group::r-- mask::r-- other::---, as the kernel keeps it
// (include/uapi/linux/posix_acl_xattr.h).
func acl() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, 1<<32 - 1}, {2, 4, 1234}, {4, 4, 1<<32 - 1}, {16, 4, 1<<32 - 1}, {32, 0, 1<<32 - 1}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// TestReplaceKeepsAttributes replaces a file in every way that the package has. The SELinux label is
// a plain attribute here, because the kernel of the tests has SELinux off.
func TestReplaceKeepsAttributes(t *testing.T) {
	root.Rights(t)
	attributes := map[string]string{
		"security.selinux":        "system_u:object_r:bootloader_etc_t:s0\x00",
		"system.posix_acl_access": string(acl()),
		"trusted.fettle":          strings.Repeat("x", 3000),
		"user.fettle":             "",
	}
	hashes := map[string]string{"security.ima": "\x01hash of the old content"}
	write := map[string]func(dir string) error{
		"live":           func(dir string) error { return liveFiles{}.Replace(dir+"/f", []byte("new"), Attr{0o640, 12, 34}) },
		"through a link": func(dir string) error { return liveFiles{}.Replace(dir+"/link", []byte("new"), Attr{0o640, 12, 34}) },
		"mounted":        func(dir string) error { return rootedFiles{dir}.Replace("/f", []byte("new"), Attr{0o640, 12, 34}) },
		"own file":       func(dir string) error { return WriteFile(dir+"/f", []byte("new"), 0o640) },
	}
	for name, write := range write {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := filepath.Join(dir, "f")
			if err := errors.Join(os.WriteFile(f, []byte("old"), 0o600), os.Chown(f, 12, 34), os.Symlink("f", filepath.Join(dir, "link"))); err != nil {
				t.Fatal(err)
			}
			set := func(all map[string]string) map[string]string {
				done := map[string]string{}
				for name, value := range all {
					err := unix.Setxattr(f, name, []byte(value), 0)
					if errors.Is(err, unix.ENOTSUP) {
						t.Logf("this file system has no %s", name)
						continue
					}
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					done[name] = value
				}
				return done
			}
			want, old := set(attributes), set(hashes)
			if len(want) < 2 {
				root.Missing(t, "the file system of temporary files has no extended attributes")
			}
			if err := write(dir); err != nil {
				t.Fatal(err)
			}
			for name, value := range want {
				buf := make([]byte, 4096)
				n, err := unix.Getxattr(f, name, buf)
				if err != nil || string(buf[:n]) != value {
					t.Errorf("%s: %q, %v, want %q", name, buf[:max(n, 0)], err, value)
				}
			}
			for name := range old {
				if _, err := unix.Getxattr(f, name, nil); !errors.Is(err, unix.ENODATA) {
					t.Errorf("%s of the old content was kept: %v", name, err)
				}
			}
			var st unix.Stat_t
			if err := unix.Stat(f, &st); err != nil {
				t.Fatal(err)
			}
			if name != "own file" && (st.Uid != 12 || st.Gid != 34) || st.Mode&0o777 != 0o640 {
				t.Errorf("owner %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
			}
			if b, err := os.ReadFile(f); err != nil || string(b) != "new" {
				t.Errorf("%q, %v", b, err)
			}
			if names, _ := filepath.Glob(dir + "/.f.*"); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// TestReplaceRefusesToLoseAnACL tests that a file whose attributes cannot be kept is not replaced.
func TestReplaceRefusesToLoseAnACL(t *testing.T) {
	root.Rights(t)
	from, to := filepath.Join(t.TempDir(), "f"), filepath.Join(t.TempDir(), "g")
	if err := errors.Join(os.WriteFile(from, nil, 0o600), os.WriteFile(to, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(from, "security.selinux", []byte("x"), 0); err != nil {
		root.Missing(t, "the file system of temporary files has no labels: %v", err)
	}
	f, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	f.Close() // no attribute can be set on it
	if err := copyAttributes(from, f); err == nil || !strings.Contains(err.Error(), "cannot keep its attribute security.selinux") {
		t.Error(err)
	}
}
