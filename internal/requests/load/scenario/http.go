package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// maxBody limits the body of an answer that is searched, in bytes.
const maxBody = 16 << 20

// scratch holds the buffers of one request. They are reused by other hosts.
type scratch struct {
	url, wire, body []byte
	request         engine.Request
	answer          answer
	keep            engine.Capture
}

// Bodies are kept apart from the other buffers: most requests in flight need none.
var (
	scratches = sync.Pool{New: func() any { return &scratch{} }}
	bodies    = sync.Pool{New: func() any { return new([]byte) }}
)

// release returns the buffers, except large ones.
func (b *scratch) release() {
	if body := b.keep.Body; body != nil {
		if cap(body) <= 64<<10 {
			bodies.Put(&body)
		}
		b.keep.Body = nil
	}
	if cap(b.wire) > 64<<10 {
		b.wire, b.body = nil, nil
	}
	b.request, b.answer = engine.Request{}, answer{}
	scratches.Put(b)
}

// http runs an HTTP step. It returns the intended start.
func (h *virtual) http(s *step, due time.Duration, o *outcome) time.Duration {
	b := scratches.Get().(*scratch)
	defer b.release()
	var object *made
	if s.creates != nil {
		var err error
		if object, err = h.intend(s); err != nil {
			o.end = h.now()
			o.fail(notSaved, err)
			return due
		}
		due = max(due, h.now()) // the time of the disk is not the server's
	}
	a := h.request(s.http, b, due, s.keepBody, o)
	if o.cause == "" {
		h.judge(s, a, o)
	}
	if object != nil {
		h.record(s, object, a, o)
	}
	return due
}

// request sends a request and follows redirects. due is the intended start.
func (h *virtual) request(x *httpAction, b *scratch, due time.Duration, keepBody bool, o *outcome) *answer {
	a := &b.answer
	*a = answer{}
	b.url = x.url.append(b.url[:0], h.values)
	method, crossed := x.method, false
	for hop := 0; ; hop++ {
		origin, path, err := split(b.url)
		if err != nil {
			o.end = h.now()
			o.fail(malformed, err)
			return a
		}
		c, err := h.client(origin)
		if err != nil {
			o.end = h.now()
			o.fail(causeOf(err), err)
			return a
		}
		r, err := h.build(x, b, c.target, method, path, hop == 0 || method == x.method, crossed)
		if err != nil {
			o.end = h.now()
			o.fail(malformed, err)
			return a
		}
		if hop == 0 {
			h.delay.Add(h.now() - due)
		}
		if !h.send(c, r, b, keepBody, a, o) {
			return a
		}
		h.look(a.head, origin, path)
		if hop == x.follow || !isRedirect(a.status) {
			return a
		}
		next, ok, err := redirect(a.head, b.url)
		if err != nil {
			o.fail(malformed, err)
			return a
		} else if !ok {
			return a
		}
		crossed = crossed || !bytes.HasPrefix(next, origin) || len(next) > len(origin) && next[len(origin)] != '/' && next[len(origin)] != '?'
		b.url = append(b.url[:0], next...)
		if a.status == http.StatusSeeOther && method != "HEAD" || a.status < http.StatusSeeOther && method == "POST" {
			method = "GET"
		}
	}
}

// send sends an encoded request and sets its answer. It reports whether there is one.
func (h *virtual) send(c *client, r *engine.Request, b *scratch, keepBody bool, a *answer, o *outcome) bool {
	b.keep.Most = 0
	if keepBody {
		b.keep.Most = maxBody
		if b.keep.Body == nil {
			b.keep.Body = *bodies.Get().(*[]byte)
		}
	}
	c.Keep = &b.keep
	got := c.Exchange(r, h.begin.Add(h.now()+h.plan.Timeout))
	c.Keep = nil
	o.end = h.now()
	o.statuses = append(o.statuses, got.Status)
	o.in += got.In
	if got.Failure != engine.None {
		o.failed(got)
		return false
	}
	*a = answer{status: got.Status, head: b.keep.Head, body: b.keep.Body, cut: b.keep.Cut}
	return true
}

// causeOf returns the kind of an error about a server.
func causeOf(err error) string {
	var not *engine.NotAllowedError
	if errors.As(err, &not) {
		return notAllowed
	}
	return malformed
}

func isRedirect(status int) bool {
	return slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, status)
}

// redirect returns the target of a redirect, or ok false without one.
func redirect(head, from []byte) (to []byte, ok bool, err error) {
	location, ok := fieldOf(head, "Location")
	if !ok {
		return nil, false, nil
	}
	base, err := url.Parse(string(from))
	if err != nil {
		return nil, false, fmt.Errorf("%.100q: %w", from, err)
	}
	u, err := base.Parse(string(location))
	if err != nil {
		return nil, false, fmt.Errorf("a redirect to a malformed URL, %.100q", location)
	}
	return []byte(u.String()), true, nil
}

// fieldOf returns the value of a header field.
func fieldOf(head []byte, name string) ([]byte, bool) {
	for line := range bytes.Lines(head) {
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}

// client returns the host's connection to a server, which must be allowed.
func (h *virtual) client(origin []byte) (*client, error) {
	for i := range h.clients {
		if h.clients[i].target.origin == string(origin) {
			return &h.clients[i], nil
		}
	}
	t, err := h.find(h.ctx, string(origin))
	switch {
	case err != nil:
		return nil, err
	case t.mqtt:
		return nil, fmt.Errorf("%s: not an HTTP server", t.origin)
	}
	c := &engine.HTTP1Client{Dialer: h.dialer(t), Small: h.plan.Hosts() >= manyHosts}
	h.keep(c)
	h.clients = append(h.clients, client{t, c})
	return &h.clients[len(h.clients)-1], nil
}

// build encodes a request. withBody is false after a redirect that changed the method; crossed
// means that a redirect led to another server, which must not get credentials.
func (h *virtual) build(x *httpAction, b *scratch, t *target, method string, path []byte, withBody, crossed bool) (*engine.Request, error) {
	w := append(append(b.wire[:0], method...), ' ')
	if len(path) == 0 || path[0] != '/' {
		w = append(w, '/')
	}
	w = append(append(w, path...), " HTTP/1.1\r\n"...)
	body, rest, contentType := h.body(x, b, withBody)
	host, agent, accept := true, true, true
	for _, f := range x.header {
		switch {
		case strings.EqualFold(f.name, "Content-Type"):
			contentType = ""
			if !withBody {
				continue
			}
		case strings.EqualFold(f.name, "Host"):
			host = false
		case strings.EqualFold(f.name, "User-Agent"):
			agent = false
		case strings.EqualFold(f.name, "Accept"):
			accept = false
		case crossed && (strings.EqualFold(f.name, "Authorization") || strings.EqualFold(f.name, "Cookie")):
			continue
		}
		w = append(append(w, f.name...), ": "...)
		at := len(w)
		w = f.value.append(w, h.values)
		if bytes.ContainsAny(w[at:], "\r\n\x00") {
			return nil, fmt.Errorf("header %s: the value has a line break", f.name)
		}
		w = append(w, "\r\n"...)
	}
	if host {
		w = append(append(append(w, "Host: "...), t.port...), "\r\n"...)
	}
	if agent {
		w = append(w, "User-Agent: fettle\r\n"...)
	}
	if accept {
		w = append(w, "Accept: */*\r\n"...)
	}
	if contentType != "" {
		w = append(append(append(w, "Content-Type: "...), contentType...), "\r\n"...)
	}
	w = h.cookies(w, t.origin, path)
	if n := len(body) + len(rest); n > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		w = append(strconv.AppendInt(append(w, "Content-Length: "...), int64(n), 10), "\r\n"...)
	}
	w = append(append(w, "\r\n"...), body...)
	b.wire = w
	b.request = engine.Request{Method: method, Wire: w, Body: body, Rest: rest}
	return &b.request, nil
}

// body returns the body of a request: its own part, and the part that all hosts share.
func (h *virtual) body(x *httpAction, b *scratch, with bool) (body, rest []byte, contentType string) {
	switch {
	case !with:
	case x.body != nil:
		b.body = x.body.append(b.body[:0], h.values)
		return b.body, nil, ""
	case x.fixed != nil:
		return nil, x.fixed, ""
	case x.upload != nil:
		return nil, x.upload.whole, x.upload.contentType
	case x.form != nil:
		b.body = b.body[:0]
		for i, f := range x.form {
			if i > 0 {
				b.body = append(b.body, '&')
			}
			b.body = append(append(b.body, url.QueryEscape(f.name)...), '=')
			b.body = f.value.append(b.body, h.values)
		}
		return b.body, nil, "application/x-www-form-urlencoded"
	}
	return nil, nil, ""
}

// look handles the header fields that concern each answer: cookies, and the name of a stand-in.
func (h *virtual) look(head, origin, path []byte) {
	for line := range bytes.Lines(head) {
		switch {
		case len(line) > 11 && line[10] == ':' && strings.EqualFold(string(line[:10]), "Set-Cookie"):
			h.setCookie(string(origin)+string(path), string(bytes.TrimSpace(line[11:])))
		case len(line) > 16 && line[15] == ':' && strings.EqualFold(string(line[:15]), "Fettle-Stand-In"):
			if h.standIn.Load() == nil {
				name := internaltext.PrintableLine(internaltext.Truncate(string(bytes.TrimSpace(line[16:])), 100))
				h.standIn.Store(&name)
			}
		}
	}
}

// setCookie keeps a cookie of an answer.
func (h *virtual) setCookie(from, line string) {
	u, err := url.Parse(from)
	if err != nil {
		return
	}
	c, err := http.ParseSetCookie(line)
	if err != nil {
		return // a browser ignores it too
	}
	if h.jar == nil {
		if h.jar, err = cookiejar.New(nil); err != nil {
			return
		}
	}
	h.jar.SetCookies(u, []*http.Cookie{c})
}

// cookies appends the Cookie field.
func (h *virtual) cookies(w []byte, origin string, path []byte) []byte {
	if h.jar == nil {
		return w
	}
	u, err := url.Parse(origin + string(path))
	if err != nil {
		return w
	}
	for i, c := range h.jar.Cookies(u) {
		w = append(w, []string{"Cookie: ", "; "}[min(i, 1)]...)
		w = append(append(append(w, c.Name...), '='), c.Value...)
	}
	if bytes.HasSuffix(w, []byte("\r\n")) {
		return w // no cookie for this path
	}
	return append(w, "\r\n"...)
}

// judge compares an answer with what the step expects, and takes its values. The values of an
// object that was created are taken even if something else is wrong: undo needs them.
func (h *virtual) judge(s *step, a *answer, o *outcome) {
	e := &s.expect
	if good := a.status < 400; s.command == nil && s.mqtt == nil && (len(e.status) == 0 && !good || len(e.status) > 0 && !slices.Contains(e.status, a.status)) {
		o.fail(wrongStatus, e.wanted(a.status))
		if s.creates == nil || !good {
			return
		}
	}
	for i := range s.takes {
		if err := h.take(&s.takes[i], a); err != nil {
			if o.cause == "" {
				o.fail(notTaken, err)
			}
			return
		}
	}
	if e.body == nil || o.cause != "" {
		return
	}
	ok, got, err := a.met(e.body, h.values)
	if err == nil && !ok {
		err = fmt.Errorf("%s: got %.100q", e.body.text, got)
	}
	if err != nil {
		o.fail(wrongBody, err)
	}
}

// wanted returns the error for a status that is not expected.
func (e *expect) wanted(status int) error {
	want := "below 400"
	if len(e.status) > 0 {
		want = strings.Trim(fmt.Sprint(e.status), "[]")
		want = strings.ReplaceAll(want, " ", " or ")
	}
	return internaltext.Errorf("status %d, want %s", status, want)
}

// take sets a value from an answer.
func (h *virtual) take(t *take, a *answer) error {
	texts, err := a.texts(&t.source)
	switch {
	case err != nil:
		return err
	case len(texts) == 0:
		return fmt.Errorf("%s: not found in the answer", t.text)
	case t.all:
		h.values[t.slot] = value{list: texts, isSet: true}
	default:
		h.values[t.slot] = value{text: texts[0], isSet: true}
	}
	return nil
}
