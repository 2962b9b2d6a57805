package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	internaltext "fettle.dev/fettle/internal/text"
)

// position is a place in a scenario file.
type position struct {
	file         string
	line, column int
	block        []string // for a text in a block: the lines of the file
}

func (p position) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w", p.file, p.line, p.column, internaltext.Errorf(format, args...))
}

// plus returns the position of a byte within a text that begins at p.
func (p position) plus(text string, offset int) position {
	before := text[:offset]
	p.line += strings.Count(before, "\n")
	begin := strings.LastIndexByte(before, '\n') + 1
	p.column += offset - begin
	if p.block != nil && p.line <= len(p.block) {
		line, _, _ := strings.Cut(text[begin:], "\n")
		p.column += max(0, strings.Index(p.block[p.line-1], line)) // the indentation
	}
	return p
}

func suggest(word string, known map[string]bool) string {
	return internaltext.Suggest(word, slices.Sorted(maps.Keys(known)))
}

// maxFile is the maximum size of a scenario file, in bytes.
const maxFile = 1 << 20

// document reads the single YAML document of a file.
func document(file string, text []byte) (*yaml.Node, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: %s", file, internaltext.Sprintf("larger than %d KiB", maxFile>>10))
	}
	var doc yaml.Node
	read := yaml.NewDecoder(bytes.NewReader(text))
	if err := read.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty file; want a scenario", file)
	} else if err != nil {
		return nil, syntax(file, err)
	}
	if err := read.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document; want one scenario a file", file)
	}
	return doc.Content[0], nil
}

var syntaxLine = internaltext.LazyRegexp(`^yaml: line (\d+): (?s:(.*))`)

// syntax returns a syntax error with its place.
func syntax(file string, err error) error {
	if m := syntaxLine().FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s:%s: %s", file, m[1], m[2])
	}
	return fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
}

// fields reads a mapping strictly: each key must be known and occur once.
type fields struct {
	p    *parser
	at   position
	keys map[string]*yaml.Node // of the keys
	of   map[string]*yaml.Node
	list []string // in the order of the file
}

// mapping returns the fields of a node. Without known keys any key is accepted.
func (p *parser) mapping(n *yaml.Node, what string, known ...string) (*fields, error) {
	if n.Kind != yaml.MappingNode {
		return nil, p.at(n).errorf("%s: want keys and values", what)
	}
	f := &fields{p: p, at: p.at(n), keys: map[string]*yaml.Node{}, of: map[string]*yaml.Node{}}
	allowed := map[string]bool{}
	for _, key := range known {
		allowed[key] = true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, p.at(key).errorf("%s: want a word as a key", what)
		case len(known) > 0 && !allowed[key.Value]:
			return nil, p.at(key).errorf("%s: unknown key %q%s", what, key.Value, suggest(key.Value, allowed))
		case f.of[key.Value] != nil:
			return nil, p.at(key).errorf("%s: key %q occurs twice", what, key.Value)
		case v.Kind == yaml.AliasNode:
			return nil, p.at(v).errorf("%s: aliases (*NAME) are not supported; repeat the text", what)
		}
		f.keys[key.Value], f.of[key.Value] = key, v
		f.list = append(f.list, key.Value)
	}
	return f, nil
}

func (p *parser) at(n *yaml.Node) position {
	at := position{file: p.file, line: n.Line, column: n.Column}
	switch n.Style {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		at.line, at.column, at.block = n.Line+1, 1, p.lines
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		at.column++
	}
	return at
}

// scalar returns the text of a scalar.
func (p *parser) scalar(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", p.at(n).errorf("%s: want a text", what)
	}
	return n.Value, nil
}

// word returns the text of a key, or "" if it is absent.
func (f *fields) word(key string) (string, error) {
	n := f.of[key]
	if n == nil {
		return "", nil
	}
	return f.p.scalar(n, key)
}

// whole returns the whole number of a key, or absent.
func (f *fields) whole(key string, absent, least, most int) (int, error) {
	n := f.of[key]
	if n == nil {
		return absent, nil
	}
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		return 0, f.p.at(n).errorf("%s: want a whole number from %d to %d", key, least, most)
	}
	return v, nil
}

// truth returns true or false.
func (f *fields) truth(key string) (bool, error) {
	switch n := f.of[key]; {
	case n == nil:
		return false, nil
	case n.Kind == yaml.ScalarNode && n.Tag == "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	default:
		return false, f.p.at(n).errorf("%s: want true or false", key)
	}
}

// duration returns a time such as 10s, or absent.
func (f *fields) duration(key string, absent time.Duration) (time.Duration, error) {
	n := f.of[key]
	if n == nil {
		return absent, nil
	}
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d <= 0 || d > longest {
		return 0, f.p.at(n).errorf("%s: want a time with unit, such as 500ms or 10s, of at most %v", key, longest)
	}
	return d, nil
}

// items returns the elements of a list, or of a single value.
func (p *parser) items(n *yaml.Node, what string) ([]*yaml.Node, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []*yaml.Node{n}, nil
	case yaml.SequenceNode:
		for _, one := range n.Content {
			if one.Kind != yaml.ScalarNode {
				return nil, p.at(one).errorf("%s: want a text", what)
			}
		}
		return n.Content, nil
	}
	return nil, p.at(n).errorf("%s: want a list, such as [a, b]", what)
}
