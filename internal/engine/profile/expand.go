package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// Limits of expansion, because a profile may come from a copied, hostile tree.
const (
	maxExpanded    = 1 << 20  // bytes of one expanded string
	maxWork        = 64 << 20 // bytes produced by all expansions of one load
	maxCallDepth   = 64       // depth of nested function calls
	maxCalls       = 10000    // function calls of one load
	maxVariableRun = 256      // length of a chain of forward references to variables
)

const (
	reasonExecutes    = "known only when applied: the function runs a program"
	reasonNotRecorded = "not recorded in this copy of a machine"
)

// expander expands the strings of one load.
type expander struct {
	ctx     context.Context
	env     *Env
	answers map[string]Answer // recorded by an earlier load
	given   map[string]Answer // used or determined in this load
	// mayExecute returns nil if functions may run programs now, errDeferred if their calls are
	// deferred, or an error that ends the load.
	mayExecute func() error
	refuse     func(function string) error // Loader.Refuse

	values      map[string]string // values of the variables defined so far
	definitions map[string][]*definition
	depth       int
	work        int
	calls       int

	warn func(Pos, string, ...any)
	pos  Pos // position of the string being expanded, for functions' warnings
}

var errDeferred = errors.New(reasonExecutes)

// expand replaces variables, then functions, like TuneD's Variables.expand. Calls whose result is
// not known yet stay in the text and are also returned.
func (x *expander) expand(text string, pos Pos) (string, []Call, error) {
	if !strings.Contains(text, "${") {
		return text, nil, nil
	}
	text, err := x.expandVariables(text, pos)
	if err != nil {
		return "", nil, err
	}
	return x.expandFunctions(text, pos)
}

var escapedVariable = text.LazyRegexp(`\\(\$\{[\p{L}\p{N}_]+\})`)

// expandVariables replaces ${name} in one pass, unless a backslash precedes it. Values are not
// expanded again. Then it removes the backslash from each \${name}. Undefined names stay.
func (x *expander) expandVariables(text string, pos Pos) (string, error) {
	var b strings.Builder
	rest := text
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		name := wordPrefix(rest[i+2:])
		end := i + 2 + len(name)
		if name == "" || end == len(rest) || rest[end] != '}' || i > 0 && rest[i-1] == '\\' {
			b.WriteString(rest[:i+2])
			rest = rest[i+2:]
			continue
		}
		value, ok, err := x.lookup(name)
		if err != nil {
			return "", err
		}
		b.WriteString(rest[:i])
		if ok {
			b.WriteString(value)
		} else {
			b.WriteString(rest[i : end+1])
		}
		rest = rest[end+1:]
		if b.Len() > maxExpanded {
			return "", errAt(pos, "expands to more than %d KiB", maxExpanded>>10)
		}
	}
	if x.work += b.Len(); x.work > maxWork {
		return "", errAt(pos, "the variables of this profile expand to more than %d MiB", maxWork>>20)
	}
	if text := b.String(); !strings.Contains(text, `\${`) {
		return text, nil // the common case; avoids compiling the expression
	}
	return escapedVariable().ReplaceAllString(b.String(), "$1"), nil
}

func wordPrefix(s string) string {
	for i, r := range s {
		if !isWordRune(r) {
			return s[:i]
		}
	}
	return s
}

var escapedFunction = text.LazyRegexp(`\\(\$\{f:.*\})`)

// openBrace is a "${" without its "}" so far.
type openBrace struct {
	at       int // offset in the output
	escaped  bool
	deferred bool // it contains a deferred call
}

// expandFunctions evaluates ${f:name:arg} calls from left to right, the innermost first. Results
// are not expanded again.
func (x *expander) expandFunctions(text string, pos Pos) (string, []Call, error) {
	var (
		out     = make([]byte, 0, len(text))
		open    []openBrace
		calls   []Call
		escaped bool
	)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '}' {
			if len(open) == 0 {
				x.warn(pos, "a } without ${ in %q: the rest is not expanded", clip(text))
				out = append(out, text[i:]...)
				return unescapeFunctions(out), calls, nil
			}
			brace := open[len(open)-1]
			open = open[:len(open)-1]
			result, state, err := string(out[brace.at:]), unexpanded, error(nil)
			if !brace.escaped {
				result, state, err = x.call(result, brace.deferred, pos, &calls)
			}
			switch {
			case err != nil:
				return "", nil, err
			case state == answered:
				out = append(out[:brace.at], result...)
				escaped = len(out) > 0 && out[len(out)-1] == '\\'
				if len(out) > maxExpanded {
					return "", nil, errAt(pos, "expands to more than %d KiB", maxExpanded>>10)
				}
				if x.work += len(result); x.work > maxWork {
					return "", nil, errAt(pos, "the functions of this profile return more than %d MiB", maxWork>>20)
				}
				continue
			case (state == deferred || brace.deferred) && len(open) > 0:
				open[len(open)-1].deferred = true
			}
		} else if strings.HasPrefix(text[i:], "${") {
			if len(open) == maxCallDepth {
				return "", nil, errAt(pos, "${ is nested more than %d deep", maxCallDepth)
			}
			open = append(open, openBrace{at: len(out), escaped: escaped})
		}
		out = append(out, c)
		escaped = c == '\\'
	}
	if len(open) > 0 {
		x.warn(pos, "a ${ without } in %q", clip(text))
	}
	return unescapeFunctions(out), calls, nil
}

func unescapeFunctions(out []byte) string {
	return escapedFunction().ReplaceAllString(string(out), "$1")
}

func clip(s string) string { return text.Truncate(s, 120) }

type callState int

const (
	unexpanded callState = iota // the text stays unchanged
	answered
	deferred
)

// call evaluates "${f:name:arg:arg" (without the closing brace). Text that is not a call stays
// unchanged, as does a call without a result.
func (x *expander) call(text string, argsDeferred bool, pos Pos, calls *[]Call) (string, callState, error) {
	parts := splitArgs(text)
	if argsDeferred {
		parts = splitOuterArgs(text)
	}
	if parts[0] != "${f" {
		return "", unexpanded, nil
	}
	if len(parts) < 2 || !isWord(parts[1]) {
		x.warn(pos, "%s}: expected the name of a function after \"${f:\"", clip(text))
		return "", unexpanded, nil
	}
	name, args := parts[1], parts[2:]
	f := functionNamed(name)
	if f == nil {
		x.warn(pos, "unknown function %q", name)
		return "", unexpanded, nil
	}
	if x.refuse != nil {
		if err := x.refuse(name); err != nil {
			return "", unexpanded, errAt(pos, "%s: %w", clip(callText(name, args)), err)
		}
	}
	if !f.accepts(len(args)) {
		x.warn(pos, "function %s: %s", name, wrongArgs(f, len(args)))
		return "", unexpanded, nil
	}
	if argsDeferred {
		return "", deferred, nil
	}
	full := callText(name, args)
	if !f.Executes {
		return x.run(f, full, args, pos, calls)
	}
	answer, known := x.given[full]
	if !known {
		answer, known = x.answers[full]
	}
	if !known {
		err := x.mayExecute()
		if f.Fixed && x.env.Host != nil {
			err = nil
		}
		switch {
		case errors.Is(err, errDeferred):
			*calls = append(*calls, Call{Text: full, Reason: reasonExecutes, Pos: pos})
			return "", deferred, nil
		case err != nil:
			return "", unexpanded, errAt(pos, "%s: %w", clip(full), err)
		}
		result, state, err := x.run(f, full, args, pos, calls)
		if err != nil || state == deferred {
			return "", state, err
		}
		answer = Answer{Text: result, None: state == unexpanded}
	}
	x.given[full] = answer
	if answer.None {
		return "", unexpanded, nil
	}
	return answer.Text, answered, nil
}

func (x *expander) run(f *Function, full string, args []string, pos Pos, calls *[]Call) (string, callState, error) {
	if err := x.ctx.Err(); err != nil {
		return "", unexpanded, errAt(pos, "%s: %w", clip(full), err)
	}
	if x.calls++; x.calls > maxCalls {
		return "", unexpanded, errAt(pos, "the profile calls functions more than %d times", maxCalls)
	}
	x.pos = pos
	result, ok, err := f.Call(x.ctx, x.env, args)
	switch {
	case host.Unknown(err):
		*calls = append(*calls, Call{Text: full, Reason: reasonNotRecorded, Pos: pos})
		return "", deferred, nil
	case err != nil:
		return "", unexpanded, errAt(pos, "%s: %w", clip(full), err)
	case !ok:
		return "", unexpanded, nil
	}
	return result, answered, nil
}

func functionNamed(name string) *Function {
	if i := slices.IndexFunc(Functions, func(f Function) bool { return f.Name == name }); i >= 0 {
		return &Functions[i]
	}
	return nil
}

func wrongArgs(f *Function, got int) string {
	switch {
	case f.MaxArgs == 0:
		return fmt.Sprintf("%d or more arguments expected, found %d", f.MinArgs, got)
	case f.MinArgs == f.MaxArgs && f.MinArgs == 1:
		return fmt.Sprintf("1 argument expected, found %d", got)
	case f.MinArgs == f.MaxArgs:
		return fmt.Sprintf("%d arguments expected, found %d", f.MinArgs, got)
	}
	return fmt.Sprintf("%d to %d arguments expected, found %d", f.MinArgs, f.MaxArgs, got)
}

// splitOuterArgs is like splitArgs, but for a call that has a deferred call among its arguments.
// The deferred call keeps its colons and is one argument.
func splitOuterArgs(s string) []string {
	var out []string
	depth := 0
	for _, part := range splitArgs(s) {
		if depth > 0 {
			out[len(out)-1] += ":" + part
		} else {
			out = append(out, part)
		}
		opened := strings.Count(part, "${") - strings.Count(part, "}")
		if len(out) == 1 {
			opened = 0 // the call itself, without its closing brace
		}
		depth += opened
	}
	return out
}

// splitArgs splits at colons that no backslash precedes, and replaces "\:" by ":" in each part.
func splitArgs(s string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); i++ {
		if s[i] == ':' && (i == 0 || s[i-1] != '\\') {
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	parts = append(parts, s[start:])
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, `\:`, ":")
	}
	return parts
}

// callText returns the canonical form of a call, which is the key of its recorded answer.
func callText(name string, args []string) string {
	var b strings.Builder
	b.WriteString("${f:")
	b.WriteString(name)
	for _, a := range args {
		b.WriteByte(':')
		b.WriteString(strings.ReplaceAll(a, ":", `\:`))
	}
	b.WriteByte('}')
	return b.String()
}
