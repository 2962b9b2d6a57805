package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fettle.dev/fettle/internal/logformat"
)

// FuzzJSON tests that no JSON log stops the reader, and that each field of a valid JSON line has
// the value that JSON has.
func FuzzJSON(f *testing.F) {
	for _, p := range products {
		text, err := os.ReadFile(filepath.Join("testdata", "products", p.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 4000)])
	}
	for _, line := range []string{
		`{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/","status":200,"duration":0.5}`, `{"date":"2026-11-20","time":"10:00:00","url":"/a","status":2e2,"took":"4m3s"}`,
		`{"ts":1e400,"duration":-0,"status":1e-5,"url":"\u0000\ud800"}`, "method=GET path=/ status=200 duration=1.0 error='x", `{"":{"":{"":1}},"a.b":{"c":2},"a":{"b.c":3},"status":200}`,
	} {
		f.Add([]byte(strings.Repeat(line+"\n", 3)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, units := range []map[string]int64{nil, {"duration": 1e6}} {
			one := logformat.JSON(bytes.Split(text, []byte("\n")), units) // Detect tries all formats, which takes its time
			if one == nil {
				continue
			}
			d := NewReader(one)
			d.Block(text)
			for line := range bytes.Lines(text) {
				line = bytes.TrimRight(line, "\r\n")
				var r Request
				if d.Read(line, &r) != logformat.RequestLine {
					continue
				}
				if r.Duration < -1 || r.Duration > int64(366*24*time.Hour/time.Microsecond) || r.Status < 0 || r.Status > 999 {
					t.Fatalf("%s: %q took %d, status %d", one.Why, line, r.Duration, r.Status)
				}
				for _, name := range Names(one) {
					dim, err := Named(one, name, nil)
					if err != nil {
						t.Fatal(err)
					}
					dim.Of(&r)
				}
				same(t, one, &r)
			}
		}
	})
}

// same compares the fields of a line with the values of encoding/json.
func same(t *testing.T, f *logformat.Format, r *Request) {
	var object map[string]any
	if f.Name != logformat.JSONLines || !utf8.Valid(r.Line) || bytes.Contains(r.Line, []byte(`\u0000`)) || json.Unmarshal(r.Line, &object) != nil {
		return
	}
	for i, field := range f.Fields {
		value, is := object[field.Source].(string)
		if !is || strings.Contains(field.Source, ".") || field.Kind == logformat.Number || field.Name == logformat.FieldClient || field.Layout == logformat.DateAndTime {
			continue
		}
		if n := bytes.Count(r.Line, fmt.Appendf(nil, "%q", field.Source)); n != 1 {
			continue // named twice, or in another object
		}
		if got := string(r.Field(i)); got != value {
			t.Fatalf("%s of %q is %q, want %q", field.Source, r.Line, got, value)
		}
	}
}

// FuzzJSONWritten tests that each value of a request in the format of each product is read again.
func FuzzJSONWritten(f *testing.F) {
	f.Add("/a?x=1", "GET", uint16(200), uint32(1_234_567), uint32(5), "curl/8 \"q\"\\")
	f.Add("/\u00e4\x01\t\x7f", "PROPFIND", uint16(599), uint32(0), uint32(999_999_999), "-")
	f.Fuzz(func(t *testing.T, url, method string, status uint16, us, size uint32, agent string) {
		url = "/" + strings.TrimLeft(strings.ToValidUTF8(strings.ReplaceAll(url, "\x00", ""), ""), "/")
		agent = strings.ToValidUTF8(strings.ReplaceAll(agent, "\x00", ""), "")
		methods := []string{"GET", "POST", "PUT", "DELETE", "PROPFIND", "OPTIONS"}
		method = methods[len(method)%len(methods)]
		status, us = 100+status%500, us%1_000_000_000
		end := time.Date(2026, 11, 20, 10, 0, 0, 250_000_000, time.UTC)
		took := time.Duration(us) * time.Microsecond
		ms := took / time.Millisecond * time.Millisecond
		begun := end.Add(-took)
		seconds := json.Number(fmt.Sprintf("%d.%06d", us/1e6, us%1e6))
		request := map[string]any{"remote_ip": "192.0.2.7", "remote_port": "1", "proto": "HTTP/1.1", "method": method, "host": "h", "uri": url, "headers": map[string]any{"User-Agent": []string{agent}}}
		for name, one := range map[string]struct {
			object map[string]any
			took   time.Duration
			at     time.Time
		}{
			"caddy":   {map[string]any{"level": "info", "ts": json.Number(fmt.Sprintf("%d.%06d", end.Unix(), end.Nanosecond()/1000)), "logger": "http.log.access", "msg": "handled request", "request": request, "user_id": "", "duration": seconds, "size": size, "status": status}, took, begun},
			"traefik": {map[string]any{"ClientHost": "192.0.2.7", "DownstreamStatus": status, "Duration": int64(took), "RequestMethod": method, "RequestPath": url, "StartUTC": begun.Format(time.RFC3339Nano), "time": end.Format(time.RFC3339), "request_User-Agent": agent}, took, begun},
			"istio":   {map[string]any{"downstream_remote_address": "192.0.2.7:1", "response_code": status, "response_flags": "-", "duration": int64(ms / time.Millisecond), "method": method, "path": url, "start_time": begun.Format(time.RFC3339Nano), "user_agent": agent}, ms, begun},
			"nginx":   {map[string]any{"remote_addr": "192.0.2.7", "msec": fmt.Sprintf("%d.%03d", end.Unix(), end.Nanosecond()/1e6), "time_iso8601": end.Format(time.RFC3339), "status": status, "request_time": json.Number(fmt.Sprintf("%d.%03d", ms/time.Second, ms%time.Second/time.Millisecond)), "request_method": method, "request_uri": url, "http_user_agent": agent}, ms, end.Add(-ms)},
			"lograge": {map[string]any{"controller": "A", "action": "b", "format": "html", "method": method, "path": url, "status": status, "duration": json.Number(fmt.Sprintf("%d.%02d", us/1000, us%1000/10)), "time": end.Format(time.RFC3339Nano), "ip": "192.0.2.7"}, took / 10000 * 10000, end.Add(-took / 10000 * 10000)},
		} {
			line, err := json.Marshal(one.object)
			if err != nil {
				t.Fatal(err)
			}
			// After a known line: a single line with a duration of 0 does not identify the product.
			detected, err := logformat.Detect(append(append(line, '\n'), bytes.Repeat(typical[name], 3)...), nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, line, err)
			}
			d := NewReader(detected)
			d.Block(line)
			var r Request
			if d.Read(line, &r) != logformat.RequestLine {
				t.Fatalf("%s: %s is not read (%s)", name, line, detected.Why)
			}
			if got := time.UnixMicro(r.Time).UTC(); !got.Equal(one.at.Truncate(time.Microsecond)) || r.Duration != one.took.Microseconds() || r.Status != int(status) || string(r.Method) != method || string(r.URL) != url {
				t.Fatalf("%s: %s is read as %s, %d µs, %d, %s %q, want %s, %d µs, %q (%s)", name, line, got, r.Duration, r.Status, r.Method, r.URL, one.at, one.took.Microseconds(), url, detected.Why)
			}
			if got := string(r.Field(detected.Field(logformat.FieldClient))); got != "192.0.2.7" {
				t.Fatalf("%s: client %q", name, got)
			}
		}
	})
}

// typical is a line of each product with a duration in its format.
var typical = map[string][]byte{
	"caddy":   []byte(`{"level":"info","ts":1795168800.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","proto":"HTTP/1.1","method":"GET","host":"h","uri":"/"},"duration":0.0092,"size":1,"status":200}` + "\n"),
	"traefik": []byte(`{"ClientHost":"192.0.2.7","DownstreamStatus":200,"Duration":5,"RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-11-20T10:00:00Z"}` + "\n"),
	"istio":   []byte(`{"downstream_remote_address":"192.0.2.7:1","response_code":200,"response_flags":"-","duration":5,"method":"GET","path":"/","start_time":"2026-11-20T10:00:00Z"}` + "\n"),
	"nginx":   []byte(`{"remote_addr":"192.0.2.7","msec":"1795168800.250","status":200,"request_time":0.005,"request_method":"GET","request_uri":"/"}` + "\n"),
	"lograge": []byte(`{"controller":"A","action":"b","method":"GET","path":"/","status":200,"duration":5.25,"time":"2026-11-20T10:00:00Z","ip":"192.0.2.7"}` + "\n"),
}
