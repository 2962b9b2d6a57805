package puppetserver

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// Configuration files of logback-access and of logback that the packages install next to conf.d.
const (
	requestLogging = "request-logging.xml"
	ownLogging     = "logback.xml"
)

// Logs returns a server's log files, each with the pattern of its encoder. They are configured in
// logback-access (webserver.access-log-config) and in logback (global.logging-config), which logs
// the compile time of each catalog. main is one of these files, or a directory with them or with
// conf.d.
func Logs(h *host.Host, main string) ([]accesslog.Log, error) {
	st, err := h.Files.Stat(main)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return read(h, main, path.Base(main) == ownLogging)
	}
	file, _, err := configured(h, main, "webserver.conf", "webserver.access-log-config", requestLogging)
	if err != nil {
		return nil, err
	}
	out, err := read(h, file, false)
	if err != nil {
		return nil, err
	}
	file, named, err := configured(h, main, "global.conf", "global.logging-config", ownLogging)
	if err != nil {
		return nil, err
	}
	own, err := read(h, file, true)
	if host.NotFound(err) && !named {
		return out, nil
	}
	return append(out, own...), err
}

// configured returns the file that a setting in conf.d names, or else the packages' default. named
// says which.
func configured(h *host.Host, dir, file, key, otherwise string) (name string, named bool, err error) {
	p, ok, err := in(h, path.Join(dir, "conf.d", file), key)
	if err != nil && !host.NotFound(err) {
		return "", false, err
	}
	if ok {
		return Value(p), true, nil
	}
	return path.Join(dir, otherwise), false, nil
}

// read parses a logback-access configuration or, if own is set, the logback configuration of the
// server's own log.
func read(h *host.Host, file string, own bool) ([]accesslog.Log, error) {
	text, err := h.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out, err := appenders(file, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	if own {
		out = slices.DeleteFunc(out, func(l accesslog.Log) bool { return l.Path == "" }) // omit the console
		for i := range out {
			out[i].Language, out[i].Own = "puppet-log", true
		}
	}
	return out, nil
}

// appenders parses the log files in a logback-access configuration. Errors begin with the line
// number.
func appenders(file, text string) ([]accesslog.Log, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	properties := map[string]string{}
	var out []accesslog.Log
	var stack []string
	var files []string
	var pattern conf.Quoted
	begin := 0 // offset of the element's text
	line := func() int { n, _ := d.InputPos(); return n }
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", line(), err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if len(stack) >= 20 {
				return nil, fmt.Errorf("%d: elements nest more than 20 deep", line())
			}
			stack = append(stack, t.Name.Local)
			begin = int(d.InputOffset())
			switch t.Name.Local {
			case "appender":
				files, pattern = nil, conf.Quoted{}
			case "property", "variable":
				properties[attribute(t, "name")] = resolve(attribute(t, "value"), properties)
			}
		case xml.EndElement:
			raw := text[begin:max(begin, int(d.InputOffset())-len("</>")-len(t.Name.Local))]
			if n := strings.LastIndex(raw, "</"); n >= 0 {
				raw = raw[:n]
			}
			stack = stack[:len(stack)-1]
			switch t.Name.Local {
			case "file", "File", "fileNamePattern", "FileNamePattern":
				files = append(files, resolve(strings.TrimSpace(unescape(raw)), properties))
			case "pattern", "Pattern":
				now := maps.Clone(properties)
				lead := len(raw) - len(strings.TrimLeft(raw, " \t\r\n"))
				at, column := conf.PositionOf(text, begin+lead)
				pattern = conf.Quoted{File: file, Line: at, Column: column, Raw: strings.TrimSpace(raw), Read: func(raw string) string { return resolve(unescape(raw), now) }}
			case "appender":
				if pattern.Raw == "" {
					break
				}
				for _, f := range files {
					l := accesslog.Log{Language: "logback", Format: pattern, At: pattern.String(), What: "pattern", Path: f}
					if glob, ok := fileNames(f); ok {
						l.Path, l.Pattern = glob, true
					}
					out = append(out, l)
				}
				if len(files) == 0 {
					out = append(out, accesslog.Log{Language: "logback", Format: pattern, At: pattern.String(), What: "pattern", Goes: "no file"})
				}
			}
			begin = int(d.InputOffset())
		}
	}
	return out, nil
}

// fileNames converts a fileNamePattern with %d{...} and %i to a pattern of path.Match; ok is false
// for a name without conversions.
func fileNames(name string) (glob string, ok bool) {
	parts := conversion().FindAllStringIndex(name, -1)
	if parts == nil {
		return name, false
	}
	var b strings.Builder
	at := 0
	for _, p := range parts {
		b.WriteString(accesslog.Literal(name[at:p[0]]) + "*")
		at = p[1]
	}
	return b.String() + accesslog.Literal(name[at:]), true
}

var (
	conversion = text.LazyRegexp(`%[a-zA-Z]+(\{[^}]*\})?`)
	reference  = text.LazyRegexp(`\$\{([^}:]+)(:-([^}]*))?\}`)
	entities   = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&#34;", `"`, "&#39;", "'", "&amp;", "&")
)

func unescape(raw string) string { return entities.Replace(raw) }

// resolve replaces ${NAME} and ${NAME:-default}. Unknown names without a default stay.
func resolve(text string, properties map[string]string) string {
	return reference().ReplaceAllStringFunc(text, func(r string) string {
		m := reference().FindStringSubmatch(r)
		if v, ok := properties[m[1]]; ok {
			return v
		}
		if m[2] != "" {
			return m[3]
		}
		return r
	})
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
