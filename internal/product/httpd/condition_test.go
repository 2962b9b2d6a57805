package httpd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// versionIs is a list of packages with an httpd of a version.
func versionIs(version string) string {
	return "Package: apache2-bin\nStatus: install ok installed\nVersion: " + version + "\n"
}

// What httpd 2.4.71 says to each of these was run; perhaps is what it refuses.
func TestIfVersion(t *testing.T) {
	for args, want := range map[string]conf.Truth{
		"2.4": conf.No, "= 2.4": conf.No, "== 2.4": conf.No, ">= 2.4": conf.Yes, "> 2.4": conf.Yes, "<= 2.4": conf.No, "< 2.4": conf.No, "< 2.4.100": conf.Yes, "!< 2.4": conf.Yes,
		`~ ^2\.4`: conf.Yes, `= /^2\.4/`: conf.Yes, "!~ ^2.2": conf.Yes, "!= 2.2": conf.Yes, "= 2": conf.No, "> 2": conf.Yes, ">= 3": conf.No, "2": conf.No, "/^2/": conf.Yes, "~ /^2/": conf.No, "== /2/": conf.Yes,
		`= /^2\.4$/`: conf.No, "= /^2.4.71$/": conf.Yes, ">= 2.4.71": conf.Yes, "2.4.71": conf.Yes, "~ 2.4.71$": conf.Yes, "<  2.5": conf.Yes, `>= "2.4"`: conf.Yes, "!>= 2.5": conf.Yes, "!= /2.2/": conf.Yes,
		"! < 2.4": conf.Perhaps, "!2.4": conf.Perhaps, "=2.4": conf.Perhaps, "=> 2.4": conf.Perhaps, "< 2.4-dev": conf.Perhaps, ">= 2.4 2.5": conf.Perhaps, "!!> 2": conf.Perhaps, ">= 2.4.x": conf.Perhaps, ">= .4": conf.Perhaps, "": conf.Perhaps, "~ [": conf.Perhaps, "! 2.4": conf.Perhaps,
	} {
		if got, why := ifVersion(args, "2.4.71"); got != want || (why == "") != (want != conf.Perhaps) {
			t.Errorf("%q: %d %q, want %d", args, got, why, want)
		}
	}
	if got, why := ifVersion(">= 2.4", ""); got != conf.Perhaps || why == "" {
		t.Errorf("without a version: %d %q", got, why)
	}
}

// TestConditions has what depends on the version, on names that a command line defines,
// on modules and on files; and what is known in spite of it.
func TestConditions(t *testing.T) {
	const load = "LoadModule mpm_event_module m/mod_mpm_event.so\n"
	for _, c := range []struct {
		name, text string
		files      map[string]string
		want       string // of MaxRequestWorkers; "?..." for why it is unknown
	}{
		{"of an older httpd", "MaxRequestWorkers 50\n<IfVersion < 2.4>\nMaxRequestWorkers 5000\n</IfVersion>\n", map[string]string{"var/lib/dpkg/status": versionIs("2.4.57-2")}, "50"},
		{"of this httpd", "<IfVersion >= 2.4>\nMaxRequestWorkers 75\n</IfVersion>\n", map[string]string{"var/lib/dpkg/status": versionIs("2.4.57-2")}, "75"},
		{"of an unknown httpd", "MaxRequestWorkers 50\n<IfVersion < 2.4>\nMaxRequestWorkers 5000\n</IfVersion>\n", nil, "?httpd.conf:3: inside <IfVersion < 2.4>: version of httpd unknown"},
		{"it does not matter", "MaxRequestWorkers 50\n<IfVersion < 2.4>\nMaxRequestWorkers 50\n</IfVersion>\n", nil, "50"},
		{"a later line counts", "<IfVersion < 2.4>\nMaxRequestWorkers 75\n</IfVersion>\nMaxRequestWorkers 50\n", nil, "50"},
		{"in an included file", "<IfVersion < 2.4>\nInclude x.conf\n</IfVersion>\n", map[string]string{"etc/httpd/x.conf": "MaxRequestWorkers 75\n"}, "?httpd.conf:2: inside <IfVersion"},
		{"the unit defines it", "<IfDefine BIG>\nMaxRequestWorkers 75\n</IfDefine>\n", map[string]string{"etc/systemd/system/httpd.service": "[Service]\nEnvironment=OPTIONS=-DBIG\nExecStart=/usr/sbin/httpd $OPTIONS -DFOREGROUND\n"}, "75"},
		{"the unit does not", "<IfDefine BIG>\nMaxRequestWorkers 75\n</IfDefine>\n", map[string]string{"etc/systemd/system/httpd.service": "[Service]\nExecStart=/usr/sbin/httpd -DFOREGROUND\n"}, "400"},
		{"the process defines it", "<IfDefine ! BIG>\nMaxRequestWorkers 75\n</IfDefine>\n", map[string]string{"etc/sysconfig/httpd": "OPTIONS=-DBIG\n"}, "400"},
		{"a define of a file", "Define BIG\n<IfDefine BIG>\nMaxRequestWorkers 75\n</IfDefine>\n", nil, "75"},
		{"quotes, and a second word", "Define BIG\n<IfDefine \"BIG\" X>\nMaxRequestWorkers 75\n</IfDefine>\n<IfDefine \"! BIG\">\nMaxRequestWorkers 5\n</IfDefine>\n", nil, "75"},
		{"the module's source", "<IfModule mod_mpm_event.c>\nMaxRequestWorkers 75\n</IfModule>\n", nil, "400"},
		{"the module's other name", "<IfModule event.c>\nMaxRequestWorkers 75\n</IfModule>\n", nil, "75"},
		{"directives of modules", "<IfDirective ProxyPass>\nMaxRequestWorkers 75\n</IfDirective>\n", nil, "?<IfDirective ProxyPass>"},
		{"a macro", "<Macro m $n>\nMaxRequestWorkers $n\n</Macro>\nUse m 75\n", nil, "?in a macro (Use at /etc/httpd/conf/httpd.conf:5)"},
	} {
		files := map[string]string{redHatMain: load + c.text}
		for name, text := range c.files {
			files[name] = text
		}
		found, err := Product.Find(t.Context(), machine.Mounted(t, files))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v", c.name, err)
		}
		a := found[0].Answer("max_request_workers")
		got := fmt.Sprint(a.Value)
		if why, ok := strings.CutPrefix(c.want, "?"); ok && strings.Contains(a.Unknown, why) {
			continue
		}
		if got != c.want {
			t.Errorf("%s: %s %q, want %s", c.name, got, a.Unknown, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		mpm, text    string
		asked, serve int
	}{
		{"event", "ThreadsPerChild 60\nServerLimit 4\n", 400, 240},
		{"worker", "ThreadsPerChild 7\n", 400, 112},
		{"event", "ThreadsPerChild 50\n", 400, 400},
		{"event", "ThreadsPerChild 100\nMaxRequestWorkers 1600\n", 1600, 1024},
		{"event", "ThreadsPerChild 100\nThreadLimit 100\nMaxRequestWorkers 1600\n", 1600, 1600},
		{"worker", "ThreadsPerChild 100\nMaxRequestWorkers 1000\n", 1000, 960},
		{"event", "MaxRequestWorkers 0\n", 0, 25},
		{"event", "MaxRequestWorkers 10x\n", 10, 25},
		{"event", "ServerLimit 0\n", 400, 25},
		{"prefork", "ServerLimit 4\n", 256, 4},
		{"prefork", "MaxRequestWorkers 0\nThreadsPerChild 30\n", 0, 1},
	} {
		found, err := Product.Find(t.Context(), machine.Mounted(t, map[string]string{redHatMain: "LoadModule mpm_" + c.mpm + "_module m/x.so\n" + c.text}))
		if err != nil || len(found) != 1 {
			t.Fatal(err)
		}
		if asked, serve := found[0].Answer("max_request_workers").Value, found[0].Answer("requests_limit").Value; asked != float64(c.asked) || serve != float64(c.serve) {
			t.Errorf("%s %q: %v asked, %v served, want %d and %d", c.mpm, c.text, asked, serve, c.asked, c.serve)
		}
	}
}

// What httpd says of its numbers; the last one of a kind has what they become.
var (
	fewerThreads = regexp.MustCompile(`ThreadsPerChild of \S+ (?:exceeds|not allowed).* (?:decreasing|increasing) to (\d+)`)
	otherWorkers = regexp.MustCompile(`MaxRequestWorkers of .* (?:decreasing(?: MaxRequestWorkers)?|increasing|decreasing to nearest multiple) (?:to )?(\d+)`)
	otherServers = regexp.MustCompile(`ServerLimit of \S+ (?:exceeds|not allowed).* (?:decreasing|increasing) to (\d+)`)
)

// TestReadAsHTTPD makes configurations with conditions and numbers at random, and asks the
// real httpd what they become.
func TestReadAsHTTPD(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	rounds := 120
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		rounds = 1500
	}
	out, err := exec.CommandContext(t.Context(), "apache2", "-v").Output()
	m := regexp.MustCompile(`Apache/([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	version := string(m[1])
	r := rand.New(rand.NewPCG(3, 5))
	dir, changed := t.TempDir(), 0
	for range rounds {
		mpm := []string{"event", "worker", "prefork"}[r.IntN(3)]
		text := "ServerRoot " + dir + "\nServerName x\nListen 127.0.0.1:18099\nPidFile a.pid\nErrorLog /dev/stderr\n" +
			"LoadModule mpm_" + mpm + "_module /usr/lib/apache2/modules/mod_mpm_" + mpm + ".so\nLoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n" + randomLimits(r, mpm == "prefork")
		file := filepath.Join(dir, "a.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "apache2", "-t", "-D", "GIVEN", "-f", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, out)
		}
		found, err := Product.Find(t.Context(), machine.Mounted(t, map[string]string{
			"etc/apache2/apache2.conf": text, "etc/apache2/envvars": "export APACHE_ARGUMENTS=-DGIVEN\n", "etc/passwd": "", file: "", "var/lib/dpkg/status": versionIs(version),
		}))
		if err != nil || len(found) != 1 {
			t.Fatal(err)
		}
		i := found[0].(*installed)
		l, _, unknown := i.Files.limits()
		if unknown.Unknown != "" {
			t.Fatalf("%s\n%s", unknown.Unknown, text)
		}
		raw := i.Files
		for _, c := range []struct {
			what string
			says *regexp.Regexp
			got  int
			read string // the directive, for what no message changes
			def  int
		}{
			{"threads", fewerThreads, l.threads, "threadsperchild", defaultsOf(mpm).threads},
			{"server limit", otherServers, l.serverLimit, "serverlimit", defaultsOf(mpm).serverLimit},
			{"requests", otherWorkers, l.serves, "maxrequestworkers", defaultsOf(mpm).asked},
		} {
			if mpm == "prefork" && c.what == "threads" {
				continue
			}
			want := fmt.Sprint(c.def)
			if v, ok := raw.value(c.read); ok {
				n, _ := leading(v.value)
				want = fmt.Sprint(n)
			}
			if all := c.says.FindAllStringSubmatch(string(out), -1); len(all) > 0 {
				want = all[len(all)-1][1]
				changed++
			}
			if fmt.Sprint(c.got) != want {
				t.Fatalf("%s: %d, httpd %s\n%s\n%s", c.what, c.got, want, text, out)
			}
		}
	}
	t.Logf("httpd %s: %d configurations, %d numbers that it changed", version, rounds, changed)
	if changed < rounds/2 {
		t.Error("too few were compared")
	}
}

// randomLimits are directives of the modules, some in conditions. The last MaxRequestWorkers
// of a condition that is read differs from all others, so that a wrong reading shows.
func randomLimits(r *rand.Rand, prefork bool) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	one := func() string {
		n := r.IntN(4)
		if prefork && n != 1 {
			n = 3 // it has no threads
		}
		switch n {
		case 0:
			return "ThreadsPerChild " + pick("7", "16", "25", "60", "64", "100", "0", "3") + "\n"
		case 1:
			return "ServerLimit " + pick("4", "16", "64", "0", "30000", "300000") + "\n"
		case 2:
			return "ThreadLimit " + pick("32", "64", "100", "0", "20") + "\n"
		}
		return pick("MaxRequestWorkers ", "MaxClients ") + pick("10", "150", "400", "1000", "1024", "1600", "0", "12x", "999") + "\n"
	}
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteString(pick("Define A\n", "Define A b\n", "Define N A\nDefine A\n"))
	}
	for range 2 + r.IntN(6) {
		open := pick("IfVersion >= 2.4", "IfVersion < 2.4", "IfVersion = 2.4", `IfVersion ~ ^2\.4`, "IfVersion !~ ^2.4", "IfVersion = /^2.4/", "IfVersion !>= 2.5", "IfVersion > 2.2.15",
			"IfDefine GIVEN", "IfDefine !GIVEN", "IfDefine A", "IfDefine ! A", "IfDefine ${N}", `IfDefine "A"`, `IfDefine "!A" N`, `IfDefine !"A"`, "IfModule event.c", "IfModule !mpm_prefork_module", "IfModule mod_mpm_worker.c",
			"IfModule mod_version.c", "IfFile /etc/passwd", "IfFile !a.conf", "", "", "")
		if open == "" {
			b.WriteString(one())
			continue
		}
		kind, _, _ := strings.Cut(open, " ")
		b.WriteString("<" + open + ">\n" + one())
		if r.IntN(3) == 0 {
			b.WriteString("<IfDefine !NOT_THERE>\n" + one() + "</IfDefine>\n")
		}
		b.WriteString(pick("", "Define A\n", "UnDefine A\n") + "</" + kind + ">\n")
	}
	return b.String()
}

// TestUnitEnvironment: variables and definitions that the unit hands in are read; Debian's
// envvars goes before them.
func TestUnitEnvironment(t *testing.T) {
	const text = "LoadModule mpm_event_module x.so\n<IfDefine BIG>\nServerLimit 30\n</IfDefine>\nMaxRequestWorkers ${MAXW}\n"
	const debian, redHat = "etc/apache2/apache2.conf", "etc/httpd/conf/httpd.conf"
	for name, c := range map[string]struct {
		main, unit, environment, envvars string
		want                             string // MaxRequestWorkers ServerLimit
	}{
		"debian":            {debian, "apache2", "MAXW=777 APACHE_ARGUMENTS=-DBIG", "", "777 30"},
		"envvars goes over": {debian, "apache2", "MAXW=777 APACHE_ARGUMENTS=-DBIG", "export MAXW=50\nexport APACHE_ARGUMENTS=\n", "50 none"},
		"red hat":           {redHat, "httpd", "MAXW=777 OPTIONS=-DBIG", "", "777 30"},
		"not of red hat":    {redHat, "httpd", "MAXW=777 APACHE_ARGUMENTS=-DBIG", "", "777 none"},
	} {
		files := map[string]string{
			c.main: text, "etc/passwd": "",
			"usr/lib/systemd/system/" + c.unit + ".service":        "[Service]\nExecStart=/usr/sbin/" + c.unit + " $OPTIONS -DFOREGROUND\n",
			"etc/systemd/system/" + c.unit + ".service.d/own.conf": "[Service]\nEnvironment=" + c.environment + "\n",
		}
		if c.envvars != "" {
			files["etc/apache2/envvars"] = c.envvars
		}
		found, err := Product.Find(t.Context(), machine.Mounted(t, files))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %d found: %v", name, len(found), err)
		}
		got := []string{"none", "none"}
		for n, directive := range []string{"maxrequestworkers", "serverlimit"} {
			if v, ok := found[0].(*installed).Files.value(directive); ok {
				got[n] = v.value
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}
