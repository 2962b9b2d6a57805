package strict

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

// Patterns for decoders' error messages, which have no error type that other packages could use:
// encoding/json, sigs.k8s.io/json and YAML.
var (
	mistyped = regexp.MustCompile(`json: cannot unmarshal ([a-z]+).* into Go (?:value|struct field [^.]*\.(\S+)) of type (.+)`)
	inText   = regexp.MustCompile(`line (\d+): `)
	twice    = regexp.MustCompile(`(?:mapping )?key (".*") already (?:set in map|defined at line \d+)`)
	step     = regexp.MustCompile(`[^.\[\]]+`)
)

// Syntax returns a YAML error's line, or 0, and its message.
func Syntax(err error) (line int, words string) {
	words = err.Error()
	if m := inText.FindStringSubmatch(words); m != nil {
		line, _ = strconv.Atoi(m[1])
		words = strings.Replace(words, m[0], "", 1)
	}
	for _, begin := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		words = strings.TrimSpace(strings.TrimPrefix(words, begin))
	}
	return line, twice.ReplaceAllString(words, "$1 is given twice")
}

// Typed adds line and explanation to a decoder's error about a wrong type in a YAML or JSON file.
// It returns other errors with their own message.
func Typed(file string, data []byte, err error) error {
	if err == nil {
		return nil
	}
	var doc yaml.Node
	if e := yaml.Unmarshal(data, &doc); e != nil {
		err = e
	} else if len(doc.Content) == 1 {
		if line, words, ok := Mistyped(doc.Content[0], "", err); ok {
			return fmt.Errorf("%s:%d: %s", file, line, words)
		}
	}
	line, words := Syntax(err)
	if at, what := text.FindInvalid(data); at > 0 {
		line, words = at, what
	}
	switch {
	case line > 0:
		return fmt.Errorf("%s:%d: %s", file, line, words)
	case len(bytes.TrimSpace(data)) == 0:
		return fmt.Errorf("%s: the file is empty", file)
	}
	return fmt.Errorf("%s: %s", file, words)
}

// Mistyped explains a decoder's error about a wrong type: field, expected and found type, and the
// line below root. in is the path of the decoded part, such as items[0]. ok is false for other
// errors. Decoders omit list indexes, so it takes the first value that matches the error.
func Mistyped(root *yaml.Node, in string, err error) (line int, words string, ok bool) {
	m := mistyped.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, "", false
	}
	path := strings.TrimPrefix(in+"."+m[2], ".")
	n, at := find(root, step.FindAllString(path, -1), "", m[1])
	if n == nil {
		return root.Line, fmt.Sprintf("%swant %s, found another type (%s)", lead(strings.TrimSuffix(path, ".")), wanted(m[3]), m[1]), true
	}
	return n.Line, fmt.Sprintf("%swant %s, found %s", lead(at), wanted(m[3]), Found(n)), true
}

// find returns the first value at a path with a JSON type, and its path with list indexes. It tries
// all steps that decoders do not name, such as map keys.
func find(n *yaml.Node, path []string, at, kind string) (*yaml.Node, string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if len(path) == 0 && kindOf(n) == kind {
		return n, at
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			rest := path
			if len(path) > 0 && isNumber(path[0]) {
				if path[0] != strconv.Itoa(i) {
					continue
				}
				rest = path[1:]
			}
			if found, where := find(item, rest, fmt.Sprintf("%s[%d]", at, i), kind); found != nil {
				return found, where
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			rest := path
			if len(path) > 0 {
				if !strings.EqualFold(key, path[0]) {
					continue
				}
				rest = path[1:]
			}
			if found, where := find(n.Content[i+1], rest, join(at, key), kind); found != nil {
				return found, where
			}
		}
	}
	return nil, ""
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// kindOf returns a value's type in encoding/json's terms.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "number"
	case "!!bool":
		return "bool"
	case "!!null":
		return "null"
	}
	return "string"
}

// wanted returns the name of a Go type for messages.
func wanted(goType string) string {
	switch t := strings.TrimLeft(goType, "*"); {
	case t == "string":
		return "text"
	case t == "bool":
		return "true or false"
	case strings.HasPrefix(t, "int") && !strings.HasPrefix(t, "interface"), strings.HasPrefix(t, "uint"):
		return "a whole number"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case strings.HasPrefix(t, "[]uint8"):
		return "text in base64"
	case strings.HasPrefix(t, "["):
		return "a list"
	}
	return "fields"
}
