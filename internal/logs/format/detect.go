package format

import (
	"bytes"
	"fmt"
	"strings"
)

// source003 is the LogFormat of "Puppetmaster Performance Tuning with mod_mem_cache"
// (source 003), with the mistyped headers that its log shows as -.
const source003 = `%h %l %u %t "%r" %>s %b %D "%{Referer}i" "%{User-Agent}i"`

// candidate is a format that a log may have, of those that servers write unless they are
// told otherwise.
type candidate struct {
	name   string
	make   func() (*Format, error)
	reason string // besides how many lines are so
	guess  string // what of it the lines do not say
}

func candidates() []candidate {
	apache := func(text string) func() (*Format, error) { return func() (*Format, error) { return Apache(text) } }
	list := []candidate{
		{"HAProxy's HTTP log", func() (*Format, error) { return HAProxy(haproxyHTTP) }, "option httplog; its times are milliseconds", ""},
		{"HAProxy's HTTP log in CLF", func() (*Format, error) { return HAProxy(haproxyCLF) }, "option httplog clf; its times are milliseconds", ""},
		{"HAProxy's HTTP log in CLF", func() (*Format, error) { return HAProxy(HAProxyCaptures(haproxyCLF, 0, 0)) }, "option httplog clf; its times are milliseconds", ""},
		{"Puppet Server's access log", func() (*Format, error) { return Logback(puppetServer) }, "as its request-logging.xml has it: %D of logback-access is milliseconds", ""},
		{"Puppet Server's own log", func() (*Format, error) { return puppetLog(), nil }, "seconds, as the lines say", ""},
		{"Foreman's production.log", func() (*Format, error) { return foreman(), nil }, "ms, as the lines say", ""},
		{"the log of source 003", apache(source003), "a number between bytes and referer", "that the number is Apache's %D, microseconds"},
		{"nginx' combined log with its times", func() (*Format, error) { return Nginx(NginxCombined + ` "$http_x_forwarded_for" $request_time`) }, "a number with a point at the end", "that it is nginx' $request_time, seconds"},
		{"nginx' combined log with its times", func() (*Format, error) { return Nginx(NginxCombined + ` $request_time`) }, "a number with a point at the end", "that it is nginx' $request_time, seconds"},
		{"nginx' combined log with its times", func() (*Format, error) {
			return Nginx(NginxCombined + ` $request_time $upstream_response_time`)
		}, "two numbers with points at the end", "that they are nginx' $request_time and $upstream_response_time, seconds"},
	}
	for _, n := range apacheNames {
		list = append(list,
			candidate{n.name + " and %D", apache(n.format + " %D"), "a whole number at the end", "that the number is Apache's %D, microseconds"},
			candidate{n.name, apache(n.format), "", ""})
	}
	return list
}

// Named are the formats that have a name of their own.
var Named = map[string]func() (*Format, error){
	"combined":       func() (*Format, error) { return Apache(apacheNames[1].format) },
	"common":         func() (*Format, error) { return Apache(apacheNames[2].format) },
	"vhost_combined": func() (*Format, error) { return Apache(apacheNames[0].format) },
	"source003":      func() (*Format, error) { return Apache(source003) },
	"haproxy":        func() (*Format, error) { return HAProxy(haproxyHTTP) },
	"haproxy-clf":    func() (*Format, error) { return HAProxy(haproxyCLF) },
	"puppetserver":   func() (*Format, error) { return Logback(puppetServer) },
	"puppet-log":     func() (*Format, error) { return puppetLog(), nil },
	"foreman":        func() (*Format, error) { return foreman(), nil },
}

// HeadSize is how much of the beginning of a log tells its format, in bytes.
const HeadSize = 64 << 10

// enough is the share of the first lines that a format has to read.
const enough = 0.5

// Detect finds out the format of a log from its beginning. units are those of JSON.
func Detect(head []byte, units map[string]int64) (*Format, error) {
	lines := lines(head)
	if len(lines) == 0 {
		return nil, fmt.Errorf("has no line")
	}
	if bytes.HasPrefix(bytes.TrimLeft(lines[0], " \t"), []byte("{")) {
		if f := detectJSON(lines, 0, units); f != nil {
			return f, nil
		}
	}
	var best *Format
	most, fields := 0, 0
	for _, c := range candidates() {
		f, err := c.make()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		n, whole := f.reads(lines)
		// Of two that read as much, the one that finds more in a line.
		if whole == 0 || n < most || n == most && len(f.Fields) <= fields {
			continue
		}
		best, most, fields = f, n, len(f.Fields)
		f.Name = c.name
		f.Why = fmt.Sprintf("%d of the first %d lines are so", n, len(lines))
		if c.reason != "" {
			f.Why += "; " + c.reason
		}
		if c.guess != "" {
			f.Why += "; guessed: " + c.guess
		}
	}
	if best == nil || float64(most) < enough*float64(len(lines)) {
		if f := behindBanner(head, units); f != nil {
			return f, nil
		}
		return nil, fmt.Errorf("its format is none that is known; it begins with %q", cut(lines[0], 200))
	}
	return best, nil
}

// UnitName is the word for a unit of so many nanoseconds.
func UnitName(unit int64) string {
	switch unit {
	case 0:
		return "the unit that each value names"
	case 1:
		return "nanoseconds"
	case 1e3:
		return "microseconds"
	case 1e6:
		return "milliseconds"
	}
	return "seconds"
}

func cut(text []byte, n int) string { return string(text[:min(len(text), n)]) }

// most lines of the beginning that are looked at.
const looked = 200

func lines(head []byte) [][]byte {
	var out [][]byte
	for len(head) > 0 && len(out) < looked {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		head = rest
		if !whole && len(out) > 0 {
			break // cut off
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// reads says how many lines are of the format, and how many of them are requests.
func (f *Format) reads(lines [][]byte) (n, whole int) {
	spans := make([]Span, len(f.Fields))
	var j Joiner
	for _, line := range lines {
		var l Line
		text := line
		if f.joined {
			text, l = j.Join(line, spans)
		} else {
			l = f.Scan(line, spans)
		}
		if l == Whole && !f.plausible(text, spans) && (f.Rescan(text, spans) != Whole || !f.plausible(text, spans)) {
			l = Bad
		}
		if l != Bad {
			n++
		}
		if l == Whole {
			whole++
		}
	}
	if f.joined && whole == 0 && len(j.begun) > 0 {
		whole = 1 // begun, and this beginning of the log does not have the end
	}
	return n, whole
}

// plausible says whether each field has what it should: the plain way to cut lines does
// not look at what it cuts out.
func (f *Format) plausible(line []byte, spans []Span) bool {
	for i := range f.Fields {
		text := spans[i].Of(line)
		field := &f.Fields[i]
		if !field.fits(text) {
			return false
		}
		switch {
		case field.Name == FieldStatus:
			if n, ok := Int(text); ok && (n < 100 || n > 999) && n != 0 {
				return false
			}
		case field.Name == FieldClient && (bytes.ContainsAny(text, ` "[`) || string(text) == "-"):
			return false
		case field.Name == FieldHost && len(text) == 0:
			return false
		case field.Asked == "%D" && bytes.Contains(text, []byte(".")):
			return false
		case field.Asked == "$request_time" && !bytes.Contains(text, []byte(".")):
			return false
		}
	}
	return true
}

// Languages compile formats as the products' configurations have them.
var Languages = map[string]func(text string) (*Format, error){"apache": Apache, "nginx": Nginx, "haproxy": HAProxy, "logback": Logback, "puppet-log": PuppetLog}

// Reads says of how many of the first lines that are whole a format reads how many.
func (f *Format) Reads(head []byte) (n, all int) {
	lines := lines(head)
	n, _ = f.reads(lines)
	return n, len(lines)
}

// Parse makes a format of how somebody names it: one of Named, or LANGUAGE:FORMAT as
// the server's configuration has it.
func Parse(text string) (*Format, error) {
	if make, ok := Named[text]; ok {
		f, err := make()
		if err == nil {
			f.Name, f.Why = text, "as it was said"
		}
		return f, err
	}
	language, rest, _ := strings.Cut(text, ":")
	compile, ok := Languages[language]
	if !ok || rest == "" {
		return nil, fmt.Errorf("%q is no format: apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, logback:PATTERN, puppet-log:PATTERN, combined, common, vhost_combined, haproxy, haproxy-clf, puppetserver, puppet-log, foreman or source003", text)
	}
	if language == "apache" {
		rest = strings.ReplaceAll(rest, `\"`, `"`) // as httpd's configuration has it
	}
	f, err := compile(rest)
	if err == nil {
		f.Why = "as it was said"
	}
	return f, err
}
