package plugin

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/profile"
)

// TestWordsAsTuneD holds each word against TuneD 2.20's own reading (plugins/base.py
// _option_bool, utils/commands.py get_bool): what a person would read otherwise gets
// TuneD's value and a warning, and all else stays as it is written.
func TestWordsAsTuneD(t *testing.T) {
	getBool := func(v string) string {
		switch strings.ToUpper(strings.TrimSpace(v)) {
		case "Y", "YES", "T", "TRUE":
			return "1"
		case "N", "NO", "F", "FALSE":
			return "0"
		}
		return v
	}
	surprises := 0
	for _, c := range []struct {
		words Words
		tuned func(string) bool
	}{
		{OnlyTrue, func(v string) bool { v = strings.ToLower(v); return v == "true" || v == "1" }},
		{YesWords, func(v string) bool { return getBool(v) == "1" }},
		{NoWords, func(v string) bool { return getBool(v) != "0" }},
	} {
		for _, word := range strings.Fields("1 0 true True TRUE false yes YES no on off y n t f T F enabled disabled") {
			o, warning := c.words.Read(profile.Option{Name: "x", Value: word})
			meant, _ := Truth(word)
			got, ok := Truth(o.Value)
			if !ok || got != c.tuned(word) || (warning != "") != (meant != got) || warning == "" && o.Value != word {
				t.Errorf("%v: %s becomes %s (%q), TuneD reads %t", c.words, word, o.Value, warning, c.tuned(word))
			}
			if warning != "" {
				surprises++
			}
		}
		for _, other := range []string{"", "5", "-1", "force", "${x}"} {
			if o, warning := c.words.Read(profile.Option{Name: "x", Value: other}); o.Value != other || warning != "" {
				t.Errorf("%q becomes %q (%q)", other, o.Value, warning)
			}
		}
	}
	if surprises < 10 {
		t.Errorf("only %d words surprise", surprises)
	}
	p := Plugin{Options: []Option{{Name: "dynamic", Words: OnlyTrue}, {Name: "other"}}}
	var warned []string
	u := profile.Unit{Name: "disk", Options: []profile.Option{{Name: "dynamic", Value: "yes"}, {Name: "other", Value: "yes"}}}
	read := p.ReadUnit(u, func(_ profile.Pos, w string) { warned = append(warned, w) })
	if read.Options[0].Value != "0" || read.Options[1].Value != "yes" || u.Options[0].Value != "yes" || len(warned) != 1 || !slices.ContainsFunc(warned, func(w string) bool { return strings.HasPrefix(w, "[disk] dynamic=yes") }) {
		t.Errorf("read %v, warned %q", read.Options, warned)
	}
}
