package logformat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// shapesAgree checks that lines are split in the same way with and without a memory of earlier
// lines, and as encoding/json does.
func shapesAgree(t *testing.T, f *Format, lines [][]byte) {
	t.Helper()
	scan := f.Scanner()
	s := newShapes(f.json)
	want, got := make([]Span, len(f.Fields)), make([]Span, len(f.Fields))
	for range 2 { // the second time from memory
		for _, line := range lines {
			kind := f.Scan(line, want)
			if is := scan(line, got); is != kind {
				t.Fatalf("%q is %d, want %d", line, is, kind)
			}
			if kind == RequestLine {
				for i := range want {
					if got[i].Start != want[i].Start || got[i].End != want[i].End {
						t.Fatalf("%s of %q is %q, want %q", f.Fields[i].Name, line, got[i].Of(line), want[i].Of(line))
					}
					if n, ok := got[i].Int(); ok {
						if is, ok := lenientInt(got[i].Of(line)); !ok || is != n {
							t.Fatalf("%s of %q is %d", f.Fields[i].Name, line, n)
						}
					}
				}
			}
			at, kind := f.json.begin(line, got)
			if f.json.front != nil || kind != RequestLine || !json.Valid(line[at:]) || deeper(line, depth) {
				continue
			}
			switch {
			case s.split(line, at, got):
				asDecoded(t, f, line, got)
			case s.size < maxPlaces && len(line) < maxLinkText:
				t.Fatalf("%q is not split", line)
			}
		}
	}
}

// deeper reports whether a line may have more than n nested objects and arrays.
func deeper(line []byte, n int) bool {
	return bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) > n
}

// asDecoded compares the fields of a line with encoding/json.
func asDecoded(t *testing.T, f *Format, line []byte, spans []Span) {
	t.Helper()
	if !utf8.Valid(line) || bytes.Contains(line, []byte(`\u0000`)) || bytes.HasPrefix(line, byteOrder) {
		return // with other results on purpose
	}
	values := map[string]string{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	decode(t, d, "", values)
	for i, field := range f.Fields {
		want := values["."+field.Source]
		if field.Layout == DateAndTime || strings.Count(field.Source, ".") >= maxNameParts || want == anArray {
			continue
		}
		if got := string(JSONString.Unescape(spans[i].Of(line))); got != want {
			t.Fatalf("%s of %q is %q, want %q", field.Source, line, got, want)
		}
	}
}

// anArray stands for the value of a member that is an array.
const anArray = "\x00array"

// decode reads a value. If a member occurs several times, the last value that is not null counts.
func decode(t *testing.T, d *json.Decoder, name string, values map[string]string) {
	t.Helper()
	next := func() json.Token {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	switch token := next(); token {
	case json.Delim('{'):
		for d.More() {
			decode(t, d, name+"."+next().(string), values)
		}
		next()
	case json.Delim('['):
		for d.More() {
			decode(t, d, "\x00", map[string]string{})
		}
		next()
		values[name] = anArray
	case nil:
	default:
		values[name] = fmt.Sprint(token)
	}
}

// hardLines are lines that are easily split in a wrong way.
var hardLines = []string{
	`{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/","status":200,"a":{"b":[1,{"c":"x"}]},"duration_ms":5}`,
	`{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/","status":"200","a":{"b":null},"duration_ms":5.0e0}`,
	`{"time":"2026-11-20T10:00:00Z","method":"GET","path":null,"status":200,"a":{"b":"x"},"duration_ms":true}`,
	`{"time":"2026-11-20T10:00:00Z","method":"GET","path":["/",[]],"status":200,"a":{"b":{}},"duration_ms":[]}`,
	`{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/","path":"/again","status":200,"status":null,"a":{"b":false},"a.b":-0,"duration_ms":5}`,
	` {	"time" : "2026-11-20T10:00:00Z" , "method":"GET","path":"\"\\","status":200, "a" :{ } ,"duration_ms":5 } `,
	`{"duration_ms":5,"status":200,"path":"\u00e4\ud83d\ude00\ud800","method":"GET","time":"2026-11-20T10:00:00Z"}`,
	`{"\u0070ath":"/escaped","status":200,"method":"GET","time":"2026-11-20T10:00:00Z","duration_ms":00}`,
	`{"path":"/","status":200,"method":"GET","time":"2026-11-20T10:00:00Z","duration_ms":5`,
	`{"path":"/","status":200,"method":"GET","time":"2026-11-20T10:00:00Z","duration_ms":5}}`,
	`{"path":"/","status":200,"method":"GET","time":"2026-11-20T10:00:00Z","duration_ms":5,}`,
	`{"path":"/","status":20x,"method":"GET"}`, `{"path":"/","status":-,"method":"GET"}`, `{"path":"/","status":1.,"method":"GET"}`, `{"path":"/","status":1.e5}`, `{"path":"/","status":1e}`,
	`{"path":"/","status":tru,"method":"GET"}`, `{"path":"/\","status":200}`, `{"path":"/`, `{"path":`, `{"path"`, `{`, `{}`, `[]`, ``, `"`, `{"path":"/"}x`,
	`{"a":` + strings.Repeat("[", depth+1) + strings.Repeat("]", depth+1) + `,"path":"/","status":200}`,
	`{"a":` + strings.Repeat(`{"a":`, depth-2) + `1` + strings.Repeat("}", depth-2) + `,"path":"/","status":200}`,
	`{"path":"/","status":5e3}`, `{"path":"/","status":2e2}`, `{"path":"/","status":0200}`, `{"path":"/","status":50}`, `{"path":"/","status":0}`, `{"path":"/","status":12345678901234567890}`,
}

// TestShapes: the memory of earlier lines changes no result.
func TestShapes(t *testing.T) {
	var lines [][]byte
	for _, l := range hardLines {
		lines = append(lines, []byte(l))
	}
	shapesAgree(t, JSON(lines, nil), lines)
}

// TestShapesProducts does the same with lines of real programs.
func TestShapesProducts(t *testing.T) {
	files, err := filepath.Glob("../requests/logs/testdata/products/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(text, []byte("\n"))
		if f := JSON(lines, nil); f != nil {
			n++
			shapesAgree(t, f, lines)
		}
	}
	if n < 10 {
		t.Errorf("%d logs of JSON lines, want at least 10", n)
	}
}

// TestShapesLimits: lines whose members are always different are split too, in bounded memory.
func TestShapesLimits(t *testing.T) {
	var lines [][]byte
	for i := range 3 * maxPlaces {
		lines = append(lines, fmt.Appendf(nil, `{"path":"/","x%d":{"y":[%d]},"status":200,"time":"2026-11-20T10:00:00Z"}`, i, i))
	}
	f := JSON(lines[:1], nil)
	shapesAgree(t, f, lines)
	s := newShapes(f.json)
	spans := make([]Span, len(f.Fields))
	for _, line := range lines {
		if s.scan(line, spans) != RequestLine {
			t.Fatalf("%q is not a request", line)
		}
	}
	places := 0
	for _, in := range s.start.in.inner {
		places += len(in.places) + len(in.inner)
	}
	if places == 0 || places > maxPlaces {
		t.Errorf("%d places, want 1 to %d", places, maxPlaces)
	}
}

// FuzzShapes compares lines with and without a memory of earlier lines, and with encoding/json.
func FuzzShapes(f *testing.F) {
	f.Add([]byte(strings.Join(hardLines, "\n")))
	for _, l := range hardLines {
		f.Add([]byte(hardLines[0] + "\n" + l))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := bytes.Split(text, []byte("\n"))
		if one := JSON(lines, map[string]int64{"duration_ms": 1e6}); one != nil {
			shapesAgree(t, one, lines)
		}
	})
}
