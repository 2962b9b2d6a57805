package foreman

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// setup is a configuration file with an environment.
type setup struct {
	Config string            `json:"config"`
	Env    map[string]string `json:"env"`
}

// options are "workers min max" as fettle reads them, "?" for what is not known.
func (s setup) options() string {
	in := &pumaInstance{name: "a", dir: "/", env: map[string]systemd.Value{}, cpus: 7, files: []string{"/c.rb"}, configs: []config{readRuby(s.Config)}}
	for name, value := range s.Env {
		in.env[name] = systemd.Value{Text: value, At: "/env:1"}
	}
	var out []string
	for _, p := range parameters {
		t := in.option(p.Name, in.get)
		switch {
		case t.unknown != "":
			t.text = "?"
		case t.text == "":
			t.text = p.Default
		}
		out = append(out, t.text)
	}
	return strings.Join(out, " ")
}

// Puma 6.6.0 (Debian trixie, 6.6.0-4, Ruby 3.3) was asked for the options of each of
// these; "?" is where it does not start.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ config, env, want string }{
		{"", "", "0 0 5"}, {"", "WEB_CONCURRENCY=3", "3 0 5"}, {"", "WEB_CONCURRENCY=auto", "7 0 5"}, {"", "WEB_CONCURRENCY=", "0 0 5"},
		{"", "WEB_CONCURRENCY=010", "8 0 5"}, {"", "WEB_CONCURRENCY=0x4", "4 0 5"}, {"", "WEB_CONCURRENCY=3x", "? 0 5"},
		{"", "PUMA_MAX_THREADS=8", "0 0 8"}, {"", "PUMA_MIN_THREADS=8", "0 8 5"}, {"", "RAILS_MAX_THREADS=7", "0 0 5"}, {"", "MAX_THREADS=6", "0 0 6"},
		{"threads 5", "", "0 5 5"}, {"threads 5", "PUMA_MAX_THREADS=8", "0 5 5"}, {"threads 3, 5", "WEB_CONCURRENCY=auto", "7 3 5"},
		{"workers 2", "WEB_CONCURRENCY=3", "2 0 5"}, {"workers 2", "WEB_CONCURRENCY=auto", "2 0 5"},
		{`workers ENV.fetch("WEB_CONCURRENCY", 1)`, "WEB_CONCURRENCY=auto", "0 0 5"}, {`workers ENV.fetch("WEB_CONCURRENCY", 1)`, "WEB_CONCURRENCY=", "0 0 5"},
		{`workers ENV.fetch("W", 1)`, "W=010", "10 0 5"}, {`workers ENV.fetch("W", 1)`, "W= 4", "4 0 5"}, {`workers ENV.fetch("W", 1)`, "W=3x", "3 0 5"}, {`workers ENV.fetch("W", 1)`, "W=1_0", "10 0 5"},
		{`workers Integer(ENV["W"])`, "W=010", "8 0 5"}, {`workers Integer(ENV["W"])`, "W=3x", "? 0 5"}, {`workers Integer(ENV["W"])`, "", "? 0 5"}, {`workers ENV["W"]`, "", "0 0 5"},
		{`threads ENV.fetch("W", 1), ENV.fetch("W", 1)`, "W=010", "0 8 8"}, {`threads ENV.fetch("W", 1), ENV.fetch("W", 1)`, "W=", "0 ? ?"},
		{`threads ENV.fetch("W", 1).to_i, ENV.fetch("W", 1).to_i`, "W=010", "0 10 10"}, {`threads 1, ENV["W"] || 5`, "W=1_0", "0 1 10"},
	} {
		env := map[string]string{}
		if name, value, ok := strings.Cut(c.env, "="); ok {
			env[name] = value
		}
		if got := (setup{c.config + "\n", env}).options(); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.config, c.env, got, c.want)
		}
	}
}

// A worker for each CPU needs to know how many there are.
func TestEachCPU(t *testing.T) {
	for _, c := range []struct{ online, more, want, unknown string }{
		{"0-3,6\n", "", "5", ""}, {"", "", "", "this copy does not contain the number of CPUs"}, {"0-3\n", "CPUAffinity=0\n", "", "the unit limits the CPUs"},
	} {
		files := map[string]string{etc + "blog.service": "[Service]\nExecStart=/usr/bin/puma\nEnvironment=WEB_CONCURRENCY=auto\n" + c.more}
		if c.online != "" {
			files["/sys/devices/system/cpu/online"] = c.online
		}
		all, err := pumaInstances(machine.Mounted(t, files))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		o := all[0].option("workers", all[0].get)
		if o.text != c.want || !strings.Contains(o.unknown, c.unknown) || (o.unknown == "") != (c.unknown == "") {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}

// WEB_CONCURRENCY=auto is of Puma 6.5 and newer; 5.6.5 does not start with it.
func TestAutoNeedsPuma65(t *testing.T) {
	lock := func(version string) map[string]string {
		return map[string]string{"/srv/blog/Gemfile.lock": "GEM\n  specs:\n    nio4r (2.7.4)\n    puma (" + version + ")\n      nio4r (~> 2.0)\n    puma-daemon (0.5.0)\n"}
	}
	for _, c := range []struct {
		name    string
		files   map[string]string
		command string
		old     bool
	}{
		{"5.6.9", lock("5.6.9"), "/usr/bin/bundle exec puma", true}, {"6.4.3", lock("6.4.3"), "/usr/bin/bundle exec puma", true}, {"6.5.0", lock("6.5.0"), "/usr/bin/bundle exec puma", false},
		{"10.0", lock("10.0"), "/usr/bin/bundle exec puma", false}, {"no lock", nil, "/usr/local/bin/puma", false},
		{"Debian's", map[string]string{"/var/lib/dpkg/status": "Package: puma\nStatus: install ok installed\nVersion: 5.6.5-3+deb12u1\n\n"}, "/usr/bin/puma", true},
	} {
		files := map[string]string{
			etc + "blog.service":             "[Service]\nWorkingDirectory=/srv/blog\nExecStart=" + c.command + "\nEnvironment=WEB_CONCURRENCY=auto\n",
			"/sys/devices/system/cpu/online": "0-3\n", "/srv/blog/config.ru": "",
		}
		for name, text := range c.files {
			files[name] = text
		}
		all, err := pumaInstances(machine.Mounted(t, files))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if o := all[0].option("workers", all[0].get); (o.unknown != "") != c.old || !c.old && o.text != "4" {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

// asPuma is a program that has the real Puma read each set-up of a file, and says its
// options or why it does not start.
const asPuma = `require 'json'; require 'puma'; require 'puma/cli'
JSON.parse(File.read(ARGV[0])).each do |s|
  File.write('c.rb', s['config'])
  s['env'].each { |k, v| ENV[k] = v }
  begin
    o = Puma::CLI.new(['-C', 'c.rb', 'config.ru']).launcher.options
    puts [o[:workers], o[:min_threads], o[:max_threads]].join(' ')
  rescue Exception => e
    puts "does not start: #{e.class}"
  end
  s['env'].each { |k, v| ENV.delete(k) }
end`

// TestAsPuma makes configurations and environments at random, and asks the real Puma.
func TestAsPuma(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	r := rand.New(rand.NewPCG(7, 66))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func() string {
		v := pick("A", "B", "WEB_CONCURRENCY")
		return pick("3", "4", "'5'", "ENV['"+v+"']", "ENV['"+v+"'] || 6", "ENV.fetch('"+v+"', 7)", "ENV.fetch(\""+v+"\") { 8 }", "ENV.fetch('"+v+"', 9).to_i", "Integer(ENV['"+v+"'] || 10)", "(ENV['"+v+"'] || ENV.fetch('B', 11)).to_i", "Integer(ENV['"+v+"'].to_i)")
	}
	var all []setup
	for range 600 {
		s := setup{Env: map[string]string{}}
		for range r.IntN(4) {
			s.Config += pick("workers "+number(), "workers("+number()+")", "threads "+number()+", "+number(), "threads 1, "+number(), "# workers 3", "n = "+number()+"\nworkers n") + "\n"
		}
		for range r.IntN(4) {
			s.Env[pick("A", "B", "WEB_CONCURRENCY", "PUMA_MIN_THREADS", "PUMA_MAX_THREADS", "MAX_THREADS", "MIN_THREADS", "RAILS_MAX_THREADS")] = pick("1", "2", "12", "010", "0x4", " 3", "3x", "", "auto", "1_0")
		}
		all = append(all, s)
	}
	dir := t.TempDir()
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "all.json"), text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.ru"), []byte("run lambda { |e| [200, {}, []] }\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "ruby", "-e", asPuma, "all.json")
	c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin"}
	var wrong bytes.Buffer
	c.Stderr = &wrong
	out, err := c.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(all) {
		t.Fatalf("%d of %d: %v\n%s", len(lines), len(all), err, wrong.String())
	}
	compared, failed := 0, 0
	for n, line := range lines {
		if strings.HasPrefix(line, "does not start") {
			continue
		}
		compared++
		if got := all[n].options(); got != line {
			if failed++; failed < 5 {
				t.Errorf("%s %v: %s, Puma has %s", fmt.Sprintf("%q", all[n].Config), all[n].Env, got, line)
			}
		}
	}
	t.Logf("%d of %d start", compared, len(all))
	if compared < len(all)/4 {
		t.Error("too few were compared")
	}
	if slices.Contains(lines, "") {
		t.Error("an answer is empty")
	}
}
