package conf

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Product defines how the configuration files of a product are read and written. The main file
// of an instance identifies it.
type Product struct {
	Name   string // the kind of the product's settings: "postgresql"
	Syntax Syntax
	// SyntaxOf returns the syntax of a main file; nil if all files have Syntax.
	SyntaxOf func(h *host.Host, main string) Syntax
	// FileOf returns the file that holds an option of an instance; nil if each instance has only
	// its main file.
	FileOf func(h *host.Host, main, key string) string
	// Roots returns the directories of the product's configuration; files outside are never
	// written.
	Roots func(*host.Host) []string
	// Instances finds the main files of a machine.
	Instances func(*host.Host) ([]Instance, error)
	// Alias returns the name that an instance's files use for an option, such as an environment
	// variable; nil if the names are the same.
	Alias func(h *host.Host, main, key string) string
	// Winner finds the line whose value the product uses for an option; ok is false if no line sets
	// it. Nil for products with one file whose last assignment wins.
	Winner func(h *host.Host, main, key string) (p Place, ok bool, err error)
	// Canonical returns one spelling for all equivalent values, such as "8192kB" and "8MB"; nil
	// if no values are equivalent.
	Canonical func(value string) string
	// Check returns an error for options and values that fettle must not set; nil accepts all.
	Check func(key, value string) error
	// CheckHere returns an error for values that would harm this machine. It runs after Check; nil
	// accepts all.
	CheckHere func(h *host.Host, key, value string) error
	// Activation and Activate implement setting.Activator; nil if values take effect only when an
	// administrator starts the program.
	Activation func(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool)
	Activate   func(context.Context, *host.Host, setting.Activation) error
	// Effect returns whether a value in the file is in effect; nil means OK.
	Effect func(ctx context.Context, h *host.Host, main, key, value string) (plugin.Verdict, string)
}

// Instance is one configuration of a product: its name and its main file.
type Instance struct {
	Name string // "15/main"
	Main string // its main file
}

// Is reports whether the instance has this main file, or a link to it.
func (i Instance) Is(h *host.Host, main string) bool {
	real, err := h.Files.Resolve(i.Main)
	return i.Main == main || err == nil && real == main
}

// Base returns the instance itself, for types that embed it.
func (i Instance) Base() Instance { return i }

// Bases returns the instances that the elements embed, and passes err through.
func Bases[T interface{ Base() Instance }](all []T, err error) ([]Instance, error) {
	out := make([]Instance, len(all))
	for i, in := range all {
		out[i] = in.Base()
	}
	return out, err
}

// Mains returns the main files of the instances, and passes err through.
func Mains(all []Instance, err error) ([]string, error) {
	out := make([]string, len(all))
	for i, in := range all {
		out[i] = in.Main
	}
	return out, err
}

// Place is an assignment and the file that it is in.
type Place struct {
	File string
	Assignment
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Places returns the assignments in the text of a file. The error for a file that the product would
// reject begins with FILE:LINE.
func Places(s Syntax, file, text string) ([]Place, error) {
	all, err := s.Assignments(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	out := make([]Place, len(all))
	for i, a := range all {
		out[i] = Place{file, a}
	}
	return out, nil
}

// PlacesIn reads a file and returns its assignments.
func PlacesIn(h *host.Host, s Syntax, file string) ([]Place, error) {
	text, err := h.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Places(s, file, string(text))
}

// Last returns the last assignment of a key; ok is false if none exists. Most products use the last
// one.
func Last(all []Place, key string) (p Place, ok bool) {
	for _, p := range slices.Backward(all) {
		if p.Key == key {
			return p, true
		}
	}
	return Place{}, false
}

// New returns the kind of a product's settings:
//
//	NAME:/FILE#KEY       the full identity, always valid
//	NAME:KEY             if the machine has one instance
//	NAME:INSTANCE/KEY    if it has more than one
//
// A value is the configuration's text, including quotes. The kind quotes a requested value if
// necessary. An option that no line sets is Absent.
func New(h *host.Host, p Product) setting.Kind { return kind{h, p} }

type kind struct {
	host *host.Host
	Product
}

// syntax returns the syntax of a main file.
func (k kind) syntax(main string) Syntax {
	if k.SyntaxOf != nil {
		return k.SyntaxOf(k.host, main)
	}
	return k.Syntax
}

// parts splits a setting's identity into the main file and the key.
func (k kind) parts(s setting.Setting) (main, key string, err error) {
	main, key, ok := strings.Cut(s.Name, "#")
	if !ok || !strings.HasPrefix(main, "/") {
		return "", "", fmt.Errorf("%s: want %s:/FILE#OPTION", s, k.Name)
	}
	return main, key, nil
}

// Resolve implements setting.Kind.
func (k kind) Resolve(s setting.Setting) (setting.Setting, error) {
	if !strings.HasPrefix(s.Name, "/") {
		main, key, err := k.short(s)
		if err != nil {
			return setting.Setting{}, err
		}
		s.Name = main + "#" + key
	}
	main, key, err := k.parts(s)
	if err != nil {
		return setting.Setting{}, err
	}
	if key, err = k.syntax(main).Key(key); err != nil {
		return setting.Setting{}, fmt.Errorf("%s: %w", s, err)
	}
	if main, err = k.inside(main); err != nil {
		return setting.Setting{}, fmt.Errorf("%s: %w", s, err)
	}
	if k.Alias != nil {
		key = k.Alias(k.host, main, key)
	}
	return setting.Setting{Kind: s.Kind, Name: main + "#" + key}, nil
}

// short finds the instance and key that a short form of a setting means.
func (k kind) short(s setting.Setting) (main, key string, err error) {
	all, err := k.Instances(k.host)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", s, err)
	}
	names := make([]string, len(all))
	var best Instance // the longest name that fits: "data/pg", not "data"
	for i, in := range all {
		if strings.HasPrefix(s.Name, in.Name+"/") && len(in.Name) > len(best.Name) {
			best = in
		}
		names[i] = k.Name + ":" + in.Name + "/" + s.Name
	}
	if best.Name != "" {
		key = s.Name[len(best.Name)+1:]
		return k.fileOf(best.Main, key), key, nil
	}
	switch len(all) {
	case 0:
		return "", "", fmt.Errorf("%s: no configuration of %s found: %w", s, k.Name, fs.ErrNotExist)
	case 1:
		return k.fileOf(all[0].Main, s.Name), s.Name, nil
	}
	return "", "", fmt.Errorf("%s: this machine has several instances; name one of %s", s, strings.Join(names, ", "))
}

func (k kind) fileOf(main, key string) string {
	if k.FileOf != nil {
		return k.FileOf(k.host, main, key)
	}
	return main
}

// inside resolves the symbolic links of a file. It returns an error for a file outside the
// product's own directories.
func (k kind) inside(file string) (string, error) {
	file = path.Clean(file)
	if strings.ContainsAny(file, "#\x00\n") {
		return "", fmt.Errorf("%q: %w", file, setting.ErrOutside)
	}
	if real, err := k.host.Files.Resolve(file); err == nil {
		file = real
	} else if dir, err := k.host.Files.Resolve(path.Dir(file)); err == nil {
		file = path.Join(dir, path.Base(file))
	}
	roots := k.Roots(k.host)
	if slices.ContainsFunc(roots, func(root string) bool {
		if real, err := k.host.Files.Resolve(root); err == nil {
			root = real
		}
		return strings.HasPrefix(file, strings.TrimSuffix(root, "/")+"/")
	}) {
		return file, nil
	}
	return "", fmt.Errorf("%s: %w: %s keeps its configuration below %s", file, setting.ErrOutside, k.Name, strings.Join(roots, ", "))
}

// winner returns the line whose value the product uses for an option; ok is false if no line sets
// it.
func (k kind) winner(main, key string) (Place, bool, error) {
	if k.Winner != nil {
		return k.Winner(k.host, main, key)
	}
	all, err := PlacesIn(k.host, k.syntax(main), main)
	p, ok := Last(all, key)
	return p, ok, err
}

// Read implements setting.Kind.
func (k kind) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	main, key, err := k.parts(s)
	if err != nil {
		return setting.Value{}, err
	}
	p, ok, err := k.winner(main, key)
	switch {
	case err != nil:
		return setting.Value{}, err
	case !ok:
		return setting.Absent, nil
	}
	return setting.Text(p.Literal), nil
}

// Equal implements setting.Kind: it compares values as the product does.
func (k kind) Equal(a, b setting.Value) bool {
	if a.Absent || b.Absent {
		return a.Absent == b.Absent
	}
	return a.Text == b.Text || k.canonical(a.Text) == k.canonical(b.Text)
}

// meaning returns the value that a text stands for; the text may be a literal or not yet quoted.
func (k kind) meaning(text string) string {
	if literal, err := k.Syntax.Literal(text); err == nil {
		text = literal
	}
	return k.Syntax.Unquote(text)
}

func (k kind) canonical(text string) string {
	value := k.meaning(text)
	if k.Canonical == nil {
		return value
	}
	return k.Canonical(value)
}

// Coupled implements setting.Kind.
func (kind) Coupled(setting.Setting) []setting.Setting { return nil }

// Lifetime implements setting.Kind. Activate and Effect handle the moment at which the program
// reads the file.
func (kind) Lifetime() setting.Lifetime { return setting.File }
