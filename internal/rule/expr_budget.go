package rule

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// The language counts the elements of lists that an expression makes, up to a
// million, and not the bytes of texts: a text added to itself 30 times is a GiB. So
// an expression has of the language's functions those that make no text, and what does
// make one counts it. Three that the language takes for words of its own cannot be
// switched off: reduce, whose additions are counted like all, sortBy and groupBy, which
// make no text.

const (
	// maxExprBytes is how long the text of an expression may be.
	maxExprBytes = 4 << 10
	// maxMadeBytes is what one evaluation of an expression may make of texts.
	maxMadeBytes = 16 << 20
)

// harmless are the functions of the language that make no text.
var harmless = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"len", "type", "abs", "ceil", "floor", "round", "int", "float", "max", "min", "mean", "median", "first", "last", "get",
	"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "trim", "trimPrefix", "trimSuffix", "keys",
}

// bounded are the options that keep an expression within its bounds: made is what
// one evaluation has made so far.
func bounded(made *budget) []expr.Option {
	options := []expr.Option{expr.DisableAllBuiltins()}
	for _, name := range harmless {
		options = append(options, expr.EnableBuiltin(name))
	}
	return append(options,
		expr.Function("string", func(args ...any) (any, error) {
			s := fmt.Sprint(args[0])
			return s, made.spend(len(s))
		}, new(func(any) string)),
		expr.Function("lower", func(args ...any) (any, error) {
			s := args[0].(string)
			return strings.ToLower(s), made.spend(len(s))
		}, strings.ToLower),
		expr.Function("upper", func(args ...any) (any, error) {
			s := args[0].(string)
			return strings.ToUpper(s), made.spend(len(s))
		}, strings.ToUpper),
		expr.Function("split", func(args ...any) (any, error) {
			s, by := args[0].(string), args[1].(string)
			const header = 16 // bytes of each part in the list
			if err := made.spend(header * (strings.Count(s, by) + 1)); err != nil {
				return nil, err
			}
			return strings.Split(s, by), nil
		}, strings.Split),
		expr.Function("join", made.join, strings.Join, new(func([]any, string) string), new(func([]any) string), new(func([]string) string)),
		expr.Function(plus, func(args ...any) (any, error) {
			a, text := args[0].(string)
			b, both := args[1].(string)
			if text && both {
				if err := made.spend(len(a) + len(b)); err != nil {
					return nil, err
				}
			}
			return runtime.Add(args[0], args[1]), nil
		}, new(func(a, b any) any)),
		expr.Patch(counted{}),
	)
}

// budget is what one evaluation has made of texts, in bytes.
type budget struct{ bytes int }

func (b *budget) spend(n int) error {
	if b.bytes += n; b.bytes > maxMadeBytes {
		return fmt.Errorf("it makes more than %d MiB of text: make lists shorter, or take an addition out", maxMadeBytes>>20)
	}
	return nil
}

func (b *budget) join(args ...any) (any, error) {
	by := ""
	if len(args) == 2 {
		by = args[1].(string)
	}
	words, ok := args[0].([]string)
	if !ok {
		for _, w := range args[0].([]any) {
			s, ok := w.(string)
			if !ok {
				return nil, fmt.Errorf("join: %v is no text: string(...) makes one of it", w)
			}
			words = append(words, s)
		}
	}
	n := 0
	for _, w := range words {
		n += len(w) + len(by)
	}
	if err := b.spend(n); err != nil {
		return nil, err
	}
	return strings.Join(words, by), nil
}

// plus is the function that an addition which may be one of texts becomes; no rule
// can name it.
const plus = "+"

// counted makes calls of plus from additions, except those of numbers.
type counted struct{}

func (counted) Visit(n *ast.Node) {
	add, ok := (*n).(*ast.BinaryNode)
	if !ok || add.Operator != "+" || isNumber(add.Left.Type()) || isNumber(add.Right.Type()) {
		return
	}
	as := add.Type()
	ast.Patch(n, &ast.CallNode{Callee: &ast.IdentifierNode{Value: plus}, Arguments: []ast.Node{add.Left, add.Right}})
	(*n).SetType(as)
}

func isNumber(t reflect.Type) bool {
	return t != nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Float64)
}
