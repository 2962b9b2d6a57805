package load

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/source"
)

// replayed reads logs of one format, in order.
func replayed(t *testing.T, name string, o Options, texts ...string) (*Log, []engine.Asked, error) {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(dir, string(rune('a'+i))+".log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		t.Fatal(err)
	}
	var formats []*logformat.Format
	for range texts {
		f, err := logformat.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		formats = append(formats, f)
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Methods == nil {
		o.Methods = []string{"GET", "HEAD"}
	}
	o.Base = "http://web1"
	return Read(context.Background(), source.NewSet(found), formats, o)
}

// starts returns the requests in the order of their starts.
func starts(l *Log, list []engine.Asked) (out []string) {
	for i := range l.Count() {
		a := list[l.Pick(uint64(i))]
		out = append(out, l.At(i).String()+" "+a.Method+" "+strings.TrimPrefix(a.URL, "http://web1"))
	}
	return out
}

func common(at, request string) string {
	return `192.0.2.1 - - [18/Mar/2012:04:02:` + at + ` +0000] "` + request + `" 200 5` + "\n"
}

// TestSeconds tests that requests of a log with whole seconds are spread over each second.
func TestSeconds(t *testing.T) {
	l, list, err := replayed(t, "common", Options{Speed: 2}, common("25", "GET /a HTTP/1.1")+common("25", "HEAD /b?x=1 HTTP/1.1")+common("25", "GET /a HTTP/1.1")+common("25", "GET /%C3%A4 HTTP/1.1")+
		common("27", "GET /late HTTP/1.1")+common("26", "GET /earlier HTTP/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0s GET /a", "125ms HEAD /b?x=1", "250ms GET /a", "375ms GET /%C3%A4", "500ms GET /earlier", "1s GET /late"}
	if d := cmp.Diff(want, starts(l, list)); d != "" {
		t.Error(d)
	}
	told := l.Told()
	if l.Length() != 2*time.Second || len(list) != 5 || told.ResolutionS != 1 || told.Requests != 6 || told.Left() != "nothing was left out" || told.To.Sub(told.From) != 2*time.Second || l.String() != "a.log at 2x" {
		t.Errorf("%v %+v %s", l.Length(), told, l)
	}
}

// TestZones tests that the text names the time zone.
func TestZones(t *testing.T) {
	const haproxy = `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /index.html HTTP/1.1"` + "\n"
	for want, c := range map[string][2]string{
		"2012-03-18 04:02:25Z to 2012-03-18 04:02:25Z":                                           {"common", common("25", "GET /a HTTP/1.1")},
		"2009-02-06 12:14:14 to 2009-02-06 12:14:14 in the server's time zone, which is unknown": {"haproxy", haproxy},
	} {
		l, _, err := replayed(t, c[0], Options{}, c[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Told().When(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	told := Told{Logs: []string{"a.log", "b.log"}, NoZone: []string{"b.log"}, From: time.Unix(0, 0), To: time.Unix(1, 0)}
	if got := told.When(); got != "1970-01-01 00:00:00Z to 1970-01-01 00:00:01Z; the times of b.log have no zone and are taken as UTC" {
		t.Error(got)
	}
}

// TestEndTimes tests nginx, which logs the time of the answer: a long request has arrived earlier.
func TestEndTimes(t *testing.T) {
	line := func(at, request, took string) string {
		return `[18/Mar/2012:04:02:` + at + ` +0000] "` + request + `" ` + took + "\n"
	}
	l, list, err := replayed(t, `nginx:[$time_local] "$request" $request_time`, Options{}, line("30", "GET /slow HTTP/1.1", "4.500")+line("30", "GET /quick HTTP/1.1", "0.000"), line("29", "GET /other HTTP/1.1", "1.000"))
	if err != nil {
		t.Fatal(err)
	}
	// The first of the second 30 is at 30.0, the other at 30.5.
	want := []string{"0s GET /slow", "2.5s GET /other", "5s GET /quick"}
	if d := cmp.Diff(want, starts(l, list)); d != "" {
		t.Error(d)
	}
}

// TestLeftOut tests that omitted requests are counted by reason.
func TestLeftOut(t *testing.T) {
	text := common("25", "GET /a HTTP/1.1") + common("25", "POST /b HTTP/1.1") + common("25", "POST /b HTTP/1.1") + common("25", "OPTIONS * HTTP/1.0") + common("26", "GET nothing HTTP/1.1") +
		common("26", "GET /%zz HTTP/1.1") + common("26", `\x16\x03\x01`) + "nonsense\n" + common("26", "GET /"+strings.Repeat("x", maxURL)+" HTTP/1.1") + common("50", "GET /late HTTP/1.1") + common("51", "GET /later HTTP/1.1")
	l, list, err := replayed(t, "common", Options{Most: 10 * time.Second}, text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"0s GET /a"}, starts(l, list)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int64{"method POST": 2, "method OPTIONS": 1, noPath: 4, unreadable: 1, tooLate: 2}, l.Told().LeftOut); d != "" {
		t.Error(d)
	}
	if text := l.Told().Left(); !strings.Contains(text, "2: method POST") || !strings.HasPrefix(text, "left out 1: lines that cannot be read, ") {
		t.Error(text)
	}
	if l, list, err = replayed(t, "common", Options{Methods: []string{"POST"}}, text); err != nil || len(starts(l, list)) != 2 {
		t.Errorf("%v %v", l, err)
	}
	if _, _, err := replayed(t, "common", Options{Methods: []string{"PUT"}}, text); err == nil || !strings.Contains(err.Error(), "nothing to replay: left out ") {
		t.Error(err)
	}
	if _, _, err := replayed(t, "common", Options{Speed: 1e-5}, text); err == nil || !strings.Contains(err.Error(), "more than 7 days") {
		t.Error(err)
	}
	if _, _, err := replayed(t, `nginx:"$request" $request_time`, Options{}, "\"GET / HTTP/1.1\" 1.000\n"); err == nil || !strings.Contains(err.Error(), "have no time") {
		t.Error(err)
	}
}

// TestWholeURLs tests logs with whole URLs (load balancers) and with a separate query: the replayed
// request has the path and the query.
func TestWholeURLs(t *testing.T) {
	alb := func(request string) string {
		return `https 2018-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "` + request + `" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"` + "\n"
	}
	for _, c := range []struct{ format, text, want string }{
		{"aws-alb", alb("GET https://www.example.com:443/a/b?c=d HTTP/1.1"), "0s GET /a/b?c=d"},
		{"aws-alb", alb("HEAD https://www.example.com:443/ HTTP/2.0"), "0s HEAD /"},
		{"aws-alb", alb("GET http://www.example.com:80?x=1 HTTP/1.1"), "0s GET /?x=1"},
		{"aws-alb", alb("GET https://[2001:db8::1]:443 HTTP/1.1"), "0s GET /"},
		{`apache:%t %m %U%q`, "[18/Mar/2012:04:02:25 +0000] GET /a?b=c\n", "0s GET /a?b=c"},
		{`apache:%t %m %U "%q"`, "[18/Mar/2012:04:02:25 +0000] GET /a \"?b=c\"\n", "0s GET /a?b=c"},
		{`nginx:[$time_local] $request_method $uri $args`, "[18/Mar/2012:04:02:25 +0000] GET /a b=c\n", "0s GET /a?b=c"},
		{`nginx:[$time_local] $request_method $uri $args`, "[18/Mar/2012:04:02:25 +0000] GET /a -\n", "0s GET /a"},
	} {
		l, list, err := replayed(t, c.format, Options{}, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if d := cmp.Diff([]string{c.want}, starts(l, list)); d != "" {
			t.Errorf("%s: %s", c.text, d)
		}
	}
	if _, _, err := replayed(t, "aws-alb", Options{}, alb("POST https://www.example.com:443/ HTTP/1.1")); err == nil {
		t.Error("a POST is sent again")
	}
}
