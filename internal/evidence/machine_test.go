package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// reads records which files are read.
type reads struct {
	host.Files
	files []string
}

func (r *reads) ReadFile(file string) ([]byte, error) {
	r.files = append(r.files, file)
	return r.Files.ReadFile(file)
}

// TestExcluded: the fingerprint contains no keys, and files that act when read
// are not read.
func TestExcluded(t *testing.T) {
	root := t.TempDir()
	const secret = "5ec12e7a-00000000"
	shut := []string{"net/ipv4/tcp_fastopen_key", "net/core/netdev_rss_key", "net/ipv4/tcp_new_secret", "vm/some_key", "vm/stat_refresh", "vm/compact_memory", "vm/drop_caches"}
	for _, name := range append([]string{"vm/swappiness", "net/core/somaxconn", "vm/page-cluster"}, shut...) {
		text := "60"
		if slices.Contains(shut, name) {
			text = secret
		}
		file := filepath.Join(root, "proc/sys", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	noted := &reads{Files: h.Files}
	h.Files = noted
	all := fingerprintSettings(h)
	for _, name := range []string{"sysctl:vm.swappiness", "sysctl:net.core.somaxconn", "sysctl:vm.page-cluster"} {
		if all[name] != "60" {
			t.Errorf("%s is %q", name, all[name])
		}
	}
	if text, err := json.Marshal(all); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%v: %s", err, text)
	}
	for _, name := range shut {
		if slices.Contains(noted.files, "/proc/sys/"+name) {
			t.Errorf("%s was read", name)
		}
	}
}

// TestHardwareText: unknown values are left out, not 0.
func TestHardwareText(t *testing.T) {
	for want, m := range map[string]Machine{
		"QEMU Standard PC, 2 × Intel Xeon, 8 GiB (0123)": {Model: "QEMU Standard PC", CPU: "Intel Xeon", CPUs: 2, MemoryBytes: 8 << 30, Hardware: "0123"},
		"4 processors (0123)":                            {CPUs: 4, Hardware: "0123"},
		"(no hardware digest)":                           {},
	} {
		if got := m.HardwareText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
