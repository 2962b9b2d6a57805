package rule

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// What to write instead of what somebody has written, for those who write their
// first rule.

// forms are how the parts of a rule are written, where a wrong kind of YAML stands.
var forms = map[string]string{
	"the file":   `of rules, each of which begins with "- id: NAME"`,
	"disable":    `[{id: S06, reason: why not here}]`,
	"platforms":  `[linux] or [satellite, puppet]`,
	"versions":   `[{of: satellite, from: "6.12", before: "6.16"}]`,
	"sources":    `[{document: our handbook, section: "4.2"}]`,
	"a source":   `{document: our handbook, section: "4.2"}`,
	"inputs":     `{NAME: memory.total_bytes} or {NAME: {input: "sysctl:vm.swappiness", as: number}}`,
	"on":         `{kind: guest}, or cloud, vendor and model`,
	"fix":        `{text: what to do} or {changes: {"sysctl:vm.swappiness": "10"}}`,
	"variants":   `[{when: EXPRESSION, want: EXPRESSION}]`,
	"depends-on": `[S06]`,
	"examples":   `[{name: enough, given: {NAME: VALUE}, finding: pass}]`,
	"an example": `{name: enough, given: {NAME: VALUE}, finding: pass}`,
}

// such is the form of a part of a rule.
func such(what string) string {
	if f := forms[what]; f != "" {
		return ": " + f
	}
	return ""
}

// syntaxError is yamlError, with the line of what is no text where the file has some.
func syntaxError(file string, text []byte, err error) error {
	if line, what := internaltext.FindInvalid(text); line > 0 {
		return fmt.Errorf("%s: %s", Pos{file, line}, what)
	}
	return yamlError(file, err)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// yamlError is a syntax error with the line where the others have it, and what may
// be wrong.
func yamlError(file string, err error) error {
	text, at := err.Error(), file
	if m := yamlLine.FindStringSubmatch(strings.ReplaceAll(text, "\n", " ")); m != nil {
		text = m[2]
		if m[1] != "" {
			at += ":" + m[1]
		}
	}
	for part, hint := range map[string]string{
		"mapping values are not allowed":   `is the line indented as its neighbours are? text with ": " in it is put in quotes`,
		"did not find expected key":        "is the line indented as its neighbours are, and every bracket closed?",
		"did not find expected '-'":        "is the line indented as its neighbours are?",
		"tab character":                    "indent with blanks",
		"cannot start any token":           "indent with blanks, and put text that begins with a sign in quotes",
		"unexpected end of stream":         "a quotation mark is not closed",
		"did not find expected ',' or '}":  "a { is not closed, or a comma is missing",
		"did not find expected ',' or ']":  "a [ is not closed, or a comma is missing",
		"did not find expected alphabetic": `text that begins with "*" or "&" is put in quotes`,
	} {
		if strings.Contains(text, part) {
			return fmt.Errorf("%s: %s (%s)", at, text, hint)
		}
	}
	return fmt.Errorf("%s: %s", at, text)
}

var (
	exprPlace   = internaltext.LazyRegexp(` \((\d+):(\d+)\)$`)
	unknownName = internaltext.LazyRegexp(`unknown name (\w+)`)
	goType      = internaltext.LazyRegexp(`\b(float64|int|string|bool|\[\]string|map\[string\]string|unknown|interface \{\})(\b|$)`)
)

// exprError says of an expression what the library does, in the words of rules, and
// what to write instead.
func exprError(e *Expr, said string, env map[string]any) error {
	said, _, _ = strings.Cut(said, "\n") // the library adds lines with the text and an arrow
	if m := exprPlace().FindStringSubmatch(said); m != nil {
		said = strings.TrimSuffix(said, m[0])
	}
	hint := ""
	switch name := unknownName().FindStringSubmatch(said); {
	case name != nil:
		hint = nameHint(name[1], env)
	case strings.Contains(said, `Operator("=")`), strings.Contains(said, `unexpected token Operator("=>")`):
		hint = ": == compares, and >= and <= are written so"
	case strings.Contains(said, "bad number syntax"):
		hint = ": sizes are gib(16), mib(512) and kib(4), versions and other text are in quotes"
	case strings.Contains(said, "mismatched types"):
		said = goType().ReplaceAllStringFunc(said, func(t string) string {
			return map[string]string{"float64": "number", "int": "number", "string": "text", "bool": "truth", "[]string": "list", "map[string]string": "map"}[t] + map[bool]string{true: "any"}[t == "unknown" || t == "interface {}"]
		})
		hint = map[bool]string{true: ": float(...) makes a number of what a table holds, string(...) a text"}[strings.Contains(said, "any")]
	}
	return fmt.Errorf("%s: %s: %s%s", e.At, strings.TrimSpace(e.Text), said, hint)
}

// nameHint is what somebody may have meant by a name.
func nameHint(name string, env map[string]any) string {
	switch strings.ToLower(name) {
	case "yes", "on", "no", "off":
		return ": truth is true or false"
	}
	if why := refused[name]; why != "" {
		return ": the function is not for rules: " + why
	}
	known := slices.Sorted(maps.Keys(env))
	functions := []string{"since", "kib", "mib", "gib", "div", "cell", "least", "like", "min", "max", "round", "floor", "ceil", "string", "float", "int", "len", "join", "split", "filter", "all", "any", "lower", "upper"}
	if s := internaltext.Suggest(name, append(known, functions...)); s != "" {
		return s
	}
	return fmt.Sprintf(": text is in quotes of its own ('\"%s\"'), and the names here are %s", name, strings.Join(known, ", "))
}

// sysctlRoots are the directories of /proc/sys.
var sysctlRoots = []string{"abi", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"}

// inputHint is what somebody may have meant by an input that there is not.
func inputHint(name string, known []string) string {
	root, _, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(name, "/sys/"):
		return fmt.Sprintf(": a file of the kernel is {input: \"sysfs:%s\", as: text}", name)
	case strings.HasPrefix(name, "/proc/sys/"):
		return fmt.Sprintf(": a sysctl is {input: \"sysctl:%s\", as: number}", strings.ReplaceAll(strings.TrimPrefix(name, "/proc/sys/"), "/", "."))
	case slices.Contains(sysctlRoots, root) && strings.Contains(name, "."):
		return fmt.Sprintf(": a sysctl is {input: \"sysctl:%s\", as: number}", name)
	}
	if s := internaltext.Suggest(name, known); s != "" {
		return s
	}
	if of := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, root+".") }); len(of) > 0 {
		return fmt.Sprintf(": of %s there are %s", root, strings.Join(of[:min(6, len(of))], ", ")) + map[bool]string{true: ", ..."}[len(of) > 6]
	}
	return ": fettle facts lists those of the machine, docs/090-check.md those of products"
}

// versionForm is a version as products have it.
var versionForm = internaltext.LazyRegexp(`^[0-9]+([.~+-]?[0-9A-Za-z]+)*$`)

// wrong is what is wrong with a range; "" for nothing.
func (v Range) wrong(products []string) string {
	for key, version := range map[string]string{"from": v.From, "before": v.Before} {
		if version != "" && !versionForm().MatchString(version) {
			return fmt.Sprintf("%s: %q is no version: want %s", key, version, forms["versions"])
		}
	}
	switch {
	case v.Product == "":
		return "of which product? " + forms["versions"]
	case !slices.Contains(products, v.Product):
		return fmt.Sprintf("nothing knows the version of %q%s: those of %s are known", v.Product, internaltext.Suggest(v.Product, products), strings.Join(products, ", "))
	case v.From != "" && v.Before != "" && compareVersions(v.From, v.Before) >= 0:
		return fmt.Sprintf("no version is from %s on and before %s", v.From, v.Before)
	}
	return ""
}
