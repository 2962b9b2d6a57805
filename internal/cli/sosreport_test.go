package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/packaging"
)

// named is a file of the machine, or a command, in a sentence.
var named = internaltext.LazyRegexp(`/(etc|proc|sys|run|usr|var|sos_commands|installed-)[^ ]*|\b(df|[a-z]+\.service)\b`)

// What the distribution's own sos says of a machine with running servers is what
// the machine says, or is unknown with the name of the file that sos did not take.
func TestSosreport(t *testing.T) {
	testkitroot.Real(t, "runs sos")
	testkitroot.Undisturbed(t) // it compares what this machine has now with what it had
	program := testkitroot.Program(t, "./cmd/fettle")
	r := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{{Source: program, Target: "/usr/local/bin/fettle", ReadOnly: true}}})
	r.Must("pg_ctlcluster", "15", "main", "start")
	r.Must("redis-server", "/etc/redis/redis.conf", "--daemonize", "yes")
	r.Must("apachectl", "start")
	up := testkitroot.Eventually(time.Minute, func() bool {
		_, pg := r.Run("runuser", "-u", "postgres", "--", "/usr/lib/postgresql/15/bin/pg_isready", "-q")
		_, kv := r.Run("redis-cli", "ping")
		_, web := r.Run("curl", "-sf", "-o", "/dev/null", "http://127.0.0.1/")
		return pg == 0 && kv == 0 && web == 0
	})
	if !up {
		t.Fatal("the servers do not come up")
	}
	live := func() map[string]rule.State {
		out, _ := r.Command(append([]string{"fettle", "check", "--all", "--output", "json"}, audit.Platforms()...)...).Output()
		var audit findings.Audit
		if err := json.Unmarshal(out, &audit); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return statesOf(audit.Findings, nil)
	}
	extra, err := packaging.FS.ReadFile("sos/fettle")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Path("/etc/sos/extras.d/fettle"), extra, 0o644); err != nil {
		t.Fatal(err)
	}
	// As on every Debian that systemd has booted: it is how sos finds out.
	r.Must("mkdir", "-p", "/run/systemd/system")
	before := live()
	if out, code := r.Run("sos", "report", "--batch", "--build", "--quiet", "--tmp-dir", r.Share()); code != 0 {
		t.Fatalf("sos: exit %d\n%s", code, out)
	}
	after := live()
	dirs, _ := filepath.Glob(r.Share() + "/sosreport-*")
	if len(dirs) != 1 {
		t.Fatalf("sos has made %q", dirs)
	}
	dir := dirs[0]

	t.Run("with fettle", func(t *testing.T) { sosWithFettle(t, dir, before, after) })
	if err := os.RemoveAll(dir + "/sos_commands/sos_extras"); err != nil {
		t.Fatal(err)
	}
	t.Run("whole", func(t *testing.T) { sosAsLive(t, dir, before, after) })
	t.Run("cut off", func(t *testing.T) { sosCut(t, dir, before, after) })
}

// auditOfCopy is the audit of a copy as every platform.
func auditOfCopy(t *testing.T, root string, why map[string]string) map[string]rule.State {
	t.Helper()
	h, err := host.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
	return statesOf(loadCatalogue(t).Check(t.Context(), s, audit.Platforms(), nil), why)
}

func statesOf(findings []rule.Finding, why map[string]string) map[string]rule.State {
	states := map[string]rule.State{}
	for _, f := range findings {
		states[f.ID+" "+f.Instance] = f.State
		if why != nil {
			why[f.ID+" "+f.Instance] = f.Reason
		}
	}
	return states
}

// same is true where the machine has said so before or after the copy was made:
// what waits for what changes by the second.
func same(finding string, s rule.State, machine []map[string]rule.State) bool {
	for _, m := range machine {
		if is, ok := m[finding]; ok && is == s {
			return true
		}
	}
	return false
}

// known wants every finding that a copy has to be the machine's, or unknown, and
// every finding of the machine to be in the copy. It returns the rules of which
// anything is unknown.
func known(t *testing.T, whole bool, copied map[string]rule.State, machine ...map[string]rule.State) (unknown map[string]bool) {
	t.Helper()
	unknown = map[string]bool{}
	for finding, s := range copied {
		id, _, _ := strings.Cut(finding, " ")
		switch {
		case s == rule.Unknown && same(finding, s, machine):
		case s == rule.Unknown:
			unknown[id] = true
		case !same(finding, s, machine):
			t.Errorf("%s is %s in the copy, and on the machine %s, later %s", finding, s, machine[0][finding], machine[1][finding])
		}
	}
	for finding, s := range machine[0] {
		if !whole {
			break // which files named a sysctl is gone with them
		}
		id, _, _ := strings.Cut(finding, " ")
		if _, ok := copied[finding]; !ok && copied[id+" "] != rule.Unknown && !strings.Contains(finding, " /") {
			// A directory that was not copied is not asked about.
			t.Errorf("%s is %s on the machine and nothing in the copy", finding, s)
		}
	}
	return unknown
}

func rulesOf(states map[string]rule.State, which func(rule.State) bool) map[string]bool {
	ids := map[string]bool{}
	for finding, s := range states {
		if which(s) {
			id, _, _ := strings.Cut(finding, " ")
			ids[id] = true
		}
	}
	return ids
}

// A machine where sos runs fettle too is in its report as a whole.
func sosWithFettle(t *testing.T, dir string, machine ...map[string]rule.State) {
	why := map[string]string{}
	unknown := known(t, true, auditOfCopy(t, dir, why), machine...)
	for finding, reason := range why {
		if id, _, _ := strings.Cut(finding, " "); unknown[id] && reason != "" {
			t.Logf("%s: %s", finding, reason)
		}
	}
	judged := rulesOf(machine[0], func(s rule.State) bool { return s == rule.Passed || s == rule.Warned || s == rule.Failed })
	if len(unknown)*5 > len(judged) {
		names, _ := filepath.Glob(dir + "/sos_commands/sos_extras/*/*")
		t.Errorf("%d rules are unknown, and %d are judged on the machine; recorded: %q", len(unknown), len(judged), names)
		for _, name := range names {
			text, err := os.ReadFile(name)
			t.Logf("%s: %d bytes, %v; it ends with %q", name, len(text), err, text[max(len(text)-500, 0):])
		}
	}
}

func sosAsLive(t *testing.T, dir string, machine ...map[string]rule.State) {
	why := map[string]string{}
	copied := auditOfCopy(t, dir, why)
	unknown := known(t, true, copied, machine...)
	for finding, s := range copied {
		if s == rule.Unknown && machine[0][finding] != s && !named().MatchString(why[finding]) {
			t.Errorf("%s is unknown and names no file: %s", finding, why[finding])
		}
	}
	// Of PostgreSQL, Redis and mosquitto next to nothing is known: sos 4.0 of Debian
	// takes neither conf.d below /etc/postgresql nor the others' files.
	ours := map[string]bool{}
	for _, r := range loadCatalogue(t).Rules() {
		ours[r.ID] = slices.Contains(r.Platforms, "linux") || slices.Contains(r.Platforms, "httpd")
	}
	var judged, missing int
	for id := range rulesOf(machine[0], func(s rule.State) bool { return s != rule.Reminded }) {
		if ours[id] {
			judged++
			if unknown[id] {
				missing++
			}
		}
	}
	asked := rulesOf(copied, func(s rule.State) bool { return s != rule.Reminded })
	t.Logf("%d of %d rules of Linux and httpd are unknown, %d of all %d", missing, judged, len(unknown), len(asked))
	if missing*5 > judged || len(unknown)*5 > len(asked) {
		t.Errorf("%d of %d rules of Linux and httpd are unknown, %d of all %d: want at most a fifth", missing, judged, len(unknown), len(asked))
	}
	for _, id := range []string{"T13", "T15", "T26", "H01"} {
		if unknown[id] {
			t.Errorf("%s is unknown: %s", id, why[id+" "])
		}
	}
}

// sosCut takes away what the end of the archive has, in the order of sos: nothing
// passes that the machine does not pass, and what is gone is unknown.
func sosCut(t *testing.T, dir string, machine ...map[string]rule.State) {
	ps, err := filepath.Glob(dir + "/sos_commands/process/ps_axo_*")
	if err != nil || len(ps) == 0 {
		t.Fatalf("%v: no listings of processes", err)
	}
	for _, name := range append(ps, dir+"/sos_commands/dpkg/dpkg_-l", dir+"/sos_commands/kernel/sysctl_-a") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text[:len(text)/2-1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sos_commands/services", "sos_reports", "sys", "usr", "var", "version.txt"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	unknown := known(t, false, auditOfCopy(t, dir, nil), machine...)
	for _, id := range []string{"H06", "R01", "R03", "T02", "T11", "T26", "T27"} {
		if !unknown[id] {
			t.Errorf("%s is known of half a sosreport", id)
		}
	}
}
