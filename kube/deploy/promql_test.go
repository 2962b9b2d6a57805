package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// uses are the metrics and labels that a Prometheus expression uses.
type uses struct{ metrics, labels []string }

var (
	promTexts  = regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'`)
	promTokens = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*|\$[a-zA-Z_]+|[0-9.]+[a-z]*|[<>=!~]+|\S`)
	promName   = regexp.MustCompile(`^[a-zA-Z_:]`)
	promLists  = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	promWords  = []string{"and", "or", "unless", "offset", "bool", "inf", "nan"}
)

// usesOf returns the names in an expression. test/cluster evaluates expressions with Prometheus.
func usesOf(expr string) (u uses) {
	tokens := promTokens.FindAllString(promTexts.ReplaceAllString(expr, `0`), -1)
	next := func(i int) string {
		if i+1 < len(tokens) {
			return tokens[i+1]
		}
		return ""
	}
	for i := 0; i < len(tokens); i++ {
		switch name := tokens[i]; {
		case name == "[":
			for i < len(tokens) && tokens[i] != "]" {
				i++
			}
		case name == "{", slices.Contains(promLists, name) && next(i) == "(":
			end := "}"
			if name != "{" {
				end = ")"
			}
			for ; i < len(tokens) && tokens[i] != end; i++ {
				if promName.MatchString(tokens[i]) && !slices.Contains(promLists, tokens[i]) {
					u.labels = append(u.labels, tokens[i])
				}
			}
		case !promName.MatchString(name), slices.Contains([]string{"(", "by", "without"}, next(i)), slices.Contains(promWords, strings.ToLower(name)):
		default:
			u.metrics = append(u.metrics, name)
		}
	}
	return u
}

func TestUsesOf(t *testing.T) {
	for expr, want := range map[string]string{
		`up`:                                   "[up] []",
		`sum by (a, b) (rate(x_total[5m]))`:    "[x_total] [a b]",
		`max(x{c="by (z)",d!~'y'}) without(e)`: "[x] [c d e]",
		`time() - x_seconds > bool 5 or on (f) y offset 5m`:                        "[x_seconds y] [f]",
		`histogram_quantile(0.99, sum by (le) (rate(h_bucket[$__rate_interval])))`: "[h_bucket] [le]",
		`topk(20, sum by (node) (v{verdict!~"ok|kept"}))`:                          "[v] [node verdict]",
	} {
		u := usesOf(expr)
		if got := fmt.Sprint(u.metrics, u.labels); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}
