package platform

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/component"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/rule"
)

// server is a product of which one option runs, one is in a file, one is a default.
type server struct{ component.Installed }

func (server) Name() string { return "" }

func (server) Option(name string) component.Option {
	o := component.Option{Intended: fact.Absent[string]("/c"), File: fact.Absent[string]("/c"), Running: fact.Unknown[string]("/c", "it cannot be asked")}
	switch name {
	case "runs":
		o.Running = fact.Known("1", "show info")
	case "file":
		o.File = fact.Known("2", "/c:2")
	}
	return o
}

func (server) Answer(input string) rule.Answer {
	return map[string]rule.Answer{
		"version": {Value: "1", At: "/var/lib/dpkg/status"}, "processes": {Value: 3.0, At: "/proc"}, "told": {Value: 4.0, At: "/c:4"}, "asked": {Value: 5.0, At: "show info"},
		"both": {Value: 6.0, At: "/c:6", From: rule.Running}, "lacking": {Unknown: "no", At: "/c"},
	}[input]
}

// TestOrigin: what is said of a program says whether it runs so, or will.
func TestOrigin(t *testing.T) {
	p := component.Product{
		Name:       "p",
		Parameters: []component.Parameter{{Name: "runs", Type: rule.Number}, {Name: "file", Type: rule.Number}, {Name: "other", Type: rule.Number, Default: "7"}, {Name: "unset", Type: rule.Number}},
		Find: func(context.Context, *host.Host) ([]component.Installed, error) {
			return []component.Installed{server{}}, nil
		},
	}
	for _, in := range []string{"version", "processes", "told", "asked", "both", "lacking"} {
		p.Inputs = append(p.Inputs, rule.Input{Name: "p." + in, Type: rule.Number})
	}
	s := NewSubject(t.Context(), hosttest.Mounted(t, map[string]string{"etc/hostname": "x\n"}), nil, []Source{Product(p)})
	for input, want := range map[string]string{
		"runs": rule.Running, "file": rule.Files, "other": rule.Files, "unset": "", "version": "", "processes": rule.Running, "told": rule.Files, "asked": rule.Running,
		"both": rule.Running, "lacking": "",
	} {
		if got := s.Answer("p." + input); got.From != want {
			t.Errorf("%s is of %q, want %q: %+v", input, got.From, want, got)
		}
	}
}
