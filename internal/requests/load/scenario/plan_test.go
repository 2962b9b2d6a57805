package scenario

import (
	"errors"
	"fmt"
	"testing"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// TestChanges derives from the methods whether a scenario changes objects, unless it says so.
func TestChanges(t *testing.T) {
	for step, want := range map[string]bool{
		`{name: a, http: {url: "${web}/"}}`:                                                              false,
		`{name: a, http: {method: HEAD, url: "${web}/"}}`:                                                false,
		`{name: a, http: {method: DELETE, url: "${web}/"}}`:                                              true,
		`{name: a, http: {url: "${web}/", body: x}}`:                                                     true,
		`{name: a, http: {url: "${web}/"}}` + "\nsetup:\n- {name: b, http: {url: \"${web}/\", body: x}}": true,
		`{name: a, http: {url: "${web}/", body: x}}` + "\nchanges: false":                                false,
		`{name: a, http: {url: "${web}/"}}` + "\nchanges: true":                                          true,
	} {
		s, err := Parse("a.yaml", fmt.Appendf(nil, "scenario: a\nservers: {web: \"http://127.0.0.1:1\"}\nload: {hosts: 1}\nsteps:\n- %s\n", step), nil, nil)
		if err != nil || s.Changes != want {
			t.Errorf("%s: %v %v", step, s, err)
		}
	}
}

// TestConstantURL refuses a server that a step names itself before anything is sent.
func TestConstantURL(t *testing.T) {
	for url, allowed := range map[string]bool{
		"http://127.0.0.1:1/a?b=c": true,
		"http://192.0.2.9/a?b=c":   false,
		"http://[2001:db8::1]:1/":  false,
	} {
		j := &Job{File: "a.yaml", Text: fmt.Appendf(nil, "scenario: a\nload: {hosts: 1}\nsteps:\n- {name: a, http: {url: %q}}\n", url)}
		_, err := j.Plan(t.Context(), nil)
		var not *engine.NotAllowedError
		if errors.As(err, &not) == allowed || err != nil && not == nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
