package haproxy

import (
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// blocks are the .if blocks that are open at a line, the innermost last (Configuration Manual,
// "Conditional blocks").
type blocks []struct {
	now    conf.Truth // whether the branch's lines apply
	before conf.Truth // whether an earlier branch applied
}

// enter reads a line that begins with a dot. It returns false if the line closes a block but none
// is open.
func (b *blocks) enter(l line, version string) bool {
	last := len(*b) - 1
	cond := func() conf.Truth { return condition(strings.Join(l.words[1:], " "), version) }
	switch l.words[0] {
	case ".if":
		c := cond()
		*b = append(*b, struct{ now, before conf.Truth }{c, conf.No})
		return true
	case ".elif", ".else", ".endif":
	default:
		return true // .notice, .warning, .alert, .diag
	}
	if last < 0 {
		return false
	}
	if l.words[0] == ".endif" {
		*b = (*b)[:last]
		return true
	}
	is := &(*b)[last]
	is.before = max(is.before, is.now)
	if is.now = is.before.Not(); l.words[0] == ".elif" {
		is.now = min(is.now, cond())
	}
	return true
}

// counts reports whether a line inside all open blocks applies.
func (b blocks) counts() conf.Truth {
	t := conf.Yes
	for _, in := range b {
		t = min(t, in.now)
	}
	return t
}

// condition evaluates an expression of .if: a number, version_atleast and version_before of a known
// version, streq, strneq, "!", "&&", "||" and parentheses. It returns Perhaps for invalid
// expressions and for those that depend on the environment or the build.
func condition(text, version string) conf.Truth {
	e := expression{strings.TrimSpace(text), version}
	if e.rest == "" {
		return conf.No
	}
	t, ok := e.or(0)
	if !ok || e.rest != "" {
		return conf.Perhaps
	}
	return t
}

type expression struct{ rest, version string }

// maxNested limits nested parentheses and negations.
const maxNested = 100

func (e *expression) skip(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(e.rest, blank), token)
	if ok {
		e.rest = strings.TrimLeft(rest, blank)
	}
	return ok
}

func (e *expression) or(depth int) (conf.Truth, bool) {
	t, ok := e.and(depth)
	for ok && e.skip("||") {
		var next conf.Truth
		next, ok = e.and(depth)
		t = max(t, next)
	}
	return t, ok
}

func (e *expression) and(depth int) (conf.Truth, bool) {
	t, ok := e.term(depth)
	for ok && e.skip("&&") {
		var next conf.Truth
		next, ok = e.term(depth)
		t = min(t, next)
	}
	return t, ok
}

func (e *expression) term(depth int) (conf.Truth, bool) {
	switch {
	case depth > maxNested:
		return conf.Perhaps, false
	case e.skip("!"):
		t, ok := e.term(depth + 1)
		return t.Not(), ok
	case e.skip("("):
		t, ok := e.or(depth + 1)
		return t, ok && e.skip(")")
	}
	end := strings.IndexAny(e.rest, "()&|! \t")
	if end < 0 || e.rest[end] != '(' {
		if end < 0 {
			end = len(e.rest)
		}
		n, err := strconv.Atoi(e.rest[:end])
		e.rest = strings.TrimLeft(e.rest[end:], blank)
		return conf.TruthOf(n != 0), err == nil
	}
	name, behind := e.rest[:end], e.rest[end+1:]
	args, rest, closed := strings.Cut(behind, ")")
	if !closed {
		return conf.Perhaps, false
	}
	e.rest = strings.TrimLeft(rest, blank)
	return predicate(name, strings.Split(args, ","), e.version), true
}

func predicate(name string, args []string, version string) conf.Truth {
	switch name {
	case "version_atleast", "version_before":
		is, ok := release(version)
		asked, valid := release(args[0])
		if !ok || !valid {
			return conf.Perhaps
		}
		return conf.TruthOf((slices.Compare(is, asked) >= 0) == (name == "version_atleast"))
	case "streq", "strneq":
		if len(args) == 2 && !strings.ContainsAny(args[0]+args[1], "$\\") {
			return conf.TruthOf((args[0] == args[1]) == (name == "streq"))
		}
	}
	return conf.Perhaps
}

// release parses a version such as 2.6.12; 2.6-dev1 sorts before 2.6.0.
func release(version string) ([]int, bool) {
	version, dev, isDev := strings.Cut(version, "-dev")
	out := []int{0, 0, 0, 0}
	for i, part := range strings.SplitN(version, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out[i] = n
	}
	if isDev {
		n, err := strconv.Atoi(dev)
		if err != nil {
			return nil, false
		}
		out[2], out[3] = -1, n
	}
	return out, true
}
