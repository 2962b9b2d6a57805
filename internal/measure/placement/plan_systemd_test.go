package placement

import (
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestDropInsAreValid tests that the real systemd accepts each drop-in: with a cpuset, without one,
// and with CPUAffinity= only. It rejects the same drop-in with an invalid mask, so it does read them.
func TestDropInsAreValid(t *testing.T) {
	testkitroot.Real(t, "runs systemd-analyze in the Debian test root")
	files := map[string]string{}
	for name, d := range map[string]directives{"all": {systemd: 252}, "nocpuset": {systemd: 252, cpuset: "version 1"}, "old": {systemd: 239}} {
		m := Move{Identity: Identity{Unit: name + ".service"}, Nodes: "0,2-3", TargetCPUs: "0-1,4-7"}
		text := d.systemdDropIn(&m)
		files["/etc/systemd/system/"+m.Unit] = "[Service]\nExecStart=/bin/true\n"
		files[text.File] = text.Content
	}
	files["/etc/systemd/system/bad.service"] = "[Service]\nExecStart=/bin/true\n" + strings.ReplaceAll(files["/etc/systemd/system/all.service.d/60-numa.conf"], "0,2-3", "x")
	root := testkitroot.New(t, testkitroot.Options{Files: files, Env: []string{"SYSTEMD_LOG_TARGET=console"}})
	verify := "systemd-analyze verify --man=no --recursive-errors=no "
	if out := root.Must("sh", "-c", verify+"all.service nocpuset.service old.service 2>&1"); out != "" {
		t.Errorf("%s", out)
	}
	if out := root.Must("sh", "-c", verify+"bad.service 2>&1 || true"); !strings.Contains(out, "service:5: ") || !strings.Contains(out, "service:7: ") {
		t.Errorf("NUMAMask and AllowedMemoryNodes that are no list: %q", out)
	}
}
