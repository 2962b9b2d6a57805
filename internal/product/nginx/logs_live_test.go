package nginx

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

const main = "/etc/nginx/nginx.conf"

// everyEscape is a configuration that logs the same requests in all three ways.
const everyEscape = `
log_format every '$remote_addr <$remote_port> <$remote_user> [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
	'"$http_x_test" <$bytes_sent> <$request_length> <$request_method> "$request_uri" "$uri" "$args" "${is_args}" <$server_protocol> <$host> <$server_name> <$server_port> '
	'<$scheme> <$time_iso8601> <$msec> <$request_time> <$upstream_response_time> <$upstream_connect_time> <$upstream_addr> <$upstream_status> <$connection_requests> <$pipe> <$request_id> "$sent_http_content_type"';
log_format plain escape=none '$remote_addr|$http_x_test|$http_x_none|$status|$request_time';
log_format object escape=json '{"time":"$time_iso8601","test":"$http_x_test","none":"$http_x_none","status":$status,"request_time":$request_time,'
	'"upstream":"$upstream_response_time","request_uri":"$request_uri"}';
server {
	listen 127.0.0.1:8081;
	server_name www.example.com;
	access_log /var/log/nginx/every.log every;
	access_log /var/log/nginx/plain.log PLAIN;
	access_log /var/log/nginx/object.log object;
	access_log /var/log/sites/$host-by-name.log combined;
	access_log /var/log/hosts/$host.log object;
	access_log /var/log/hosts/access.log plain;
	location / { return 200 "0123456789"; }
	location /twice { proxy_pass http://two; proxy_next_upstream http_502; }
}
upstream two { server 127.0.0.1:8082; server 127.0.0.1:8083; }
server { listen 127.0.0.1:8082; access_log off; return 502; }
server { listen 127.0.0.1:8083; access_log off; return 502; }
`

// TestEveryEscape: what nginx writes of each variable, with each of its ways to escape, is
// read as what was asked for, by the format that its configuration names.
func TestEveryEscape(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	if err := os.WriteFile("/etc/nginx/conf.d/every.conf", []byte(everyEscape), 0o644); err != nil {
		t.Fatal(err)
	}
	product.Command(t, "install", "-d", "-m", "777", "/var/log/sites", "/var/log/hosts") // its workers open it
	product.Command(t, "nginx")
	t.Cleanup(func() { product.Command(t, "nginx", "-s", "stop") })
	begun := time.Now()
	const test = "a\"b\\c\td\u00e4\xff \x7f> x"
	requests := []string{
		"GET /a%20b?x=\"1\"\\ HTTP/1.1\r\nHost: other.example.com\r\nX-Test: " + test + "\r\nReferer: http://r/\"q\"\r\nConnection: close\r\n\r\n",
		"GET /twice HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n",
		"\x16\x03\x01\x02\r\n",
	}
	var ports []string
	for n, r := range requests {
		var c net.Conn
		product.Eventually(t, "nginx answers", func() (ok bool) {
			var err error
			c, err = net.Dial("tcp", "127.0.0.1:8081")
			return err == nil
		})
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		ports = append(ports, strconv.Itoa(c.LocalAddr().(*net.TCPAddr).Port))
		if _, err := io.WriteString(c, r); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		c.Close()
		// Another worker may log the next one first.
		product.Eventually(t, "the request is logged", func() bool {
			text, _ := os.ReadFile("/var/log/nginx/every.log")
			return strings.Count(string(text), "\n") == n+1
		})
	}
	all, err := Logs(host.Live(), main)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, count int) (*logformat.Format, []string) {
		t.Helper()
		l, _, err := accesslog.Of(all, name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		product.Eventually(t, name+" is written", func() bool {
			text, _ := os.ReadFile(name)
			lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			return len(lines) == count
		})
		if n, all := f.Reads([]byte(strings.Join(lines, "\n") + "\n")); n != all {
			t.Errorf("%s: %d of %d lines are read by %s (%s):\n%s", name, n, all, f.Source, f.Why, strings.Join(lines, "\n"))
		}
		return f, lines
	}
	is := func(re string) func(string) bool { return regexp.MustCompile("^(?:" + re + ")$").MatchString }
	want := []map[string]any{
		{
			"$remote_addr": "127.0.0.1", "$remote_port": ports[0], "$remote_user": "-", "$request": "GET /a%20b?x=\"1\"\\ HTTP/1.1", "$status": "200", "$body_bytes_sent": "10", "$http_referer": `http://r/"q"`, "$http_x_test": test,
			"$bytes_sent": is(`\d+`), "$request_length": strconv.Itoa(len(requests[0])), "$request_method": "GET", "$request_uri": "/a%20b?x=\"1\"\\", "$uri": "/a b", "$args": "x=\"1\"\\", "${is_args}": "?", "$server_protocol": "HTTP/1.1",
			"$host": "other.example.com", "$server_name": "www.example.com", "$server_port": "8081", "$scheme": "http", "$upstream_response_time": "-", "$upstream_addr": "-", "$connection_requests": "1", "$pipe": ".",
			"$request_id": is("[0-9a-f]{32}"), "$sent_http_content_type": is("[a-z/-]+"),
		},
		{
			"$request_method": "GET", "$status": "502", "$upstream_status": "502, 502", "$upstream_addr": is(`127.0.0.1:808[23], 127.0.0.1:808[23]`), "$upstream_response_time": is(`\d\.\d{3}, \d\.\d{3}`), "$upstream_connect_time": is(`\d\.\d{3}, \d\.\d{3}`),
			"$http_x_test": "-", "$request": "GET /twice HTTP/1.1",
		},
		{"$request": "\x16\x03\x01\x02", "$status": "400", "$server_protocol": is(".*")},
	}
	f, lines := read("/var/log/nginx/every.log", len(want))
	for n, line := range lines {
		product.LogLine(t, f, line, want[n], begun)
		product.LogFields(t, f, want[n])
	}
	value := func(f *logformat.Format, line, name string) string {
		t.Helper()
		spans := make([]logformat.Span, len(f.Fields))
		i := f.Field(name)
		if i < 0 || f.Scan([]byte(line), spans) != logformat.RequestLine {
			t.Fatalf("%s: no %s in %s", f.Source, name, line)
		}
		return string(f.Fields[i].Escape.Unescape(spans[i].Of([]byte(line))))
	}
	f, lines = read("/var/log/nginx/plain.log", len(want))
	if got := value(f, lines[0], "http_x_test"); got != test {
		t.Errorf("escape=none: %q", got)
	}
	if got := value(f, lines[0], "http_x_none"); got != "" {
		t.Errorf("escape=none: what is not there is %q", got)
	}
	f, lines = read("/var/log/nginx/object.log", len(want))
	var object struct{ Test string }
	if err := json.Unmarshal([]byte(lines[0]), &object); err != nil {
		t.Error(err)
	}
	if got := value(f, lines[0], "http_x_test"); got != test || strings.ToValidUTF8(got, "\ufffd") != object.Test {
		t.Errorf("escape=json: %q, encoding/json reads %q", got, object.Test)
	}
	if got := value(f, lines[1], "upstream_duration"); !is(`\d\.\d{3}, \d\.\d{3}`)(got) {
		t.Errorf("escape=json: %q", got)
	}
	// As JSON lines, without the configuration.
	found, err := logformat.Detect([]byte(strings.Join(lines, "\n")+"\n"), nil)
	if err != nil || found.Name != "JSON lines" {
		t.Fatalf("%+v, %v", found, err)
	}
	if got := value(found, lines[0], "test"); got != test {
		t.Errorf("JSON lines: %q", got)
	}
	f, _ = read("/var/log/sites/other.example.com-by-name.log", 2)
	if want := fmt.Sprintf("access_log of /etc/nginx/conf.d/every.conf:%d, format combined", 1+strings.Count(everyEscape[:strings.Index(everyEscape, "access_log /var/log/sites/$host")], "\n")); f.Why != want {
		t.Errorf("%s, want %s", f.Why, want)
	}
	// A name goes before a variable that could be it.
	for name, asked := range map[string]string{"/var/log/hosts/access.log": "plain", "/var/log/hosts/other.example.com.log": "object"} {
		if f, _ := read(name, map[string]int{"plain": 3, "object": 2}[asked]); !strings.HasSuffix(f.Name, " "+asked) {
			t.Errorf("%s is read by %s", name, f.Name)
		}
	}
	if l, _, err := accesslog.Of(all, "/var/log/nginx/access.log.1"); err != nil || l.Name != "combined" {
		t.Errorf("Debian's own: %+v, %v", l, err)
	}
}
