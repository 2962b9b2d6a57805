package strict

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "10 s": 10 * time.Second, "10s": 10 * time.Second, "0 min": 0, "2 min": 2 * time.Minute, "250 ms": 250 * time.Millisecond,
		"1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond, "3 sec": 3 * time.Second,
		"": -1, "-1": -1, "-1s": -1, "s": -1, "min": -1, "5 parsecs": -1, "9223372036854775807": -1, "10000h": -1, "1e3": -1,
	} {
		if d, ok := ParseDuration(text, time.Second); ok != (want >= 0) || ok && d != want {
			t.Errorf("%q: %s %v, want %s", text, d, ok, want)
		}
	}
	if _, ok := ParseDuration("5", 0); ok {
		t.Error("a number is taken for a time without a unit")
	}
}

func TestJSON(t *testing.T) {
	read := func(text string) (string, error) {
		r := &Reader{File: "f"}
		docs := r.Documents([]byte(text))
		if len(docs) == 0 {
			return "", r.Err()
		}
		return string(r.JSON(docs[0])), r.Err()
	}
	for text, want := range map[string]string{
		"a: 1\nb: [x, true, null, 1.50, 0x10]": `{"a":1,"b":["x",true,null,1.50,16]}`,
		"{\n\t\"a\": \"b\\tc\"\n}":             `{"a":"b\tc"}`,
		"a: &x {b: 1}\nc: *x":                  `{"a":{"b":1},"c":{"b":1}}`,
		"a: 2001-01-01":                        `{"a":"2001-01-01"}`,
		"big: 123456789012345678901234567890":  `{"big":123456789012345678901234567890}`,
	} {
		if got, err := read(text); err != nil || got != want {
			t.Errorf("%q: %s %v", text, got, err)
		}
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		before := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+before+", ", 10), ", ") + "]\n"
	}
	for text, want := range map[string]string{
		"a: 1\na: 2":       `f:2: "a" is there twice`,
		"a: 1\n? [x]\n: 2": "f:2: want a name here",
		"<<: {a: 1}":       "want a name here",
		bomb:               "too much is nested or repeated",
		"a: !!binary eA==": "base64 text without its tag",
	} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %s %v, want %q", text, got, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("name: a\nlist: [{n: 1}]\npairs: [{a: b}, {c: }]\nd: 10 s\nany: {x: [1]}"))
	f.Add([]byte("{\n\t\"name\": \"a\"}"))
	f.Add([]byte("pairs: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &Reader{File: "f"}
		for _, d := range r.Documents(text) {
			var v struct {
				At   string
				Name string `yaml:"name"`
				List []struct {
					N int `yaml:"n" min:"1"`
				} `yaml:"list"`
				Pairs Pairs         `yaml:"pairs" also:"others"`
				D     time.Duration `yaml:"d" unit:"s"`
			}
			r.Into(d, &v)
			if whole := r.JSON(d); whole != nil && !json.Valid(whole) {
				t.Errorf("no JSON: %s", whole)
			}
		}
	})
}
