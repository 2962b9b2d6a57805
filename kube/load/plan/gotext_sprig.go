package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
)

// These replace functions of sprig whose text would differ each time, or could fill the
// memory.

// timed are functions of sprig that take the time of the clock for a value that is not one.
func timed(all template.FuncMap, now time.Time) template.FuncMap {
	date, in := all["date"].(func(string, any) string), all["dateInZone"].(func(string, any, string) string)
	html, htmlIn := all["htmlDate"].(func(any) string), all["htmlDateInZone"].(func(any, string) string)
	round := all["durationRound"].(func(any) string)
	of := func(v any) any {
		switch v.(type) {
		case time.Time, *time.Time, int, int32, int64:
			return v
		}
		return now
	}
	inZone := func(format string, v any, zone string) string { return in(format, of(v), zone) }
	return template.FuncMap{
		"date": func(format string, v any) string { return date(format, of(v)) }, "dateInZone": inZone, "date_in_zone": inZone,
		"htmlDate":       func(v any) string { return html(of(v)) },
		"htmlDateInZone": func(v any, zone string) string { return htmlIn(of(v), zone) },
		"durationRound": func(v any) string {
			if at, is := v.(time.Time); is {
				v = now.Sub(at).String()
			}
			return round(v)
		},
	}
}

func ago(now time.Time, v any) string {
	at := now
	switch v := v.(type) {
	case time.Time:
		at = v
	case int64:
		at = time.Unix(v, 0)
	case int:
		at = time.Unix(int64(v), 0)
	}
	return now.Sub(at).Round(time.Second).String()
}

func keys(dicts ...map[string]any) []string {
	all := []string{}
	for _, d := range dicts {
		all = append(all, slices.Sorted(maps.Keys(d))...)
	}
	return all
}

func values(d map[string]any) []any {
	all := []any{}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		all = append(all, d[k])
	}
	return all
}

func repeat(n int, text string) (string, error) {
	if n < 0 || n > maxText || n*len(text) > maxText {
		return "", fmt.Errorf("repeat %d: it makes more than %d MiB", n, maxText>>20)
	}
	return strings.Repeat(text, n), nil
}

// maxList caps how long a list is that a template makes.
const maxList = 1_000_000

func until(n int) ([]int, error) {
	if n < 0 {
		return untilStep(0, n, -1)
	}
	return untilStep(0, n, 1)
}

func untilStep(from, to, step int) ([]int, error) {
	var n uint64
	switch {
	case step > 0 && from < to:
		n = (uint64(to)-uint64(from)-1)/uint64(step) + 1
	case step < 0 && from > to:
		n = (uint64(from)-uint64(to)-1)/-uint64(step) + 1
	}
	if n > maxList {
		return nil, fmt.Errorf("a list from %d to %d by %d has more than %d numbers", from, to, step, maxList)
	}
	all := make([]int, n)
	for i := range all {
		all[i] = from + i*step
	}
	return all, nil
}

// capped are functions of sprig whose result an argument sizes.
func capped(all template.FuncMap) template.FuncMap {
	indent, nindent := all["indent"].(func(int, string) string), all["nindent"].(func(int, string) string)
	seq := all["seq"].(func(...int) string)
	lines := func(name string, of func(int, string) string) func(int, string) (string, error) {
		return func(n int, text string) (string, error) {
			if n < 0 || n > maxText || (strings.Count(text, "\n")+1)*n > maxText {
				return "", fmt.Errorf("%s %d: it makes more than %d MiB", name, n, maxText>>20)
			}
			return of(n, text), nil
		}
	}
	return template.FuncMap{
		"indent": lines("indent", indent), "nindent": lines("nindent", nindent),
		"seq": func(of ...int) (string, error) {
			for _, n := range of {
				if n < -maxList || n > maxList {
					return "", fmt.Errorf("seq: want numbers of -%d to %d", maxList, maxList)
				}
			}
			return seq(of...), nil
		},
	}
}
