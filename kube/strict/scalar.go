package strict

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/text"
)

var (
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	// truths matches the plain scalars other than true and false that YAML 1.1, and therefore
	// kubectl, reads as booleans.
	truths = regexp.MustCompile(`^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$`)
)

// isTruth reports whether kubectl reads a plain scalar as a boolean.
func isTruth(n *yaml.Node) bool { return n.Style == 0 && truths.MatchString(n.Value) }

// scalar decodes a scalar. With API it must have the field's type; otherwise any text that parses
// as that type is accepted.
func (r *Reader) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.String:
		r.text(n, v, path, tag)
	case reflect.Bool:
		r.truth(n, v, path)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || !(x >= 0) || math.IsInf(x, 0) {
			r.Fault(n, "%s: want a number of 0 or more, found %s", path, Found(n))
			return
		}
		v.SetFloat(x)
	default:
		r.number(n, v, path, tag)
	}
}

func (r *Reader) text(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	kind := n.ShortTag()
	if n.Kind != yaml.ScalarNode || r.API && kind != "!!str" && kind != "!!timestamp" {
		r.Fault(n, "%s: want text, found %s%s", path, Found(n), quote(n))
		return
	}
	if r.API && isTruth(n) {
		r.Fault(n, "%s: kubectl reads %s as true or false%s", path, n.Value, quote(n))
	}
	if tag.Get("minLength") == "1" && n.Value == "" {
		r.Fault(n, "%s is empty", path)
	}
	if words := tag.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), n.Value) {
		r.Fault(n, "%s: want %s, found %q%s", path, strings.ReplaceAll(words, ",", " or "), n.Value, text.Suggest(n.Value, strings.Split(words, ",")))
		return
	}
	if pattern := tag.Get("pattern"); pattern != "" && !regexp.MustCompile(pattern).MatchString(n.Value) {
		r.Fault(n, "%s: want a text that matches %s, found %q", path, pattern, n.Value)
	}
	v.SetString(n.Value)
}

func (r *Reader) truth(n *yaml.Node, v reflect.Value, path string) {
	word := strings.ToLower(n.Value)
	if r.API && n.ShortTag() != "!!bool" || n.Kind != yaml.ScalarNode {
		word = ""
	}
	switch word {
	case "true", "yes", "on":
		v.SetBool(true)
	case "false", "no", "off":
		v.SetBool(false)
	default:
		r.Fault(n, "%s: want true or false, found %s", path, Found(n))
	}
}

// number decodes a whole number. With API it has the range of the field's type; the maximum of
// unsigned types is int64's. Otherwise it has 32 bits and, without a tag min, is at least 0.
func (r *Reader) number(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	bits, least := 32, int64(0)
	if r.API {
		bits = v.Type().Bits()
		least = math.MinInt64 >> (64 - bits)
	}
	most := int64(math.MaxInt64) >> (64 - bits)
	if text := tag.Get("min"); text != "" {
		least, _ = strconv.ParseInt(text, 10, 64)
	}
	x, err := strconv.ParseInt(n.Value, 10, bits)
	switch {
	case n.Kind != yaml.ScalarNode || r.API && (n.ShortTag() != "!!int" || !decimal.MatchString(n.Value)):
		r.Fault(n, "%s: want a whole number, found %s", path, Found(n))
	case err == nil && x >= least && v.CanUint():
		v.SetUint(uint64(x))
	case err == nil && x >= least:
		v.SetInt(x)
	case r.API:
		r.Fault(n, "%s: want a whole number from %d to %d, found %s", path, least, most, n.Value)
	default:
		r.Fault(n, "%s: want a whole number of %d or more, found %s", path, least, Found(n))
	}
}

// Found describes a node's value for messages.
func Found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	text := n.Value
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:37], "") + "..."
	}
	switch kind := n.ShortTag(); kind {
	case "!!null":
		return "nothing"
	case "!!str":
		return strconv.Quote(text)
	default:
		return fmt.Sprintf("%s (%s)", text, strings.TrimPrefix(kind, "!!"))
	}
}

// quote returns a scalar quoted as text.
func quote(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || strings.ContainsAny(n.Value, "\"\n") {
		return ""
	}
	return fmt.Sprintf(": write \"%s\", with the quotes", n.Value)
}

func (r *Reader) duration(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	unit := time.Duration(0)
	switch tag.Get("unit") {
	case "s":
		unit = time.Second
	case "ms":
		unit = time.Millisecond
	}
	d, ok := ParseDuration(n.Value, unit)
	if n.Kind != yaml.ScalarNode || !ok {
		how := "a time with its unit, such as 250ms, 10s or 2m"
		if unit != 0 {
			how = fmt.Sprintf("a whole number (of %s), or a time with its unit, such as 250ms, 10 s or 2m", tag.Get("unit"))
		}
		r.Fault(n, "%s: want %s, found %s", path, how, Found(n))
		return
	}
	v.SetInt(int64(d))
}

// ParseDuration parses a duration: bare digits are in unit (only 0 if unit is 0), other texts in
// Go's form, also with spaces, sec and min. ok is false for an invalid text, a negative duration,
// or more than a year.
func ParseDuration(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.Join(strings.Fields(text), "")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || n > 0 && (unit == 0 || n > int64(longest/unit)) {
			return 0, false
		}
		return time.Duration(n) * unit, true
	}
	for long, short := range map[string]string{"min": "m", "sec": "s", "msec": "ms"} {
		if digits, ok := strings.CutSuffix(text, long); ok && digits != "" && digits[len(digits)-1] <= '9' {
			text = digits + short
			break
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && d <= longest
}

const longest = 366 * 24 * time.Hour
