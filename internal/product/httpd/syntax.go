package httpd

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of httpd's files (httpd 2.4, "Configuration Files", and server/config.c):
// one directive per line, a backslash at the end of a line continues it, sections nest. A key is
// the directive in lower case after its sections: "virtualhost *:443/proxytimeout". Keys do not
// contain conditional sections such as IfModule.
type syntax struct{}

// aliases maps former names of directives to present ones.
var aliases = map[string]string{"maxclients": "maxrequestworkers", "maxrequestsperchild": "maxconnectionsperchild"}

// Key implements conf.Syntax.
func (syntax) Key(name string) (string, error) {
	if err := conf.OneLine(name); err != nil || strings.ContainsAny(name, "#<>") {
		return "", fmt.Errorf("%q is not a directive name", name)
	}
	context, directive := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		context, directive = name[:i+1], name[i+1:]
		section, args, _ := strings.Cut(context, " ")
		context = strings.ToLower(section) + " " + args
	}
	directive = strings.ToLower(directive)
	if !isDirective(directive) {
		return "", fmt.Errorf("%q is not a directive name", name)
	}
	if a, ok := aliases[directive]; ok {
		directive = a
	}
	return context + directive, nil
}

// line is one directive as written in a file.
type line struct {
	name     string // lower case; "/ifmodule" ends a section, "<ifmodule" begins one
	args     string // arguments, unchanged
	number   int    // from 1
	from, to int    // byte range of args
}

const blank = " \t\v\f\r"

// maxLines is the maximum number of lines of one file.
const maxLines = 200000

// scan parses a file into directives. Errors begin with the line number.
func scan(text string) ([]line, error) {
	var out []line
	at, number := 0, 0
	for at < len(text) {
		begin, first := at, number+1
		for { // joins continuation lines
			number++
			end := strings.IndexByte(text[at:], '\n')
			if end < 0 {
				at = len(text)
				break
			}
			continued := strings.HasSuffix(strings.TrimSuffix(text[at:at+end], "\r"), `\`)
			at += end + 1
			if !continued || at == len(text) {
				break
			}
		}
		if number > maxLines {
			return nil, fmt.Errorf("%d: more than %d lines", number, maxLines)
		}
		body := strings.TrimLeft(text[begin:at], blank+"\n")
		from := at - len(body)
		body = strings.TrimRight(body, blank+"\n")
		if body == "" || body[0] == '#' {
			continue
		}
		l := line{number: first}
		end := strings.IndexAny(body, blank+"\n")
		if body[0] == '<' {
			closing := strings.TrimSuffix(body, ">")
			if closing == body {
				return out, fmt.Errorf("%d: %.60q does not end with >", first, body)
			}
			body = closing
			end = strings.IndexAny(body, blank+"\n")
		}
		if end < 0 {
			end = len(body)
		}
		l.name = strings.ToLower(body[:end])
		rest := strings.TrimLeft(body[end:], blank+"\n")
		l.to = from + len(body)
		l.from = l.to - len(rest)
		l.args = rest
		out = append(out, l)
	}
	return out, nil
}

// isDirective reports whether a lower-case word can name a directive or a section; httpd does not
// start with other words.
func isDirective(name string) bool {
	return name != "" && strings.Trim(name, "_0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// sectionNames maps sections without a scope to their spelling in the documentation.
var sectionNames = map[string]string{
	"ifmodule": "<IfModule", "ifdefine": "<IfDefine", "ifversion": "<IfVersion", "iffile": "<IfFile", "ifdirective": "<IfDirective", "ifsection": "<IfSection",
}

func conditional(section string) bool { return sectionNames[section] != "" }

// Assignments implements conf.Syntax. It treats every condition as true.
func (s syntax) Assignments(text string) ([]conf.Assignment, error) {
	lines, err := scan(text)
	if err != nil {
		return nil, err
	}
	var out []conf.Assignment
	var open []line
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l.name, "</"):
			if len(open) == 0 || open[len(open)-1].name != "<"+l.name[2:] {
				return nil, fmt.Errorf("%d: %s> without a matching opening tag", l.number, l.name)
			}
			open = open[:len(open)-1]
		case strings.HasPrefix(l.name, "<"):
			if len(open) >= maxDepth {
				return nil, fmt.Errorf("%d: sections nest more than %d deep", l.number, maxDepth)
			}
			open = append(open, l)
		default:
			context := ""
			for _, o := range open {
				if !conditional(o.name[1:]) {
					context += scope(o.name[1:], o.args) + "/"
				}
			}
			if key, err := s.Key(context + l.name); err == nil {
				out = append(out, conf.Assignment{Key: key, Literal: l.args, Line: l.number, From: l.from, To: l.to})
			}
		}
	}
	if len(open) > 0 {
		o := open[len(open)-1]
		return nil, fmt.Errorf("%d: %s> is not closed", o.number, o.name)
	}
	return out, nil
}

// scope returns a section in the form used in keys.
func scope(section, args string) string {
	if section == "if" || section == "elseif" { // an expression may contain characters that are invalid in keys
		args = strings.NewReplacer("<", "", ">", "", "#", "").Replace(args)
	}
	return section + " " + strings.Join(words(args), " ")
}

// words splits arguments like httpd (ap_getword_conf): blanks separate them, quotes may enclose
// them.
func words(args string) []string {
	var out []string
	args = strings.ReplaceAll(strings.ReplaceAll(args, "\\\r\n", ""), "\\\n", "")
	for {
		args = strings.TrimLeft(args, blank+"\n")
		if args == "" {
			return out
		}
		end := strings.IndexAny(args, blank+"\n")
		if q := args[0]; q == '"' || q == '\'' {
			word := strings.Builder{}
			i := 1
			for ; i < len(args) && args[i] != q; i++ {
				if args[i] == '\\' && i+1 < len(args) && (args[i+1] == q || args[i+1] == '\\') {
					i++
				}
				word.WriteByte(args[i])
			}
			out = append(out, word.String())
			args = args[min(i+1, len(args)):]
			continue
		}
		if end < 0 {
			end = len(args)
		}
		out = append(out, args[:end])
		args = args[end:]
	}
}

// Literal implements conf.Syntax.
func (syntax) Literal(value string) (string, error) {
	if err := conf.OneLine(value); err != nil {
		return "", err
	}
	if value == "" {
		return `""`, nil
	}
	if strings.Trim(value, blank) != value || strings.HasSuffix(value, `\`) {
		return "", fmt.Errorf("%q: %w: begins or ends with a blank or a backslash", value, conf.ErrValue)
	}
	return value, nil
}

// Unquote implements conf.Syntax. It joins the arguments with blanks.
func (syntax) Unquote(literal string) string { return strings.Join(words(literal), " ") }

// Line implements conf.Syntax. It uses the documentation's capital letters.
func (syntax) Line(key, literal string) string {
	for _, p := range parameters {
		if strings.EqualFold(p.Name, key) {
			key = p.Name
		}
	}
	return key + " " + literal
}

// Place implements conf.Placer: the end of the main file, because the last line wins.
func (s syntax) Place(text, key string) (int, error) {
	all, err := s.Assignments(text)
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		if a.Key == key {
			return 0, fmt.Errorf("line %d sets this directive in a section that does not apply; change it by hand", a.Line)
		}
	}
	if strings.Contains(key, "/") {
		return 0, fmt.Errorf("%s is not set, and fettle adds only server-wide lines; add it by hand", key)
	}
	if last := strings.TrimRight(text, "\n\r"); strings.HasSuffix(last, `\`) {
		return 0, fmt.Errorf("the last line ends with a backslash")
	}
	return len(text), nil
}
