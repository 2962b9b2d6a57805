package scenario

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// parser reads a scenario file.
type parser struct {
	file  string
	lines []string
	read  func(name string) ([]byte, error)
	env   func(name string) (string, bool)
	x     *Scenario
	// uses collects the values that the current step uses.
	uses map[slot]bool
	// before holds the names that are known before the current step's answer.
	before map[string]bool
}

// Builtin lists the values that each host has.
var Builtin = []string{"host", "name", "prefix", "organization", "run", "seed"}

// Slots of the built-in values, in the order of Builtin.
const (
	hostSlot slot = iota
	nameSlot
	prefixSlot
	organizationSlot
	runSlot
	seedSlot
)

// Parse parses a scenario. file is its name for messages; read reads the files that it names,
// and env returns variables of the environment.
func Parse(file string, text []byte, read func(name string) ([]byte, error), env func(name string) (string, bool)) (*Scenario, error) {
	root, err := document(file, text)
	if err != nil {
		return nil, err
	}
	p := &parser{file: file, lines: strings.Split(string(text), "\n"), read: read, env: env, x: &Scenario{names: newNames()}, uses: map[slot]bool{}}
	f, err := p.mapping(root, "scenario", "scenario", "title", "changes", "servers", "identity", "load", "data", "setup", "steps", "thresholds")
	if err != nil {
		return nil, err
	}
	for _, name := range Builtin {
		p.x.names.define(name, "a built-in value", false)
	}
	for _, part := range []func(*fields) error{p.head, p.servers, p.identity, p.load, p.data, p.allSteps, p.thresholds} {
		if err := part(f); err != nil {
			return nil, err
		}
	}
	if f.of["changes"] == nil {
		p.x.Changes = slices.ContainsFunc(p.x.all(), (*step).writes)
	}
	return p.x, nil
}

// writes reports whether a step sends a request that may change something (RFC 9110, 9.2.1).
func (s *step) writes() bool {
	return s.http != nil && !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, s.http.method)
}

// head reads the name and the title.
func (p *parser) head(f *fields) (err error) {
	if p.x.Name, err = f.word("scenario"); err != nil {
		return err
	}
	if p.x.Name == "" {
		return f.at.errorf("name missing; want a line such as scenario: registration")
	}
	if p.x.Title, err = f.word("title"); err != nil {
		return err
	}
	p.x.Changes, err = f.truth("changes")
	return err
}

// nameOf checks the name of a value.
func (p *parser) nameOf(n *yaml.Node, what string) error {
	name := n.Value
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && (r >= '0' && r <= '9' || r == '-')) {
			return p.at(n).errorf("%s: name %q: want letters, digits, - and _", what, name)
		}
	}
	if by := p.x.names.setBy[name]; by != "" {
		return p.at(n).errorf("%s: the name %q is already used by %s", what, name, by)
	}
	return nil
}

func (p *parser) servers(f *fields) error {
	n := f.of["servers"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "servers")
	if err != nil {
		return err
	}
	for _, name := range of.list {
		if err := p.nameOf(of.keys[name], "servers"); err != nil {
			return err
		}
		s := Server{Name: name, at: p.at(of.keys[name]), slot: p.x.names.define(name, "a server", false)}
		if v := of.of[name]; v.Tag != "!!null" && (v.Kind != yaml.ScalarNode || v.Value != "") {
			if s.URL, err = p.scalar(v, name); err != nil {
				return err
			}
			if s.URL, err = BaseURL(s.URL); err != nil {
				return p.at(v).errorf("server %s: %v", name, err)
			}
		}
		p.x.Servers = append(p.x.Servers, s)
	}
	return nil
}

// BaseURL checks the URL of a server, and removes a slash at its end.
func BaseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", err
	case u.User != nil: // first: messages that quote the URL would reveal the password
		return "", fmt.Errorf("a URL with a password; use a header with a value from data")
	case !slices.Contains([]string{"http", "https", "mqtt", "mqtts"}, u.Scheme) || u.Hostname() == "":
		return "", fmt.Errorf("%q: want a URL that begins with http://, https://, mqtt:// or mqtts://", text)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q: want a base URL without a query", text)
	}
	return strings.TrimRight(text, "/"), nil
}

func (p *parser) identity(f *fields) error {
	n := f.of["identity"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "identity", "cert", "key", "cacert")
	if err != nil {
		return err
	}
	id := &p.x.identity
	if id.ca, err = of.word("cacert"); err != nil {
		return err
	}
	if id.cert, err = p.template(of, "cert", plain); err != nil {
		return err
	}
	if id.key, err = p.template(of, "key", plain); err != nil {
		return err
	}
	if id.cert == nil && id.key != nil {
		return of.at.errorf("identity: key without cert")
	}
	if id.key == nil {
		id.key = id.cert
	}
	return nil
}

func (p *parser) load(f *fields) error {
	l := &p.x.Load
	l.Repeat = 1
	n := f.of["load"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "load", "hosts", "repeat", "rate", "for")
	if err != nil {
		return err
	}
	if l.Hosts, err = of.whole("hosts", 0, 1, maxHosts); err != nil {
		return err
	}
	if l.Repeat, err = of.whole("repeat", 1, 1, maxRepeat); err != nil {
		return err
	}
	rate, err := of.word("rate")
	switch {
	case err != nil:
		return err
	case rate == "":
		if of.of["for"] != nil {
			return p.at(of.keys["for"]).errorf("load: \"for\" needs a rate; without a rate each host runs the steps as often as \"repeat\" says")
		}
		return nil
	case of.of["repeat"] != nil:
		return p.at(of.keys["repeat"]).errorf("load: repeat and rate exclude each other: with a rate each host runs the steps once")
	case of.of["for"] == nil:
		return p.at(of.of["rate"]).errorf("load: a rate needs \"for\", the time in which hosts arrive")
	}
	if l.Rate, err = engine.ParseSchedule(rate); err != nil {
		return p.at(of.of["rate"]).errorf("load: %v", err)
	}
	if l.For, err = of.duration("for", 0); err != nil {
		return err
	}
	if of.of["hosts"] == nil {
		l.Hosts = maxHosts
	}
	return nil
}

// template compiles the text of a key; it returns nil if the key is absent.
func (p *parser) template(f *fields, key string, in scope) (*template, error) {
	n := f.of[key]
	if n == nil {
		return nil, nil
	}
	return p.templateOf(n, key, in)
}

func (p *parser) templateOf(n *yaml.Node, what string, in scope) (*template, error) {
	text, err := p.scalar(n, what)
	if err != nil {
		return nil, err
	}
	t, err := p.x.names.compile(text, p.at(n), in)
	if err != nil {
		return nil, err
	}
	for _, one := range t.parts {
		if one.literal == "" {
			p.uses[one.slot] = true
		}
	}
	return t, nil
}

// Steps returns the names of the steps, setup first.
func (s *Scenario) Steps() (out []string) {
	for _, one := range slices.Concat(s.setup, s.steps) {
		out = append(out, one.name)
	}
	return out
}

func (p *parser) thresholds(f *fields) error {
	n := f.of["thresholds"]
	if n == nil {
		return nil
	}
	items, err := p.items(n, "thresholds")
	if err != nil {
		return err
	}
	for _, one := range items {
		g, err := p.x.ParseGate(one.Value)
		if err != nil {
			return p.at(one).errorf("%v", err)
		}
		p.x.Gates = append(p.x.Gates, g)
	}
	return nil
}

// wholeHost is the word of a threshold on whole hosts.
const wholeHost = "host"

// ParseGate parses a threshold such as "register p95 < 2s" or "host errors < 1%".
func (s *Scenario) ParseGate(text string) (Gate, error) {
	subject := ""
	for _, name := range append(s.Steps(), wholeHost) { // the longest name counts
		if strings.HasPrefix(text, name+" ") && len(name) > len(subject) {
			subject = name
		}
	}
	if subject == "" {
		known := append([]string{wholeHost}, s.Steps()...)
		first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		return Gate{}, fmt.Errorf("%q: want a threshold that begins with the name of a step or with host, such as 'host errors < 1%%'%s", text, internaltext.Suggest(first, known))
	}
	g, err := engine.ParseThreshold(strings.TrimSpace(strings.TrimPrefix(text, subject)))
	switch {
	case err != nil:
		return Gate{}, fmt.Errorf("%s: %w", subject, err)
	case g.Observed():
		return Gate{}, fmt.Errorf("%q: want p50 to p99.9, mean, max, errors or rate", text)
	}
	if subject == wholeHost {
		return Gate{Gate: g}, nil
	}
	return Gate{subject, g}, nil
}

// thinkTime parses a time, or a range such as 1s..3s.
func (f *fields) thinkTime() (span, error) {
	n := f.of["think"]
	if n == nil {
		return span{}, nil
	}
	from, to, ranged := strings.Cut(n.Value, "..")
	least, err := time.ParseDuration(from)
	most := least
	if err == nil && ranged {
		most, err = time.ParseDuration(to)
	}
	if n.Kind != yaml.ScalarNode || err != nil || least < 0 || most < least || most > longest {
		return span{}, f.p.at(n).errorf("think: want a time or a range, such as 2s or 1s..3s")
	}
	return span{least, most}, nil
}
