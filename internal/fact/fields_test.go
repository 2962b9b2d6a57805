package fact

import (
	"reflect"
	"regexp"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// Every fact of this machine has a field, and its value has the field's type.
func TestFields(t *testing.T) {
	fields, sets := Fields()
	byPattern := map[*regexp.Regexp]Field{}
	for _, f := range fields {
		text := regexp.QuoteMeta(f.Name)
		text = regexp.MustCompile(`\\\*`).ReplaceAllString(text, ".+")
		byPattern[regexp.MustCompile("^"+text+"$")] = f
	}
	isSet := map[string]bool{}
	for _, s := range sets {
		isSet[s] = true
	}
	for _, it := range Collect(host.Live()).List() {
		if isSet[it.Name] {
			continue
		}
		found := false
		for re, f := range byPattern {
			if re.MatchString(it.Name) {
				found = found || it.Value == nil || f.Type == reflect.TypeOf(it.Value)
			}
		}
		if !found {
			t.Errorf("%s (%T) is no field", it.Name, it.Value)
		}
	}
	if len(fields) < 100 || !isSet["disk"] {
		t.Errorf("%d fields, sets %v", len(fields), sets)
	}
}
