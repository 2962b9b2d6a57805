package haproxy

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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

// logOptions are the ways to say how lines are written; the last has every variable.
var logOptions = []string{
	"option httplog",
	"option httplog clf",
	`log-format "%ci:%cp [%tr] %ft %f %b %s %TR/%Tw/%Tc/%Tr/%Ta/%Tt/%Tq/%Td/%Tu/%Th/%Ti %ST %B %U %CC %CS %ts %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %{+Q}hr %hs %{+Q}hrl %{+Q}hsl %{+Q}r %HM %{+Q}HP %{+Q}HPO %{+Q}HQ %{+Q}HU %HV %ID %lc %rt %pid %H <%sslv> <%sslc> <%bi> <%bp> <%si> <%sp> <%fi> <%fp> [%t] [%T] [%Tl] %Ts %ms [%trg] [%trl] %{+Q,+E}[capture.req.hdr(0)] 100%% %[src]"`,
}

const everyOption = `global
	log 127.0.0.1:%d local0
	maxconn 100
defaults
	mode http
	log global
	timeout client 30s
	timeout server 30s
	timeout connect 30s
	unique-id-format id-%%rt
	%s
frontend web
	bind 127.0.0.1:8081
	option accept-invalid-http-request
%s	default_backend app
backend app
	server s1 127.0.0.1:%d
`

// TestEveryVariable: what HAProxy writes with each of its options for logs, and of each
// variable, is read as what was asked for, by the format that its configuration names.
func TestEveryVariable(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	const none, one = "", "\tcapture request header User-Agent len 64\n\tcapture response header X-Resp len 64\n"
	for _, option := range logOptions {
		every(t, option, one)
	}
	every(t, logOptions[0], none)
	every(t, logOptions[1], none)
	every(t, logOptions[1], one+"\tcapture response header Content-Length len 9\n")
}

// behind answers one request for each connection.
func behind(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "HTTP/1.1 201 Made\r\nContent-Length: 3\r\nX-Resp: said {so}\r\nConnection: close\r\n\r\nabc")
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func every(t *testing.T, option, captures string) {
	t.Helper()
	syslog, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer syslog.Close()
	text := fmt.Sprintf(everyOption, syslog.LocalAddr().(*net.UDPAddr).Port, option, captures, behind(t))
	if err := os.WriteFile(mainFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("haproxy", "-db", "-f", mainFile)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	begun := time.Now()
	var c net.Conn
	product.Eventually(t, "HAProxy answers", func() (ok bool) {
		var err error
		c, err = net.Dial("tcp", "127.0.0.1:8081")
		return err == nil
	})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	const agent = "a\"b {x|y} #z\\ ]\u00e4"
	request := "GET /p\"q?x=1#2 HTTP/1.1\r\nHost: a\r\nUser-Agent: " + agent + "\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	_ = syslog.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 64<<10)
	var line string
	for !strings.Contains(line, "127.0.0.1") { // others say that it has started
		n, _, err := syslog.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		// As rsyslog writes it: <134>Nov 22 15:56:30 haproxy[7]: TEXT.
		_, line, _ = strings.Cut(strings.TrimRight(string(buffer[:n]), "\n\x00"), ">")
		line = line[:15] + " balancer" + line[15:]
	}
	all, err := Logs(host.Live(), mainFile)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := accesslog.Of(all, "/var/log/haproxy.log.1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Why, "for frontend web of "+mainFile+":11") {
		t.Error(f.Why)
	}
	whole := line
	unwrapped, _ := new(logformat.Unwrapper).Unwrap(f, []byte(line))
	line = string(unwrapped)
	if n, all := f.Reads([]byte(line + "\n")); n != 1 || all != 1 {
		t.Errorf("%s: %d of %d lines are read: %s", f.Source, n, all, line)
	}
	is := func(re string) func(string) bool { return regexp.MustCompile("^(?:" + re + ")$").MatchString }
	number := is(`\d+`)
	port := strconv.Itoa(c.LocalAddr().(*net.TCPAddr).Port)
	want := map[string]any{
		"%ci": "127.0.0.1", "%{-Q}ci": "127.0.0.1", "%cp": port, "%ft": "web", "%f": "web", "%b": "app", "%s": "s1", "%ST": "201", "%B": number, "%U": number, "%CC": is("-?"), "%CS": is("-?"), "%ts": "--", "%tsc": "----",
		"%ac": number, "%rc": "0", "%sq": "0", "%hr": "{" + agent + "}", "%{+Q}hr": `"{` + agent + `}"`, "%hs": "{said {so}}", "%hrl": agent, "%hsl": "said {so}", "%{+Q}hrl": agent, "%{+Q}hsl": "said {so}", "%r": "GET /p\"q?x=1#2 HTTP/1.1", "%{+Q}r": "GET /p\"q?x=1#2 HTTP/1.1",
		"%HM": "GET", "%{+Q}HP": `/p"q`, "%{+Q}HPO": `/p"q`, "%{+Q}HQ": "?x=1#2", "%{+Q}HU": `/p"q?x=1#2`, "%HV": "HTTP/1.1", "%ID": is("id-[0-9A-F]+"), "%lc": is(`\d+`), "%pid": strconv.Itoa(server.Process.Pid), "%H": is(".+"),
		"%sslv": "-", "%sslc": "-", "%bi": "127.0.0.1", "%bp": number, "%si": "127.0.0.1", "%sp": number, "%fi": "127.0.0.1", "%fp": "8081", "%ms": is(`\d{3}`), "%{+Q,+E}[capture.req.hdr(0)]": agent, "%[src]": "127.0.0.1",
	}
	if strings.Count(captures, "response") == 2 {
		want["%hsl"] = is(regexp.QuoteMeta("said {so}") + "|3")
	}
	if captures == "" {
		want["%hr"], want["%hs"] = "", ""
	}
	product.LogLine(t, f, line, want, begun)
	if strings.HasPrefix(option, "log-format") {
		for field := range want {
			if !regexp.MustCompile(regexp.QuoteMeta(field) + `([^A-Za-z]|$)`).MatchString(option) {
				delete(want, field)
			}
		}
		product.LogFields(t, f, want)
	}
	// Without the configuration, where the option is one that is known by its lines.
	if strings.HasPrefix(option, "option") && strings.Count(captures, "response") < 2 {
		found, err := logformat.Detect([]byte(whole+"\n"), nil)
		if err != nil || found.Source != f.Source {
			t.Errorf("%s is found to be %+v, %v", option, found, err)
		}
	}
}
