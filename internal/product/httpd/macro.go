package httpd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// macro is a <Macro NAME $PARAMETER...> of mod_macro.
type macro struct {
	name       string
	parameters []string
	file       string
	line       int    // number of its first line
	text       string // text between the begin and end lines
}

// maxUses limits the number of macro uses, which may nest.
const maxUses = 3000

// define records a macro at its end line; begin and end are its lines in text.
func (r *reader) define(file, text string, begin, end line) {
	w := words(r.resolve(begin.args))
	if len(w) == 0 {
		return
	}
	from := begin.to + strings.IndexByte(text[begin.to:], '\n') + 1
	to := strings.LastIndexByte(text[:end.from], '\n') + 1
	m := macro{name: strings.ToLower(w[0]), parameters: w[1:], file: file, line: begin.number + strings.Count(text[begin.from:from], "\n"), text: text[min(from, to):to]}
	if r.macros == nil {
		r.macros = map[string]macro{}
	}
	r.macros[m.name] = m
}

// use reads the text of a macro with its arguments in place of the Use line. It keeps only logs:
// other lines have no position in a file that fettle could change.
func (r *reader) use(file string, l line, context []string) error {
	w := words(r.resolve(l.args))
	if len(w) == 0 {
		return errors.New("Use without a macro name") //nolint:staticcheck // the directive's name
	}
	m, ok := r.macros[strings.ToLower(w[0])]
	switch {
	case !ok:
		return fmt.Errorf("Use %s: no <Macro> with this name precedes this line", w[0]) //nolint:staticcheck // the directive's name
	case len(w)-1 != len(m.parameters):
		return fmt.Errorf("Use %s: the macro at %s:%d has %d parameters, got %d", w[0], m.file, m.line-1, len(m.parameters), len(w)-1) //nolint:staticcheck // the directive's name
	case len(r.using) >= maxDepth:
		return fmt.Errorf("macros nest more than %d deep", maxDepth)
	case r.uses >= maxUses:
		return fmt.Errorf("macros are used more than %d times", maxUses)
	}
	// If one parameter's name begins with another's, the longer one takes precedence.
	order := make([]int, len(m.parameters))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(len(m.parameters[b]), len(m.parameters[a])) })
	var pairs []string
	for _, i := range order {
		if m.parameters[i] != "" {
			pairs = append(pairs, m.parameters[i], w[1+i])
		}
	}
	text := strings.NewReplacer(pairs...).Replace(m.text)
	if len(text) > maxMacro {
		return fmt.Errorf("Use %s: expands to more than %d KiB", w[0], maxMacro>>10) //nolint:staticcheck // the directive's name
	}
	r.uses++
	r.using = append(r.using, fmt.Sprintf("%s:%d", file, l.number))
	defer func() { r.using = r.using[:len(r.using)-1] }()
	// The lines keep their numbers in the file.
	return r.text(m.file, strings.Repeat("\n", m.line-1)+text, context)
}

// maxMacro is the maximum length of a macro's text, in bytes.
const maxMacro = 256 << 10
