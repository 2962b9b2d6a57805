package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/logformat"
)

// products are logs of one program each, with their content. Those without documented were written
// by the program itself.
var products = []struct {
	file, from string
	documented bool // made from the documentation, as the program does not run here
	format     string
	unit       string // of which the durations are unknown; otherwise nothing
	others     int    // lines that are not requests
	unread     int
	want       []string // each request: when it came, how long it took, METHOD URL STATUS CLIENT
}{
	{file: "caddy.log", from: "caddy 2.11.9 (built of the Go module), caddy run: the access log and Caddy's own messages in one stream", format: logformat.JSONLines, others: 21, want: []string{
		"09:49:13.384595 111µs GET / 200 127.0.0.1", "09:49:13.443258 91µs GET /a?x=1 200 127.0.0.1", "09:49:13.45884 1.302186s GET /slow 200 127.0.0.1", "09:49:14.850673 336µs GET /gone 502 127.0.0.1", `09:49:14.902497 107µs GET /a%20b"q 200 127.0.0.1`}},
	{file: "caddy-nano.log", from: "caddy 2.11.9, log { format json { duration_format nano; time_format iso8601 } }", format: logformat.JSONLines, unit: "duration", others: 21,
		want: []string{"GET / 200 127.0.0.1", "GET /a?x=1 200 127.0.0.1", "GET /slow 200 127.0.0.1", "GET /gone 502 127.0.0.1", `GET /a%20b"q 200 127.0.0.1`}},
	{file: "caddy-string.log", from: "caddy 2.11.9, log { format json { duration_format string; time_format wall_milli } }", format: logformat.JSONLines, others: 21,
		want: []string{"GET / 200", "GET /a?x=1 200", "1.3", "GET /slow 200", "GET /gone 502", `GET /a%20b"q 200`}},
	{file: "caddy-console.log", from: "caddy 2.11.9, log { format console } with TZ=America/New_York: the time is UTC and does not say so", format: logformat.JSONLines, want: []string{
		"12:57:46.0", "s GET /a?x=1 200 127.0.0.1", "s GET /gone 404 127.0.0.1", "s POST /b 404 127.0.0.1"}},
	{file: "nginx.log", from: "nginx 1.22.1 (Debian 12), log_format escape=json; limit_rate makes an answer last 13 s", format: logformat.JSONLines, want: []string{
		"09:48:43.956 0s GET /a?x=1 200 127.0.0.1", "09:48:44.036 13.05s GET /slow 200 127.0.0.1", "09:48:57.153 0s GET /gone 502", `GET /b%20"c 200`, "09:48:57.282 16ms  \x16\x03\x01\x02 400 127.0.0.1"}},
	{file: "echo.log", from: "github.com/labstack/echo/v4 4.13.3, middleware.Logger", format: logformat.JSONLines, want: []string{
		"09:50:24.064656 3µs GET /a?x=1 200 127.0.0.1", "09:50:24.065001 1.20021s GET /slow 200", "2µs GET /b%20c 200"}},
	{file: "lograge.log", from: "lograge 0.10.0, Rails 6.1.7.10 and Puma 5.6.5 (Debian 12), its default formatter behind Ruby's Logger; an error of two lines", format: logformat.PairLines, others: 10, want: []string{
		"09:38:42.520435 2.11ms GET /hosts/0 200", "GET /hosts/1 200", "11.7ms GET /go 302", "GET /boom 500", "GET /hosts/2 200", "09:38:42.815431 1.20643s GET /slow 200"}},
	{file: "lograge-json.log", from: "lograge 0.10.0 with Lograge::Formatters::Json and custom_options { time: Time.now }", format: logformat.JSONLines, others: 9, want: []string{
		"09:38:50.51924 13.76ms GET /hosts/0 200", "GET /hosts/1 200", "GET /go 302", "GET /boom 500", "GET /hosts/2 200", "09:38:50.81833 1.20067s GET /slow 200"}},
	{file: "lograge-event-time.log", from: "lograge 0.10.0 with custom_options { |event| { time: event.time } }: since Rails 6.1 that is the monotonic clock, not a time", format: logformat.JSONLines, others: 9, want: []string{
		"09:39:07.944126 2.1ms GET /hosts/0 200", "GET /hosts/1 200", "GET /go 302", "GET /boom 500", "GET /hosts/2 200", "09:39:08.442902 1.20151s GET /slow 200"}},
	{file: "rails.log", from: "Rails 6.1.7.10 and Puma 5.6.5 with threads (Debian 12), Logger::Formatter without tags: two requests at a time, and a route that is not there", format: "Rails' log", others: 30, want: []string{
		"09:38:25.399983 11ms GET /hosts/0 200 127.0.0.1", "GET /hosts/1?a=b 200", "GET /go 302", "GET /boom 500", "GET /hosts/2 200", "09:38:25.534226 1.204s GET /slow 200 127.0.0.1"}},
	{file: "rails-tagged.log", from: "Rails 6.1.7.10, config.log_tags = [:request_id]", format: "Rails' log", others: 30, want: []string{
		"09:38:32.993742 29ms GET /hosts/0 200 127.0.0.1", "GET /hosts/1?a=b 200", "GET /go 302", "2ms GET /boom 500", "GET /hosts/2 200", "1.201s GET /slow 200 127.0.0.1"}},
	{file: "puma.log", from: "puma 5.6.5 --log-requests (Debian 12); the paths of errors are those of Rails' exceptions_app", format: "Puma's access log", unread: 9, want: []string{
		"09:38:24.9157 84.3ms GET /hosts/0 200 127.0.0.1", "GET /hosts/1?a=b 200", "GET /go 302", "GET /500 500", "GET /404 404", "GET /hosts/2 200", "09:38:24.7936 1.2064s GET /slow 200"}},
	{file: "traefik.log", from: "Traefik 3.2, accessLog.format json, and its own messages", documented: true, format: logformat.JSONLines, others: 2, want: []string{
		"10:00:00.5 1m30s GET /slow?x=1 200 192.0.2.7", "10:01:32 42µs GET / 404 2001:db8::7"}},
	{file: "traefik-handler.log", from: "the access log handler of Traefik 3.2.1 (pkg/middlewares/accesslog of its Go module) in a server of net/http", format: logformat.JSONLines, want: []string{
		"09:59:43.184844 12µs GET /a?x=1 200 127.0.0.1", "09:59:43.185227 1.204439s GET /slow 200 127.0.0.1", "106µs GET /b%20c 200"}},
	{file: "docker-traefik.log", from: "the same as docker's json-file keeps it", documented: true, format: logformat.JSONLines, others: 2, want: []string{
		"10:00:00.5 1m30s GET /slow?x=1 200 192.0.2.7", "10:01:32 42µs GET / 404 2001:db8::7"}},
	{file: "istio.log", from: "Istio 1.24, accessLogEncoding JSON: HTTP, TCP with null and with -, an address of IPv6, and what is not HTTP", documented: true, format: logformat.JSONLines, others: 2, want: []string{
		"10:00:00.25 1.305s GET /a?x=1 200 10.44.1.27", "10:00:01 7ms POST /b 503 fd00::27", "10:00:02 0s   400 10.44.1.27"}},
	{file: "haproxy-json.log", from: "HAProxy 3.1, log-format %{+json}o with the names of haproxy.com's example", documented: true, format: logformat.JSONLines, want: []string{
		"11:47:56.766 51ms GET /index.html 404 192.0.2.7", `11:47:57.001 3s POST /a?b="c 503 2001:db8::7`}},
	{file: "pino.log", from: "pino-http 10 and a message of the server", documented: true, format: logformat.JSONLines, others: 1, want: []string{
		"10:00:00.3 1.2s GET /a?x=1 200 ::ffff:192.0.2.7", "10:00:01.997 3ms GET /b 500"}},
	{file: "gcp.log", from: "Google Cloud's HttpRequest, and a message", documented: true, format: logformat.JSONLines, others: 1, want: []string{
		"10:00:00.25 1.200151s GET https://www.example.org/a?x=1 200 192.0.2.7"}},
	{file: "logstash-access.log", from: "logstash-logback-encoder 7.4, LogstashAccessEncoder", documented: true, format: logformat.JSONLines, want: []string{
		"10:00:00.25 1.2s GET /puppet/v3/catalog/a?environment=production 200 192.0.2.7"}},
	{file: "foreman-proxy.log", from: "theforeman/smart-proxy 3.12, lib/proxy/log.rb", documented: true, format: "foreman-proxy's proxy.log", others: 4, want: []string{
		"09:38:24.99838 1.62ms GET /features 200", "09:38:25.9875 2.0125s POST /puppet/ca/autosign/web1.test 500"}},
}

// TestProducts tests that logs of real programs are detected and read.
func TestProducts(t *testing.T) {
	for _, p := range products {
		t.Run(p.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "products", p.file))
			if err != nil {
				t.Fatal(err)
			}
			f, err := logformat.Detect(text, nil)
			if err != nil {
				t.Fatalf("%s: %v", p.from, err)
			}
			if f.Name != p.format || f.UnitUnknown != p.unit {
				t.Errorf("taken for %s (%s), want %s; unit unknown: %q, want %q", f.Name, f.Why, p.format, f.UnitUnknown, p.unit)
			}
			others, unread, got := readAll(f, text)
			if others != p.others || unread != p.unread {
				t.Errorf("%d lines are not requests and %d could not be read, want %d and %d", others, unread, p.others, p.unread)
			}
			all := strings.Join(got, "\n")
			rest := all
			for _, want := range p.want { // in this order
				n := strings.Index(rest, want)
				if n < 0 {
					t.Fatalf("no %q behind those before it in\n%s", want, all)
				}
				rest = rest[n+len(want):]
			}
			if n := len(slices.DeleteFunc(slices.Clone(p.want), func(w string) bool { return !strings.ContainsAny(w, "/\x16") && !strings.Contains(w, "  ") })); len(got) != n {
				t.Errorf("%d requests, want %d:\n%s", len(got), n, all)
			}
		})
	}
}

// readAll reads a log: each request as TIME DURATION METHOD URL STATUS CLIENT.
func readAll(f *logformat.Format, text []byte) (others, unread int, requests []string) {
	d := NewReader(f)
	d.Block(text)
	client := f.Field(logformat.FieldClient)
	for line := range bytes.Lines(text) {
		var r Request
		switch d.Read(bytes.TrimRight(line, "\r\n"), &r) {
		case logformat.OtherLine:
			others++
		case logformat.BadLine:
			unread++
		default:
			took, from := "-", ""
			if r.Duration >= 0 {
				took = (time.Duration(r.Duration) * time.Microsecond).String()
			}
			if client >= 0 {
				from = string(r.Field(client))
			}
			requests = append(requests, fmt.Sprintf("%s %s %s %s %d %s", time.UnixMicro(r.Time).UTC().Format("15:04:05.999999"), took, r.Method, r.URL, r.Status, from))
		}
	}
	return others, unread, requests
}
