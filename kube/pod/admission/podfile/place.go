package podfile

import (
	"fmt"
	"regexp"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/strict"
)

// place knows at which line of a manifest the fields of one of its documents stand.
type place struct {
	name  string
	begin int          // the document's first line
	root  *yamlv3.Node // nil where it cannot be told
}

// parse looks at the text of the document.
func (p *place) parse(text []byte) {
	var doc yamlv3.Node
	if yamlv3.Unmarshal(text, &doc) == nil && len(doc.Content) == 1 {
		p.root = doc.Content[0]
	}
}

// wrong says what is wrong at a field, or in the document where path is "".
func (p *place) wrong(path string, err error) error {
	return fmt.Errorf("%s:%d: %w", p.name, p.line(path), err)
}

// unreadable says what is wrong with a document that is no YAML.
func (p *place) unreadable(err error) error {
	line, words := strict.Syntax(err)
	return fmt.Errorf("%s:%d: %s", p.name, p.begin+max(line, 1)-1, words)
}

// mistyped says where a value of another type than is wanted stands; ok is false where the
// error is about something else. what is the object that is read, and in where it is.
func (p *place) mistyped(in, what string, err error) (wrong error, ok bool) {
	if p.root == nil {
		return nil, false
	}
	line, words, ok := strict.Mistyped(p.root, in, err)
	return fmt.Errorf("%s:%d: %s%s", p.name, p.begin+line-1, what, words), ok
}

// field is the path in what a strict reading says: unknown field "spec.containers[0].x".
var field = regexp.MustCompile(`(?:unknown|duplicate) field "(.*)"`)

// fieldOf is the field of which an error of a strict reading is; "" for another one.
func fieldOf(err error) string {
	if m := field.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// step is a name or a number of a path.
var step = regexp.MustCompile(`[^.\[\]]+`)

// line is that of a field, or of the innermost one around it that is found.
func (p *place) line(path string) int {
	n, line := p.root, 1
	if n != nil && n.Line > 0 {
		line = n.Line
	}
	for _, name := range step.FindAllString(path, -1) {
		next := (*yamlv3.Node)(nil)
		for n != nil && n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		switch {
		case n == nil:
		case n.Kind == yamlv3.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == name {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case n.Kind == yamlv3.SequenceNode:
			if i, err := strconv.Atoi(name); err == nil && i < len(n.Content) {
				line, next = n.Content[i].Line, n.Content[i]
			}
		}
		if n = next; n == nil {
			break
		}
	}
	return p.begin + line - 1
}
