package rhel6

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// script is a parsed shell script: its functions, and the commands outside of them.
type script struct {
	interpreter string // first line without "#!"
	functions   []function
	top         []command
}

type function struct {
	name string
	line int
	text string // includes name and braces
	body []command
}

// command is one command with its compound parts, pipes and redirections, without the newline or
// semicolon that ends it.
type command struct {
	line   int
	text   string
	tokens []token // comments are left out
}

// simple returns the arguments of a command that has only words without expansions, else false.
func (c command) simple() ([]string, bool) {
	var argv []string
	for _, t := range c.tokens {
		if t.kind != word || !t.literal {
			return nil, false
		}
		argv = append(argv, t.value)
	}
	return argv, len(argv) > 0
}

// mentions reports whether any part of the command contains one of the names.
func (c command) mentions(names ...string) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == word && slices.Contains(names, t.text) })
}

func parseScript(text string) (script, error) {
	var s script
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "#!") {
		s.interpreter = strings.TrimSpace(first[2:])
	}
	tokens, err := lex(text)
	if err != nil {
		return s, err
	}
	p := &scriptParser{text: text, tokens: tokens}
	for p.skipSeparators(); p.at < len(p.tokens); p.skipSeparators() {
		if f, ok, err := p.function(); err != nil {
			return s, err
		} else if ok {
			s.functions = append(s.functions, f)
			continue
		}
		c, err := p.command()
		if err != nil {
			return s, err
		}
		s.top = append(s.top, c)
	}
	return s, nil
}

func (s script) function(name string) (function, bool) {
	for _, f := range slices.Backward(s.functions) { // the last definition is in force
		if f.name == name {
			return f, true
		}
	}
	return function{}, false
}

type scriptParser struct {
	text   string
	tokens []token
	at     int
}

func (p *scriptParser) peek(ahead int) token {
	if p.at+ahead < len(p.tokens) {
		return p.tokens[p.at+ahead]
	}
	return token{kind: newline, start: len(p.text), end: len(p.text)}
}

func (p *scriptParser) skipSeparators() {
	for p.at < len(p.tokens) {
		t := p.tokens[p.at]
		if t.kind != newline && t.kind != comment && t.text != ";" {
			return
		}
		p.at++
	}
}

func (p *scriptParser) skipNewlines() {
	for p.at < len(p.tokens) && (p.tokens[p.at].kind == newline || p.tokens[p.at].kind == comment) {
		p.at++
	}
}

// function parses "name() {...}" and "function name {...}".
func (p *scriptParser) function() (function, bool, error) {
	begin, first := p.at, p.peek(0)
	name := first
	switch {
	case first.kind == word && p.peek(1).text == "(" && p.peek(2).text == ")":
		p.at += 3
	case first.text == "function" && p.peek(1).kind == word:
		name = p.peek(1)
		p.at += 2
		if p.peek(0).text == "(" && p.peek(1).text == ")" {
			p.at += 2
		}
	default:
		return function{}, false, nil
	}
	p.skipNewlines()
	if p.peek(0).text != "{" {
		p.at = begin // another form of body: kept as a command
		return function{}, false, nil
	}
	p.at++
	f := function{name: name.text, line: first.line}
	for p.skipSeparators(); ; p.skipSeparators() {
		if p.at >= len(p.tokens) {
			return f, false, &syntaxError{first.line, "the body of " + name.text + " is not closed"}
		}
		if p.peek(0).text == "}" && p.peek(0).kind == word {
			f.text = p.text[first.start:p.peek(0).end]
			p.at++
			return f, true, nil
		}
		c, err := p.command()
		if err != nil {
			return f, false, err
		}
		f.body = append(f.body, c)
	}
}

// openers and closers are the reserved words that open and close constructs, in command position.
var (
	openers = map[string]string{"if": "fi", "for": "done", "while": "done", "until": "done", "select": "done", "case": "esac", "{": "}"}
	// leaders are the reserved words that another command follows.
	leaders = []string{"if", "then", "else", "elif", "do", "while", "until", "{", "!", "time"}
)

// command parses one command; the parser is at a command position.
func (p *scriptParser) command() (command, error) {
	first := p.tokens[p.at]
	c := command{line: first.line}
	var open []string // closing word of each open construct; ")" for a parenthesis
	position := true  // the next word is a command's name
	closed := false   // the previous word ended a compound command
	pattern := false  // in a case, before the parenthesis that ends a pattern
	end, document := first.start, false
	for ; p.at < len(p.tokens); p.at++ {
		t := p.tokens[p.at]
		if len(open) == 0 && !position && (t.kind == newline || t.text == ";" && t.kind == operator) {
			break
		}
		ended := false
		switch t.kind {
		case comment:
			continue
		case newline:
			if document { // a here-document belongs to the command
				end, document = t.end, false
			}
			if len(c.tokens) > 0 && t.end-t.start > 1 {
				end = t.end
			}
			c.tokens = append(c.tokens, t)
			position = true
			continue
		case operator:
			inCase := len(open) > 0 && open[len(open)-1] == "esac"
			switch t.text {
			case "(":
				if pattern {
					break
				}
				open = append(open, ")")
				position = true
			case ")":
				if n := len(open); pattern {
					pattern, position = false, true
				} else if n > 0 && open[n-1] == ")" {
					open = open[:n-1]
					position, ended = false, true
				} else {
					return c, &syntaxError{t.line, "a closing parenthesis without its opening one"}
				}
			case ";", ";;", ";&", ";;&", "&", "&&", "||", "|", "|&":
				position = t.text != "&" || len(open) > 0
				pattern = pattern || inCase && (t.text == ";;" || t.text == ";&" || t.text == ";;&")
			case "<<", "<<-":
				document = true
			}
		case word:
			n := len(open)
			switch shut, opens := openers[t.text]; {
			case pattern && t.text != "esac":
			case t.text == "in" && n > 0 && open[n-1] == "esac" && !position:
				pattern = true
			case position && opens:
				open = append(open, shut)
				position = slices.Contains(leaders, t.text)
			case (position || pattern || closed) && n > 0 && open[n-1] == t.text:
				open = open[:n-1]
				position, pattern = false, false
				ended = true
			case (position || closed) && slices.Contains(leaders, t.text):
				position = true
			default:
				position = false
			}
		}
		closed = ended
		c.tokens = append(c.tokens, t)
		end = t.end
	}
	if len(open) > 0 {
		return c, &syntaxError{first.line, "no " + open[len(open)-1] + " ends this construct"}
	}
	if p.at < len(p.tokens) && p.tokens[p.at].kind == newline && document {
		end = p.tokens[p.at].end
	}
	for n := len(c.tokens); n > 0 && c.tokens[n-1].kind == newline; n-- {
		c.tokens = c.tokens[:n-1]
	}
	c.text = strings.TrimRight(p.text[first.start:end], "\n")
	if len(c.tokens) == 0 {
		return c, &syntaxError{first.line, "a command is missing at this place"}
	}
	return c, nil
}

// functionsText is the library that a generated script reads: fettle's own helpers with the names
// that ktune.sh calls.
//
//go:embed functions.sh
var functionsText string

// supplied returns the names of the helpers in functionsText.
var supplied = sync.OnceValue(func() []string { return suppliedNames(functionsText) })

func suppliedNames(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9_]*)\(\)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// ownScript is the content of the new profile's script.sh.
type ownScript struct {
	line                         int
	functions                    []string
	prepare, start, stop, verify []string
	foreign                      []int // lines with the profile's own commands
	whole                        bool  // no start(): all commands are outside of functions
}

func (s ownScript) needed() bool {
	return len(s.start)+len(s.stop) > 0 || s.whole && len(s.prepare) > 0
}

func (s ownScript) render(name string) string {
	shell := "/bin/sh"
	if len(s.foreign) > 0 {
		shell = "/bin/bash" // RHEL 6's sh was bash, and the script may need it
	}
	var w strings.Builder
	fmt.Fprintf(&w, "#!%s\n# Commands from ktune.sh of the RHEL 6 profile %s that no plug-in replaces.\n\n", shell, name)
	fmt.Fprintf(&w, "# shellcheck disable=SC2034 # the functions use it\nPROFILE=%s\n# shellcheck source=functions.sh\n. \"$(dirname \"$0\")/functions.sh\"\n", name)
	for _, f := range s.functions {
		fmt.Fprintf(&w, "\n%s\n", f)
	}
	part := func(name, what string, commands []string) {
		fmt.Fprintf(&w, "\n# %s\n%s() {\n", what, name)
		for _, c := range commands {
			fmt.Fprintf(&w, "\t%s\n", c)
		}
		w.WriteString("\treturn 0\n}\n")
	}
	part("prepare", "before start and stop", s.prepare)
	part("start", "when the profile is applied", s.start)
	part("stop", "when the profile is undone", s.stop)
	part("verify", "compares; it changes nothing", s.verify)
	w.WriteString("\nprocess \"$@\"\n")
	return w.String()
}
