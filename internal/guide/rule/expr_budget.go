package rule

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/vm/runtime"

	internaltext "fettle.dev/fettle/internal/text"
)

// The library limits the elements of lists that an expression creates to a million. It limits
// neither the bytes of strings (one appended to itself 30 times is a GiB) nor iterations over
// lists. So expressions may only call functions that create no strings, and replacements of others
// that count bytes; iterations count elements.

const (
	// maxExprBytes is the maximum length of an expression.
	maxExprBytes = 4 << 10
	// maxMadeBytes is the maximum number of bytes in strings that one evaluation creates.
	maxMadeBytes = 16 << 20
	// maxSteps is the maximum number of list elements that one evaluation iterates over: about a
	// second.
	maxSteps = 5_000_000
)

// harmless are the functions of the language that create no strings.
var harmless = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"len", "type", "abs", "ceil", "floor", "round", "int", "float", "max", "min", "mean", "median", "first", "last", "get",
	"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "trim", "trimPrefix", "trimSuffix", "keys",
}

// refused are the functions of the language that rules must not use, with the reason.
var refused = func() map[string]string {
	why := map[string]string{}
	for reason, names := range map[string]string{
		"the size of its result is not limited":   "repeat replace splitAfter toJSON fromJSON toBase64 fromBase64 concat flatten uniq reverse take values toPairs fromPairs sort",
		"use all, any, filter, map, sum or count": "sortBy groupBy reduce",
		"a rule must not depend on the time":      "now date duration timezone",
		"inputs are never bit masks":              "bitand bitor bitxor bitnand bitnot bitshl bitshr bitushr",
	} {
		for name := range strings.FieldsSeq(names) {
			why[name] = reason
		}
	}
	return why
}()

// withoutRefused returns an error if an expression calls a refused function. The library cannot
// disable them.
func withoutRefused(program ast.Node) error {
	var found words
	ast.Walk(&program, &found)
	for _, name := range found {
		if why := refused[name]; why != "" {
			return fmt.Errorf("%s is not allowed in rules: %s", name, why)
		}
	}
	return nil
}

// words collects the functions that an expression calls.
type words []string

func (w *words) Visit(n *ast.Node) {
	if call, ok := (*n).(*ast.BuiltinNode); ok {
		*w = append(*w, call.Name)
	}
}

// bounded returns the options that enforce the limits. made counts the cost of one evaluation.
func bounded(made *budget) []expr.Option {
	return []expr.Option{
		func(c *conf.Config) { c.Disabled = disabledBuiltins() },
		expr.Function("string", func(args ...any) (any, error) {
			switch args[0].(type) {
			case nil, string, bool, int, float64:
				s := fmt.Sprint(args[0])
				return s, made.spend(len(s))
			}
			return nil, errors.New("string() does not accept a list; use join()")
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
			const header = 16 // bytes of list overhead per part
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
		expr.Function(through, made.through, new(func([]string) []string), new(func([]int) []int), new(func([]any) []any), new(func(map[string]string) map[string]string)),
		expr.Function(throughAny, made.through, new(func(any) any)),
		expr.Patch(counted{}),
	}
}

// disabledBuiltins are the functions of the language that expressions cannot call. All compilations
// share this map: disabling the functions one by one took a third of the time of each compilation.
var disabledBuiltins = sync.OnceValue(func() map[string]bool {
	off := map[string]bool{}
	for _, f := range builtin.Builtins {
		if !slices.Contains(harmless, f.Name) {
			off[f.Name] = true
		}
	}
	return off
})

// budget counts the bytes of strings that one evaluation created, and the elements that it
// iterated over.
type budget struct{ bytes, steps int }

func (b *budget) spend(n int) error {
	if b.bytes += n; b.bytes > maxMadeBytes {
		return internaltext.Errorf("the expression creates more than %d MiB of text: shorten lists, or remove an addition", maxMadeBytes>>20)
	}
	return nil
}

// through counts the elements of a list.
func (b *budget) through(args ...any) (any, error) {
	if list := reflect.ValueOf(args[0]); list.Kind() == reflect.Slice || list.Kind() == reflect.Map {
		if b.steps += list.Len(); b.steps > maxSteps {
			return nil, internaltext.Errorf("the expression iterates over more than %d elements: avoid a list within a list", maxSteps)
		}
	}
	return args[0], nil
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
				return nil, fmt.Errorf("join: a %T is not text; convert it by string(...)", w)
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

// plus replaces additions of possible strings. Rules cannot use this name.
const plus = "+"

// through wraps a list before an iteration, throughAny a value that may be a list. Rules cannot
// use these names.
const through, throughAny = "...", "...?"

// loops are the functions that iterate over a list.
var loops = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"max", "min", "mean", "median", "indexOf", "lastIndexOf", "keys",
}

// counted replaces additions, except of numbers, by calls of plus, and wraps lists before
// iterations.
type counted struct{}

func (counted) Visit(n *ast.Node) {
	if call, ok := (*n).(*ast.BuiltinNode); ok && slices.Contains(loops, call.Name) {
		list := call.Arguments[0]
		by, t := through, list.Type()
		switch {
		case t == nil || t.Kind() == reflect.Interface:
			by = throughAny
		case t.Kind() != reflect.Slice && t.Kind() != reflect.Map:
			return
		}
		call.Arguments[0] = &ast.CallNode{Callee: &ast.IdentifierNode{Value: by}, Arguments: []ast.Node{list}}
		call.Arguments[0].SetType(t)
		return
	}
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
