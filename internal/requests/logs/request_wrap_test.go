package logs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

// wrapped are the formats in which other programs embed a line, according to their documentation or
// source: journalctl -o json (systemd.journal-fields), Filebeat (message), Fluent Bit and Fluentd
// (log), logcli -o jsonl (line), Google Cloud's LogEntry (textPayload), stern (cmd/cmd.go), kubectl
// logs --prefix.
var wrapped = map[string]func(line string) string{
	"journal": func(l string) string {
		return object(`{"__CURSOR":"s=1","_PID":"7","CODE_LINE":"12","MESSAGE":%s,"PRIORITY":"6"}`, l)
	},
	"journal, syslog": func(l string) string {
		return object(`{"MESSAGE":%s,"SYSLOG_IDENTIFIER":"x"}`, "<30>Nov 20 10:00:00 h nginx: "+l)
	},
	"filebeat": func(l string) string {
		return object(`{"@timestamp":"2026-11-20T10:00:09.000Z","@metadata":{"beat":"filebeat"},"log":{"offset":7,"file":{"path":"/var/log/a"}},"message":%s,"input":{"type":"log"},"host":{"name":"h"}}`, l)
	},
	"fluent bit": func(l string) string { return object(`{"date":1795168809.5,"log":%s}`, l) },
	"fluentd": func(l string) string {
		return object(`{"stream":"stdout","log":%s,"kubernetes":{"host":"h","labels":{"a":"b"}}}`, l+"\n")
	},
	"log alone": func(l string) string { return object(`{"log":%s}`, l) },
	"logcli": func(l string) string {
		return object(`{"labels":{"app":"web"},"line":%s,"timestamp":"2026-11-20T10:00:09Z"}`, l)
	},
	"google cloud": func(l string) string {
		return object(`{"insertId":"x","textPayload":%s,"severity":"INFO","timestamp":"2026-11-20T10:00:09Z"}`, l)
	},
	"docker": func(l string) string {
		return object(`{"log":%s,"stream":"stdout","time":"2026-11-20T10:00:09Z"}`, l+"\n")
	},
	"cri":      func(l string) string { return "2026-11-20T10:00:09.123456789Z stdout F " + l },
	"stern":    func(l string) string { return "web-7f9c5d-x2x web " + l },
	"stern -A": func(l string) string { return "default web-7f9c5d-x2x web " + l },
	"stern -t": func(l string) string { return "web-7f9c5d-x2x web 2026-11-20T10:00:09.123456789Z " + l },
	"kubectl":  func(l string) string { return "[pod/web-7f9c5d-x2x/web] " + l },
	"compose":  func(l string) string { return "web-1  | " + l },
}

func object(text, line string) string {
	b, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(text, b)
}

// within are lines of programs with their content.
var within = map[string]string{
	`192.0.2.7 - - [20/Nov/2026:10:00:05 +0000] "GET /a?b=\"c HTTP/1.1" 200 9 "-" "q\"\\x"`:                                                                              "- GET /a?b=\"c 200 192.0.2.7",
	`2001:db8::7 - - [20/Nov/2026:10:00:05 +0000] "GET /a HTTP/1.1" 200 9 "-" "A/1" "-"`:                                                                                 "- GET /a 200 2001:db8::7",
	`www.example.org 192.0.2.7 - - [20/Nov/2026:10:00:05 +0000] "GET /a HTTP/1.1" 200 9 "-" "A/1"`:                                                                       "- GET /a 200 192.0.2.7",
	`{"start_time":"2026-11-20T10:00:05Z","response_code":200,"response_flags":"-","duration":7,"method":"GET","path":"/a\"","downstream_remote_address":"192.0.2.7:1"}`: "7ms GET /a\" 200 192.0.2.7",
	`10.0.1.2:33317 [20/Nov/2026:10:00:05.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /index.html HTTP/1.1"`:                            "109ms GET /index.html 200 10.0.1.2",
	`time="2026-11-20T10:00:05Z" level=info method=GET path=/a status=200 duration_ms=7 remote_addr=192.0.2.7`:                                                           "7ms GET /a 200 192.0.2.7",
}

// TestWrapped tests that the prefix of another program does not affect the request.
func TestWrapped(t *testing.T) {
	for how, wrap := range wrapped {
		for line, want := range within {
			if strings.HasPrefix(line, "{") && strings.Contains(how, "syslog") {
				continue
			}
			text := strings.Repeat(wrap(line)+"\n", 3)
			f, err := logformat.Detect([]byte(text), nil)
			if err != nil {
				t.Errorf("%s: %v", how, err)
				continue
			}
			others, unread, got := readAll(f, []byte(text))
			if h := f.Field(logformat.FieldHost); h >= 0 && strings.HasPrefix(line, "www.") {
				var r Request
				if NewReader(f).Read([]byte(wrap(line)), &r); string(r.Field(h)) != "www.example.org" {
					t.Errorf("%s: host %q", how, r.Field(h))
				}
			}
			if others+unread > 0 || len(got) != 3 || !strings.HasSuffix(got[0], want) {
				t.Errorf("%s: %s: %q, %d others, %d unread (%s)", how, line, got, others, unread, f.Why)
			}
		}
	}
}

// TestRequestParts tests that a line that docker or the kubelet has split is joined again, also
// with lines of the other stream in between, and that an incomplete line is counted.
func TestRequestParts(t *testing.T) {
	line := func(n int) string {
		return fmt.Sprintf(`192.0.2.%d - - [20/Nov/2026:10:00:05 +0000] "GET /%s HTTP/1.1" 200 9 "-" "A"`, n, strings.Repeat("x", 5000))
	}
	cri := func(stream, tag, text string) string {
		return "2026-11-20T10:00:09.1Z " + stream + " " + tag + " " + text + "\n"
	}
	docker := func(stream, text string) string {
		return object(`{"log":%s,"stream":"`+stream+`","time":"2026-11-20T10:00:09Z"}`, text) + "\n"
	}
	a, b := line(1), line(2)
	for name, c := range map[string]struct {
		log                      string
		requests, others, unread int
		unjoined                 int
	}{
		"cri":                    {cri("stdout", "F", a) + cri("stdout", "P", a[:100]) + cri("stdout", "P", a[100:900]) + cri("stdout", "F", a[900:]), 2, 2, 0, 0},
		"cri, two streams":       {cri("stdout", "F", a) + cri("stdout", "P", a[:100]) + cri("stderr", "F", b) + cri("stdout", "F", a[100:]), 3, 1, 0, 0},
		"cri, both cut":          {cri("stdout", "F", a) + cri("stdout", "P", a[:100]) + cri("stderr", "P", b[:70]) + cri("stdout", "F", a[100:]) + cri("stderr", "F", b[70:]), 3, 2, 0, 0},
		"cri, an empty last":     {cri("stdout", "F", a) + cri("stdout", "P", a) + cri("stdout", "F", ""), 2, 1, 0, 0},
		"cri, no end":            {cri("stdout", "F", a) + cri("stdout", "F", a) + cri("stdout", "P", a[:100]), 2, 1, 0, 1},
		"cri, no beginning":      {cri("stdout", "F", a[100:]) + cri("stdout", "F", a) + cri("stdout", "F", a), 2, 0, 1, 0},
		"docker":                 {docker("stdout", a+"\n") + docker("stdout", a[:100]) + docker("stdout", a[100:]+"\n"), 2, 1, 0, 0},
		"docker, two streams":    {docker("stdout", a+"\n") + docker("stdout", a[:100]) + docker("stderr", b+"\n") + docker("stdout", a[100:]+"\n"), 3, 1, 0, 0},
		"docker, an empty last":  {docker("stdout", a+"\n") + docker("stdout", a) + docker("stdout", "\n"), 2, 1, 0, 0},
		"docker, no end":         {docker("stdout", a+"\n") + docker("stdout", a[:100]), 1, 1, 0, 1},
		"docker, more than most": {docker("stdout", a+"\n") + strings.Repeat(docker("stdout", strings.Repeat("y", 16<<10)), 80) + docker("stdout", "y\n") + docker("stdout", a+"\n"), 2, 80, 1, 0},
	} {
		head := cri("stdout", "F", a)
		if strings.HasPrefix(name, "docker") {
			head = docker("stdout", a+"\n")
		}
		f, err := logformat.Detect([]byte(head), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := NewReader(f)
		requests, others, unread := 0, 0, 0
		for l := range strings.Lines(c.log) {
			var r Request
			switch d.Read([]byte(strings.TrimSuffix(l, "\n")), &r) {
			case logformat.RequestLine:
				requests++
				if i := slices.Index([]string{a, b}, string(r.Line)); i < 0 {
					t.Errorf("%s: %q", name, r.Line)
				}
			case logformat.OtherLine:
				others++
			default:
				unread++
			}
		}
		if n := d.Unjoined(); requests != c.requests || others != c.others || unread != c.unread || n != c.unjoined {
			t.Errorf("%s: %d requests, %d others, %d unread, %d unjoined, want %d, %d, %d and %d", name, requests, others, unread, n, c.requests, c.others, c.unread, c.unjoined)
		}
	}
}
