package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// renderJobs renders job templates with Ruby's ERB as Foreman does: with the trim mode "-", in a
// scope whose only helper is input.
const renderJobs = `require 'erb'
require 'json'

class Scope
  def initialize(inputs)
    @inputs = inputs
  end

  def input(name)
    @inputs.fetch(name)
  end

  def render(text)
    ERB.new(text, trim_mode: '-').result(binding)
  end
end

JSON.parse(STDIN.read).each do |job|
  File.write(job['script'], Scope.new(job['inputs']).render(File.read(job['template'])))
end
`

// foremanJob is a job template with inputs.
type foremanJob struct {
	Template string             `json:"template"`
	Inputs   map[string]*string `json:"inputs"`
	Script   string             `json:"script"`
}

// foremanJobs are the inputs of each template and their defaults; Foreman gives nil for an optional
// input that the form left empty.
var foremanJobs = map[string]map[string]string{
	"diff":    {"profile": "", "save": "no"},
	"tune":    {"profile": "", "trial": "30m", "plan": "no", "persist": "no", "take_over": "no", "window": "", "reason": ""},
	"confirm": {"reason": ""},
	"verify":  {"profile": ""},
	"undo":    {"transaction": "", "dry_run": "no", "reason": ""},
	"check":   {"platform": "", "fail_on": "never", "output": "table"},
}

// foremanInputs returns a job with the default inputs, except for those that are given.
func foremanInputs(name string, set map[string]string) foremanJob {
	j := foremanJob{Template: "/foreman/fettle_" + name + ".erb", Inputs: map[string]*string{}}
	for input, value := range foremanJobs[name] {
		if v, ok := set[input]; ok {
			value = v
		}
		j.Inputs[input] = &value
		if value == "" {
			j.Inputs[input] = nil
		}
	}
	return j
}

// hostileInputs would run a command, expand, end a word or become an option in a script that does
// not quote them. Their commands create a file in the working directory.
var hostileInputs = []string{
	"'; touch ran; '", "$(touch ran)", "`touch ran`", "a\ntouch ran\n", `"; touch ran; "`, `\'; touch ran #`, "| touch ran", "--root=/", "-h", "*", "${HOME}", "é'\"'\"'",
}

// TestForemanTemplates renders the job templates for remote execution with a real ERB, and runs
// the scripts with this fettle on a recorded machine. Foreman itself is not part of the test.
func TestForemanTemplates(t *testing.T) {
	scripts := t.TempDir()
	abs := func(name string) string {
		p, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{
		{Source: abs("../../packaging/foreman"), Target: "/foreman", ReadOnly: true},
		{Source: abs("../../testdata/hosts"), Target: "/hosts", ReadOnly: true},
		{Source: scripts, Target: "/scripts"},
	}}) {
		shellcheckJobs(t, scripts)
		return
	}
	f := &managedHost{T: t, dir: t.TempDir()}
	f.machine = filepath.Join(f.dir, "machine")
	unpack(t, "/hosts/kvm-guest.txt", f.machine)
	self, err := os.Executable()
	if err == nil {
		err = withoutTuneD(f.machine)
	}
	if err == nil {
		err = exec.Command("cp", self, "/usr/local/bin/fettle").Run() // the watchdog of a trial starts it by its real name
	}
	if err == nil {
		err = os.WriteFile("/render.rb", []byte(renderJobs), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.lifecycle()
	f.savedPlan()
	f.refusals()
	f.hostile()
	f.missing()
}

func shellcheckJobs(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() || t.Skipped() {
		return
	}
	if len(files) < 20 {
		t.Fatalf("only %d scripts", len(files))
	}
	bin, err := exec.LookPath("shellcheck")
	if err != nil {
		testkitroot.Missing(t, "shellcheck is not installed: apt install shellcheck")
	}
	for _, file := range files {
		if out, err := exec.Command("bash", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
	// SC1003 and SC2016 say that single quotes keep a hostile input as it is, as they should.
	if out, err := exec.Command(bin, append([]string{"-s", "sh", "-e", "SC1003,SC2016"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// managedHost is a host on which the jobs run.
type managedHost struct {
	*testing.T
	dir, machine string
	n            int
}

// render writes the scripts of jobs.
func (f *managedHost) render(jobs ...foremanJob) []foremanJob {
	f.Helper()
	for i := range jobs {
		f.n++
		jobs[i].Script = fmt.Sprintf("/scripts/%04d-%s", f.n, filepath.Base(jobs[i].Template))
	}
	text, err := json.Marshal(jobs)
	if err != nil {
		f.Fatal(err)
	}
	cmd := exec.Command("ruby", "/render.rb")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
	return jobs
}

// script runs a script in an empty directory. It returns its output, exit code, and what it left
// there.
func (f *managedHost) script(script string, env ...string) (out string, code int, left []string) {
	f.Helper()
	cwd := f.TempDir()
	if err := os.Chmod(script, 0o700); err != nil {
		f.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Dir = cwd
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "FETTLE_TEST_MACHINE=" + f.machine}, env...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		f.Fatal(err)
	}
	entries, err := os.ReadDir(cwd)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return string(text), cmd.ProcessState.ExitCode(), left
}

// job runs a job and tests its exit code and a part of its output.
func (f *managedHost) job(name string, set map[string]string, want int, says string) string {
	f.Helper()
	out, code, _ := f.script(f.render(foremanInputs(name, set))[0].Script)
	explained := strings.Contains(out, fmt.Sprintf("\nexit code %d: ", code)) || strings.Contains(out, "not both") || strings.Contains(out, "want yes or no")
	if code != want || !strings.Contains(out, says) || explained != (code != 0) {
		f.Errorf("%s %v: exit %d, want %d and %q:\n%s", name, set, code, want, says, out)
	}
	return out
}

func (f *managedHost) read(name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.machine, name))
	if err != nil {
		f.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (f *managedHost) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.machine, name), []byte(text+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
}

const foremanSwappiness = "proc/sys/vm/swappiness"

// lifecycle shows, tries, keeps, verifies and undoes a profile.
func (f *managedHost) lifecycle() {
	profile := map[string]string{"profile": "virtual-guest"}
	before := f.read(foremanSwappiness)
	f.job("diff", profile, 0, "vm.swappiness")
	f.job("confirm", nil, 1, "no trial of fettle tune --try is in progress")
	f.job("tune", map[string]string{"profile": "virtual-guest", "trial": "24h", "reason": `it's "job" 4711; $(true)`}, 0, "on trial until")
	if now := f.read(foremanSwappiness); now == before {
		f.Errorf("vm.swappiness is still %s", now)
	}
	f.job("confirm", map[string]string{"reason": "fine"}, 0, "stays")
	f.job("verify", nil, 0, "ok")
	if out, _, _ := f.script(f.text("fettle history")); !strings.Contains(out, `it's "job" 4711; $(true)`) {
		f.Errorf("the history lacks the reason:\n%s", out)
	}
	f.write(foremanSwappiness, "77")
	f.job("verify", nil, 3, "drifted")
	f.job("undo", map[string]string{"transaction": "99"}, 2, "99")
	f.job("undo", map[string]string{"dry_run": "yes"}, 0, "would be restored")
	f.write(foremanSwappiness, "30")
	f.job("undo", nil, 0, "undone")
	if now := f.read(foremanSwappiness); now != before {
		f.Errorf("vm.swappiness is %s after undo, want %s", now, before)
	}
}

// text writes a script.
func (f *managedHost) text(line string) string {
	name := filepath.Join(f.TempDir(), "script")
	if err := os.WriteFile(name, []byte("#!/bin/sh\nPATH=$PATH:/usr/local/bin\n"+line+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	return name
}

// savedPlan applies exactly the plan that was shown, or nothing.
func (f *managedHost) savedPlan() {
	save := map[string]string{"profile": "virtual-guest", "save": "yes"}
	apply := map[string]string{"plan": "yes", "trial": "none"}
	f.job("tune", apply, 2, "no plan is saved on this host")
	f.job("diff", save, 0, "saved: ")
	before := f.read(foremanSwappiness)
	f.write(foremanSwappiness, "41")
	f.job("tune", apply, 4, "vm.swappiness")
	if now := f.read(foremanSwappiness); now != "41" {
		f.Errorf("a plan that no longer fits changed vm.swappiness to %s", now)
	}
	f.write(foremanSwappiness, before)
	f.job("tune", map[string]string{"plan": "yes", "trial": "none", "profile": "virtual-guest"}, 2, "not both")
	f.job("tune", apply, 0, "written")
	f.job("undo", nil, 0, "undone")
	f.job("diff", save, 0, "saved: ")
	f.job("tune", map[string]string{"plan": "yes"}, 0, "on trial until")
	f.job("confirm", nil, 0, "stays")
	f.job("undo", nil, 0, "undone")
	st, err := os.Stat("/run/fettle-foreman/plan.json")
	if err != nil || st.Mode().Perm() != 0o600 {
		f.Errorf("%v, %v", st, err)
	}
	f.job("diff", map[string]string{"profile": "no-such-profile", "save": "yes"}, 2, "no-such-profile")
	if entries, err := os.ReadDir("/run/fettle-foreman"); err != nil || len(entries) > 0 {
		f.Errorf("a diff that failed left a plan: %v, %v", entries, err)
	}
}

// refusals: what did not succeed does not look like success.
func (f *managedHost) refusals() {
	f.job("check", map[string]string{"platform": "linux", "fail_on": "warn"}, 3, "--fail-on is warn")
	f.job("check", map[string]string{"platform": "linux"}, 0, "warn")
	f.job("tune", map[string]string{"profile": "virtual-guest", "persist": "yes"}, 2, "a trial ends before the next boot")
	f.job("tune", map[string]string{"profile": "virtual-guest", "trial": "none", "persist": "true"}, 2, "want yes or no")
	f.job("diff", map[string]string{"profile": "virtual-guest", "save": "YES"}, 2, "want yes or no")
	f.job("tune", map[string]string{"profile": "virtual-guest", "trial": "none"}, 0, "written")
	now := f.read(foremanSwappiness)
	f.job("undo", map[string]string{"dry_run": "true"}, 2, "want yes or no")
	if after := f.read(foremanSwappiness); after != now {
		f.Errorf("an invalid dry_run changed vm.swappiness from %s to %s", now, after)
	}
	f.job("undo", nil, 0, "undone")
	f.write("proc/sys/kernel/hostname", "web1.example.org")
	var report struct {
		Report struct {
			Host   string
			Status map[string]int
		} `json:"config_report"`
	}
	out := f.job("check", map[string]string{"platform": "linux", "output": "foreman"}, 0, "{")
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &report); err != nil || report.Report.Host != "web1.example.org" || len(report.Report.Status) != 6 {
		f.Errorf("%v: %+v\n%s", err, report, out)
	}
	// Another transaction holds the lock of the journal.
	lock, err := os.Open(filepath.Join(f.machine, "var/lib/fettle/lock"))
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.job("tune", map[string]string{"profile": "virtual-guest", "trial": "none"}, 75, "")
	if err := lock.Close(); err != nil {
		f.Fatal(err)
	}
}

// hostile gives each input of each template text that a shell would interpret.
func (f *managedHost) hostile() {
	var jobs []foremanJob
	for name, inputs := range foremanJobs {
		for input := range inputs {
			for _, text := range hostileInputs {
				set := map[string]string{input: text}
				if name == "tune" {
					set["trial"] = "none"
				}
				if set[input] = text; name == "undo" && input != "dry_run" {
					set["dry_run"] = "yes"
				}
				jobs = append(jobs, foremanInputs(name, set))
			}
		}
	}
	for _, j := range f.render(jobs...) {
		out, code, left := f.script(j.Script)
		if len(left) > 0 {
			f.Errorf("%s ran a command of its input:\n%s", j.Script, out)
		}
		if code != 0 && code != 2 && code != 1 && code != 4 {
			f.Errorf("%s: exit %d:\n%s", j.Script, code, out)
		}
	}
}

// missing is a host without fettle.
func (f *managedHost) missing() {
	if err := os.Remove("/usr/local/bin/fettle"); err != nil {
		f.Fatal(err)
	}
	for name := range foremanJobs {
		if out, code, _ := f.script(f.render(foremanInputs(name, nil))[0].Script); code != 127 || !strings.Contains(out, "Install the package fettle") {
			f.Errorf("%s without fettle: exit %d:\n%s", name, code, out)
		}
	}
}
