package strict

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

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
		how := "a time with its unit, as 250ms, 10s, 2m"
		if unit != 0 {
			how = fmt.Sprintf("a whole number (of %s), or a time with its unit, as 250ms, 10 s, 2m", tag.Get("unit"))
		}
		r.Fault(n, "%s: want %s, found %s", path, how, Found(n))
		return
	}
	v.SetInt(int64(d))
}

// ParseDuration reads a time: digits are in unit (only 0 where that is 0), others as Go
// writes them, also with spaces, and with sec and min. False for what is not a duration, is negative
// or longer than a year.
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
