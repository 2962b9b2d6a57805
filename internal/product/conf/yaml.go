package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// YAML is the syntax of the scalars of a YAML file's first document. A key is the path of map keys,
// joined by slashes. It finds one-line scalars in block maps, each of which can be changed and
// restored. It ignores anchors, tags, lists and {flow}. If a key is duplicated, the last one
// counts, as in Ruby.
type YAML struct{}

var yamlKey = text.LazyRegexp(`^[A-Za-z0-9_:.@-]+(/[A-Za-z0-9_:.@-]+)*$`)

// Key implements Syntax.
func (YAML) Key(name string) (string, error) {
	if !yamlKey().MatchString(name) {
		return "", fmt.Errorf("%q is not an option name; want letters, digits, \"_\", \"-\", \":\" and \".\", and \"/\" between a map and its key", name)
	}
	return name, nil
}

// Limits: a file of a copy may contain anything.
const (
	maxYAML      = 1 << 20 // bytes of a file
	maxYAMLDepth = 20
)

// errLines is returned for a file with line ends that only YAML recognizes, or with bytes that
// fettle cannot write.
var errLines = errors.New("1: the file contains line ends or bytes that fettle cannot write")

var yamlLine = text.LazyRegexp(`^yaml: line (\d+): `)

// Assignments implements Syntax.
func (y YAML) Assignments(text string) ([]Assignment, error) {
	if len(text) > maxYAML || !utf8.ValidString(text) || strings.ContainsAny(strings.ReplaceAll(text, "\r\n", ""), "\r\u0085\u2028\u2029\ufeff") {
		return nil, errLines
	}
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
			return nil, fmt.Errorf("%s: %s", m[1], err.Error()[len(m[0]):])
		}
		return nil, fmt.Errorf("1: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	w := yamlWalk{text: text}
	at := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		w.lines = append(w.lines, at)
		at += len(line)
	}
	for _, n := range doc.Content {
		w.walk("", n, 0)
	}
	return w.out, nil
}

type yamlWalk struct {
	text  string
	lines []int // the offset of each line's first byte
	out   []Assignment
}

func (w *yamlWalk) walk(prefix string, n *yaml.Node, depth int) {
	if depth > maxYAMLDepth || n.Anchor != "" || n.Style&(yaml.FlowStyle|yaml.TaggedStyle) != 0 {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || strings.Contains(k.Value, "/") || !yamlKey().MatchString(k.Value) {
				continue
			}
			key := k.Value
			if prefix != "" {
				key = prefix + "/" + key
			}
			w.walk(key, n.Content[i+1], depth+1)
		}
	case yaml.ScalarNode:
		if prefix == "" || n.Tag == "!!null" || n.Line < 1 || n.Line > len(w.lines) {
			return
		}
		if from, to, ok := w.literal(n); ok {
			w.out = append(w.out, Assignment{Key: prefix, Literal: w.text[from:to], Line: n.Line, From: from, To: to})
		}
	}
}

// literal returns the byte range of a scalar that is alone in its line, except for a comment; ok is
// false for others.
func (w *yamlWalk) literal(n *yaml.Node) (from, to int, ok bool) {
	rest := w.text[w.lines[n.Line-1]:]
	rest, _, _ = strings.Cut(rest, "\n")
	rest = strings.TrimSuffix(rest, "\r")
	skip := 0
	for range n.Column - 1 { // n.Column counts characters
		_, size := utf8.DecodeRuneInString(rest[skip:])
		skip += size
	}
	from = w.lines[n.Line-1] + skip
	rest = rest[skip:]
	length := 0
	switch n.Style {
	case 0:
		if !strings.HasPrefix(rest, n.Value) {
			return 0, 0, false
		}
		length = len(n.Value)
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		if length = quotedLength(rest); length == 0 {
			return 0, 0, false
		}
	default:
		return 0, 0, false
	}
	after := strings.TrimLeft(rest[length:], " \t")
	if length == 0 || after != "" && (after[0] != '#' || len(after) == len(rest)-length) {
		return 0, 0, false
	}
	return from, from + length, true
}

// quotedLength returns the length in bytes of a quoted scalar at the beginning of a line, or 0 if
// it continues on the next line.
func quotedLength(s string) int {
	if s == "" {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] == s[0] && s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return 0
}

// scalar parses a text as the value of a key; ok is false unless it is one scalar in one line.
func (y YAML) scalar(text string) (value string, ok bool) {
	all, err := y.Assignments("k: " + text + "\n")
	if err != nil || len(all) != 1 || all[0].Literal != text {
		return "", false
	}
	var doc struct {
		K string `yaml:"k"`
	}
	if err := yaml.Unmarshal([]byte("k: "+text+"\n"), &doc); err != nil {
		return "", false
	}
	return doc.K, true
}

// Literal implements Syntax.
func (y YAML) Literal(value string) (string, error) {
	if err := OneLine(value); err != nil {
		return "", err
	}
	if _, ok := y.scalar(value); ok {
		return value, nil
	}
	quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	if v, ok := y.scalar(quoted); ok && v == value {
		return quoted, nil
	}
	return "", fmt.Errorf("%q: %w", value, ErrValue)
}

// Unquote implements Syntax.
func (y YAML) Unquote(literal string) string {
	if v, ok := y.scalar(literal); ok {
		return v
	}
	return literal
}

// Line implements Syntax.
func (YAML) Line(key, literal string) string { return key + ": " + literal }
