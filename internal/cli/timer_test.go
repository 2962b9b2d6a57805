package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestTimerIsValid tests that the real systemd accepts the units of docs/check.md, and that it
// rejects the timer with an invalid calendar, so it does read them.
func TestTimerIsValid(t *testing.T) {
	testkitroot.Real(t, "runs systemd-analyze in the Debian test root")
	page, err := os.ReadFile("../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/usr/local/bin/fettle": "#!/bin/sh\n"}
	const timer = "/etc/systemd/system/fettle-watch.timer"
	for _, m := range regexp.MustCompile("(?s)```\n# (/etc/systemd/system/\\S+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		files[m[1]] = m[2]
	}
	if len(files) != 4 || files[timer] == "" {
		t.Fatalf("%d files", len(files))
	}
	files["/etc/systemd/system/bad.timer"] = strings.Replace(files[timer], "hourly", "seldom", 1) + "\n"
	root := testkitroot.New(t, testkitroot.Options{Files: files, Env: []string{"SYSTEMD_LOG_TARGET=console"}})
	const verify = "chmod 755 /usr/local/bin/fettle; systemd-analyze verify --man=no "
	if out := root.Must("sh", "-c", verify+"/etc/systemd/system/fettle-watch.service /etc/systemd/system/fettle-drift.service "+timer+" 2>&1"); out != "" {
		t.Errorf("%s", out)
	}
	if out := root.Must("sh", "-c", verify+"bad.timer 2>&1 || true"); !strings.Contains(out, "parse calendar") {
		t.Errorf("an invalid calendar: %q", out)
	}
}
