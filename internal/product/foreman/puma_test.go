package foreman

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
)

// told is a number as the tests write it: the literal, VARIABLE|OTHER, "?" for what
// cannot be told.
func (n *number) String() string {
	switch {
	case n == nil:
		return "-"
	case n.unknown != "" || n.absent != "":
		return "?"
	case n.variable != "":
		return n.variable + "|" + n.other.String()
	}
	return n.literal
}

func TestRuby(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "- - -",
		"workers 4\nthreads 1, 5\n":            "4 1 5",
		"  workers(4) # cores\nthreads( 1,5 )": "4 1 5",
		"workers 4\nworkers 2":                 "2 - -",
		"# workers 4\n=begin\nworkers 5\n=end\nworkers 6\n__END__\nworkers 7": "6 - -",
		"workers 04":                                              "? - -",
		"workers '04'":                                            "4 - -",
		`workers "4".to_i`:                                        "4 - -",
		"workers ENV.fetch('WEB', 2).to_i":                        "WEB|2 - -",
		`workers ENV.fetch("WEB") { 2 }`:                          "WEB|2 - -",
		"workers Integer(ENV['WEB'] || 2)":                        "WEB|2 - -",
		"workers (ENV['WEB'] || ENV.fetch('CPUS', 3)).to_i":       "WEB|CPUS|3 - -",
		"workers ENV['WEB']":                                      "WEB|? - -",
		"workers ENV.fetch('WEB')":                                "WEB|? - -",
		"workers Etc.nprocessors":                                 "? - -",
		"workers 4 if ENV['X']":                                   "? - -",
		"if ENV['X']\n  workers 4\nend":                           "? - -",
		"if ENV['X']\n  workers 4\nend\nworkers 2":                "2 - -",
		"n = ENV.fetch('RAILS_MAX_THREADS') { 5 }\nthreads n, n":  "- RAILS_MAX_THREADS|5 RAILS_MAX_THREADS|5",
		"if x\n n = 3\nend\nthreads n, n":                         "- ? ?",
		"on_worker_boot do |n|\n  puts 'workers'\nend\nworkers 2": "2 - -",
		"before_fork { puts 1 }\nworkers 2":                       "2 - -",
		"before_fork {\n  puts 1\n}\nworkers 2":                   "2 - -",
		"threads 1":                                               "- 1 1",
		"threads *[1, 2]":                                         "- ? ?",
		"threads ENV.fetch('A', 0).to_i, ENV.fetch('B', 16).to_i": "- A|0 B|16",
		"workers = 5\nworkers 3":                                  "3 - -",
		"text = <<~EOS\nworkers 9\nEOS\nworkers 3":                "3 - -",
		"log \"# not a comment\"\nworkers 3 # '":                  "3 - -",
		"begin\n  port 3\nrescue\n  bind 'x'\nend\nworkers 3":     "3 - -",
		"x = if true then 1 else 2 end\nworkers 3":                "3 - -",
		"x = if true\n 1\nelse\n 2\nend\nworkers x":               "? - -",
		"workers_count = 2\nworkers workers_count":                "2 - -",
		"class A; end\nworkers 3":                                 "3 - -",
		"workers ENV.fetch('A', 1) + ENV.fetch('B', 2)":           "? - -",
		"workers(ENV.fetch('A', 1))":                              "A|1 - -",
	} {
		c := readRuby(text)
		if got := fmt.Sprint(c.workers, " ", c.min, " ", c.max); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if c := readRuby("state_path 'tmp/x.state'\nif a\nstate_path 'b'\nend\n"); c.state != "tmp/x.state" {
		t.Errorf("state %q", c.state)
	}
}

func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/puma":                                     "[]   : ",
		"puma -C a.rb --config=b.rb -w4 -t 1:5":             "[a.rb b.rb]  4 1:5 ",
		"puma --work 4 --thr 3 -e production":               "[] production 4 3:3 ",
		"puma -qw 4 -S x -b unix:///w config.ru":            "[]  4 : x",
		"puma --tag -w 4 -- -w 5":                           "[]   : ",
		"puma --no-config -f -w 3":                          "[-]  3 : ",
		"puma --nonsense -Zw4 -w 2":                         "[]  2 : ",
		"bundle exec --keep-file-descriptors puma -w 2":     "[]  2 : ",
		"/usr/bin/ruby /usr/local/bin/puma -w 2":            "[]  2 : ",
		"/x/bin/rails server --environment production -w 2": "[] production  : rails",
		"/usr/bin/scl enable tfm -- /x/rails s -e test":     "[] test  : rails",
		"/bin/bash -lc|bundle exec puma -w 2":               "[]  2 : ",
		"/bin/bash -c|cd /x && puma -w 2":                   "no",
		"/usr/bin/sidekiq -c 5":                             "no",
		"/x/bin/rails console":                              "no",
		"":                                                  "no",
		"puma -w":                                           "[]   : ",
	} {
		argv := strings.Fields(line)
		if head, script, ok := strings.Cut(line, "|"); ok {
			argv = append(strings.Fields(head), script)
		}
		a, ok := readCommand(argv)
		got := "no"
		if ok {
			got = fmt.Sprintf("%v %s %s %s:%s %s", a.files, a.environment, a.workers, a.min, a.max, a.state)
			if a.rails {
				got += "rails"
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

const etc = "/etc/systemd/system/"

// pumaMachine has Foreman's unit with the installer's drop-in, a unit of an
// administrator with a configuration of its own, and one whose command line says
// all.
func pumaMachine(t testing.TB) *host.Host {
	return machine.Mounted(t, map[string]string{
		"/usr/lib/systemd/system/foreman.service":      "[Service]\nExecStart=/usr/share/foreman/bin/rails server --environment $FOREMAN_ENV\nEnvironment=FOREMAN_ENV=production\nWorkingDirectory=/usr/share/foreman\n",
		"/usr/share/foreman/config/puma/production.rb": "threads ENV.fetch('FOREMAN_PUMA_THREADS_MIN', 0).to_i, ENV.fetch('FOREMAN_PUMA_THREADS_MAX', 16).to_i\nworkers ENV.fetch('FOREMAN_PUMA_WORKERS', 2).to_i\n",
		etc + "foreman.service.d/installer.conf":       "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=6\n",
		etc + "service.d/all.conf":                     "[Service]\nEnvironment=FOREMAN_PUMA_THREADS_MAX=8\n",
		etc + "shop.service":                           "[Service]\nExecStart=/usr/bin/puma -C /srv/shop/puma.rb\nWorkingDirectory=/srv/shop\n",
		"/srv/shop/puma.rb":                            "# two\nworkers 2 # processes\nthreads 1, Integer('5')\n",
		etc + "api.service":                            "[Service]\nExecStart=/usr/bin/puma -w 3 -t 2:4\nEnvironmentFile=/etc/default/api\n",
		etc + "blog.service":                           "[Service]\nExecStart=/usr/bin/puma\nWorkingDirectory=/srv/blog\nEnvironmentFile=/etc/default/blog\n",
		"/etc/default/blog":                            "# puma\nWEB_CONCURRENCY=3\nPUMA_MAX_THREADS=many\n",
		etc + "other.service":                          "[Service]\nExecStart=/usr/bin/other --with=puma\n",
		"/srv/blog/":                                   "",
	})
}

func TestPumaFind(t *testing.T) {
	h := pumaMachine(t)
	all, err := pumaInstances(h)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, in := range all {
		for _, name := range []string{"workers", "threads_min", "threads_max"} {
			o := in.option(name, in.get)
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s=%s %s %s", in.name, name, o.text, o.at, o.unknown)))
		}
	}
	want := []string{
		"foreman workers=6 " + etc + "foreman.service.d/installer.conf:2",
		"foreman threads_min=0 /usr/share/foreman/config/puma/production.rb:1",
		"foreman threads_max=8 " + etc + "service.d/all.conf:2",
		"api workers=3 " + etc + "api.service:2",
		"api threads_min=2 " + etc + "api.service:2",
		"api threads_max=4 " + etc + "api.service:2",
		"blog workers=3 /etc/default/blog:2",
		"blog threads_min=",
		`blog threads_max= /etc/default/blog:3 PUMA_MAX_THREADS is "many", not a number; Puma does not start`,
		"shop workers=2 /srv/shop/puma.rb:2",
		"shop threads_min=1 /srv/shop/puma.rb:3",
		"shop threads_max=5 /srv/shop/puma.rb:3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A setting leads to the line that counts, and to no other file.
func TestResolve(t *testing.T) {
	h := pumaMachine(t)
	k := Puma.Kind(h)
	for name, want := range map[string]string{
		"foreman/workers":     etc + "foreman.service.d/installer.conf#FOREMAN_PUMA_WORKERS = 6",
		"foreman/threads_min": etc + "foreman.service.d/installer.conf#FOREMAN_PUMA_THREADS_MIN = absent",
		"foreman/threads_max": "sets FOREMAN_PUMA_THREADS_MAX, but the file belongs to a package or several units",
		"shop/workers":        etc + "shop.service#workers = 2",
		"shop/threads_min":    etc + "shop.service#threads_min = 1",
		"shop/threads_max":    "/srv/shop/puma.rb:3 already sets threads_max; change it by hand",
		"api/workers":         etc + "api.service:2 already sets workers; change it by hand",
		"blog/workers":        etc + "blog.service#WEB_CONCURRENCY = 3",
		"workers":             "this machine has several",
		"/etc/passwd#workers": "not read by any Puma on this machine",
		"/usr/share/foreman/config/puma/production.rb#workers": "outside",
	} {
		s, err := k.Resolve(setting.Setting{Kind: "puma", Name: name})
		got := ""
		if err == nil {
			var v setting.Value
			if v, err = k.Read(t.Context(), s); v.Absent {
				v.Text = "absent"
			}
			got = s.Name + " = " + v.Text
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Each file keeps all but the number.
func TestWrite(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"foreman/workers":     {etc + "foreman.service.d/installer.conf", "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=7\n"},
		"foreman/threads_min": {etc + "foreman.service.d/installer.conf", "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=6\nEnvironment=FOREMAN_PUMA_THREADS_MIN=7\n"},
		"shop/workers":        {"/srv/shop/puma.rb", "# two\nworkers 7 # processes\nthreads 1, Integer('5')\n"},
		"shop/threads_min":    {"/srv/shop/puma.rb", "# two\nworkers 2 # processes\nthreads 7, Integer('5')\n"},
		"blog/workers":        {"/etc/default/blog", "# puma\nWEB_CONCURRENCY=7\nPUMA_MAX_THREADS=many\n"},
		"blog/threads_min":    {etc + "blog.service", "[Service]\nExecStart=/usr/bin/puma\nWorkingDirectory=/srv/blog\nEnvironmentFile=/etc/default/blog\nEnvironment=PUMA_MIN_THREADS=7\n"},
	} {
		h := pumaMachine(t)
		k := Puma.Kind(h)
		s, err := k.Resolve(setting.Setting{Kind: "puma", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		before, _ := h.Files.ReadFile(c.file)
		was, err := k.Read(t.Context(), s)
		if err == nil {
			err = k.Write(t.Context(), s, setting.Text("7"))
		}
		if b, _ := h.Files.ReadFile(c.file); err != nil || string(b) != c.want {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		if now, err := k.Read(t.Context(), s); err != nil || now.Text != "7" {
			t.Errorf("%s reads %v, %v", name, now, err)
		}
		if err := k.Write(t.Context(), s, was); err != nil {
			t.Error(err)
		}
		if b, _ := h.Files.ReadFile(c.file); string(b) != string(before) {
			t.Errorf("%s: after the way back\n%s", name, b)
		}
	}
}

// Of a copy without the package's files, and without the unit.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { machine.WriteFile(t, dir, name, text) }
	options := func() string {
		h, err := host.Copy(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Puma.Find(t.Context(), h)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, i := range all {
			for _, o := range []string{"workers", "threads_min"} {
				f := i.Option(o).Effective()
				out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s=%s %s", i.Name(), o, f.Or(""), f.Unknown())))
			}
		}
		return strings.Join(out, "; ")
	}
	write("/etc/os-release", "ID=rhel\n")
	if got := options(); got != "" {
		t.Errorf("of a machine without a sign of Foreman: %s", got)
	}
	write("/etc/foreman/settings.yaml", ":x: 1\n")
	if got := options(); got != "foreman workers= foreman.service is not in this copy; foreman threads_min= foreman.service is not in this copy" {
		t.Errorf("without the unit: %s", got)
	}
	write(etc+"foreman.service.d/installer.conf", "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=6\n")
	if got := options(); got != "foreman workers=6; foreman threads_min= foreman.service is not in this copy, or cannot be read" {
		t.Errorf("with a drop-in only: %s", got)
	}
	write("/usr/lib/systemd/system/foreman.service", "[Service]\nExecStart=/usr/share/foreman/bin/rails server\n")
	if got := options(); got != "foreman workers=6; foreman threads_min= /usr/share/foreman/config/puma/production.rb is not in this copy" {
		t.Errorf("without the configuration: %s", got)
	}
}

// Random units, files of variables and configurations: what was set is read, and
// going back gives the same bytes.
func FuzzPumaSet(f *testing.F) {
	f.Add("[Service]\nEnvironment=\"FOREMAN_PUMA_WORKERS=2\" A=1\n", "workers 2\nthreads 1, 5", "WEB_CONCURRENCY=3\n", "foreman/workers", "4")
	f.Add("[Service]\nEnvironment=A \\\nFOREMAN_PUMA_WORKERS=2\n[Install]", "threads(0, 5)", "", "shop/threads_max", "9")
	f.Add("[Unit]\n#x\\\n[Service]\n", "workers ENV.fetch('X', 1)", "X=1", "shop/X", "0")
	f.Fuzz(func(t *testing.T, drop, ruby, env, option, value string) {
		files := map[string]string{
			"/usr/lib/systemd/system/foreman.service": "[Service]\nExecStart=/usr/share/foreman/bin/rails server\n",
			etc + "foreman.service.d/installer.conf":  drop,
			etc + "shop.service":                      "[Service]\nExecStart=/usr/bin/puma -C /srv/shop/puma.rb\nEnvironmentFile=-/etc/default/shop\n",
			"/srv/shop/puma.rb":                       ruby,
			"/etc/default/shop":                       env,
		}
		product.Bytes(t, Puma, files, option, value)
	})
}

// Each number that is found in a text can be put in another's place, and the text
// has as many as before.
func FuzzAssignments(f *testing.F) {
	f.Add("[Service]\nEnvironment=\"A=1\" B=2\n", "7")
	f.Add("workers 2\nthreads(1, 5) # x\nn = ENV.fetch('A') { 2 }\nworkers n", "7")
	f.Add("A=1\n<<EOS\n\"#\n", "12")
	f.Fuzz(func(t *testing.T, text, value string) {
		lit, err := syntax{}.Literal(value)
		if err != nil {
			return
		}
		all, err := syntax{}.Assignments(text)
		if err != nil {
			return
		}
		for _, a := range all {
			if a.From < 0 || a.To > len(text) || text[a.From:a.To] != a.Literal {
				t.Fatalf("%+v in %q", a, text)
			}
			changed := text[:a.From] + lit + text[a.To:]
			after, err := syntax{}.Assignments(changed)
			if err != nil || len(after) != len(all) {
				t.Fatalf("%q: %v %d, %d", changed, err, len(after), len(all))
			}
		}
	})
}
