package puppetrun

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestApplied reads reports of the real Puppet's store processor: one of a run with changes and one
// failed resource, and one of the next run.
func TestApplied(t *testing.T) {
	root.Nightly(t, "runs Puppet, whose layer of the test root takes minutes to build")
	if !root.Inside(t, root.Options{Puppet: true}) {
		return
	}
	const code = `
file { '/srv/motd': content => "one\ntwo\n" }
file { '/srv/a-directory-with-a-long-name-so-that-the-title-of-its-resource-is-longer-than-a-key-of-YAML-may-be-without-a-question-mark-in-front-of-it-really': ensure => directory }
exec { 'sleep': command => '/bin/sleep 0.3', provider => posix }
exec { 'fails': command => '/bin/false', provider => posix }
notify { "with 'quotes': and a colon": }
`
	dir := t.TempDir()
	manifest := filepath.Join(dir, "site.pp")
	if err := os.WriteFile(manifest, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func(reports string) {
		t.Helper()
		out, err := exec.Command("puppet", "apply", "--detailed-exitcodes", "--certname", "node1.test", "--vardir", dir+"/var", "--confdir", dir+"/etc", "--report", "--reports", "store", "--reportdir", reports, manifest).CombinedOutput()
		if code := exitCode(err); code != 6 { // something was changed, and something failed
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	// The second run of one minute would take the first one's file.
	apply(dir + "/reports/first")
	apply(dir + "/reports/second")
	for _, x := range []struct {
		of      string
		changed bool // the file
	}{{"/first", true}, {"/second", false}} {
		files, err := Find(host.Live(), dir+"/reports"+x.of)
		if err != nil || len(files) != 1 || files[0].Stored.IsZero() {
			t.Fatalf("%+v, %v", files, err)
		}
		text, err := os.ReadFile(files[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(text)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if r.Node != "node1.test" || r.Status != "failed" || r.Cached || files[0].Stored.Sub(r.Began).Abs().Minutes() > 10 {
			t.Errorf("%+v", r)
		}
		found := map[string]Resource{}
		for _, one := range r.Resources {
			found[one.Name] = one
		}
		if one := found["Exec[sleep]"]; one.Seconds < 0.3 || !one.Changed || one.Failed {
			t.Errorf("%+v", one)
		}
		if one := found["Exec[fails]"]; !one.Failed {
			t.Errorf("%+v", one)
		}
		if one := found["File[/srv/motd]"]; one.Seconds < 0 || one.Changed != x.changed {
			t.Errorf("%+v", one)
		}
		long := 0
		for name := range found {
			if strings.HasPrefix(name, "File[/srv/a-directory") || name == `Notify[with 'quotes': and a colon]` {
				long++
			}
		}
		if long != 2 {
			t.Errorf("resources %v", found)
		}
		exec, ok := r.part("exec")
		whole, ok2 := r.part(total)
		if !ok || !ok2 || exec < 0.3 || whole < exec {
			t.Errorf("times %+v", r.Parts)
		}
	}
	// All of it at once, as the verb reads it.
	r := readAll(t, dir+"/reports", Options{}).Report(dir, nil, nil, 0)
	at := slices.IndexFunc(r.Resources, func(m Measured) bool { return m.Name == "Exec[sleep]" })
	if r.Runs != 2 || r.Nodes != 1 || r.Failed != 2 || at < 0 || r.Resources[at].Count != 2 || r.Resources[at].Changed != 2 {
		t.Errorf("%+v", r)
	}
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
