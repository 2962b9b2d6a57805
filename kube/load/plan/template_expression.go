package plan

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/strict"
)

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	symbols = "~!@#$%^&*()-_+={}[]\\|<,>.?/\"';:`"
)

// classes are the abbreviations allowed within brackets.
var classes = map[byte]string{'w': letters + digits + "_", 'd': digits, 'a': letters + digits, 'A': symbols}

// expression is a text with generators, such as admin[0-9]{2}[A-Z]{2}.
type expression []part

// part is a text, or a number of characters from a set.
type part struct {
	text  string
	set   string
	count int
}

// generatorForm matches a set of characters and their number, 1 to 255.
var generatorForm = regexp.MustCompile(`\[([a-zA-Z0-9\-\\]+)\]\{([0-9]+)\}`)

func parseExpression(text string) (expression, error) {
	var e expression
	for text != "" {
		at := generatorForm.FindStringSubmatchIndex(text)
		if at == nil {
			return append(e, part{text: text}), nil
		}
		if at[0] > 0 {
			e = append(e, part{text: text[:at[0]]})
		}
		set, err := characters(text[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(text[at[4]:at[5]])
		if err != nil || n < 1 || n > 255 {
			return nil, fmt.Errorf("%s: want 1 to 255 characters", text[at[0]:at[1]])
		}
		e = append(e, part{set: set, count: n})
		text = text[at[1]:]
	}
	return e, nil
}

// characters returns the characters of a set such as a-z0-9 or \w, each once.
func characters(set string) (string, error) {
	var all strings.Builder
	add := func(chars string) {
		for i := range len(chars) {
			if !strings.Contains(all.String(), chars[i:i+1]) {
				all.WriteByte(chars[i])
			}
		}
	}
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '\\':
			if i++; i == len(set) || classes[set[i]] == "" {
				return "", fmt.Errorf("[%s]: want \\w, \\d, \\a or \\A after a backslash", set)
			}
			add(classes[set[i]])
		case i+2 < len(set) && set[i+1] == '-':
			from, to := set[i], set[i+2]
			if kind(from) == 0 || kind(from) != kind(to) || from > to {
				return "", fmt.Errorf("[%s]: %s is not a range such as a-z, A-Z or 0-9", set, set[i:i+3])
			}
			for c := from; c <= to; c++ {
				add(string(c))
			}
			i += 2
		default:
			add(set[i : i+1])
		}
	}
	return all.String(), nil
}

// kind returns the class of a character in a range; 0 for others.
func kind(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= '0' && c <= '9':
		return '0'
	}
	return 0
}

// generate generates a text; number returns 64 random bits.
func (e expression) generate(number func() uint64) string {
	var out strings.Builder
	for _, p := range e {
		out.WriteString(p.text)
		for range p.count {
			out.WriteByte(p.set[number()%uint64(len(p.set))])
		}
	}
	return out.String()
}

// shape reports fields of a Template with the wrong type.
func shape(r *strict.Reader, d *yaml.Node) {
	list(r, d, "objects", func(*yaml.Node, string) {})
	list(r, d, "parameters", func(p *yaml.Node, path string) {
		for i := 0; i+1 < len(p.Content); i += 2 {
			name, value := p.Content[i].Value, resolved(p.Content[i+1])
			switch strings.ToLower(name) {
			case "name", "displayname", "description", "generate", "from":
				wantText(r, value, path+"."+name)
			case "required":
				if tag := value.ShortTag(); tag != "!!bool" && tag != "!!null" {
					r.Fault(value, "%s.%s: want true or false, found %s", path, name, strict.Found(value))
				}
			}
		}
	})
	labels := strict.Get(d, "labels")
	switch {
	case labels == nil || labels.ShortTag() == "!!null":
	case labels.Kind != yaml.MappingNode:
		r.Fault(labels, "labels: want a map of strings, found %s", strict.Found(labels))
	default:
		for i := 0; i+1 < len(labels.Content); i += 2 {
			wantText(r, resolved(labels.Content[i+1]), "labels."+labels.Content[i].Value)
		}
	}
}

// list calls each for the mappings of a list.
func list(r *strict.Reader, d *yaml.Node, field string, each func(item *yaml.Node, path string)) {
	n := strict.Get(d, field)
	if n == nil || n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.Fault(n, "%s: want a list, found %s", field, strict.Found(n))
		return
	}
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", field, i)
		if item = resolved(item); item.Kind != yaml.MappingNode {
			r.Fault(item, "%s: want an object with its fields, found %s", path, strict.Found(item))
			continue
		}
		each(item, path)
	}
}

func wantText(r *strict.Reader, n *yaml.Node, path string) {
	if tag := n.ShortTag(); tag != "!!str" && tag != "!!null" {
		r.Fault(n, "%s: want a string, found %s; put it in quotes", path, strict.Found(n))
	}
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
