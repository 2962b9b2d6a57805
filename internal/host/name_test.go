package host

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFQDN: the domain is that of the host name or of /etc/hosts, and is never made up.
func TestFQDN(t *testing.T) {
	for _, tt := range []struct{ name, hostname, hosts, want string }{
		{"kernel", "Web1.Example.org\n", "", "web1.example.org"},
		{"hosts", "web1\n", "127.0.0.1 localhost\n127.0.1.1\tweb1.example.org web1 # of the installer\n", "web1.example.org"},
		{"of another host", "web1\n", "192.0.2.7 web10.example.org web10\n192.0.2.8 db.example.org web1\n", ""},
		{"comment", "web1\n", "# 192.0.2.7 web1.example.org web1\n", ""},
		{"alias only", "web1\n", "192.0.2.7 web1\n", ""},
		{"localhost", "localhost\n", "127.0.0.1 localhost.localdomain localhost\n", ""},
		{"full localhost", "localhost.localdomain\n", "", ""},
		{"trailing dot", "web1.\n", "", ""},
		{"not set", "(none)\n", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"proc/sys/kernel/hostname": tt.hostname, "etc/hosts": tt.hosts} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h, err := Copy(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.FQDN()
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
