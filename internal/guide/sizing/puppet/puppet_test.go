package puppet

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/internal/unit"
)

// source003 is the log of "Puppetmaster Performance Tuning with mod_mem_cache", in its own figures.
func source003Log() *Traffic {
	l := &Traffic{Logs: []string{"puppet.log"}, SpanSeconds: 60 * 3600, Longest: 299.96, Nodes: 1400, Busiest: 1.6, BusiestRest: 1.4, Of: map[string]Share{
		"catalog": {85_287, 85_287 * 6.9517}, "report": {84_108, 84_108 * 2.0055}, "file_metadata": {7_129_326, 7_129_326 * 0.01358},
		"file_metadatas": {285_765, 285_765 * 0.12361}, "file_content": {1770, 1770 * 0.010106},
	}, Same: map[string][]uint64{}}
	for name, s := range l.Of {
		l.Count += s.Count
		l.Seconds += s.Seconds
		_ = name
	}
	for range 1000 {
		l.Same["file_metadata"] = append(l.Same["file_metadata"], 7129)
	}
	for range 30 {
		l.Same["file_metadatas"] = append(l.Same["file_metadatas"], 9525)
	}
	return l
}

// quiet is a log in which files hardly count.
func quiet() *Traffic {
	return &Traffic{Logs: []string{"a.log"}, SpanSeconds: 86_400, Count: 1500, Seconds: 3200, Longest: 4, Nodes: 20, Busiest: 0.2, BusiestRest: 0.2,
		Of:   map[string]Share{"catalog": {500, 3000}, "report": {500, 190}, "file_metadata": {500, 10}},
		Same: map[string][]uint64{"file_metadata": {250, 250}}}
}

// plugins is a log in which what is left in addition to static catalogs counts.
func plugins() *Traffic {
	l := source003Log()
	s := l.Of["file_metadatas"]
	l.Seconds += 9 * s.Seconds
	s.Seconds *= 10
	l.Of["file_metadatas"] = s
	return l
}

// debian is a server of Debian's packages.
func debian() Server {
	return Server{
		Version: "7.9.5", Static: true, Interpreters: 1, Heap: 1 << 30, Options: "etc/puppet/puppetserver/conf.d", OptionsFile: "etc/puppet/puppetserver/conf.d/puppetserver.conf", OptionsText: "x", Webserver: "webserver: {\n    host: 127.0.0.1\n    port: 8139\n}\n",
		JavaFile: "etc/default/puppetserver", Environments: "/etc/puppet/code/environments", Data: "/var/lib/puppetserver", User: "puppet",
		Certificate: "/s/certs/p.pem", Key: "/s/private_keys/p.pem", CA: "/s/certs/ca.pem", CRL: "/s/crl.pem",
		OptionSet: func(text, key, value string) (string, error) { return text + " " + key + "=" + value, nil },
		JavaSet:   func(text string, sizes map[string]string) (string, error) { return fmt.Sprint(text, sizes), nil },
		Nginx:     "1.22.1",
	}
}

// figures are the catalogue's, read once.
var figures sizing.Figures

func asked(t *testing.T, l *Traffic, s Server, said ...string) (*sizing.Result, error) {
	t.Helper()
	w := New()
	w.Traffic, w.Server = l, s
	if figures == nil {
		figures = testkitsizing.Figures(t)
	}
	r, err := testkitsizing.Ask(figures, w, append([]string{"cpus", "4", "ram", "16GiB"}, said...)...)
	if err == nil {
		testkitsizing.Sound(t, r)
	}
	return r, err
}

func names(r *sizing.Result) string {
	var all []string
	for _, a := range r.Files {
		all = append(all, a.Name)
	}
	return strings.Join(all, " ")
}

func TestAdvice(t *testing.T) {
	enterprise, old, older4, satellite, secret, nothing, versioned, off, apache := debian(), debian(), debian(), debian(), debian(), Server{}, debian(), debian(), debian()
	believes, believesNot, commands := debian(), debian(), debian()
	believes.HeadersAt, believes.Headers = "/etc/puppet/puppetserver/conf.d/auth.conf:3", true
	believesNot.HeadersAt = "/etc/puppet/puppetserver/conf.d/auth.conf:3"
	commands.CommandsAt = "/etc/puppet/puppetserver/conf.d/mine.conf:2"
	enterprise.Enterprise = true
	old.Version, older4.Version = "2.1.0", "2.8.0"
	satellite.Satellite = true
	secret.FileRule = "/etc/auth.conf:9 does not allow all nodes to read them"
	versioned.Versioned = true
	off.Static, off.StaticAt = false, "/etc/puppet/puppet.conf:3"
	apache.Nginx, apache.Apache = "", "2.4.71"
	const scripts, both = IDScript + " " + ContentScript, "etc/puppet/puppetserver/conf.d/webserver.conf etc/puppet/puppetserver/conf.d/header-certificates.conf"
	for name, tt := range map[string]struct {
		log           *Traffic
		server        Server
		said          []string
		static, cache string
		files         string // some of them
		not           string // others, that are not there
		note          string
	}{
		"the source's":              {source003Log(), debian(), nil, "worthwhile, do first", "not worthwhile", scripts, "nginx", "only files of modules"},
		"with many plugins":         {plugins(), debian(), nil, "worthwhile, do first", "worthwhile", scripts + " " + NginxFile + " " + both + " " + PurgeScript, "apache", ""},
		"behind Apache":             {plugins(), apache, nil, "worthwhile, do first", "worthwhile", ApacheSite, "nginx", ""},
		"asked for Apache":          {plugins(), debian(), []string{"front-end", "apache"}, "worthwhile, do first", "worthwhile", ApacheSite, "nginx", "Apache httpd is not installed"},
		"a quiet one":               {quiet(), debian(), nil, "not worthwhile", "not worthwhile", "", "usr/local", ""},
		"requested by an option":    {quiet(), debian(), []string{"parts", "static,cache,jruby"}, "worthwhile, do first", "worthwhile", scripts + " " + NginxFile, "", ""},
		"in place":                  {source003Log(), versioned, nil, "in place", "not worthwhile", "", scripts, ""},
		"switched off":              {source003Log(), off, nil, "worthwhile, do first", "not worthwhile", scripts, "", "static_catalogs is false (/etc/puppet/puppet.conf:3)"},
		"Enterprise":                {plugins(), enterprise, nil, "by Code Manager", "not written", "", "usr/local " + NginxFile, ""},
		"before versioned code":     {plugins(), old, nil, "not with this version", "not with this version", "", "usr/local " + NginxFile, ""},
		"before headers of its own": {plugins(), older4, nil, "worthwhile, do first", "not with this version", scripts, NginxFile, ""},
		"Satellite":                 {plugins(), satellite, nil, "worthwhile, do first", "not written", scripts, NginxFile + " etc/default", ""},
		"a secret module":           {plugins(), secret, nil, "worthwhile, do first", "not possible", scripts, NginxFile, ""},
		"it believes headers":       {plugins(), believes, nil, "worthwhile, do first", "worthwhile", NginxFile, "header-certificates", "auth.conf:3 has allow-header-cert-info already"},
		"it is told not to":         {plugins(), believesNot, nil, "worthwhile, do first", "not written", scripts, NginxFile, ""},
		"one command elsewhere":     {plugins(), commands, nil, "worthwhile, do first", "worthwhile", scripts, "versioned-code.conf", "mine.conf:2 already sets one of the commands"},
		"no server":                 {plugins(), nothing, nil, "worthwhile", "worthwhile", "", "usr/local " + NginxFile + " etc/default", "there is no Puppet Server here"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := asked(t, tt.log, tt.server, tt.said...)
			if err != nil {
				t.Fatal(err)
			}
			testkitsizing.Want(t, r, map[string]string{"static catalogs/verdict": tt.static, "cache/verdict": tt.cache})
			for f := range strings.FieldsSeq(tt.files) {
				if r.Artefact(f) == nil {
					t.Errorf("there is no %s: %s", f, names(r))
				}
			}
			for f := range strings.FieldsSeq(tt.not) {
				if strings.Contains(names(r), f) {
					t.Errorf("there is %s: %s", f, names(r))
				}
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("no note has %q: %q", tt.note, r.Notes)
			}
		})
	}
	// The source's own sentence, in figures: 26.9 hours of file_metadata.
	r, err := asked(t, source003Log(), debian())
	if err != nil {
		t.Fatal(err)
	}
	if why := r.Value("static catalogs", "verdict").Why; !strings.Contains(why, "7,129,326 requests for file_metadata, 83.6 for each of 85,287 catalogs, took 26.9 h") {
		t.Error(why)
	}
	// The verdict "not worthwhile" has the figures.
	if why := r.Value("cache", "verdict").Why; !strings.Contains(why, "285,765 requests, 4.0 % of all time") {
		t.Error(why)
	}
}

// A server of which neither the option nor the CPUs are known has as many interpreters as
// it takes by itself on the CPUs that are said.
func TestDefaultInterpreters(t *testing.T) {
	unsaid := debian()
	unsaid.Interpreters = 0
	for cpus, want := range map[string]string{"1": "now 1 interpreter ", "4": "now 3 interpreters", "8": "now 4 interpreters"} {
		r, err := asked(t, source003Log(), unsaid, "cpus", cpus, "parts", "jruby")
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Value("jruby", "verdict"); v == nil || !strings.Contains(v.Why, want) && !strings.Contains(v.Why, strings.TrimPrefix(want, "now ")) {
			t.Errorf("%s CPUs: %+v, want %s", cpus, v, want)
		}
	}
	for cpus, want := range map[int]int{1: 1, 2: 1, 3: 2, 5: 4, 64: 4} {
		if got := defaultInterpreters(cpus); got != want {
			t.Errorf("%d CPUs: %d, want %d", cpus, got, want)
		}
	}
}

// Catalogs that take most of the time have advice of their own.
func TestMostlyCatalogs(t *testing.T) {
	l := quiet()
	r, err := asked(t, l, Server{})
	if err != nil {
		t.Fatal(err)
	}
	if has := strings.Contains(strings.Join(r.Notes, "\n"), "fettle logs puppet-reports"); has != (l.share("catalog") >= mostlyCatalogs) {
		t.Errorf("catalogs take %.2f of the time, advice: %v", l.share("catalog"), has)
	}
}

func TestInterpreters(t *testing.T) {
	busy := source003Log()
	busy.Busiest, busy.BusiestRest = 9, 5
	large := debian()
	large.Heap, large.Interpreters, large.CodeCache = 8<<30, 3, 1<<30
	for name, tt := range map[string]struct {
		log    *Traffic
		server Server
		said   []string
		want   string // instances heap code
		note   string
	}{
		"the source's":      {source003Log(), debian(), nil, "2 1610612736 268435456", ""},
		"more than the CPU": {busy, debian(), nil, "3 2147483648 402653184", "the log has 5.00 requests in progress"},
		"many CPUs":         {busy, debian(), []string{"cpus", "32"}, "8 4831838208 1073741824", ""},
		"little memory":     {busy, debian(), []string{"cpus", "32", "ram", "4GiB"}, "3 2147483648 402653184", "holds 3 interpreters, and 8 are needed"},
		"it has more":       {quiet(), large, nil, "3 8589934592 1073741824", ""},
		// P08: what it has is cut to what the CPUs bear, and not to what a quiet log takes.
		"more than they bear": {quiet(), large, []string{"cpus", "3"}, "2 8589934592 1073741824", ""},
		"one CPU":             {busy, debian(), []string{"cpus", "1"}, "1 1073741824 251658240", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := asked(t, tt.log, tt.server, tt.said...)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(r.Value("jruby", "max-active-instances").Value, r.Value("jruby", "heap").Value, r.Value("jruby", "code_cache").Value)
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("no note has %q: %q", tt.note, r.Notes)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	empty, foreign, timeless := &Traffic{Logs: []string{"x"}}, &Traffic{Logs: []string{"x"}, Count: 5, Seconds: 1}, quiet()
	timeless.Seconds = 0
	unnamed, nginx, httpd := debian(), debian(), debian()
	unnamed.Certificate = ""
	nginx.Nginx = "1.12.2"
	httpd.Apache = "2.4.6"
	for name, tt := range map[string]struct {
		log    *Traffic
		server Server
		said   []string
		want   string
	}{
		"no log":         {nil, debian(), nil, "--log: not given"},
		"an empty one":   {empty, debian(), nil, "--log: x has no request"},
		"another server": {foreign, debian(), nil, "none of the 5 requests in x is for Puppet"},
		"no times":       {timeless, debian(), nil, "has no durations"},
		"no certname":    {plugins(), unnamed, nil, "--certname: not given, and not found"},
		"an old nginx":   {plugins(), nginx, nil, "--front-end: nginx 1.12.2 cannot"},
		"an old httpd":   {plugins(), httpd, []string{"front-end", "apache"}, "--front-end: httpd 2.4.6 does not"},
		"no memory":      {plugins(), debian(), []string{"ram", "1GiB"}, "--ram: 1GiB does not hold one"},
		"standard input": {plugins(), debian(), []string{"log", "-"}, "cannot be read twice"},
		"a wrong name":   {plugins(), debian(), []string{"certname", "a b"}, "is not a certname"},
	} {
		_, err := asked(t, tt.log, tt.server, tt.said...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !testkitsizing.BadInput(err) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// A cache of so many seconds misses at most once in each of them, for each thing.
func TestHits(t *testing.T) {
	l := &Traffic{SpanSeconds: 3000, Same: map[string][]uint64{"a": {100, 5, 1}, "b": {50}}}
	if got := l.hits(300, "a", "b", "c"); got != (100-11)+(50-11) {
		t.Errorf("%d hits", got)
	}
}

// Every line of what is written has a reason: a comment above it, or above the lines before
// it that belong together. Of a file of the machine's own the first lines say what was
// changed in it, and a file that was written before has them once.
func TestReasons(t *testing.T) {
	for _, front := range []string{"nginx", "apache"} {
		s := debian()
		s.Webserver = withReasons(s.Webserver, "what an earlier size said", "and more of it")
		r, err := asked(t, plugins(), s, "front-end", front, "parts", "static,cache,jruby")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Files {
			if strings.HasPrefix(f.Content, "#!") {
				continue // a program
			}
			if own := f.Name == s.Options+"/webserver.conf" || f.Name == s.OptionsFile || f.Name == s.JavaFile; own {
				rest, reasons := f.Content, 0
				for ; strings.HasPrefix(rest, byFettle); reasons++ {
					_, rest, _ = strings.Cut(rest, "\n")
				}
				if reasons == 0 || rest == "" || strings.Contains(rest, byFettle) || strings.Contains(f.Content, "an earlier size") {
					t.Errorf("%s: %q", f.Name, f.Content)
				}
				continue
			}
			reason := false
			for line := range strings.Lines(f.Content) {
				switch line = strings.TrimSpace(line); {
				case strings.HasPrefix(line, "#"):
					reason = len(line) > len("# x")
				case line == "", line == "}", strings.HasPrefix(line, "</"), strings.HasPrefix(line, "["): // the title of a section
					reason = false
				case !reason:
					t.Errorf("%s: %q has no reason", f.Name, line)
				case strings.HasSuffix(line, "{") && !strings.HasPrefix(line, "if "), strings.HasPrefix(line, "<"):
					reason = false // what is in the block has its own
				}
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	testkitsizing.Fuzz(f, func() *Request {
		w := New()
		w.Traffic, w.Server = plugins(), debian()
		return w
	}, []string{"cpus=4 ram=16GiB", "cpus=1 ram=512MiB parts=static,cache", "cpus=1024 ram=64TiB front-end=apache port=65535 cache-seconds=1 certname=a"}, func(t *testing.T, r *sizing.Result) {
		heap, ok := r.Value("jruby", "heap").Value.(uint64)
		if !ok || heap < uint64(512*unit.MiB) {
			t.Fatalf("heap %v", heap)
		}
	})
}
