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
		"a: 1\na: 2":       `f:2: "a" is given twice`,
		"a: 1\n? [x]\n: 2": "f:2: want a field name",
		"<<: {a: 1}":       "want a field name",
		bomb:               "too deeply nested, or too many aliases",
		"a: !!binary eA==": "binary values are not supported; write the base64 string without its tag",
	} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %s %v, want %q", text, got, err, want)
		}
	}
}

type object struct {
	Base     `json:",inline"`
	Metadata struct {
		Name string     `json:"name,omitempty"`
		Time *time.Time `json:"time,omitempty"`
	} `json:"metadata,omitzero"`
	Spec struct {
		Number int8              `json:"number"`
		Whole  *uint64           `json:"whole,omitempty" min:"2"`
		Word   string            `json:"word,omitempty" oneof:"node,pod"`
		Texts  map[string]string `json:"texts,omitempty"`
		Raw    json.RawMessage   `json:"raw,omitempty"`
		Any    []any             `json:"any,omitempty"`
		On     bool              `json:"on,omitempty"`
		hidden int
		Untold int `json:"-"`
	} `json:"spec"`
}

// Base is embedded and exported.
type Base struct {
	Version string `json:"version,omitempty"`
}

func (o *object) GetName() string { return o.Metadata.Name }

func TestObjects(t *testing.T) {
	read := func(text string) (*object, error) {
		r, o := Objects("f", 0), &object{}
		for _, d := range r.Documents([]byte(text)) {
			r.Object(d, o)
		}
		return o, r.Err()
	}
	o, err := read("version: v1\nmetadata: {name: a, time: }\nspec: {number: -128, whole: 2, word: pod, texts: {a: b}, raw: {b: [1.50, x], a: }, any: [{a: 1}, b], on: true}")
	if err != nil || o.Version != "v1" || o.Metadata.Name != "a" || o.Metadata.Time != nil || o.Spec.Number != -128 || *o.Spec.Whole != 2 || o.Spec.Word != "pod" || o.Spec.Texts["a"] != "b" || string(o.Spec.Raw) != `{"a":null,"b":[1.50,"x"]}` || len(o.Spec.Any) != 2 || !o.Spec.On {
		t.Errorf("%+v %v", o, err)
	}
	// What is null is left out, at every depth, but in what is taken as it is.
	o, err = read("metadata: {name: a, time: null}\nspec: {number: 1, whole: null, word: , texts: {a: null, b: c}, any: null, on: ~}")
	if err != nil || o.Spec.Whole != nil || o.Spec.Word != "" || len(o.Spec.Texts) != 1 || o.Spec.Any != nil || o.Spec.On {
		t.Errorf("%+v %v", o, err)
	}
	for text, want := range map[string]string{
		"metadata: {name: a}\nspec: {number: }":  "f:2: spec.number is empty, which an API server treats as missing",
		"spec: {number: 1, number: null}":        `"number" is given twice`,
		"metadata: {name: a}":                    "f:1: spec is missing",
		"{metadata: {name: a},\nspec: {}}":       "f:2: spec.number is missing",
		"spec: {number: 1}":                      "f:1: metadata.name is missing",
		"metadata: {name: a}\nspec:":             "f:2: spec is empty, which an API server treats as missing; give a value",
		"spec: {number: 128}":                    "spec.number: want a whole number from -128 to 127, found 128",
		"spec: {number: 1, whole: 1}":            "spec.whole: want a whole number from 2 to 9223372036854775807, found 1",
		"spec: {number: 1, whole: 0x2}":          "spec.whole: want a whole number, found 0x2 (int)",
		"spec: {Number: 1}":                      `unknown field "Number" (did you mean "number"?)`,
		"spec: {hidden: 1}":                      `unknown field "hidden"`,
		"spec: {Untold: 1}":                      `unknown field "Untold": known fields are number, whole`,
		"spec: {number: 1, on: yes}":             `spec.on: want true or false, found "yes"`,
		"spec: {number: 1, word: on}":            `kubectl reads on as true or false: write "on", with the quotes`,
		"spec: {number: 1, texts: {a: 1}}":       `spec.texts["a"]: want text, found 1 (int): write "1", with the quotes`,
		"spec: {number: 1, texts: {no: a}}":      "spec.texts: the name: kubectl reads no as true or false",
		"spec: {number: 1, raw: {no: a}}":        `spec.raw: want a field name, found "no"`,
		"spec: {number: 1, raw: [off]}":          `spec.raw: kubectl reads off as true or false: write true or false, or the text "off", with the quotes`,
		"spec: {number: 1, raw: [010]}":          "spec.raw: want a decimal number, found 010",
		"spec: {number: 1, any: [&a {}, *a]}":    "spec.any[1]: aliases (*a) are not supported",
		"spec: {number: 1, raw: [&a {}, *a]}":    "spec.raw: aliases (*a) are not supported",
		"spec: {number: 1, any: [a, ]}\nkind: a": `f:2: unknown field "kind"`,
		"metadata: {time: soon}":                 "metadata.time: ",
		"metadata: {time: 5}":                    "metadata.time: ",
		"a: [":                                   "f:1: did not find",
		"- a":                                    "f:1: want fields, found a list",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
	r := Objects("f", 1<<20)
	if r.Documents(make([]byte, 1<<20+1)); r.Err() == nil || r.Err().Error() != "f: larger than 1 MiB" {
		t.Errorf("%v", r.Err())
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("metadata: {name: a, time: }\nspec: {number: -128, whole: 2, word: pod, texts: {a: b}, raw: {b: [1.50, x], a: }, any: [{a: 1}, b], on: true}"))
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
		a, o := Objects("f", 0), &object{}
		for _, d := range a.Documents(text) {
			a.Object(d, o)
		}
		if err := a.Err(); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("an error without its place: %v", err)
		}
	})
}
