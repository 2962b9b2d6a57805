package puppet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// scripts are both as they are written, for environments below a directory. Who runs them
// is the user nobody if the test is root, as it is not the server's user that may be root.
type scripts struct {
	t           *testing.T
	id, content string
	env         string
	nobody      *syscall.Credential
}

func newScripts(t *testing.T) *scripts {
	t.Helper()
	for _, need := range []string{"git", "flock"} {
		if _, err := exec.LookPath(need); err != nil {
			root.Missing(t, "%s is not installed", need)
		}
	}
	dir, err := os.MkdirTemp("", "fettle-scripts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &scripts{t: t, id: filepath.Join(dir, "id"), content: filepath.Join(dir, "content"), env: filepath.Join(dir, "environments/production")}
	server := debian()
	server.Environments, server.Data = filepath.Dir(s.env), filepath.Join(dir, "data")
	r, err := asked(t, source003Log(), server)
	if err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{s.id: IDScript, s.content: ContentScript} {
		a := r.Artefact(name)
		if !a.Executable {
			t.Errorf("%s is no program", name)
		}
		s.put(file, a.Content)
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, server.Data, s.env} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		s.nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chown(server.Data, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// put writes a file; a path that is not whole is below the environment.
func (s *scripts) put(name, text string) {
	s.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.env, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scripts) run(argv ...string) (string, error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.nobody}
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

// version is that of production, which is to be one that Puppet Server takes.
func (s *scripts) version() string {
	s.t.Helper()
	out, err := s.run(s.id, "production")
	id := strings.TrimSuffix(out, "\n")
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{40,64}$`).MatchString(id) {
		s.t.Fatalf("%q, %v", out, err)
	}
	return id
}

// want wants a file of a version to have a content.
func (s *scripts) want(id, name, text string) {
	s.t.Helper()
	if got, err := s.run(s.content, "production", id, name); err != nil || got != text {
		s.t.Errorf("%s in %s is %q, %v, want %q", name, id, got, err, text)
	}
}

func (s *scripts) git(dir string, args ...string) {
	s.t.Helper()
	c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main"}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// What a catalog was made with is found again after the environment has changed, also
// where modules are repositories within the environment's, as r10k deploys them.
func TestVersions(t *testing.T) {
	s := newScripts(t)
	s.put("manifests/site.pp", "# one")
	s.put("modules/ntp/files/ntp.conf", "server a\n")
	s.put("modules/ntp/files/sub/a b;ü'\".conf", "binary \x00\xff\n")
	s.put("modules/ntp/files/empty", "")
	s.put("site-modules/role/files/motd", "hello\r\n")
	s.put("modules/ntp/files/.git/config", "not of the module")
	s.put("shared/target", "linked")
	if err := os.Symlink("../../../shared/target", filepath.Join(s.env, "modules/ntp/files/link")); err != nil {
		t.Fatal(err)
	}
	s.git(s.env, "init", "-q")
	s.git(filepath.Join(s.env, "modules/ntp"), "init", "-q")
	s.git(filepath.Join(s.env, "modules/ntp"), "add", "-A")
	s.git(filepath.Join(s.env, "modules/ntp"), "commit", "-q", "-m", "module")
	s.put(".gitignore", "modules/\n")
	s.git(s.env, "add", "-A")
	s.git(s.env, "commit", "-q", "-m", "environment")

	first := s.version()
	if again := s.version(); again != first {
		t.Errorf("%s, then %s: nothing has changed", first, again)
	}
	s.want(first, "modules/ntp/files/ntp.conf", "server a\n")
	s.want(first, "modules/ntp/files/sub/a b;ü'\".conf", "binary \x00\xff\n")
	s.want(first, "modules/ntp/files/empty", "")
	s.want(first, "modules/ntp/files/link", "linked")
	s.want(first, "site-modules/role/files/motd", "hello\r\n")

	// Of the same size, a module's file only: the environment's commit is the same.
	s.put("modules/ntp/files/ntp.conf", "server b\n")
	second := s.version()
	if second == first {
		t.Fatal("a file has changed, and the version has not")
	}
	s.want(first, "modules/ntp/files/ntp.conf", "server a\n")
	s.want(second, "modules/ntp/files/ntp.conf", "server b\n")
	// What a link leads to is of the version, and what is gone is not.
	s.put("shared/target", "other")
	if err := os.Remove(filepath.Join(s.env, "modules/ntp/files/empty")); err != nil {
		t.Fatal(err)
	}
	third := s.version()
	s.want(third, "modules/ntp/files/link", "other")
	s.want(first, "modules/ntp/files/link", "linked")
	if out, err := s.run(s.content, "production", third, "modules/ntp/files/empty"); err == nil {
		t.Errorf("a file that was removed is %q", out)
	}
	// A deployment that is taken back has the version that it had.
	s.put("shared/target", "linked")
	s.put("modules/ntp/files/empty", "")
	s.put("modules/ntp/files/ntp.conf", "server a\n")
	if back := s.version(); back != first {
		t.Errorf("%s, was %s with the same files", back, first)
	}
	// A manifest alone changes no file.
	s.put("manifests/site.pp", "# two")
	if now := s.version(); now != first {
		t.Error("a manifest changed the version of files")
	}
	// The versions are kept when git collects what nothing refers to.
	if out, err := s.run("git", "--git-dir", filepath.Join(filepath.Dir(filepath.Dir(s.env)), "data/code-snapshots/production.git"), "gc", "--quiet", "--prune=now"); err != nil {
		t.Fatal(out, err)
	}
	s.want(second, "modules/ntp/files/ntp.conf", "server b\n")
	s.want(third, "modules/ntp/files/link", "other")
}

// A deployment may put another directory in the environment's place, all of whose files
// are older than the last look.
func TestSwitchedEnvironment(t *testing.T) {
	s := newScripts(t)
	other := s.env + "_next"
	s.put(other+"/modules/m/files/f", "new")
	s.put("modules/m/files/f", "old")
	first := s.version()
	for range 2 {
		s.version()
	}
	if err := os.Rename(s.env, s.env+"_before"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("production_next", s.env); err != nil {
		t.Fatal(err)
	}
	if now := s.version(); now == first {
		t.Error("the version of another directory is the same")
	} else {
		s.want(now, "modules/m/files/f", "new")
		s.want(first, "modules/m/files/f", "old")
	}
}

// Interpreters compile at the same time.
func TestVersionsAtOnce(t *testing.T) {
	s := newScripts(t)
	for i := range 50 {
		s.put("modules/m/files/f"+string(rune('a'+i%26)), "x")
	}
	var wait sync.WaitGroup
	ids := make([]string, 8)
	faults := make([]error, len(ids))
	for i := range ids {
		wait.Go(func() { ids[i], faults[i] = s.run(s.id, "production") })
	}
	wait.Wait()
	for i := range ids {
		if faults[i] != nil || ids[i] != ids[0] || ids[i] == "" {
			t.Errorf("%q, %v, want %q", ids[i], faults[i], ids[0])
		}
	}
}

func TestScriptsRefuse(t *testing.T) {
	s := newScripts(t)
	s.put("modules/m/files/f", "x")
	id := s.version()
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{s.id}, "is not the name of an environment"},
		{[]string{s.id, "../production"}, "is not the name of an environment"},
		{[]string{s.id, "nothing"}, "nothing"},
		{[]string{s.content, "production", id}, "want an environment"},
		{[]string{s.content, "production", "HEAD", "modules/m/files/f"}, "is not a version"},
		{[]string{s.content, "production", id, "modules/m/files/../files/f"}, "is not a path"},
		{[]string{s.content, "production", id, "./modules/m/files/f"}, "is not a path"},
		{[]string{s.content, "production", id, "/modules/m/files/f"}, "is not a path"},
		{[]string{s.content, "production", id, ""}, "is not a path"},
		{[]string{s.content, "production", id, "modules/m/files/g"}, "does not exist"},
		{[]string{s.content, "other_one", id, "modules/m/files/f"}, "not a git repository"},
	} {
		if out, err := s.run(tt.argv...); err == nil || out != "" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %q, %v, want %q", tt.argv[1:], out, err, tt.want)
		}
	}
	if os.Geteuid() == 0 {
		s.nobody = nil
		if _, err := s.run(s.id, "production"); err == nil || !strings.Contains(err.Error(), "runuser -u puppet") {
			t.Errorf("as root: %v", err)
		}
	}
	// An environment without files has a version too.
	s2 := newScripts(t)
	s2.version()
}
