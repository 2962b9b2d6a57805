package house

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestChangeFragments: each fragment of the change log is one that `make changelog` takes.
func TestChangeFragments(t *testing.T) {
	var config struct {
		Components []string
		Kinds      []struct{ Label string }
	}
	text, err := os.ReadFile("../../.changie.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil || len(config.Components) == 0 {
		t.Fatalf(".changie.yaml: %v", err)
	}
	files, err := filepath.Glob("../../.changes/unreleased/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var f struct {
			Component, Kind, Body string
			Time                  time.Time
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		known := func(label string) bool {
			return slices.ContainsFunc(config.Kinds, func(k struct{ Label string }) bool { return k.Label == label })
		}
		if err := d.Decode(&f); err != nil || strings.TrimSpace(f.Body) == "" || f.Time.IsZero() || !known(f.Kind) || !slices.Contains(config.Components, f.Component) {
			t.Errorf("%s: want component, kind, body and time, with a component and a kind of .changie.yaml: %+v, %v", file, f, err)
		}
	}
}
