package platform

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/machine"
)

// server is a product of which one option runs, one is in a file, one is a default.
type server struct{ product.Installed }

func (server) Name() string { return "" }

func (server) Option(name string) product.Option {
	o := product.Option{File: fact.Absent[string]("/c"), Running: fact.Unknown[string]("/c", "it cannot be asked")}
	switch name {
	case "runs":
		o.Running = fact.Known("1", "show info")
	case "file":
		o.File = fact.Known("2", "/c:2")
	}
	return o
}

func (server) Answer(input string) fact.Answer {
	return map[string]fact.Answer{
		"version": {Value: "1", At: "/var/lib/dpkg/status"}, "processes": {Value: 3.0, At: "/proc"}, "told": {Value: 4.0, At: "/c:4"}, "asked": {Value: 5.0, At: "show info"},
		"both": {Value: 6.0, At: "/c:6", From: fact.Running}, "lacking": {Unknown: "no", At: "/c"},
	}[input]
}

// TestOrigin: what is said of a program says whether it runs so, or will.
func TestOrigin(t *testing.T) {
	p := product.Product{
		Name:       "p",
		Parameters: []product.Parameter{{Name: "runs", Type: fact.Number}, {Name: "file", Type: fact.Number}, {Name: "other", Type: fact.Number, Default: "7"}, {Name: "unset", Type: fact.Number}},
		Find: func(context.Context, *host.Host) ([]product.Installed, error) {
			return []product.Installed{server{}}, nil
		},
	}
	for _, in := range []string{"version", "processes", "told", "asked", "both", "lacking"} {
		p.Inputs = append(p.Inputs, fact.Input{Name: "p." + in, Type: fact.Number})
	}
	s := NewSubject(t.Context(), machine.Mounted(t, map[string]string{"etc/hostname": "x\n"}), nil, []Source{Product(p)})
	for input, want := range map[string]string{
		"runs": fact.Running, "file": fact.Files, "other": fact.Files, "unset": "", "version": "", "processes": fact.Running, "told": fact.Files, "asked": fact.Running,
		"both": fact.Running, "lacking": "",
	} {
		if got := s.Answer("p." + input); got.From != want {
			t.Errorf("%s is of %q, want %q: %+v", input, got.From, want, got)
		}
	}
}
