package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// ansibleCore is the release that a machine without Ansible gets from PyPI.
const ansibleCore = "ansible-core==2.19.14"

// TestFleetByAnsible runs the manual's playbook against a recorded machine: it changes what differs,
// once, and reports it.
func TestFleetByAnsible(t *testing.T) {
	testkitroot.Nightly(t, "needs Ansible")
	dir := t.TempDir()
	machine := filepath.Join(dir, "machine")
	unpack(t, "../../testdata/hosts/kvm-guest.txt", machine)
	page, err := os.ReadFile("../../docs/fleet.md")
	if err == nil {
		err = withoutTuneD(machine)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n# fettle.yml\n")
	playbook, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/fleet.md has no fettle.yml")
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Link(self, filepath.Join(dir, "fettle"))
	}
	if err != nil { // another file system
		err = exec.Command("cp", self, filepath.Join(dir, "fettle")).Run()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "fettle.yml"), []byte(playbook), 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "bin"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := ansible(t, dir)
	swappiness := filepath.Join(machine, "proc/sys/vm/swappiness")
	for _, run := range []struct{ before, recap string }{
		{"60", "ok=5    changed=2"},
		{"30", "ok=4    changed=0"},
		{"44", "ok=5    changed=1"},
	} {
		if err := os.WriteFile(swappiness, []byte(run.before+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(program, "-i", "localhost,", "-c", "local", "-e", "ansible_become=false", "-e", "fettle="+filepath.Join(dir, "bin/fettle"),
			"-e", "ansible_python_interpreter={{ ansible_playbook_python }}", "fettle.yml")
		c.Dir = dir
		c.Env = append(os.Environ(), "FETTLE_TEST_MACHINE="+machine, "HOME="+dir, "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), run.recap) || !strings.Contains(string(out), " fine, ") {
			t.Errorf("%v, want %s:\n%s", err, run.recap, out)
		}
		if now, err := os.ReadFile(swappiness); err != nil || strings.TrimSpace(string(now)) != "30" {
			t.Errorf("vm.swappiness %q, %v", now, err)
		}
	}
}

// ansible returns the path of ansible-playbook: the machine's, or one that it installs below dir.
func ansible(t *testing.T, dir string) string {
	if program, err := exec.LookPath("ansible-playbook"); err == nil {
		return program
	}
	env := filepath.Join(dir, "ansible")
	for _, args := range [][]string{{"python3", "-m", "venv", env}, {filepath.Join(env, "bin/pip"), "install", "-q", ansibleCore}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			testkitroot.Missing(t, "no ansible-playbook, and %v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(env, "bin/ansible-playbook")
}
