package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Insert implements Inserter. A key of an existing map goes below the map's line, indented like its
// other keys. A new map or a top-level key goes to the end of the file.
func (YAML) Insert(text, key, literal string) (string, error) {
	top, err := topMapping(text)
	if err != nil {
		return "", err
	}
	keys := strings.Split(key, "/")
	indent, at := "", len(text)
	for len(keys) > 1 && top != nil {
		name, value := mapped(top, keys[0])
		if name == nil {
			break
		}
		if value.Kind != yaml.MappingNode || value.Style&(yaml.FlowStyle|yaml.TaggedStyle) != 0 || value.Anchor != "" || len(value.Content) == 0 || value.Content[0].Line <= name.Line {
			return "", fmt.Errorf("line %d: the keys of %s are not on separate lines; add %s by hand", name.Line, keys[0], key)
		}
		indent, at = strings.Repeat(" ", value.Content[0].Column-1), endOfLine(text, name.Line)
		top, keys = value, keys[1:]
	}
	var lines []string
	for i, k := range keys {
		line := indent + strings.Repeat("  ", i) + k + ":"
		if i == len(keys)-1 {
			line += " " + literal
		}
		lines = append(lines, line)
	}
	out := addLine(text, at, strings.Join(lines, "\n"))
	if at == len(text) && !within(out, keys) {
		return "", fmt.Errorf("the file has several YAML documents, and only the first is read; add %s to the first by hand", key)
	}
	return out, nil
}

// within reports whether a path of keys exists in the first document of a file.
func within(text string, keys []string) bool {
	at, err := topMapping(text)
	for _, k := range keys {
		if err != nil || at == nil || at.Kind != yaml.MappingNode {
			return false
		}
		name, value := mapped(at, k)
		if name == nil {
			return false
		}
		at = value
	}
	return true
}

// Remove implements Inserter. It also removes the map if this was its last key, because Insert made
// the map.
func (YAML) Remove(text string, a Assignment) string {
	out := removeLine(text, a)
	end := strings.LastIndexByte(text[:a.From], '\n') + 1 // the end of the lines before the assignment
	keys := strings.Split(a.Key, "/")
	for n := len(keys) - 2; n >= 0 && end > 0; n-- {
		from := strings.LastIndexByte(text[:end-1], '\n') + 1
		if strings.TrimSpace(text[from:end]) != keys[n]+":" || indented(text[from:end]) >= indented(text[end:]) {
			break
		}
		if top, err := topMapping(out); err != nil || !empty(top, keys[:n+1]) {
			break
		}
		switch {
		case len(out) < end: // the file does not end with a newline
			out = strings.TrimSuffix(out[:from], "\n")
		default:
			out = out[:from] + out[end:]
		}
		end = from
	}
	return out
}

// topMapping returns the mapping of a file's first document, or nil if it has none.
func topMapping(text string) (*yaml.Node, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	case len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode:
		return nil, nil
	}
	return doc.Content[0], nil
}

// mapped returns the last key with this name in a mapping, and its value; nil if none exists.
func mapped(m *yaml.Node, key string) (name, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			name, value = m.Content[i], m.Content[i+1]
		}
	}
	return name, value
}

// empty reports whether the value at a path of keys is null.
func empty(top *yaml.Node, keys []string) bool {
	for _, k := range keys {
		if top == nil || top.Kind != yaml.MappingNode {
			return false
		}
		_, top = mapped(top, k)
	}
	return top != nil && top.Tag == "!!null"
}

// endOfLine returns the offset after the end of a line; lines count from 1.
func endOfLine(text string, line int) int {
	at := 0
	for range line {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
	}
	return at
}

func indented(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
