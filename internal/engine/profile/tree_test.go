package profile

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// plant writes files into a new tree and returns it as a machine. Directories belong to the user
// who runs the test.
func plant(t testing.TB, files map[string]string) (*host.Host, string) {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	machine.Write(t, root, files)
	return host.Mounted(root), root
}

// profiles converts {"name": "text"} to vendor profiles.
func profiles(texts map[string]string) map[string]string {
	files := map[string]string{}
	for name, text := range texts {
		if !strings.HasPrefix(name, "/") {
			name = "/usr/lib/tuned/" + name + "/tuned.conf"
		}
		files[name] = text
	}
	return files
}

func load(t testing.TB, texts map[string]string, names ...string) *Profile {
	t.Helper()
	h, _ := plant(t, profiles(texts))
	p, err := (&Loader{Host: h}).Load(context.Background(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func loadError(t testing.TB, texts map[string]string, names ...string) error {
	t.Helper()
	h, _ := plant(t, profiles(texts))
	p, err := (&Loader{Host: h}).Load(context.Background(), names...)
	if err == nil {
		t.Fatalf("loaded without an error: %+v", p)
	}
	return err
}

// outline prints a profile in a form for test tables: units in order, with values other than the
// defaults, then options.
func outline(p *Profile) string {
	var b strings.Builder
	for _, u := range p.Units {
		b.WriteString("[" + u.Name + "]")
		if u.Type != u.Name {
			b.WriteString(" type=" + u.Type)
		}
		if !u.Enabled {
			b.WriteString(" disabled")
		}
		if u.Devices != "*" {
			b.WriteString(" devices=" + u.Devices)
		}
		if _, ok := u.Where["priority"]; ok {
			b.WriteString(" priority=" + strconv.Itoa(u.Priority))
		}
		for _, f := range []struct{ name, value string }{
			{"udev", u.DevicesUdevRegex}, {"cpuinfo", u.CPUInfoRegex}, {"uname", u.UnameRegex},
			{"pre", u.ScriptPre}, {"post", u.ScriptPost},
		} {
			if f.value != "" {
				b.WriteString(" " + f.name + "=" + f.value)
			}
		}
		b.WriteString("\n")
		for _, o := range u.Options {
			b.WriteString(o.Name + "=" + strings.ReplaceAll(o.Value, "\n", "|") + "\n")
		}
	}
	return b.String()
}

func requireRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	root.Missing(t, "this test needs to run as root, which owns the files that it makes")
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }
