package rule

import (
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"fettle.dev/fettle/internal/fact"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Expr is one expression of a rule, in the language of expr-lang.org.
type Expr struct {
	Text string
	At   Pos

	program *vm.Program
	made    *budget
}

// MarshalText returns the source of the expression.
func (e *Expr) MarshalText() ([]byte, error) { return []byte(e.Text), nil }

// functions returns the functions that expressions have in addition to the language's.
func (c *Catalogue) functions() []expr.Option {
	return []expr.Option{
		// since("6.12", "6.11") is true: the first version is the second or later.
		expr.Function("since", func(args ...any) (any, error) {
			return compareVersions(args[0].(string), args[1].(string)) >= 0, nil
		}, new(func(have, from string) bool)),
		expr.Function("kib", scaled(1<<10), new(func(float64) float64), new(func(int) float64)),
		expr.Function("mib", scaled(1<<20), new(func(float64) float64), new(func(int) float64)),
		expr.Function("gib", scaled(1<<30), new(func(float64) float64), new(func(int) float64)),
		// human(536870912) is "512 MiB".
		expr.Function("human", func(args ...any) (any, error) {
			return unit.Size(max(0, float(args[0]))).Human(), nil
		}, new(func(bytes float64) string)),
		// div(a, b) is the whole-number quotient, as in Puppet's intdiv.
		expr.Function("div", func(args ...any) (any, error) {
			a, b := float(args[0]), float(args[1])
			if b == 0 {
				return nil, fmt.Errorf("%s divided by zero", unit.Digits(a))
			}
			return math.Trunc(a / b), nil
		}, new(func(a, b float64) float64), new(func(a float64, b int) float64)),
		expr.Function("cell", func(args ...any) (any, error) {
			return c.lookUp(args[0].(string), args[1].(string), args[3].(string), func(e *Edition) (*Row, error) { return e.Row(args[2].(string)) })
		}, new(func(table, version, row, column string) any)),
		expr.Function("least", func(args ...any) (any, error) {
			var row *Row
			v, err := c.lookUp(args[0].(string), args[1].(string), args[4].(string), func(e *Edition) (r *Row, err error) {
				row, err = e.Least(args[2].(string), float(args[3]))
				return row, err
			})
			if args[4] == "key" && row != nil {
				return row.Key, nil
			}
			return v, err
		}, new(func(table, version, by string, value float64, column string) any)),
		// like("Dell Inc.", "Dell*") matches a pattern as for file names.
		expr.Function("like", func(args ...any) (any, error) {
			ok, err := path.Match(args[1].(string), args[0].(string))
			return ok, err
		}, new(func(text, pattern string) bool)),
	}
}

func scaled(by float64) func(...any) (any, error) {
	return func(args ...any) (any, error) { return float(args[0]) * by, nil }
}

// float returns a number in an expression as float64; the language has ints too.
func float(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

// compileExpr compiles the expression and checks the types of its names. as is the required result
// type; nil for any.
func (c *Catalogue) compileExpr(e *Expr, env map[string]any, as reflect.Type) error {
	if len(e.Text) > maxExprBytes {
		return internaltext.Errorf("%s: the expression has %s, more than %d: move its values to a table", e.At, internaltext.Count(len(e.Text), "byte"), maxExprBytes)
	}
	e.made = &budget{}
	options := slices.Concat([]expr.Option{expr.Env(env)}, bounded(e.made), c.functions())
	if as != nil {
		options = append(options, expr.AsKind(as.Kind()))
	}
	p, err := expr.Compile(e.Text, options...)
	if err != nil {
		return exprError(e, err.Error(), env)
	}
	if err := withoutRefused(p.Node()); err != nil {
		return fmt.Errorf("%s: %s: %w", e.At, strings.TrimSpace(e.Text), err)
	}
	e.program = p
	return nil
}

// uses reports whether the compiled expression names an input.
func (e *Expr) uses(input string) bool {
	return ast.Find(e.program.Node(), func(n ast.Node) bool {
		name, ok := n.(*ast.IdentifierNode)
		return ok && name.Value == input
	}) != nil
}

// run evaluates the expression.
func (e *Expr) run(env map[string]any) (any, error) {
	*e.made = budget{}
	v, err := expr.Run(e.program, env)
	if none := (*figureError)(nil); errors.As(err, &none) {
		return nil, none // omits the expression, which does not help the user
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%s: %s: %s", e.At, strings.TrimSpace(e.Text), first)
	}
	v, ok := fact.Plain(v)
	if !ok || !fact.Finite(v) {
		return nil, fmt.Errorf("%s: %s: has no value on this machine (%v)", e.At, strings.TrimSpace(e.Text), v)
	}
	return v, nil
}

// compareVersions compares dotted versions number by number. Other parts are compared as text. A
// version with more parts is later.
func compareVersions(a, b string) int {
	as, bs := strings.FieldsFunc(a, isSeparator), strings.FieldsFunc(b, isSeparator)
	for i := range min(len(as), len(bs)) {
		x, xerr := strconv.ParseUint(as[i], 10, 64)
		y, yerr := strconv.ParseUint(bs[i], 10, 64)
		switch {
		case xerr == nil && yerr == nil && x != y:
			if x < y {
				return -1
			}
			return 1
		case xerr == nil && yerr == nil:
		case as[i] != bs[i]:
			return strings.Compare(as[i], bs[i])
		}
	}
	return len(as) - len(bs)
}

func isSeparator(r rune) bool { return strings.ContainsRune(".-_~+", r) }
