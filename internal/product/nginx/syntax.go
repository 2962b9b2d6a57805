package nginx

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of nginx's files (scan). A key is the blocks with their arguments, and the
// directive: "events/worker_connections", "http/server/location //proxy_pass". Tuning directives
// need no block (contexts). Keys of an included file lack the blocks around the include.
type syntax struct{}

// Key implements conf.Syntax.
func (syntax) Key(name string) (string, error) {
	if err := conf.OneLine(name); err != nil || name == "" || strings.ContainsAny(name, "#{};\"'\\") || strings.HasSuffix(name, "/") {
		return "", fmt.Errorf("%q is not a directive name", name)
	}
	if p, ok := contexts[name]; ok && p != "" {
		return p + "/" + name, nil
	}
	return name, nil
}

// scope returns a block in the form used in keys.
func (d directive) scope() string { return strings.Join(append([]string{d.name}, d.words...), " ") }

// walk calls each for every directive that opens no block. scope is the key's prefix, depth the
// number of enclosing blocks; walk's depth is the number around the whole text. Errors begin with
// the line number.
func walk(all []directive, depth int, each func(scope string, depth int, d directive) error) error {
	var open []directive
	for _, d := range all {
		switch {
		case d.name == "}" && len(open) == 0:
			return fmt.Errorf("%d: unexpected \"}\"", d.number)
		case d.name == "}":
			open = open[:len(open)-1]
		case d.block && depth+len(open) >= maxDepth:
			return fmt.Errorf("%d: blocks nest more than %d deep", d.number, maxDepth)
		case d.block:
			open = append(open, d)
		default:
			scope := ""
			for _, o := range open {
				scope += o.scope() + "/"
			}
			if err := each(scope, depth+len(open), d); err != nil {
				return err
			}
		}
	}
	if len(open) > 0 {
		last := open[len(open)-1]
		return fmt.Errorf("%d: the block %s is not closed", last.number, last.name)
	}
	return nil
}

// Assignments implements conf.Syntax.
func (syntax) Assignments(text string) ([]conf.Assignment, error) {
	all, err := scan(text)
	if err != nil {
		return nil, err
	}
	var out []conf.Assignment
	err = walk(all, 0, func(scope string, _ int, d directive) error {
		if len(d.words) > 0 {
			out = append(out, conf.Assignment{Key: scope + d.name, Literal: d.args, Line: d.number, From: d.from, To: d.to})
		}
		return nil
	})
	return out, err
}

// Literal implements conf.Syntax. Values of tuning directives need no quotes.
func (syntax) Literal(value string) (string, error) {
	return conf.Bare(value, "#{};\"'\\$", "needs quotes")
}

// Unquote implements conf.Syntax.
func (syntax) Unquote(literal string) string {
	all, err := scan("x " + literal + ";")
	if err != nil || len(all) != 1 {
		return literal
	}
	return strings.Join(all[0].words, " ")
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string {
	_, name := conf.SplitKey(key)
	return strings.Repeat("\t", strings.Count(key, "/")) + name + " " + literal + ";"
}

// Place implements conf.Placer. New lines go below the line that opens the block, or to the end for
// directives without a block.
func (syntax) Place(text, key string) (int, error) {
	context, name := conf.SplitKey(key)
	block, known := contexts[name]
	switch {
	case !known || context != block:
		return 0, fmt.Errorf("%s is not set, and its block is unknown; add it by hand", key)
	case block == "":
		return len(text), nil
	}
	all, err := scan(text)
	if err != nil {
		return 0, err
	}
	depth := 0
	for _, d := range all {
		switch {
		case d.name == "}":
			depth--
		case d.block && depth == 0 && d.name == block && len(d.words) == 0:
			rest, _, more := strings.Cut(text[d.end:], "\n")
			if !more || strings.ContainsAny(rest, "{}") {
				return 0, fmt.Errorf("line %d: more text follows the opening of block %s; add %s by hand", d.number, block, name)
			}
			return d.end + len(rest) + 1, nil
		case d.block:
			depth++
		}
	}
	return 0, fmt.Errorf("the main file has no block %s", block)
}
