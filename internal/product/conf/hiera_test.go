package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const custom = "---\n# Ours: see the change 4711\napache::mod::event::serverlimit: 64   # hosts\npostgresql::server::config_entries:\n  max_connections: 1000\n  # keep\n  shared_buffers: '8GB'\n"

func TestKeys(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, main)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	k := Kind(host.Mounted(root))
	if _, err := k.Resolve(setting.Setting{Kind: Name, Name: "a::b"}); err == nil || !strings.Contains(err.Error(), "no configuration of hiera") {
		t.Errorf("without the file: %v", err)
	}
	for _, c := range []struct{ key, value, want string }{
		{"apache::mod::event::serverlimit", "128", strings.Replace(custom, "64", "128", 1)},
		{"postgresql::server::config_entries/max_connections", "1500", strings.Replace(custom, "1000", "1500", 1)},
		{"postgresql::server::config_entries/shared_buffers", "16GB", strings.Replace(custom, "'8GB'", "16GB", 1)},
		{"qpid::open_file_limit", "65536", custom + "qpid::open_file_limit: 65536\n"},
		{"postgresql::server::config_entries/work_mem", "8MB", strings.Replace(custom, "entries:\n", "entries:\n  work_mem: 8MB\n", 1)},
		{"foreman::rails/cache/size", "8MB", custom + "foreman::rails:\n  cache:\n    size: 8MB\n"},
	} {
		if err := os.WriteFile(file, []byte(custom), 0o640); err != nil {
			t.Fatal(err)
		}
		s, err := k.Resolve(setting.Setting{Kind: Name, Name: c.key})
		if err != nil {
			t.Fatal(err)
		}
		was, err := k.Read(t.Context(), s)
		if err == nil {
			err = k.Write(t.Context(), s, setting.Text(c.value))
		}
		if b, _ := os.ReadFile(file); err != nil || string(b) != c.want {
			t.Errorf("%s: %v\n%s", c.key, err, b)
		}
		if err := k.Write(t.Context(), s, was); err != nil {
			t.Error(err)
		}
		if b, _ := os.ReadFile(file); string(b) != custom {
			t.Errorf("%s: after the way back\n%s", c.key, b)
		}
	}
}

// A key works once the installer has run.
func TestEffect(t *testing.T) {
	root := t.TempDir()
	write := func(name string, age time.Duration) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(custom), 0o644); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(p, then, then); err != nil {
			t.Fatal(err)
		}
	}
	h := host.Mounted(root)
	write(main, time.Hour)
	write(logs+"/satellite.log", 2*time.Hour)
	if v, why := effect(t.Context(), h, main, "", ""); v != plugin.NeedsRestart || !strings.Contains(why, "to apply the file") {
		t.Errorf("before: %v %s", v, why)
	}
	write(logs+"/satellite.log", 0)
	if v, why := effect(t.Context(), h, main, "", ""); v != plugin.OK {
		t.Errorf("after: %v %s", v, why)
	}
}
