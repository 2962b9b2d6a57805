package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/sprig/v3"
)

func gotextText(t *testing.T, template string, in TextInputs, seed uint64) string {
	t.Helper()
	parsed, err := ParseText("t", template, in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := parsed.Text(map[string]any{}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFunctions compares kube-burner's own functions with the results of gonum 0.16 and kube-burner
// 2.7.3.
func TestFunctions(t *testing.T) {
	in := TextInputs{Env: func(string) (string, error) { return "e", nil }, Now: time.Unix(1700000000, 0).UTC(), File: func(n string) (string, error) { return "<" + n + ">", nil }}
	for template, want := range map[string]string{
		`{{Binomial 5 2}} {{Binomial 9 9}} {{Binomial 52 5}}`:         "10 1 2598960",
		`{{range until 6}}{{IndexToCombination nil . 4 2}}{{end}}`:    "[0 1][0 2][0 3][1 2][1 3][2 3]",
		`{{GetSubnet24 0}} {{GetSubnet24 256}} {{GetSubnet24 65536}}`: "1.0.0.0/24 1.1.0.0/24 2.0.0.0/24",
		`{{GetIPAddress "a b c d e f" 1 2}}`:                          "c d",
		`{{ReadFile "x"}}{{env "A"}}{{expandenv "$A-${B}"}}`:          "<x>ee-e",
		`{{now.Unix}} {{ago 1699999990}} {{now | date "2006"}} {{htmlDateInZone "x" "UTC"}} {{dateInZone "15:04" 1.5 "UTC"}} {{toDate "2006" "2022" | durationRound}}`: "1700000000 10s 2023 2023-11-14 22:13 1y",
		`{{until 3}} {{until -2}} {{untilStep 5 0 -2}} {{untilStep 0 3 0}} {{untilStep 0 9223372036854775807 9223372036854775806}} {{seq 2 4}} {{repeat 2 "ab"}}`:      "[0 1 2] [0 -1] [5 3 1] [] [0 9223372036854775806] 2 3 4 abab",
		`{{list 1 "a" | toJson}} {{dict "b" 1 "a" 2 | values}} {{b64enc "x"}} {{"a,b" | splitList "," | join "-"}} {{quote 1 "b"}}`:                                    `[1,"a"] [2 1] eA== a-b "1" "b"`,
		`{{contains "b" "abc"}}{{toString 7}}{{nindent 2 "x"}}{{div 7 2}}{{default 3 0}}`:                                                                              "true7\n  x33",
	} {
		if got := gotextText(t, template, in, 1); got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
	for template, want := range map[string]string{
		`{{randInt 3 3}}`: ": the second number must be larger", `{{Binomial 2 5}}`: "want 0 <= k <= n", `{{IndexToCombination nil 6 4 2}}`: "want 0 to 5",
		`{{GetIPAddress "a b" 1 2}}`: "only 2", `{{repeat 9999999 "abc"}}`: "output larger than 4 MiB", `{{until 99999999}}`: "more than 1,000,000 numbers",
		`{{untilStep 0 9223372036854775807 1}}`: "more than 1,000,000 numbers", `{{indent 999999999 "a"}}`: "output larger than 4 MiB", `{{seq 1 999999999}}`: "want numbers of",
		`{{IndexToCombination nil 5 999999999 1}}`: "want 1,000,000 at most", `{{GetIPAddress "a" 4611686018427387904 4}}`: "only 1",
		`{{div 1 0}}`: "divide by zero", `{{randAlpha 99999999}}`: "want 0 to", `{{fail "no"}}`: "no", `{{Binomial 200 100}}`: "too large",
	} {
		parsed, err := ParseText("t", template, in)
		if err == nil {
			_, err = parsed.Text(nil, 1)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", template, err, want)
		}
	}
}

// TestRandom tests that random functions give the same result for one seed, with sprig's
// characters.
func TestRandom(t *testing.T) {
	const template = `{{randAlpha 40}} {{randNumeric 9}} {{randAlphaNum 40}} {{randInt 5 8}} {{uuidv4}} {{shuffle "abcdefghij"}} {{randBytes 5}}`
	one := gotextText(t, template, TextInputs{}, 7)
	if again := gotextText(t, template, TextInputs{}, 7); again != one {
		t.Errorf("%s\n%s", one, again)
	}
	if other := gotextText(t, template, TextInputs{}, 8); other == one {
		t.Errorf("another seed gives %s too", other)
	}
	for range 100 {
		word := strings.Fields(gotextText(t, template, TextInputs{}, 7))
		if len(word) != 7 || len(word[0]) != 40 || strings.Trim(word[0], letters) != "" || strings.Trim(word[1], digits) != "" || len(word[5]) != 10 || word[3] < "5" || word[3] > "7" || word[4][14] != '4' {
			t.Fatal(word)
		}
	}
	for _, name := range random {
		parsed, err := ParseText("t", "{{/* */}}{{if false}}{{"+name+call(name)+"}}{{end}}", TextInputs{})
		if err != nil || parsed.Plain("Replica") {
			t.Errorf("%s: %v, and taken for plain", name, err)
		}
	}
}

func call(name string) string {
	switch name {
	case "randInt":
		return " 1 2"
	case "uuidv4":
		return ""
	case "shuffle":
		return ` "x"`
	}
	return " 3"
}

// TestSprig tests that each function of sprig is supported, or listed as unsupported.
func TestSprig(t *testing.T) {
	here := (&TextTemplate{}).functions(TextInputs{})
	for name := range sprig.GenericFuncMap() {
		if _, ok := here[name]; ok == (removed[name] != "") {
			t.Errorf("%s: here %v, removed %q", name, ok, removed[name])
		}
	}
	for name := range removed {
		if _, err := ParseText("t", "{{"+name+"}}", TextInputs{}); err == nil || !strings.Contains(err.Error(), "this function of kube-burner is not supported") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMissingKeys tests that an undefined variable is an error, unless the job allows it.
func TestMissingKeys(t *testing.T) {
	parsed, err := ParseText("t", "a{{.no}}", TextInputs{MissingZero: true})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := parsed.Text(map[string]any{}, 1); err != nil || out != "a<no value>" {
		t.Errorf("%q %v", out, err)
	}
}

// FuzzText tests that no template ends the process, and that one seed gives one text.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		`{{range $i, $e := until 3}}{{randInt 0 9}}{{end}}`, `{{index .list 0}}{{dict "a" 1 | toJson}}`, `{{define "x"}}{{.}}{{end}}{{template "x" .n}}`,
		`{{IndexToCombination nil 3 5 2}}{{GetIPAddress "a b" 0 1}}{{untilStep 3 -3 -2}}`, `{{printf "%d" .n | repeat 3}}{{seq 1 2 9}}{{nindent 3 .s}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 300 {
			return
		}
		parsed, err := ParseText("t", text, TextInputs{})
		if err != nil {
			return
		}
		values := func() map[string]any { return map[string]any{"n": 3, "s": "a\nb", "list": []any{1, "x"}} }
		one, err := parsed.Text(values(), 5)
		if err != nil {
			return
		}
		if again, err := parsed.Text(values(), 5); err != nil || again != one {
			t.Errorf("%q, then %q %v", one, again, err)
		}
	})
}
