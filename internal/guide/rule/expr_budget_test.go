package rule

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/builtin"
)

// evaluated is the value of an expression, with x a text.
func evaluated(t *testing.T, text string) (any, error) {
	t.Helper()
	e := &Expr{Text: text, At: Pos{"own.yaml", 7}}
	env := map[string]any{"x": "x", "list": []string{"a", "b"}, "n": 2.0}
	if err := (&Catalogue{}).compileExpr(e, env, nil); err != nil {
		return nil, err
	}
	return e.run(env)
}

// An expression that would make texts without end is refused, with its place, before
// it has made them.
func TestExprBudget(t *testing.T) {
	// doubled is a text that is made twice as long 30 times, FORM of it each time.
	doubled := func(form string) string {
		text := "let a0 = x; "
		for i := range 30 {
			text += fmt.Sprintf("let a%d = %s; ", i+1, strings.ReplaceAll(form, "FORM", fmt.Sprintf("a%d", i)))
		}
		return text + "len(a30)"
	}
	for name, text := range map[string]string{
		"reduce":          `reduce(1..30, #acc + #acc, "aaaaaaaaaa")`,
		"repeat":          `repeat(repeat("a", 100000), 100000)`,
		"replace":         `replace("aa", "a", "aaaa")`,
		"doubled":         doubled("FORM + FORM"),
		"doubled of any":  doubled("get([FORM], 0) + get([FORM], 0)"),
		"doubled as list": doubled("string([FORM, FORM])"),
		"joined":          `len(join(map(1..100000, join(map(1..1000, "aaaaaaaa"), ""))))`,
		"lists":           `len(map(1..900000, split("` + strings.Repeat("a ", 1000) + `", " ")))`,
		"loops":           `all(1..3000, let a = #; all(1..3000, let b = #; all(1..3000, a + b + # > 0)))`,
		"sums":            `let r = 1..100000; all(r, sum(r) > 0)`,
		"nested, shown":   strings.Replace(doubled("[FORM, FORM]"), "len(a30)", "a30", 1),
		"nested, as text": strings.Replace(doubled("[FORM, FORM]"), "len(a30)", "string(a30)", 1),
		"nested, joined":  strings.Replace(doubled("[FORM, FORM]"), "len(a30)", "join(a30)", 1),
		"long":            strings.Repeat("1 + ", maxExprBytes/4) + "1",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := evaluated(t, text)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.HasPrefix(err.Error(), "own.yaml:7: ") {
			t.Errorf("%s: %v, want an error with its place", name, err)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
			t.Errorf("%s: it took %d MiB", name, took)
		}
	}
	for text, want := range map[string]any{
		`x + "y" + x`: "xyx", `string(n + 1) + " " + join(list, ",")`: "3 a,b", `n + 1 + len(list)`: 5.0,
		`upper(get([x], 0)) + lower("A")`: "Xa", `len(split("a b", " "))`: 2.0, `join(map(list, # + "!"))`: "a!b!",
		`sum(map([1, 2], # + 1))`: 5.0, `get([1, x], 0) + get([1, x], 0)`: 2.0,
	} {
		if got, err := evaluated(t, text); err != nil || !same(got, want) {
			t.Errorf("%s is %v (%v), want %v", text, got, err, want)
		}
	}
}

// Each function of the language is one that rules may use or one that is refused when a
// rule is loaded, with the line and the reason, and the manual says which.
func TestFunctionsOfRules(t *testing.T) {
	b, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(b)
	ours := []string{"string", "lower", "upper", "split", "join"}
	for _, f := range builtin.Builtins {
		why := refused[f.Name]
		switch may := slices.Contains(harmless, f.Name) || slices.Contains(ours, f.Name); {
		case may == (why != ""):
			t.Errorf("%s: nobody has decided whether rules may use it, or somebody has twice (%q)", f.Name, why)
		case !strings.Contains(manual, "`"+f.Name+"`"):
			t.Errorf("docs/rules.md does not say whether a rule may use %s", f.Name)
		}
	}
	for name := range refused {
		text := name + "(list)"
		switch name {
		case "sortBy", "groupBy":
			text = name + "(list, #)"
		case "reduce":
			text = `reduce(list, 1 + 1)`
		}
		if _, err := evaluated(t, text); err == nil || !strings.HasPrefix(err.Error(), "own.yaml:7: ") || !strings.Contains(err.Error(), "not allowed in rules: "+refused[name]) {
			t.Errorf("%s: %v, want it refused with the line and the reason", text, err)
		}
	}
}
