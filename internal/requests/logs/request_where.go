package logs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"fettle.dev/fettle/internal/logformat"
)

// Where is a condition on requests.
type Where func(r *Request) bool

// ParseWhere compiles a condition for lines of a format. It compares dimensions with texts,
// numbers and durations ("500ms"; a bare number is in seconds), with and, or, not, contains,
// startsWith, endsWith, matches and in. This subset of expr-lang's syntax is fast enough for
// millions of lines.
func ParseWhere(f *logformat.Format, text string, routes *Routes) (Where, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--where %q: %w", text, malformed(text, err))
	}
	c := compiler{f, text, routes}
	w, err := c.condition(tree.Node)
	if err != nil {
		return nil, fmt.Errorf("--where %q: %w", text, err)
	}
	return w, nil
}

// CheckWhere reports a syntax error of a condition. Which dimensions there are depends on the log.
func CheckWhere(text string) error {
	if _, err := parser.Parse(text); text != "" && err != nil {
		return malformed(text, err)
	}
	return nil
}

// malformed converts a parser error to one line, with an example of a valid condition.
func malformed(text string, err error) error {
	const such = "want a condition such as status >= 500 or path startsWith \"/api\""
	var at *file.Error
	if !errors.As(err, &at) {
		return errors.New(such)
	}
	from := min(at.From, len(text))
	rest := text[from:]
	switch {
	case strings.Trim(rest, " <>=!") == "":
		return errors.New("the condition ends too early: " + such)
	case strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "=="):
		return fmt.Errorf("at column %d (=): use == to compare", from+1)
	case strings.HasPrefix(rest, "~"):
		return fmt.Errorf("at column %d (~): use matches for a regular expression", from+1)
	}
	word, _, _ := strings.Cut(rest, " ")
	return fmt.Errorf("at column %d (%s): %s", from+1, word, such)
}

type compiler struct {
	f      *logformat.Format
	text   string
	routes *Routes
}

func (c *compiler) refuse(at file.Location, why string, args ...any) error {
	from := min(at.From, len(c.text))
	return fmt.Errorf("at column %d (%s): %s", from+1, c.text[from:min(max(at.To, from+1), len(c.text))], fmt.Sprintf(why, args...))
}

func (c *compiler) condition(n ast.Node) (Where, error) {
	switch n := n.(type) {
	case *ast.UnaryNode:
		if n.Operator != "not" && n.Operator != "!" {
			return nil, c.refuse(n.Location(), "want a condition")
		}
		x, err := c.condition(n.Node)
		if err != nil {
			return nil, err
		}
		return func(r *Request) bool { return !x(r) }, nil
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||":
			x, err := c.condition(n.Left)
			if err != nil {
				return nil, err
			}
			y, err := c.condition(n.Right)
			if err != nil {
				return nil, err
			}
			if n.Operator == "and" || n.Operator == "&&" {
				return func(r *Request) bool { return x(r) && y(r) }, nil
			}
			return func(r *Request) bool { return x(r) || y(r) }, nil
		}
		return c.comparison(n)
	}
	return nil, c.refuse(n.Location(), "want a condition such as status >= 500")
}

// comparison compiles DIMENSION OPERATOR VALUE.
func (c *compiler) comparison(n *ast.BinaryNode) (Where, error) {
	id, ok := n.Left.(*ast.IdentifierNode)
	if !ok {
		return nil, c.refuse(n.Left.Location(), "want the name of a dimension first, such as status >= 500")
	}
	if n.Operator == "in" {
		list, ok := n.Right.(*ast.ArrayNode)
		if !ok || len(list.Nodes) == 0 {
			return nil, c.refuse(n.Right.Location(), "want a list after in, such as in [500, 503]")
		}
		var any []Where
		for _, one := range list.Nodes {
			w, err := c.one(id, "==", one)
			if err != nil {
				return nil, err
			}
			any = append(any, w)
		}
		return func(r *Request) bool {
			for _, w := range any {
				if w(r) {
					return true
				}
			}
			return false
		}, nil
	}
	return c.one(id, n.Operator, n.Right)
}

// one compiles a comparison of a dimension with a literal.
func (c *compiler) one(id *ast.IdentifierNode, operator string, literal ast.Node) (Where, error) {
	if i := c.f.Field(id.Value); i >= 0 && (c.f.Fields[i].Kind == logformat.Number || c.f.Fields[i].Kind == logformat.Duration) {
		return c.number(i, id, operator, literal)
	}
	d, err := Named(c.f, id.Value, c.routes)
	if err != nil {
		return nil, c.refuse(id.Location(), "%v", err)
	}
	text, ok := literal.(*ast.StringNode)
	if !ok {
		return nil, c.refuse(literal.Location(), "%s is a string; put it in quotes", id.Value)
	}
	want := []byte(text.Value)
	switch operator {
	case "==":
		return func(r *Request) bool { return bytes.Equal(d.Of(r), want) }, nil
	case "!=":
		return func(r *Request) bool { return !bytes.Equal(d.Of(r), want) }, nil
	case "contains":
		return func(r *Request) bool { return bytes.Contains(d.Of(r), want) }, nil
	case "startsWith":
		return func(r *Request) bool { return bytes.HasPrefix(d.Of(r), want) }, nil
	case "endsWith":
		return func(r *Request) bool { return bytes.HasSuffix(d.Of(r), want) }, nil
	case "matches":
		pattern, err := regexp.Compile(text.Value)
		if err != nil {
			return nil, c.refuse(literal.Location(), "%v", err)
		}
		return func(r *Request) bool { return pattern.Match(d.Of(r)) }, nil
	}
	return nil, c.refuse(literal.Location(), "%s is a string; want ==, !=, in, contains, startsWith, endsWith or matches", id.Value)
}

// number compiles a comparison with a number or duration. Lines without a value do not match.
func (c *compiler) number(i int, id *ast.IdentifierNode, operator string, literal ast.Node) (Where, error) {
	field := &c.f.Fields[i]
	var want float64 // microseconds of a duration
	switch n := literal.(type) {
	case *ast.IntegerNode:
		want = float64(n.Value)
	case *ast.FloatNode:
		want = n.Value
	case *ast.StringNode:
		if field.Kind == logformat.Duration {
			d, err := time.ParseDuration(n.Value)
			if err != nil {
				return nil, c.refuse(n.Location(), "%s is a duration; want seconds or a string such as \"500ms\"", id.Value)
			}
			want = d.Seconds()
			break
		}
		x, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			return nil, c.refuse(n.Location(), "%s is a number; compare it with a number, without quotes", id.Value)
		}
		want = x
	default:
		return nil, c.refuse(literal.Location(), "want a number")
	}
	value := func(r *Request) (float64, bool) {
		n, ok := logformat.Int(r.Field(i))
		return float64(n), ok
	}
	if field.Kind == logformat.Duration {
		want *= 1e6
		value = func(r *Request) (float64, bool) {
			n, ok := field.Duration(r.Field(i))
			return float64(n), ok
		}
	}
	compare, ok := map[string]func(a, b float64) bool{
		"==": func(a, b float64) bool { return a == b }, "!=": func(a, b float64) bool { return a != b },
		"<": func(a, b float64) bool { return a < b }, "<=": func(a, b float64) bool { return a <= b },
		">": func(a, b float64) bool { return a > b }, ">=": func(a, b float64) bool { return a >= b },
	}[operator]
	if !ok {
		return nil, c.refuse(literal.Location(), "%s is a number: want ==, !=, <, <=, >, >= or in", id.Value)
	}
	return func(r *Request) bool {
		x, ok := value(r)
		return ok && compare(x, want)
	}, nil
}
