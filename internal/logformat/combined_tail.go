package logformat

import (
	"bytes"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// nginxKeys maps labels to nginx variables that are often appended to the combined log. The
// labels are those in nginx's documentation and examples (nginx.com, "Using NGINX Logging for
// Application Performance Monitoring").
var nginxKeys = map[string]string{
	"rt": "request_time", "uct": "upstream_connect_time", "uht": "upstream_header_time", "urt": "upstream_response_time", "ut": "upstream_response_time",
	"ua": "upstream_addr", "us": "upstream_status", "ul": "upstream_response_length", "cs": "upstream_cache_status", "sn": "server_name", "xff": "http_x_forwarded_for",
}

var (
	combinedTail = text.LazyRegexp(`^(?:([\w.:-]+) )?\S+ - .*? \[[^]]*\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-) "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"( .+)$`)
	tailWord     = text.LazyRegexp(`^ (?:([A-Za-z_][\w-]*)([=:]))?(?:"((?:[^"\\]|\\.)*)"|([^\s",]+(?:(?:, | : )[^\s",]+)*))`)
	upstreams    = text.LazyRegexp(`^(?:[\d.]+|\[[\da-fA-F:.]+\]):\d+(?:(?:, | : )(?:[\d.]+|\[[\da-fA-F:.]+\]):\d+)*$`)
	hereLabel    = text.LazyRegexp("\x00[^\x00]*\x00")
	pointed      = text.LazyRegexp(`^(?:\d+\.\d{3}|-)(?:(?:, | : )(?:\d+\.\d{3}|-))*$`)
	epoch        = text.LazyRegexp(`^1\d{9}\.\d{3}$`) // $msec
)

// apacheTails returns candidates for a line of the combined log with labeled values at its
// end, one of them a duration in whole numbers as httpd writes it: D=106269. If the label
// lacks a unit, there is one candidate for each possible unit.
func apacheTails(line []byte) (list []candidate) {
	m := combinedTail().FindSubmatch(line)
	if m == nil {
		return nil
	}
	base := apacheNames[1].format
	if m[1] != nil {
		base = "%v " + base
	}
	const here = "\x00" // placeholder for the duration
	text, took := "", ""
	for rest := m[2]; len(rest) > 0; {
		w := tailWord().FindSubmatch(rest)
		if w == nil || len(w[1]) == 0 {
			return nil
		}
		rest = rest[len(w[0]):]
		label, quote, value := string(w[1]), "", w[4]
		if w[4] == nil {
			quote, value = `"`, w[3]
		}
		if _, is := Int(value); is && labelUnits(label) != nil && (took == "" || label == "D") {
			took = label
		}
		text += " " + label + string(w[2]) + quote + here + label + here + quote
	}
	if took == "" {
		return nil
	}
	label := hereLabel()
	for _, directive := range labelUnits(took) {
		text := label.ReplaceAllStringFunc(text, func(s string) string {
			if s = strings.Trim(s, here); s == took {
				return directive
			}
			return "%{" + s + "}n"
		})
		c := candidate{name: "the combined log followed by " + took, text: "apache:" + base + text, reason: "labels, and a whole number that is a duration", evidence: alwaysNumber}
		if len(labelUnits(took)) == 1 {
			c.guess = "that " + took + " is a duration in the unit of Apache's " + directive
		}
		list = append(list, c)
	}
	return list
}

// labelUnits returns the httpd directives that may have written a label's number, or nil if
// the label is not a duration. D is httpd's label for %D (mod_headers), T for %T.
func labelUnits(label string) []string {
	unit, _, ok := namedDuration(label)
	switch {
	case label == "D":
		return []string{"%D"}
	case label == "T":
		return []string{"%T"}
	case !ok:
		words := nameWords(label)
		if n := len(words); n > 1 && unitWords[words[n-1]] > 0 {
			unit, words = unitWords[words[n-1]], words[:n-1]
		}
		if len(words) != 1 || words[0] != "time" && words[0] != "rt" {
			return nil
		}
	}
	switch unit {
	case 1e3:
		return []string{"%D"}
	case 1e6:
		return []string{"%{ms}T"}
	case 1e9:
		return []string{"%T"}
	}
	return []string{"%D", "%{ms}T", "%T"}
}

// nginxTail returns the format of a line that has nginx's combined format followed by labeled
// values or by times with a decimal point, which only nginx writes. ok is false if the line does
// not match, or if a field is not recognized; the candidate's text then calls that field value_N,
// for the user to replace.
func nginxTail(line []byte) (c candidate, ok bool) {
	m := combinedTail().FindSubmatch(line)
	if m == nil {
		return c, false
	}
	var text strings.Builder
	if m[1] != nil {
		text.WriteString("$host ")
	}
	text.WriteString(NginxCombined)
	times, labels, unknown, first, guess := 0, 0, 0, true, ""
	for rest := m[2]; len(rest) > 0; first = false {
		w := tailWord().FindSubmatch(rest)
		if w == nil {
			return c, false
		}
		rest = rest[len(w[0]):]
		label, quote, value := string(w[1]), "", w[4]
		if w[4] == nil {
			quote, value = `"`, w[3]
		}
		variable := ""
		switch isTime := pointed().Match(value); {
		case label == "" && epoch().Match(value):
			variable = "msec"
			labels++
		case label != "":
			if variable = nginxKeys[label]; variable == "" {
				variable = name(label)
			}
			if strings.HasSuffix(variable, "_time") && !isTime {
				variable = name(label)
			}
			if isTime && string(value) != "-" && guess == "" && len(labelUnits(label)) == 3 && nginxKeys[label] == "" && variable != "request_time" {
				variable, guess = "request_time", "that "+label+" is nginx' $request_time, seconds"
			}
			labels++
		case first && quote != "" && (string(value) == "-" || isAddress(firstOf(value))):
			variable = "http_x_forwarded_for"
		case first && quote != "" && upstreams().Match(value): // the log of nginx-proxy
			variable, guess = "upstream_addr", "that the text after the user agent is nginx' $upstream_addr"
			labels++
		case isTime && string(value) != "-" && times < 2 || isTime && times == 1:
			variable = []string{"request_time", "upstream_response_time"}[times]
			times++
		default:
			unknown++
			variable = "value_" + strconv.Itoa(unknown)
		}
		text.WriteString(" " + label + string(w[2]) + quote + "$" + variable + quote)
	}
	c = candidate{name: "nginx' combined log followed by further fields", text: "nginx:" + text.String(), reason: "labels, and times with decimal points"}
	if guess != "" {
		c.guess = guess
		if strings.Contains(text.String(), "$request_time") {
			c.evidence = upstreamWithin
		}
	}
	switch {
	case unknown > 0:
		return c, false
	case times == 0 && labels == 0:
		return c, false // nginx's format main, which has a name
	case times == 1:
		c.guess, c.evidence = "that the number with a decimal point is nginx' $request_time, seconds", upstreamWithin
	case times == 2:
		c.guess, c.evidence = "that the numbers with decimal points are nginx' $request_time and $upstream_response_time, seconds", upstreamWithin
	}
	if m[1] != nil {
		c.evidence = bothOf(hostNames, c.evidence)
	}
	return c, true
}

func firstOf(list []byte) []byte {
	one, _, _ := bytes.Cut(list, []byte(","))
	return one
}

// upstreamWithin checks that a request takes about as long as its upstreams or longer, and
// that times have a decimal point. nginx rounds each value separately: 1.22 wrote 0.006 for a
// request and 0.007 for the sum of its two upstreams. If upstreams take longer than the
// request in most lines, the two are swapped.
func upstreamWithin(rows []row) verdict {
	d := Field{Kind: Duration, Unit: 1e9, List: true}
	longer, shorter := 0, 0
	if most(rows, func(r row) bool {
		all, parts := r.text(FieldDuration), r.text("upstream_duration")
		took, ok := d.Duration(all)
		upstream, some := d.Duration(parts)
		each := int64(1 + bytes.Count(parts, []byte(",")) + bytes.Count(parts, []byte(":")))
		switch {
		case !ok || !some:
		case upstream > took+1e3*each:
			longer++
		case took > upstream:
			shorter++
		}
		return ok && bytes.IndexByte(all, '.') > 0 && upstream <= took+10e3
	}) && longer <= shorter {
		return neutral
	}
	return against
}
