package haproxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// timelessIn are the proxies without an end in a configuration; wrong is why it is unknown.
func timelessIn(t *testing.T, text, version string) (proxies []string, wrong error) {
	t.Helper()
	s, err := readSettings(machine.Mounted(t, map[string]string{
		mainFile: text, "var/lib/dpkg/status": "Package: haproxy\nStatus: install ok installed\nVersion: " + version + "\n",
	}), mainFile)
	if err != nil {
		return nil, err
	}
	lacks, err := s.timeless()
	for _, l := range lacks {
		proxy, _, _ := strings.Cut(l, ":")
		if !slices.Contains(proxies, proxy) {
			proxies = append(proxies, proxy)
		}
	}
	slices.Sort(proxies)
	return proxies, err
}

func TestTimeless(t *testing.T) {
	const all = "defaults\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
	const back = "frontend f\n bind :1\n default_backend b\nbackend b\n server s 10.0.0.1:80\n"
	for _, c := range []struct{ name, text, want, unknown string }{
		{"all there", all + back, "", ""},
		{"zero with a unit", all + " timeout server 0ms\n" + back, "backend b", ""},
		{"zero in quotes", all + " timeout server \"0\"\n" + back, "backend b", ""},
		{"half a millisecond is one", all + " timeout server 500us\n" + back, "", ""},
		{"servers of a template", "defaults\n timeout connect 5s\n timeout client 5s\nbackend b\n server-template s 1-3 10.0.0.1:80\n", "backend b", ""},
		{"no server", "defaults\n timeout client 5s\nbackend b\n http-request deny\n", "", ""},
		{"a frontend without bind", "frontend f\n", "frontend f", ""},
		{"disabled", "defaults\n disabled\nfrontend f\n bind :1\nfrontend g\n bind :2\n enabled\n", "frontend g", ""},
		{"tunnel of tcp", "defaults\n timeout connect 5s\n timeout client 5s\n timeout tunnel 1h\n" + back, "", ""},
		{"tunnel of http", "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout tunnel 1h\n" + back, "backend b", ""},
		{"tunnel of zero", "defaults\n timeout connect 5s\n timeout client 5s\n timeout tunnel 0\n" + back, "backend b", ""},
		{"a ring", all + "ring r\n format iso\n server s 127.0.0.1:6514\n", "ring r", ""},
		{"a ring with its own", "ring r\n format iso\n timeout connect 5s\n timeout server 10s\n server s 127.0.0.1:6514\n", "", ""},
		{"a ring without connect", "ring r\n format iso\n timeout server 10s\n server s 127.0.0.1:6514\n", "ring r", ""},
		{"a ring without servers", "ring r\n format iso\n", "", ""},
		{"never", all + ".if 0\n timeout server 0\n.endif\n" + back, "", ""},
		{"this version", all + ".if version_atleast(2.4) && !streq(a,b)\n timeout server 0\n.else\n timeout client 0\n.endif\n" + back, "backend b", ""},
		{"the environment", all + ".if defined(SLOW)\n timeout server 0\n.endif\n" + back, "", "inside .if"},
		{"it does not matter", all + ".if defined(SLOW)\n timeout server 2m\n.else\n timeout server 1m\n.endif\n" + back, "", ""},
		{"a later line counts", all + ".if defined(SLOW)\n timeout server 0\n.endif\n timeout server 5s\n" + back, "", ""},
		{"one is certain", all + ".if defined(SLOW)\n timeout server 0\n.endif\n timeout client 0\n" + back, "frontend f", ""},
		{"a variable", all + " timeout server \"$T\"\n" + back, "", "comes from an environment variable"},
		{"a server that may be there", "defaults\n timeout client 5s\nbackend b\n.if feature(QUIC)\n server s 10.0.0.1:80\n.endif\n", "", "may be missing"},
		{"a variable of the file", "global\n setenv T 0\n setenv S \"2 s\"\n" + all + " timeout server \"$T\"\n" + back, "backend b", ""},
		{"a variable of the file in braces", "global\n setenv T 5\n" + all + " timeout server \"${T}s\"\n" + back, "", ""},
		{"a variable that is set too late", all + " timeout server \"$T\"\n" + back + "global\n setenv T 5s\n", "", "comes from an environment variable"},
		{"a variable of the process first", "global\n presetenv T 0\n" + all + " timeout server \"$T\"\n" + back, "", "comes from an environment variable"},
		{"set, and so not preset", "global\n setenv T 5s\n presetenv T 0\n" + all + " timeout server \"$T\"\n" + back, "", ""},
		{"a variable that is taken back", "global\n setenv T 5s\n unsetenv T\n" + all + " timeout server \"$T\"\n" + back, "", "comes from an environment variable"},
		{"a variable in a condition", "global\n.if defined(X)\n setenv T 5s\n.endif\n" + all + " timeout server \"$T\"\n" + back, "", "comes from an environment variable"},
		{"no time", all + " timeout server 5x\n" + back, "", "not a HAProxy time"},
	} {
		got, err := timelessIn(t, c.text, "2.6.12-1")
		if strings.Join(got, " ") != c.want || (err == nil) != (c.unknown == "") || err != nil && !strings.Contains(err.Error(), c.unknown) {
			t.Errorf("%s: %v, %v; want %q %q", c.name, got, err, c.want, c.unknown)
		}
	}
}

func TestCondition(t *testing.T) {
	for text, want := range map[string]conf.Truth{
		"": conf.No, "1": conf.Yes, "0": conf.No, "-1": conf.Yes, "!0": conf.Yes, "!!1": conf.Yes, "1 && 0": conf.No, "0||1": conf.Yes, "( 1 )": conf.Yes, "!(1)": conf.No, "!(0 && defined(A))": conf.Yes,
		"streq(a,a)": conf.Yes, "streq(a,b)": conf.No, "strneq(a,b)": conf.Yes, "streq($A,b)": conf.Perhaps, "defined(A)": conf.Perhaps, "defined(A) || 1": conf.Yes, "defined(A) && 0": conf.No,
		"version_atleast(2.6)": conf.Yes, "version_atleast(2.6.13)": conf.No, "version_before(2.7-dev1)": conf.Yes, "version_atleast(2.6-dev9)": conf.Yes, "version_atleast(x)": conf.Perhaps,
		"true": conf.Perhaps, "1 0": conf.Perhaps, "(1": conf.Perhaps, "streq(a": conf.Perhaps, strings.Repeat("!", 500) + "1": conf.Perhaps,
	} {
		if got := condition(text, "2.6.12"); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := condition("version_atleast(2.6)", ""); got != conf.Perhaps {
		t.Errorf("without a version: %d", got)
	}
}

var warned = regexp.MustCompile(`missing timeouts for (frontend|backend|listener|proxy) '([^']*)'`)

// TestTimelessAsHAProxy makes configurations at random, and asks the real HAProxy of which
// proxies it warns.
func TestTimelessAsHAProxy(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	out, err := exec.CommandContext(t.Context(), "haproxy", "-v").Output()
	version := strings.Fields(string(out) + " - - -")[2]
	if err != nil {
		t.Fatal(err)
	}
	rounds := 24
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		rounds = 600
	}
	r := rand.New(rand.NewPCG(4, 11))
	dir, known, missing, refused := t.TempDir(), 0, 0, 0
	for n := range rounds {
		text := randomConfig(r, n%4 == 0)
		name := filepath.Join(dir, "haproxy.cfg")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", name).CombinedOutput()
		if strings.Contains(string(out), "rror(s) found in configuration") { // an [ALERT] alone may be valid
			refused++
			continue
		}
		var want []string
		for _, m := range warned.FindAllStringSubmatch(string(out), -1) {
			kind := m[1]
			if strings.HasPrefix(m[2], "l") {
				kind = "listen"
			}
			want = append(want, kind+" "+m[2])
		}
		slices.Sort(want)
		got, err := timelessIn(t, text, version)
		if err != nil && n%4 == 0 {
			continue // it depends on what only HAProxy knows
		}
		known, missing = known+1, missing+len(want)
		// Where a lack is certain, what depends on conditions is not said.
		if err != nil || n%4 != 0 && !slices.Equal(got, want) || !subset(got, want) {
			t.Fatalf("%v (%v), HAProxy %v:\n%s\n%s", got, err, want, text, out)
		}
	}
	t.Logf("HAProxy %s: %d configurations compared, %d proxies without an end, %d refused", version, known, missing, refused)
	if known < rounds*2/3 || missing < rounds || refused > rounds/10 {
		t.Errorf("too few were compared")
	}
}

func subset(some, of []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(of, s) })
}

// randomConfig is a configuration of some sections; with environment, conditions may ask
// for what only HAProxy knows.
func randomConfig(r *rand.Rand, environment bool) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var b strings.Builder
	one := func() {
		switch r.IntN(7) {
		case 0:
			b.WriteString(" mode " + pick("tcp", "http") + "\n")
		case 1:
			b.WriteString(" timeout tunnel " + pick("1h", "0", "0s", "500us") + "\n")
		default:
			fmt.Fprintf(&b, " timeout %s %s\n", pick("client", "connect", "server", "queue"), pick("5s", "0", "0ms", `"0"`, `"$NONE"`, `"${FIVE}s"`, "1d", "1us", "30", "'7m'", "0us # 5s", "2h"))
		}
	}
	lines := func(most int, more ...string) {
		for range r.IntN(most + 1) {
			if r.IntN(4) > 0 {
				one()
				continue
			}
			conditions := []string{"1", "0", "!0 && 1", "version_atleast(2.4)", "version_before(2.4)", "streq(a,b) || 0", "!streq(a,a)", ""}
			if environment {
				conditions = append(conditions, "defined(PATH)", "!defined(NOT_THERE)", "feature(OPENSSL)", "defined(PATH) && 0")
			}
			b.WriteString(".if " + pick(conditions...) + "\n")
			one()
			if r.IntN(2) == 0 {
				b.WriteString(".elif " + pick(conditions...) + "\n")
				one()
			}
			if r.IntN(2) == 0 {
				b.WriteString(".else\n")
				one()
			}
			b.WriteString(".endif\n")
		}
		for _, m := range more {
			if r.IntN(3) > 0 {
				b.WriteString(m)
			}
		}
		if r.IntN(12) == 0 {
			b.WriteString(pick(" disabled\n", " enabled\n"))
		}
	}
	b.WriteString("global\n maxconn 100\n setenv NONE 0\n setenv FIVE 5\n")
	from := []string{""}
	for n := range r.IntN(3) {
		name := pick("", fmt.Sprintf(" d%d", n))
		b.WriteString("defaults" + name)
		if name != "" {
			b.WriteString(pick(from...))
			from = append(from, " from d"+name[2:])
		}
		b.WriteString("\n")
		lines(6)
	}
	servers := func() string {
		return pick(" server s 127.0.0.1:1\n", " server-template s 1-3 127.0.0.1:1\n", " server-template s 2 127.0.0.1:1 disabled\n", " default-server check\n", " balance roundrobin\n")
	}
	for n := range 4 + r.IntN(10) {
		fmt.Fprintf(&b, "backend b%d%s\n", n, pick(from...))
		lines(4, servers())
	}
	for n := range r.IntN(6) {
		fmt.Fprintf(&b, "listen l%d%s\n", n, pick(from...))
		lines(4, fmt.Sprintf(" bind 127.0.0.1:1810%d\n", n), servers())
	}
	fmt.Fprintf(&b, "frontend f%s\n bind 127.0.0.1:18080\n", pick(from...))
	lines(3)
	return b.String()
}
