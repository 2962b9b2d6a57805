package rule

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// The language counts the elements of lists that an expression makes, up to a
// million, and neither the bytes of texts - a text added to itself 30 times is a GiB -
// nor how often it goes through a list. So an expression has of the language's functions
// those that make no text, what does make one counts it, and what goes through a list
// counts its elements.

const (
	// maxExprBytes is how long the text of an expression may be.
	maxExprBytes = 4 << 10
	// maxMadeBytes is what one evaluation of an expression may make of texts.
	maxMadeBytes = 16 << 20
	// maxSteps is how many elements of lists it may go through: a second's worth.
	maxSteps = 5_000_000
)

// harmless are the functions of the language that make no text.
var harmless = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"len", "type", "abs", "ceil", "floor", "round", "int", "float", "max", "min", "mean", "median", "first", "last", "get",
	"indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "trim", "trimPrefix", "trimSuffix", "keys",
}

// refused are the functions of the language that no rule has, with the reason.
var refused = func() map[string]string {
	why := map[string]string{}
	for reason, names := range map[string]string{
		"nothing counts the texts and lists that it makes":    "repeat replace splitAfter toJSON fromJSON toBase64 fromBase64 concat flatten uniq reverse take values toPairs fromPairs sort",
		"all, any, filter, map, sum and count say it as well": "sortBy groupBy reduce",
		"a rule says the same at any time":                    "now date duration timezone",
		"no value of a machine is a set of bits":              "bitand bitor bitxor bitnand bitnot bitshl bitshr bitushr",
	} {
		for name := range strings.FieldsSeq(names) {
			why[name] = reason
		}
	}
	return why
}()

// withoutRefused is the mistake of an expression that has one of the functions that
// the language takes for words of its own, and that cannot be switched off therefore.
func withoutRefused(program ast.Node) error {
	var found words
	ast.Walk(&program, &found)
	for _, name := range found {
		if why := refused[name]; why != "" {
			return fmt.Errorf("%s is not for rules: %s", name, why)
		}
	}
	return nil
}

// words are the functions of the language that an expression has.
type words []string

func (w *words) Visit(n *ast.Node) {
	if call, ok := (*n).(*ast.BuiltinNode); ok {
		*w = append(*w, call.Name)
	}
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
			switch args[0].(type) {
			case nil, string, bool, int, float64:
				s := fmt.Sprint(args[0])
				return s, made.spend(len(s))
			}
			return nil, errors.New("string: of a list: join makes a text of one")
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
		expr.Function(through, made.through, new(func([]string) []string), new(func([]int) []int), new(func([]any) []any), new(func(map[string]string) map[string]string)),
		expr.Function(throughAny, made.through, new(func(any) any)),
		expr.Patch(counted{}),
	)
}

// budget is what one evaluation has made of texts, in bytes, and how many elements of
// lists it has gone through.
type budget struct{ bytes, steps int }

func (b *budget) spend(n int) error {
	if b.bytes += n; b.bytes > maxMadeBytes {
		return fmt.Errorf("it makes more than %d MiB of text: make lists shorter, or take an addition out", maxMadeBytes>>20)
	}
	return nil
}

// through is a list that is gone through, counted.
func (b *budget) through(args ...any) (any, error) {
	if list := reflect.ValueOf(args[0]); list.Kind() == reflect.Slice || list.Kind() == reflect.Map {
		if b.steps += list.Len(); b.steps > maxSteps {
			return nil, fmt.Errorf("it goes through more than %d elements of lists: take a list within a list out", maxSteps)
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
				return nil, fmt.Errorf("join: a %T is no text: string(...) makes one of a number", w)
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

// through is the function that a list goes through before something goes through it,
// throughAny the one of what may be a list; no rule can name them.
const through, throughAny = "...", "...?"

// loops are the functions that go through a list.
var loops = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
	"max", "min", "mean", "median", "indexOf", "lastIndexOf", "keys",
}

// counted makes calls of plus from additions, except those of numbers, and has lists
// counted that are gone through.
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
