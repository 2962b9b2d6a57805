package sizing

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/guide/rule"
)

func finding(id, artefact string, entries ...rule.Entry) rule.Finding {
	return rule.Finding{ID: id, Title: "title of " + id, Fix: &rule.Repair{Artefact: artefact, Entries: entries}}
}

// first are the files of a directory that had none, without their record.
func first(findings ...rule.Finding) ([]Artefact, error) {
	all, _, err := Artefacts(findings, "", func(string) bool { return false })
	return all[:max(0, len(all)-1)], err
}

func one(t *testing.T, findings ...rule.Finding) Artefact {
	t.Helper()
	all, err := first(findings...)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d artefacts, %v", len(all), err)
	}
	return all[0]
}

// Two rules that want the same entry leave it once, with the later one's value;
// findings without a fix, and fixes of words alone, leave no file.
func TestEachEntryOnce(t *testing.T) {
	a := one(t,
		finding("A", "custom-hiera.yaml", rule.Entry{Name: "k", Value: "1"}),
		rule.Finding{ID: "B"},
		finding("C", "kernel command line", rule.Entry{Name: "elevator", Value: "(remove)"}),
		finding("D", "custom-hiera.yaml", rule.Entry{Name: "k", Value: "2"}))
	if a.Name != "etc/foreman-installer/custom-hiera.yaml" || !strings.HasSuffix(a.Content, "# D: title of D\nk: 2\n") || strings.Contains(a.Content, "A:") {
		t.Errorf("%s:\n%s", a.Name, a.Content)
	}
}

// Any value comes back from YAML as what the rule has said: numbers and truths
// as such, anything else as text.
func TestValuesInYAML(t *testing.T) {
	for value, want := range map[string]any{
		"64": 64, "true": true, "4096MB": "4096MB", "a: b": "a: b", "# no comment": "# no comment", "": "", " x": " x",
		"[1": "[1", "yes": "yes", "0.9": 0.9, "null": nil, "- a": "- a", "a\nb: c": "a\nb: c", "'": "'", "{a: 1}": "{a: 1}",
	} {
		a := one(t, finding("A", "custom-hiera.yaml", rule.Entry{Name: "mod::a/b.c", Value: value}))
		var got map[string]map[string]any
		if err := yaml.NewDecoder(bytes.NewReader([]byte(a.Content))).Decode(&got); err != nil || len(got) != 1 || got["mod::a"]["b.c"] != want {
			t.Errorf("%q comes back as %#v (%v):\n%s", value, got, err, a.Content)
		}
	}
}

// Fields of an object share their parents, and a field that has a value has no
// fields below it.
func TestFields(t *testing.T) {
	a := one(t, finding("A", "KubeletConfiguration", rule.Entry{Name: "r.cpu", Value: "500m"}, rule.Entry{Name: "r.memory", Value: "1Gi"}))
	var got struct {
		Kind string
		R    map[string]string
	}
	if err := yaml.Unmarshal([]byte(a.Content), &got); err != nil || got.Kind != "KubeletConfiguration" || len(got.R) != 2 {
		t.Errorf("%+v %v:\n%s", got, err, a.Content)
	}
	if _, err := first(finding("A", "KubeletConfiguration", rule.Entry{Name: "r", Value: "1"}, rule.Entry{Name: "r.cpu", Value: "2"})); err == nil {
		t.Error("a field was put below a value")
	}
}

// sh gives the installer each value as one word, whatever is in it.
func TestWordsOfTheInstaller(t *testing.T) {
	values := []string{"plain", "two words", "it's", `"$HOME"`, "a;b", "", "*", "new\nline", `back\slash`}
	var entries []rule.Entry
	for _, v := range values {
		entries = append(entries, rule.Entry{Name: "--o" + strings.Repeat("x", len(entries)), Value: v})
	}
	script := strings.Replace(one(t, finding("A", "installer", entries...)).Content, "exec satellite-installer", "printf '[%s]\\n'", 1)
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, e := range entries {
		want += "[" + e.Name + "]\n[" + e.Value + "]\n"
	}
	if string(out) != want {
		t.Errorf("sh reads\n%s\nwant\n%s", out, want)
	}
}

// A file of lines takes none of two, which would say something else.
func TestLineInALine(t *testing.T) {
	for _, f := range []rule.Finding{
		finding("A", "/etc/systemd/system/httpd.service.d/limits.conf", rule.Entry{Name: "LimitNOFILE", Value: "1\nExecStart=/bin/x"}),
		{ID: "B", Fix: &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:vm.swappiness", Value: "1\nkernel.core_pattern = |x"}}}},
	} {
		if all, err := first(f); err == nil {
			t.Errorf("%s: %+v", f.ID, all)
		}
	}
}

// What keeps running values is of the formats of sysctl.d and tmpfiles.d.
func TestRunningValues(t *testing.T) {
	f := rule.Finding{ID: "A", Title: "t", Fix: &rule.Repair{Changes: []rule.Entry{
		{Name: "sysctl:vm.swappiness", Value: "10"}, {Name: "sysfs:/sys/block/sda/queue/scheduler", Value: "50%"}, {Name: "httpd:KeepAlive", Value: "On"},
	}}}
	all, err := first(f)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []string{"# A: t\nvm.swappiness = 10\n", "# A: t\nw /sys/block/sda/queue/scheduler - - - - 50%%\n"} {
		if !strings.HasSuffix(all[i].Content, want) {
			t.Errorf("%s:\n%s", all[i].Name, all[i].Content)
		}
	}
}

// What is no name is refused on the way into a file, too: an item of the machine may
// be called anything.
func TestNames(t *testing.T) {
	changed := func(name string) rule.Finding {
		return rule.Finding{ID: "A", Fix: &rule.Repair{Changes: []rule.Entry{{Name: name, Value: "1"}}}}
	}
	for _, f := range []rule.Finding{
		finding("A", "installer", rule.Entry{Name: "--foreman-x; touch PWN; #", Value: "1"}),
		finding("A", "installer", rule.Entry{Name: "--foreman-x\ntouch", Value: "1"}),
		finding("A", "installer", rule.Entry{Name: "foreman-x", Value: "1"}),
		finding("A", "custom-hiera.yaml", rule.Entry{Name: "a: b", Value: "1"}),
		finding("A", "x\rb:1", rule.Entry{Name: "a", Value: "1"}),
		finding("A", "KubeletConfiguration", rule.Entry{Name: "a..b", Value: "1"}),
		finding("A", "/etc/systemd/system/httpd.service.d/limits.conf", rule.Entry{Name: "[Install]\nAlias", Value: "1"}),
		changed("sysfs:/etc/shadow"), changed("sysfs:/sys/../etc/shadow"), changed("sysfs:/sys/block/*/queue/scheduler"), changed("sysfs:/sys/a b"), changed("/etc/shadow"),
		changed("sysctl:../../etc/shadow"), changed("sysctl:net/../../../etc/shadow"), changed("sysctl:vm.a = 1\nb"), changed("sysctl:-vm.a"), changed("sysctl:net.//.//.etc"),
		changed("hiera:a: b"),
	} {
		if all, err := first(f); err == nil {
			t.Errorf("%+v: %+v", f.Fix, all)
		}
	}
	for _, name := range []string{"sysctl:net.ipv4.conf.eth0/100.rp_filter", "sysctl:net/ipv4/conf/eth0.100/rp_filter", "sysfs:/sys/block/sda/queue/scheduler", "sysfs:/sys/class/scsi_host/host0/../x.y", "hiera:postgresql::server::config_entries/work_mem", "nginx:main/worker_processes"} {
		if _, err := first(changed(name)); (err != nil) != strings.Contains(name, "..") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another run for the same directory keeps the lines of earlier ones: those of a file
// that is still there, and that it does not want otherwise.
func TestAgain(t *testing.T) {
	sysctl := func(id, name, value string) rule.Finding {
		return rule.Finding{ID: id, Title: "t", Fix: &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:" + name, Value: value}}}}
	}
	dir := map[string]string{}
	run := func(findings ...rule.Finding) map[string][]string {
		t.Helper()
		all, kept, err := Artefacts(findings, dir[Record], func(name string) bool { return dir[name] != "" })
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			dir[a.Name] = a.Content
		}
		return kept
	}
	want := func(name, text string) {
		t.Helper()
		if got := dir[name]; got != text {
			t.Errorf("%s:\n%swant\n%s", name, got, text)
		}
	}
	run(sysctl("A", "vm.a", "1"), finding("I", "installer", rule.Entry{Name: "--foreman-x", Value: "1"}))
	if kept := run(sysctl("B", "vm.b", "2")); strings.Join(kept[SysctlFile], " ") != "A (vm.a)" {
		t.Errorf("kept: %v", kept)
	}
	want(SysctlFile, "# Written by fettle fix.\n# A: t\nvm.a = 1\n# B: t\nvm.b = 2\n")
	if kept := run(sysctl("C", "vm.a", "3"), sysctl("B", "vm.b", "2")); len(kept) != 0 {
		t.Errorf("kept: %v", kept)
	}
	want(SysctlFile, "# Written by fettle fix.\n# C: t\nvm.a = 3\n# B: t\nvm.b = 2\n")
	// A file that was taken away begins anew; one that was left alone is known still.
	delete(dir, SysctlFile)
	run(sysctl("D", "vm.d", "4"))
	want(SysctlFile, "# Written by fettle fix.\n# D: t\nvm.d = 4\n")
	run(finding("J", "installer", rule.Entry{Name: "--foreman-y", Value: "2"}))
	if script := dir["satellite-installer.sh"]; !strings.Contains(script, "--foreman-x") || !strings.Contains(script, "--foreman-y") {
		t.Error(script)
	}
	dir[Record] = "{"
	if _, _, err := Artefacts([]rule.Finding{sysctl("A", "vm.a", "1")}, dir[Record], func(string) bool { return true }); err == nil || !strings.Contains(err.Error(), Record) {
		t.Errorf("a record that is none: %v", err)
	}
}

// A line names the rule whose value it has, and of several that want the same the
// first.
func TestWhoseLine(t *testing.T) {
	wants := func(id, value, whose string) rule.Finding {
		return rule.Finding{ID: id, Title: "The queue is long enough", Fix: &rule.Repair{Changes: []rule.Entry{{Name: "sysctl:net.core.somaxconn", Value: value, For: whose}}}}
	}
	for want, findings := range map[string][]rule.Finding{
		"H07": {wants("H07", "511", ""), wants("R04", "511", "")},
		"L07": {wants("L07", "4096", "L07"), wants("N05", "4096", "L07"), wants("R04", "4096", "L07")},
		"R04": {wants("H07", "1024", "R04"), wants("R04", "1024", "R04")},
		"N05": {wants("H07", "511", ""), wants("N05", "1024", "")},
	} {
		files, err := collect(findings)
		if err != nil || len(files) != 1 || len(files[0].lines) != 1 {
			t.Fatalf("%s: %+v (%v)", want, files, err)
		}
		if why := files[0].lines[0].why; !strings.HasPrefix(why, want+": ") {
			t.Errorf("the line is said to be for %q, want %s", why, want)
		}
	}
}
