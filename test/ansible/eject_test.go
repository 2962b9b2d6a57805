package ansible

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// ejected is the profile of TestEject. The modules of its values are part of each kernel, and no
// file of Debian sets them.
const ejected = `[main]
summary=for the test of eject
[sysctl]
vm.swappiness=33
vm.dirty_ratio=31
kernel.core_pattern=core {{ lookup('pipe', 'id') }} {% x %} %p
[vm]
transparent_hugepages=never
`

// files are the files that the playbook of TestEject writes on this machine.
var files = []string{"/etc/sysctl.d/90-tuning.conf", "/etc/tmpfiles.d/90-tuning.conf"}

// TestEject runs the playbook of fettle eject twice on this machine: it writes its files and applies
// them, then changes nothing. Its values are those that fettle tune would set.
func TestEject(t *testing.T) {
	testkitroot.Untuned(t)
	a := newTool(t)
	fettle, state := testkitroot.Program(t, "./cmd/fettle"), filepath.Join(a.dir, "state")
	profile := filepath.Join(a.dir, "profiles/ejected/tuned.conf")
	if err := os.MkdirAll(filepath.Dir(profile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(profile, []byte(ejected), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) string {
		t.Helper()
		c := exec.Command(fettle, append([]string{"--state-dir", state, "--profile-dir", filepath.Dir(filepath.Dir(profile))}, args...)...)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("fettle %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			testkitroot.Missing(t, "%s is there already", f)
		}
	}
	before := readAll(t)
	t.Cleanup(func() {
		for _, f := range files {
			os.Remove(f)
		}
		for name, text := range before {
			if err := os.WriteFile(name, []byte(text), 0); err != nil {
				t.Error(err)
			}
		}
	})
	var doc struct {
		Files []struct{ Path, Content string }
	}
	if err := json.Unmarshal([]byte(command("eject", "ejected", "--format", "ansible", "--output", "json")), &doc); err != nil || len(doc.Files) != 1 {
		t.Fatalf("%v %+v", err, doc)
	}
	playbook := filepath.Join(a.dir, doc.Files[0].Path)
	if err := os.WriteFile(playbook, []byte(doc.Files[0].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	play := func(args ...string) string {
		t.Helper()
		out, err := a.run(a.dir, "ansible-playbook", append([]string{"-i", "localhost,", "-c", "local", "-e", "ansible_python_interpreter={{ ansible_playbook_python }}", "-e", "ansible_become=false", playbook}, args...)...)
		if err != nil || strings.Contains(out, "WARNING") && strings.Contains(out, "jinja") {
			t.Fatalf("%v\n%s\n%s", err, out, doc.Files[0].Content)
		}
		return changed(out)
	}
	if n := play("--check"); n == "0" {
		t.Error("check mode: changed=0")
	}
	if now := readAll(t); !same(now, before) {
		t.Errorf("check mode changed %v", now)
	}
	// Two files and the handlers that apply them, then nothing.
	for _, want := range []string{"4", "0"} {
		if n := play(); n != want {
			t.Errorf("changed=%s, want %s\n%s", n, want, doc.Files[0].Content)
		}
	}
	byPlaybook := readAll(t)
	if same(byPlaybook, before) {
		t.Errorf("the playbook changed no value: %v", byPlaybook)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
	for name, text := range before {
		if err := os.WriteFile(name, []byte(text), 0); err != nil {
			t.Error(err)
		}
	}
	command("tune", "ejected")
	byTune := readAll(t)
	command("undo")
	if !same(byPlaybook, byTune) {
		t.Errorf("the playbook sets %v, fettle tune %v", byPlaybook, byTune)
	}
}

// grubby is a stand-in for Fedora's grubby(8) with two kernels. The second has an argument already.
const grubby = `#!/bin/sh
case "$1" in
--info=ALL) printf 'index=0\nkernel="/boot/vmlinuz-1"\nargs="ro quiet%s"\ntitle="Linux (1)"\nindex=1\nargs="nohz=on ro%s"\n' "$(cat STATE)" "$(cat STATE)" ;;
*) printf ' %s' "${2#--args=}" >>STATE ;;
esac
`

// TestEjectArguments runs the playbook for a machine with boot loader entries: it adds the kernel
// arguments if one kernel lacks one of them, once.
func TestEjectArguments(t *testing.T) {
	a := newTool(t)
	root, bin, state := filepath.Join(a.dir, "machine"), filepath.Join(a.dir, "bin"), filepath.Join(a.dir, "arguments")
	for name, text := range map[string]string{
		state: "", filepath.Join(bin, "grubby"): strings.ReplaceAll(grubby, "STATE", state),
		root + "/bin/sh": "", root + "/etc/default/grub": "GRUB_ENABLE_BLSCFG=true\n", root + "/boot/grub2/grubenv": "# GRUB Environment Block\n" + strings.Repeat("#", 999),
		root + "/boot/loader/entries/1.conf": "title x\noptions $kernelopts\n", root + "/proc/version": "Linux\n",
		root + "/etc/tuned/ejected/tuned.conf": "[bootloader]\ncmdline=nohz=on x=it's rcupdate.y=1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	playbook := filepath.Join(a.dir, "eject.yml")
	out, err := exec.Command(testkitroot.Program(t, "./cmd/fettle"), "--root", root, "eject", "ejected", "--format", "ansible", "--write", a.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"1", "0"} {
		out, err := a.run(a.dir, "ansible-playbook", "-i", "localhost,", "-c", "local", "-e", "ansible_python_interpreter={{ ansible_playbook_python }}", "-e", "ansible_become=false", playbook)
		if err != nil || changed(out) != want {
			text, _ := os.ReadFile(playbook)
			t.Fatalf("want changed=%s: %v\n%s\n%s", want, err, out, text)
		}
	}
	if text, _ := os.ReadFile(state); string(text) != " nohz=on x=it's rcupdate.y=1" {
		t.Errorf("arguments %q", text)
	}
}

// readAll reads the values of the profile as they can be written back.
func readAll(t *testing.T) map[string]string {
	t.Helper()
	now := map[string]string{}
	for _, name := range []string{"/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_ratio", "/proc/sys/kernel/core_pattern", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		now[name] = strings.TrimSuffix(string(text), "\n")
		if _, after, ok := strings.Cut(now[name], "["); ok {
			now[name], _, _ = strings.Cut(after, "]")
		}
	}
	return now
}

func same(a, b map[string]string) bool {
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return len(a) == len(b)
}
