package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/antchfx/xmlquery"
	"github.com/antchfx/xpath"
	"github.com/klauspost/compress/gzip"
	"github.com/theory/jsonpath"
	"go.yaml.in/yaml/v3"

	internaltext "fettle.dev/fettle/internal/text"
)

// source reads where a text is taken from.
func (p *parser) source(f *fields, what string) (s source, err error) {
	word := map[string]string{}
	for _, key := range []string{"jsonpath", "xpath", "regexp", "header"} {
		if word[key], err = f.word(key); err != nil {
			return s, err
		}
	}
	given := 0
	for _, key := range []string{"jsonpath", "xpath", "regexp"} {
		if word[key] != "" {
			given++
			s.text = key + " " + word[key]
		}
	}
	s.header = http.CanonicalHeaderKey(word["header"])
	switch {
	case s.header != "" && (word["jsonpath"] != "" || word["xpath"] != ""):
		return s, f.at.errorf("%s: header goes only with regexp", what)
	case given > 1, given == 0 && s.header == "":
		return s, f.at.errorf("%s: want one of jsonpath, xpath, regexp and header", what)
	case s.header != "" && s.text == "":
		s.text = "header " + s.header
	}
	if err := s.compile(f, word, what); err != nil {
		return s, err
	}
	if s.all, err = f.truth("all"); err != nil {
		return s, err
	}
	if n := f.of["unpack"]; n != nil {
		if n.Value != "gzip" || s.header != "" {
			return s, p.at(n).errorf("%s: unpack: want gzip, and a body", what)
		}
		s.gzip = true
	}
	return s, nil
}

// compile compiles the expression of a source.
func (s *source) compile(f *fields, word map[string]string, what string) (err error) {
	at := func(key string, err error) error { return f.p.at(f.of[key]).errorf("%s: %s: %v", what, key, err) }
	switch {
	case word["jsonpath"] != "":
		if s.json, err = jsonpath.Parse(word["jsonpath"]); err != nil {
			return at("jsonpath", errors.New(strings.TrimPrefix(err.Error(), "jsonpath: ")))
		}
	case word["xpath"] != "":
		if _, err := xpath.Compile(word["xpath"]); err != nil {
			return at("xpath", err)
		}
		s.xpath = &sync.Pool{New: func() any { return xpath.MustCompile(word["xpath"]) }}
	case word["regexp"] != "":
		if s.regexp, err = regexp.Compile(word["regexp"]); err != nil {
			return at("regexp", err)
		}
		if s.regexp.NumSubexp() == 0 {
			return at("regexp", errors.New("want a group (...), whose text is taken"))
		}
	}
	return nil
}

// condition reads a comparison.
func (p *parser) condition(n *yaml.Node, what string) (*condition, error) {
	f, err := p.mapping(n, what, "jsonpath", "xpath", "regexp", "header", "unpack", "is", "in", "contains")
	if err != nil {
		return nil, err
	}
	c := &condition{}
	if c.contains, err = p.template(f, "contains", plain); err != nil {
		return nil, err
	}
	if c.contains != nil && len(f.list) == 1 {
		c.text = "body"
		return c, nil
	}
	if c.source, err = p.source(f, what); err != nil {
		return nil, err
	}
	for _, key := range []string{"is", "in"} {
		if f.of[key] == nil {
			continue
		}
		items, err := p.items(f.of[key], key)
		if err != nil {
			return nil, err
		}
		for _, one := range items {
			t, err := p.templateOf(one, key, plain)
			if err != nil {
				return nil, err
			}
			c.in = append(c.in, t)
		}
	}
	return c, nil
}

// maxUnpacked limits an unpacked body, and maxTexts a list of texts.
const (
	maxUnpacked = 256 << 20
	maxTexts    = 1_000_000
)

// answer is what a step got, with its parsed forms.
type answer struct {
	status   int
	head     []byte // lines
	body     []byte
	cut      bool // the body was too long
	unpacked []byte
	json     any
	xml      *xmlquery.Node
	parsed   [2]bool // json of the body, of the unpacked one
	read     [2]bool // xml
}

// texts returns the texts of a source, at most one unless all are wanted.
func (a *answer) texts(s *source) ([]string, error) {
	if s.header != "" {
		return a.fromHeader(s), nil
	}
	if a.cut {
		return nil, fmt.Errorf("the body is larger than %s", internaltext.Sprintf("%d MiB", maxBody>>20))
	}
	body := a.body
	if s.gzip {
		if err := a.unpack(); err != nil {
			return nil, err
		}
		body = a.unpacked
	}
	switch {
	case s.json != nil:
		return a.fromJSON(s, body)
	case s.xpath != nil:
		return a.fromXML(s, body)
	case s.regexp != nil:
		return found(s, body), nil
	}
	return []string{string(body)}, nil
}

// found returns group 1 of the matches.
func found(s *source, text []byte) (out []string) {
	most := 1
	if s.all {
		most = maxTexts
	}
	for _, m := range s.regexp.FindAllSubmatch(text, most) {
		out = append(out, string(m[1]))
	}
	return out
}

func (a *answer) fromHeader(s *source) (out []string) {
	for line := range bytes.Lines(a.head) {
		name, v, _ := bytes.Cut(line, []byte(":"))
		if !strings.EqualFold(string(name), s.header) {
			continue
		}
		v = bytes.TrimSpace(v)
		if s.regexp != nil {
			out = append(out, found(s, v)...)
		} else {
			out = append(out, string(v))
		}
		if len(out) > 0 && !s.all {
			return out[:1]
		}
	}
	return out
}

// unpack decompresses the body once.
func (a *answer) unpack() error {
	if a.unpacked != nil {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return fmt.Errorf("the body is not gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return fmt.Errorf("the body is not gzip: %w", err)
	case len(text) > maxUnpacked:
		return fmt.Errorf("the unpacked body is larger than %s", internaltext.Sprintf("%d MiB", maxUnpacked>>20))
	}
	a.unpacked = text
	return nil
}

func form(s *source) int {
	if s.gzip {
		return 1
	}
	return 0
}

func (a *answer) fromJSON(s *source, body []byte) (out []string, err error) {
	if i := form(s); !a.parsed[i] {
		read := json.NewDecoder(bytes.NewReader(body))
		read.UseNumber()
		a.json = nil
		if err := read.Decode(&a.json); err != nil {
			return nil, fmt.Errorf("the body is not JSON: %w", err)
		}
		a.parsed = [2]bool{i == 0, i == 1}
	}
	for _, v := range s.json.Select(a.json) {
		text, err := textOfJSON(v)
		if err != nil {
			return nil, err
		}
		if out = append(out, text); !s.all || len(out) == maxTexts {
			break
		}
	}
	return out, nil
}

// textOfJSON returns a JSON value as text: a string without its quotes, others as JSON.
func textOfJSON(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func (a *answer) fromXML(s *source, body []byte) (out []string, err error) {
	if i := form(s); !a.read[i] {
		if a.xml, err = xmlquery.Parse(bytes.NewReader(body)); err != nil {
			return nil, fmt.Errorf("the body is not XML: %w", err)
		}
		a.read = [2]bool{i == 0, i == 1}
	}
	expr := s.xpath.Get().(*xpath.Expr)
	defer s.xpath.Put(expr)
	switch v := expr.Evaluate(xmlquery.CreateXPathNavigator(a.xml)).(type) {
	case *xpath.NodeIterator:
		for v.MoveNext() {
			if out = append(out, v.Current().Value()); !s.all || len(out) == maxTexts {
				break
			}
		}
	case string:
		out = []string{v}
	case float64:
		out = []string{strconv.FormatFloat(v, 'f', -1, 64)}
	case bool:
		out = []string{strconv.FormatBool(v)}
	}
	return out, nil
}

// met reports whether an answer meets a condition. got is the text that was compared.
func (a *answer) met(c *condition, values []value) (ok bool, got string, err error) {
	if c.contains != nil && c.text == "body" {
		want := c.contains.text(values)
		return bytes.Contains(a.body, []byte(want)), "", nil
	}
	texts, err := a.texts(&c.source)
	if err != nil || len(texts) == 0 {
		return false, "nothing", err
	}
	got = texts[0]
	if c.contains != nil {
		return strings.Contains(got, c.contains.text(values)), got, nil
	}
	return len(c.in) == 0 || slices.ContainsFunc(c.in, func(t *template) bool { return t.text(values) == got }), got, nil
}
