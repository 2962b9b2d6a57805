package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// forms shows the syntax of a rule's parts, for messages about wrong YAML.
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

// such returns the form of a part of a rule.
func such(what string) string {
	if f := forms[what]; f != "" {
		return ": " + f
	}
	return ""
}

// syntaxError is like yamlError, but for a file: it also reports the line of the first invalid
// UTF-8.
func syntaxError(file string, text []byte, err error) error {
	if line, what := internaltext.FindInvalid(text); line > 0 {
		return fmt.Errorf("%s: %s", Pos{file, line}, what)
	}
	return yamlError(file, err)
}

var yamlLine = internaltext.LazyRegexp(`^yaml: (?:line (\d+): )?(.*)$`)

// yamlError returns a syntax error with its line in front, and a hint.
func yamlError(file string, err error) error {
	text, at := err.Error(), file
	if m := yamlLine().FindStringSubmatch(strings.ReplaceAll(text, "\n", " ")); m != nil {
		text = m[2]
		if m[1] != "" {
			at += ":" + m[1]
		}
	}
	for part, hint := range map[string]string{
		"mapping values are not allowed":   `is the line indented like its neighbors? quote text with ": " in it`,
		"did not find expected key":        "is the line indented like its neighbors, and every bracket closed?",
		"did not find expected '-'":        "is the line indented like its neighbors?",
		"tab character":                    "indent with blanks",
		"cannot start any token":           "indent with blanks, and quote text that begins with a sign",
		"unexpected end of stream":         "a quotation mark is not closed",
		"did not find expected ',' or '}":  "a { is not closed, or a comma is missing",
		"did not find expected ',' or ']":  "a [ is not closed, or a comma is missing",
		"did not find expected alphabetic": `quote text that begins with "*" or "&"`,
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

// exprError translates the library's error about an expression into terms of rules, with a hint.
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
		hint = ": compare with ==, >= and <="
	case strings.Contains(said, "bad number syntax"):
		hint = ": write sizes as gib(16), mib(512) or kib(4), and quote versions and other text"
	case strings.Contains(said, "mismatched types"):
		said = goType().ReplaceAllStringFunc(said, func(t string) string {
			return map[string]string{"float64": "number", "int": "number", "string": "text", "bool": "truth", "[]string": "list", "map[string]string": "map"}[t] + map[bool]string{true: "any"}[t == "unknown" || t == "interface {}"]
		})
		hint = map[bool]string{true: ": convert table values by float(...) or string(...)"}[strings.Contains(said, "any")]
	}
	return fmt.Errorf("%s: %s: %s%s", e.At, strings.TrimSpace(e.Text), said, hint)
}

// nameHint returns a hint about the meaning of an unknown name, or "".
func nameHint(name string, env map[string]any) string {
	switch strings.ToLower(name) {
	case "yes", "on", "no", "off":
		return ": write true or false"
	}
	if why := refused[name]; why != "" {
		return ": this function is not allowed in rules: " + why
	}
	known := slices.Sorted(maps.Keys(env))
	functions := []string{"since", "kib", "mib", "gib", "human", "div", "cell", "least", "like", "min", "max", "round", "floor", "ceil", "string", "float", "int", "len", "join", "split", "filter", "all", "any", "lower", "upper"}
	if s := internaltext.Suggest(name, append(known, functions...)); s != "" {
		return s
	}
	return fmt.Sprintf(": quote text ('\"%s\"'); the names in this rule are %s", name, strings.Join(known, ", "))
}

// sysctlRoots are the directories of /proc/sys.
var sysctlRoots = []string{"abi", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"}

// inputHint returns a hint about the meaning of an unknown input, or "".
func inputHint(name string, known []string) string {
	root, _, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(name, "/sys/"):
		return fmt.Sprintf(": for a file of the kernel write {input: \"sysfs:%s\", as: text}", name)
	case strings.HasPrefix(name, "/proc/sys/"):
		return fmt.Sprintf(": for a sysctl write {input: \"sysctl:%s\", as: number}", strings.ReplaceAll(strings.TrimPrefix(name, "/proc/sys/"), "/", "."))
	case slices.Contains(sysctlRoots, root) && strings.Contains(name, "."):
		return fmt.Sprintf(": for a sysctl write {input: \"sysctl:%s\", as: number}", name)
	}
	if s := internaltext.Suggest(name, known); s != "" {
		return s
	}
	if of := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, root+".") }); len(of) > 0 {
		return fmt.Sprintf(": %s has %s", root, strings.Join(of[:min(6, len(of))], ", ")) + map[bool]string{true: ", ..."}[len(of) > 6]
	}
	return ": fettle facts --details lists the inputs of a machine, docs/products.md those of products"
}

// versionForm is the form of a version.
var versionForm = internaltext.LazyRegexp(`^[0-9]+([.~+-]?[0-9A-Za-z]+)*$`)

// wrong describes the fault of a range, or returns "".
func (v Range) wrong(products []string) string {
	for key, version := range map[string]string{"from": v.From, "before": v.Before} {
		if version != "" && !versionForm().MatchString(version) {
			return fmt.Sprintf("%s: %q is not a version: want %s", key, version, forms["versions"])
		}
	}
	switch {
	case v.Product == "":
		return "of: PRODUCT is missing: want " + forms["versions"]
	case !slices.Contains(products, v.Product):
		return fmt.Sprintf("unknown product %q%s: want %s", v.Product, internaltext.Suggest(v.Product, products), strings.Join(products, ", "))
	case v.From != "" && v.Before != "" && compareVersions(v.From, v.Before) >= 0:
		return fmt.Sprintf("empty range: from %s, before %s", v.From, v.Before)
	}
	return ""
}
