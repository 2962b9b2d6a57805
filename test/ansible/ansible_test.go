// Package ansible holds no code: its tests run the collection fettle.tuning with a real Ansible.
package ansible

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// tool is Ansible with the collection.
type tool struct {
	*testing.T
	bin, dir string
	args     []string // of ansible-playbook: the host and its variables
}

// newTool installs Ansible into the cache if needed, and copies the collection. which is an
// argument of the script build: "oldest".
func newTool(t *testing.T, which ...string) *tool {
	t.Helper()
	module := testkitroot.Module(t)
	out, err := exec.Command(filepath.Join(module, "test/ansible/build"), which...).Output()
	if err != nil {
		testkitroot.Missing(t, "test/ansible/build installs Ansible from PyPI with python3 and its venv: %v", err)
	}
	a := &tool{T: t, bin: strings.TrimSpace(string(out)), dir: t.TempDir()}
	if err := os.CopyFS(a.collection(), os.DirFS(filepath.Join(module, "packaging/ansible"))); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *tool) collection() string { return filepath.Join(a.dir, "ansible_collections/fettle/tuning") }

// run runs one of Ansible's programs in a directory.
func (a *tool) run(dir, program string, args ...string) (string, error) {
	a.Helper()
	c := exec.Command(filepath.Join(a.bin, program), args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+filepath.Join(filepath.Dir(a.bin), "home"), "PATH="+a.bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8",
		"ANSIBLE_NOCOLOR=1", "ANSIBLE_COLLECTIONS_PATH="+a.dir, "ANSIBLE_HOST_KEY_CHECKING=0", "ANSIBLE_LOCAL_TEMP="+filepath.Join(a.dir, "tmp"))
	out, err := c.CombinedOutput()
	return string(out), err
}

// play runs a playbook of testdata, and returns its output if it passes.
func (a *tool) play(name string, args ...string) string {
	a.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		a.Fatal(err)
	}
	out, err := a.run(dir, "ansible-playbook", append(append(append([]string{}, a.args...), args...), name)...)
	if err != nil {
		a.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}

// changed returns the number of tasks that the recap of a play counts as changed.
func changed(out string) string {
	_, rest, _ := strings.Cut(out, "changed=")
	return strings.Fields(rest + " ?")[0]
}

// values reads files that the playbooks change.
func (a *tool) values() map[string]string {
	a.Helper()
	now := map[string]string{}
	for _, name := range []string{"/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_ratio", "/proc/sys/fs/file-max", "/proc/sys/kernel/pid_max", "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/vm/vfs_cache_pressure", "/proc/sys/vm/stat_interval", "/sys/class/net/lo/mtu", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		text, err := os.ReadFile(name)
		if err != nil {
			a.Fatal(err)
		}
		now[name] = strings.TrimSpace(string(text))
	}
	return now
}

// same reports values that are not as they were.
func (a *tool) same(when string, before map[string]string) {
	a.Helper()
	for name, now := range a.values() {
		if now != before[name] {
			a.Errorf("%s: %s is %s, was %s", when, name, now, before[name])
		}
	}
}

// onThisMachine makes the plays act on this machine, with a journal of their own.
func (a *tool) onThisMachine() {
	fettle, state := testkitroot.Program(a.T, "./cmd/fettle"), filepath.Join(a.dir, "state")
	a.args = []string{"-i", "localhost,", "-c", "local", "-e", "ansible_python_interpreter={{ ansible_playbook_python }}", "-e", "fettle=" + fettle, "-e", "state_dir=" + state}
	before := map[string]error{}
	for _, dir := range []string{"/etc/tuned", "/etc/fettle"} {
		_, before[dir] = os.Stat(dir)
	}
	a.Cleanup(func() {
		if out, err := exec.Command(fettle, "--state-dir", state, "undo").CombinedOutput(); err != nil { // of a failed test
			a.Errorf("undo: %v\n%s", err, out)
		}
		for dir, err := range before {
			if err != nil {
				os.RemoveAll(dir)
			}
		}
	})
}

// The modules are honest in check mode, change nothing twice, and give everything back.
func TestModules(t *testing.T) {
	testkitroot.Untuned(t)
	a := newTool(t)
	a.onThisMachine()
	a.modules()
}

// modules runs the playbooks of the modules.
func (a *tool) modules() {
	t := a.T
	t.Helper()
	before := a.values()
	out := a.play("modules.yml", "--check", "--diff")
	a.same("check mode", before)
	for _, line := range []string{"-sysctl:vm.swappiness = " + before["/proc/sys/vm/swappiness"], "+sysctl:vm.swappiness = 33", "+sysfs:/sys/class/net/lo/mtu = 65000"} {
		if !strings.Contains(out, "\n"+line+"\n") {
			t.Errorf("--check --diff lacks %q:\n%s", line, out)
		}
	}
	if n := changed(out); n != "2" {
		t.Errorf("check mode: changed=%s", n)
	}
	for _, want := range []string{"2", "0"} {
		if out := a.play("modules.yml", "--diff"); changed(out) != want {
			t.Errorf("changed=%s, want %s:\n%s", changed(out), want, out)
		}
	}
	if now := a.values(); now["/proc/sys/vm/swappiness"] != "33" || now["/sys/class/net/lo/mtu"] != "65000" {
		t.Errorf("after the second run: %v", now)
	}
	if out := a.play("modules.yml", "--check"); changed(out) != "0" {
		t.Errorf("check mode of what is in force: %s", out)
	}
	a.play("values.yml")
	a.same("state: absent", before)
	a.play("fix.yml")
	a.same("fix with state: absent", before)
}

// The role takes the constructs of kernel_settings and tuned.
func TestRole(t *testing.T) {
	testkitroot.Nightly(t, "a minute of Ansible")
	testkitroot.Untuned(t)
	a := newTool(t)
	a.onThisMachine()
	a.role()
}

// role runs the playbook of the role.
func (a *tool) role() {
	before := a.values()
	a.play("role.yml")
	a.same("the role", before)
}

// The oldest ansible-core that meta/runtime.yml allows runs modules and role, and its linter finds
// nothing.
func TestOldestCore(t *testing.T) {
	testkitroot.Nightly(t, "minutes of Ansible")
	testkitroot.Untuned(t)
	a := newTool(t, "oldest")
	a.onThisMachine()
	a.modules()
	a.role()
	a.sanity()
}

// Ansible's own linters find nothing.
func TestLint(t *testing.T) {
	testkitroot.Nightly(t, "minutes of linters")
	a := newTool(t)
	if out, err := a.run(a.collection(), "ansible-lint", "--offline", "--nocolor", "--profile", "production", "."); err != nil {
		t.Errorf("ansible-lint: %v\n%s", err, out)
	}
	if out, err := a.run(a.collection(), "vermin", "--target=3.6-", "--violations", "--no-tips", "plugins"); err != nil {
		t.Errorf("RHEL 8 has Python 3.6: %v\n%s", err, out)
	}
	a.sanity()
}

// sanity runs ansible-test sanity.
func (a *tool) sanity() {
	t := a.T
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} { // ansible-test asks git for the files
		if out, err := exec.Command("git", append([]string{"-C", a.collection()}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	// Only with the Python of Ansible: others may be here in part.
	python, err := exec.Command(filepath.Join(a.bin, "python"), "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := a.run(a.collection(), "ansible-test", "sanity", "--venv", "--python", strings.TrimSpace(string(python)), "--color", "no"); err != nil {
		t.Errorf("ansible-test sanity: %v\n%s", err, out)
	}
}

// The manual's playbook over ssh to a machine with systemd: honest in check mode, idempotent,
// in force after a reboot. The role replaces TuneD, and TuneD is back after the undo.
func TestGuest(t *testing.T) {
	testkitroot.Nightly(t, "a virtual machine")
	a := newTool(t)
	page, err := os.ReadFile(filepath.Join(testkitroot.Module(t), "docs/ansible.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n# site.yml\n")
	playbook, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/ansible.md has no site.yml")
	}
	site := filepath.Join(a.dir, "site.yml")
	err = errors.Join(os.WriteFile(site, []byte(playbook), 0o600), os.Symlink(testkitroot.Program(t, "./cmd/fettle"), filepath.Join(a.dir, "fettle")))
	if err != nil {
		t.Fatal(err)
	}
	vm := testkitvm.Boot(t, testkitvm.Options{})
	ssh := vm.SSH().Args
	vars, err := json.Marshal(map[string]any{
		"ansible_host": "127.0.0.1", "ansible_user": "root", "ansible_ssh_common_args": strings.Join(ssh[1:len(ssh)-1], " "),
		"ansible_python_interpreter": "/usr/bin/python3", "fettle": "/usr/local/bin/fettle", "state_dir": "/var/lib/fettle",
	})
	if err != nil {
		t.Fatal(err)
	}
	a.args = []string{"-i", "guest,", "-e", string(vars)}
	vm.Must("systemctl disable --now tuned power-profiles-daemon 2>/dev/null; rm -f /etc/tuned/active_profile; true")
	const state = "cat /proc/sys/vm/swappiness /proc/sys/vm/vfs_cache_pressure /proc/sys/vm/stat_interval /proc/sys/vm/dirty_ratio /proc/sys/fs/file-max /proc/sys/kernel/pid_max /sys/class/net/lo/mtu; systemctl is-enabled fettle tuned; systemctl is-active tuned; ls -d /etc/tuned/profiles/kernel_settings"
	before, _ := vm.Run(state)

	vm.Put(testkitroot.Program(t, "./cmd/fettle"), "/usr/local/bin/fettle")
	if out := a.play(site, "--check", "--diff"); changed(out) == "0" || !strings.Contains(out, "\n+sysctl:vm.swappiness = 33\n") {
		t.Errorf("check mode:\n%s", out)
	}
	if now, _ := vm.Run(state); now != before {
		t.Errorf("check mode changed\n%s\nto\n%s", before, now)
	}
	if out := a.play(site); changed(out) != "2" {
		t.Errorf("first run:\n%s", out)
	}
	if out := a.play(site); changed(out) != "0" {
		t.Errorf("second run:\n%s", out)
	}
	vm.Reboot()
	if now := vm.Must("cat /proc/sys/vm/swappiness /proc/sys/vm/dirty_ratio /sys/class/net/lo/mtu"); now != "33\n40\n65000\n" {
		t.Errorf("after the reboot: %q", now)
	}
	if out := a.play(site); changed(out) != "0" {
		t.Errorf("after the reboot:\n%s", out)
	}
	vm.Must("fettle undo")
	a.play("fix.yml")
	if now, _ := vm.Run(state); now != before {
		t.Errorf("after undo\n%s\nbefore\n%s", now, before)
	}

	vm.Must("systemctl enable --now tuned && tuned-adm profile balanced")
	before, _ = vm.Run(state)
	if out, err := a.run(a.dir, "ansible-playbook", append(a.args, site)...); err == nil || !strings.Contains(out, `"rc": 4`) {
		t.Errorf("with TuneD in force: %v\n%s", err, out)
	}
	a.play("role.yml", "-e", "persist=true")
	if now, _ := vm.Run(state); now != before {
		t.Errorf("after the role\n%s\nbefore\n%s", now, before)
	}
}
