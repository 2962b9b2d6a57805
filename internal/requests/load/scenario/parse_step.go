package scenario

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	internaltext "fettle.dev/fettle/internal/text"
)

// allSteps reads setup and steps.
func (p *parser) allSteps(f *fields) (err error) {
	if f.of["steps"] == nil {
		return f.at.errorf("steps missing; want a list of steps")
	}
	seen := map[string]bool{}
	for _, part := range []struct {
		key string
		to  *[]*step
	}{{"setup", &p.x.setup}, {"steps", &p.x.steps}} {
		n := f.of[part.key]
		if n == nil {
			continue
		}
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			return p.at(n).errorf("%s: want a list of steps", part.key)
		}
		for _, one := range n.Content {
			s, err := p.step(one)
			switch {
			case err != nil:
				return err
			case seen[s.name] || s.name == wholeHost:
				return s.at.errorf("the step name %q is taken", s.name)
			case part.key == "setup" && s.once:
				return s.at.errorf("step %q: \"once\" is only for steps; setup runs once anyway", s.name)
			case s.once && p.x.Load.Repeat > 1:
				return s.at.errorf("step %q: \"once: true\" is only possible with \"repeat: 1\" in load", s.name)
			case len(seen) == maxSteps:
				return s.at.errorf("more than %d steps", maxSteps)
			}
			seen[s.name], s.index = true, len(seen)
			*part.to = append(*part.to, s)
		}
	}
	return nil
}

func (p *parser) step(n *yaml.Node) (*step, error) {
	f, err := p.mapping(n, "step", "name", "think", "once", "on_error", "for_each", "http", "wait", "mqtt", "command", "expect", "take", "creates")
	if err != nil {
		return nil, err
	}
	s := &step{at: f.at}
	if s.name, err = f.word("name"); err != nil {
		return nil, err
	}
	if s.name == "" {
		return nil, f.at.errorf("a step without a name")
	}
	if s.think, err = f.thinkTime(); err != nil {
		return nil, err
	}
	if s.once, err = f.truth("once"); err != nil {
		return nil, err
	}
	switch word, err := f.word("on_error"); {
	case err != nil:
		return nil, err
	case word != "" && word != "continue" && word != "stop":
		return nil, p.at(f.of["on_error"]).errorf("on_error: want stop or continue")
	default:
		s.continues = word == "continue"
	}
	clear(p.uses)
	element, err := p.forEach(f, s)
	if err != nil {
		return nil, err
	}
	if err := p.action(f, s); err != nil {
		return nil, err
	}
	before := maps.Clone(p.x.names.known)
	p.before = before
	for _, part := range []func(*fields, *step) error{p.expects, p.takes, p.created} {
		if err := part(f, s); err != nil {
			return nil, err
		}
	}
	for used := range p.uses {
		for name, at := range p.x.names.slots {
			if at == used && before[name] && name != element {
				s.uses = append(s.uses, used)
			}
		}
	}
	slices.Sort(s.uses)
	delete(p.x.names.known, element)
	return s, nil
}

// forEach reads for_each: {NAME: "${LIST}"}, and returns the name of the element.
func (p *parser) forEach(f *fields, s *step) (string, error) {
	n := f.of["for_each"]
	if n == nil {
		return "", nil
	}
	of, err := p.mapping(n, "for_each")
	if err != nil {
		return "", err
	}
	if len(of.list) != 1 {
		return "", of.at.errorf("for_each: want one name and one list, such as {package: \"${packages}\"}")
	}
	name := of.list[0]
	text, err := p.scalar(of.of[name], "for_each")
	if err != nil {
		return "", err
	}
	list, ok := strings.CutPrefix(text, "${")
	list, closed := strings.CutSuffix(list, "}")
	if !ok || !closed {
		return "", p.at(of.of[name]).errorf("for_each: want a list, such as \"${packages}\"")
	}
	if err := p.x.names.use(list, p.at(of.of[name])); err != nil {
		return "", err
	}
	if !p.x.names.lists[list] {
		return "", p.at(of.of[name]).errorf("for_each: ${%s} is not a list; a list comes from data with lines, or from take with all: true", list)
	}
	if by := p.x.names.setBy[name]; by != "" && by != "for_each" {
		return "", p.at(of.keys[name]).errorf("for_each: the name %q is already used by %s", name, by)
	}
	p.uses[p.x.names.slots[list]] = true
	s.each = &forEach{element: p.x.names.define(name, "for_each", false), list: p.x.names.slots[list]}
	return name, nil
}

// action reads what the step does.
func (p *parser) action(f *fields, s *step) error {
	var kinds []string
	for _, key := range []string{"http", "wait", "mqtt", "command"} {
		if f.of[key] != nil {
			kinds = append(kinds, key)
		}
	}
	if len(kinds) != 1 {
		return s.at.errorf("step %q: want one of http, wait, mqtt and command", s.name)
	}
	n := f.of[kinds[0]]
	switch kinds[0] {
	case "http":
		of, err := p.mapping(n, "http", "method", "url", "header", "body", "body_file", "form", "upload", "follow")
		if err != nil {
			return err
		}
		s.http, err = p.request(of)
		return err
	case "wait":
		return p.waits(n, s)
	case "mqtt":
		return p.messages(n, s)
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return p.at(n).errorf("command: want a list of words, such as [ssh, \"${name}\", \"true\"]; no shell is used")
	}
	for i, one := range n.Content {
		t, err := p.templateOf(one, "command", plain)
		if err != nil {
			return err
		}
		if i == 0 {
			program, constant := t.constant()
			if !constant {
				return p.at(one).errorf("command: the program must not depend on a value")
			}
			p.x.Commands = append(p.x.Commands, program)
		}
		s.command = append(s.command, t)
	}
	return nil
}

// request reads an HTTP request.
func (p *parser) request(f *fields) (*httpAction, error) {
	a := &httpAction{}
	var err error
	if a.url, err = p.template(f, "url", urlText); err != nil {
		return nil, err
	}
	if a.url == nil {
		return nil, f.at.errorf("url missing")
	}
	if a.follow, err = f.whole("follow", 0, 0, maxFollow); err != nil {
		return nil, err
	}
	if a.header, err = p.fieldsOf(f, "header", plain); err != nil {
		return nil, err
	}
	for _, h := range a.header {
		switch {
		case !httpguts.ValidHeaderFieldName(h.name):
			return nil, h.value.at.errorf("header %q: invalid name", h.name)
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(h.name)):
			return nil, h.value.at.errorf("header %s: set by fettle itself; leave it out", h.name)
		}
	}
	if err := p.body(f, a); err != nil {
		return nil, err
	}
	if a.method, err = f.word("method"); err != nil {
		return nil, err
	}
	if a.method == "" {
		a.method = "GET"
		if a.body != nil || a.fixed != nil || a.form != nil || a.upload != nil {
			a.method = "POST"
		}
	}
	if !slices.Contains(methods, a.method) {
		return nil, p.at(f.of["method"]).errorf("unknown method %q%s; want one such as GET or POST", a.method, internaltext.Suggest(a.method, methods))
	}
	return a, nil
}

// methods are those that a request can have: of RFC 9110 and 5789 but CONNECT, of WebDAV (RFC 4918,
// 3253 and 5323), and those with which caches such as Varnish and Squid are emptied.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "BAN"}

// ownHeaders are the header fields that only fettle may set.
var ownHeaders = []string{"Connection", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Keep-Alive", "Te", "Trailer", "Proxy-Connection"}

// fieldsOf reads names and templates.
func (p *parser) fieldsOf(f *fields, key string, in scope) (out []field, err error) {
	n := f.of[key]
	if n == nil {
		return nil, nil
	}
	of, err := p.mapping(n, key)
	if err != nil {
		return nil, err
	}
	for _, name := range of.list {
		t, err := p.template(of, name, in)
		if err != nil {
			return nil, err
		}
		out = append(out, field{name, t})
	}
	return out, nil
}

// body reads the body of a request.
func (p *parser) body(f *fields, a *httpAction) (err error) {
	var given []string
	for _, key := range []string{"body", "body_file", "form", "upload"} {
		if f.of[key] != nil {
			given = append(given, key)
		}
	}
	if len(given) > 1 {
		return p.at(f.keys[given[1]]).errorf("%s and %s exclude each other", given[0], given[1])
	}
	if a.body, err = p.template(f, "body", p.bodyScope(f, a)); err != nil {
		return err
	}
	if a.form, err = p.fieldsOf(f, "form", formText); err != nil {
		return err
	}
	if n := f.of["body_file"]; n != nil {
		if a.fixed, err = p.content(n); err != nil {
			return err
		}
	}
	if n := f.of["upload"]; n != nil {
		a.upload, err = p.uploads(n)
	}
	return err
}

// bodyScope returns how values in a body are escaped: in JSON as the content of a string.
func (p *parser) bodyScope(f *fields, a *httpAction) scope {
	for _, h := range a.header {
		if strings.EqualFold(h.name, "Content-Type") {
			if text, _ := h.value.constant(); strings.Contains(text, "json") {
				return jsonText
			}
			return plain
		}
	}
	if n := f.of["body"]; n != nil && strings.HasPrefix(strings.TrimSpace(n.Value), "{") && !strings.HasPrefix(n.Value, "${") {
		return jsonText
	}
	return plain
}

// content reads the file that a node names.
func (p *parser) content(n *yaml.Node) ([]byte, error) {
	name, err := p.scalar(n, "file")
	if err != nil {
		return nil, err
	}
	text, err := p.read(name)
	if err != nil {
		return nil, p.at(n).errorf("%v", err)
	}
	return text, nil
}

func (p *parser) uploads(n *yaml.Node) (*upload, error) {
	of, err := p.mapping(n, "upload", "field", "file")
	if err != nil {
		return nil, err
	}
	name, err := of.word("field")
	if err != nil {
		return nil, err
	}
	if name == "" || of.of["file"] == nil {
		return nil, of.at.errorf("upload: want field and file")
	}
	text, err := p.content(of.of["file"])
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile(name, filepath.Base(of.of["file"].Value))
	if err != nil {
		return nil, err
	}
	_, _ = part.Write(text) // a buffer has no errors
	_ = form.Close()
	return &upload{b.Bytes(), form.FormDataContentType()}, nil
}

func (p *parser) waits(n *yaml.Node, s *step) error {
	f, err := p.mapping(n, "wait", "url", "header", "until", "fail", "every", "within")
	if err != nil {
		return err
	}
	a, err := p.request(f)
	if err != nil {
		return err
	}
	w := &waitAction{httpAction: *a}
	if f.of["until"] == nil {
		return f.at.errorf("wait: no \"until\"; want a condition such as until: {jsonpath: $.state, in: [stopped]}")
	}
	for key, to := range map[string]**condition{"until": &w.until, "fail": &w.fail} {
		if c := f.of[key]; c != nil {
			if *to, err = p.condition(c, key); err != nil {
				return err
			}
		}
	}
	if w.every, err = f.duration("every", time.Second); err != nil {
		return err
	}
	w.within, err = f.duration("within", defaultMax)
	s.wait, s.keepBody = w, true
	return err
}

func (p *parser) messages(n *yaml.Node, s *step) error {
	f, err := p.mapping(n, "mqtt", "server", "subscribe", "publish", "payload", "receive", "within")
	if err != nil {
		return err
	}
	a := &mqttAction{}
	if a.server, err = p.template(f, "server", plain); err != nil {
		return err
	}
	if c := f.of["subscribe"]; c != nil {
		items, err := p.items(c, "subscribe")
		if err != nil {
			return err
		}
		for _, one := range items {
			t, err := p.templateOf(one, "subscribe", plain)
			if err != nil {
				return err
			}
			a.subscribe = append(a.subscribe, t)
		}
	}
	for key, to := range map[string]**template{"publish": &a.publish, "payload": &a.payload, "receive": &a.receive} {
		in := plain
		if c := f.of[key]; key == "payload" && c != nil && strings.HasPrefix(strings.TrimSpace(c.Value), "{") && !strings.HasPrefix(c.Value, "${") {
			in = jsonText
		}
		if *to, err = p.template(f, key, in); err != nil {
			return err
		}
	}
	if a.within, err = f.duration("within", time.Minute); err != nil {
		return err
	}
	kinds := 0
	for _, key := range []string{"subscribe", "publish", "receive"} {
		if f.of[key] != nil {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return f.at.errorf("mqtt: want one of subscribe, publish and receive")
	case a.payload != nil && a.publish == nil:
		return f.at.errorf("mqtt: payload needs publish")
	}
	s.mqtt = a
	return nil
}

// expects reads what the answer must be.
func (p *parser) expects(f *fields, s *step) error {
	n := f.of["expect"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "expect", "status", "exit", "body")
	if err != nil {
		return err
	}
	for key, to := range map[string]*[]int{"status": &s.expect.status, "exit": &s.expect.exit} {
		c := of.of[key]
		if c == nil {
			continue
		}
		if (key == "exit") != (s.command != nil) || key == "status" && s.mqtt != nil {
			return p.at(of.keys[key]).errorf("expect: %s does not fit this step", key)
		}
		items, err := p.items(c, key)
		if err != nil {
			return err
		}
		for _, one := range items {
			v, err := strconv.Atoi(one.Value)
			if err != nil || v < 0 || v > 599 {
				return p.at(one).errorf("expect: %s: want numbers, such as [200, 201]", key)
			}
			*to = append(*to, v)
		}
	}
	if c := of.of["body"]; c != nil {
		if s.expect.body, err = p.condition(c, "expect"); err != nil {
			return err
		}
		s.keepBody = s.keepBody || s.expect.body.needsBody()
	}
	return nil
}

// takes reads the values that the step takes from its answer.
func (p *parser) takes(f *fields, s *step) error {
	n := f.of["take"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "take")
	if err != nil {
		return err
	}
	for _, name := range of.list {
		if err := p.nameOf(of.keys[name], "take"); err != nil {
			return err
		}
		src, err := p.mapping(of.of[name], "take", "jsonpath", "xpath", "regexp", "header", "all", "unpack")
		if err != nil {
			return err
		}
		t := take{}
		if t.source, err = p.source(src, "take"); err != nil {
			return err
		}
		t.slot = p.x.names.define(name, fmt.Sprintf("step %q", s.name), t.all)
		s.keepBody = s.keepBody || t.needsBody()
		s.takes = append(s.takes, t)
	}
	return nil
}

// created reads how the object that the step creates is found again.
func (p *parser) created(f *fields, s *step) error {
	n := f.of["creates"]
	if n == nil {
		return nil
	}
	of, err := p.mapping(n, "creates", "name", "id", "show", "unchanged", "remove")
	if err != nil {
		return err
	}
	if s.http == nil {
		return of.at.errorf("creates: only for http steps")
	}
	c := &creates{}
	for _, part := range []struct {
		key string
		to  **template
		in  scope
	}{{"name", &c.name, plain}, {"id", &c.id, plain}, {"show", &c.show, urlText}, {"remove", &c.remove, urlText}} {
		if *part.to, err = p.template(of, part.key, part.in); err != nil {
			return err
		}
	}
	if c.name == nil || c.id == nil || c.remove == nil {
		return of.at.errorf("creates: want name, id and remove")
	}
	for name, at := range p.x.names.slots {
		if !p.before[name] && slices.ContainsFunc(c.name.parts, func(one part) bool { return one.literal == "" && one.slot == at }) {
			return c.name.at.errorf("creates: name is recorded before the request, but ${%s} is known only after it", name)
		}
	}
	if u := of.of["unchanged"]; u != nil {
		src, err := p.mapping(u, "unchanged", "jsonpath", "xpath", "regexp", "header")
		if err != nil {
			return err
		}
		one, err := p.source(src, "unchanged")
		if err != nil {
			return err
		}
		if c.show == nil {
			return of.at.errorf("creates: unchanged needs show, the URL where it is read")
		}
		c.unchanged = &one
	}
	s.creates, p.x.Creates = c, true
	return p.undoable(s, of)
}

// undoable returns an error if undo could not send the step's header: it runs no steps, so it
// knows only data and built-in values.
func (p *parser) undoable(s *step, of *fields) error {
	for _, h := range s.http.header {
		for _, one := range h.value.parts {
			for name, at := range p.x.names.slots {
				if one.literal == "" && at == one.slot && (strings.HasPrefix(p.x.names.setBy[name], "step ") || p.x.names.setBy[name] == "for_each") {
					return of.at.errorf("creates: header %s uses ${%s}, which undo does not know; take it from data", h.name, name)
				}
			}
		}
	}
	return nil
}
