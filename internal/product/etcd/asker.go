package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Time limits for a page and for an API method. Callers of methods set shorter ones.
const (
	pageTime = 10 * time.Second
	callTime = time.Minute
)

// asker sends requests to a running member, with the member's own certificate if necessary.
type asker struct {
	host   *host.Host
	in     *instance
	answer *answer // the parts read so far

	mu   sync.Mutex
	open map[string]*Client // by address
}

func newAsker(h *host.Host, in *instance, a *answer) *asker {
	return &asker{host: h, in: in, answer: a, open: map[string]*Client{}}
}

// advice has the remedies for errors with the member's own certificate.
var advice = Advice{
	Untrusted: "the member's trusted-ca-file contains another certificate authority",
	Stranger:  "the member's own certificate, cert-file, is not valid for clients; with an http:// listen-metrics-urls the member reports its metrics to every user of its machine",
}

func (x *asker) at(address string) (*Client, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.open[address]; c != nil {
		return c, nil
	}
	c, err := New(address, x.access(), advice)
	if err == nil {
		x.open[address] = c
	}
	return c, err
}

// access returns the readable ones of the CA and the member's own certificate.
func (x *asker) access() (a Access) {
	file := func(name string) []byte {
		t, ok, _ := x.in.option(name)
		if !ok {
			return nil
		}
		b, err := x.host.Files.ReadFile(t.text)
		if err != nil {
			return nil
		}
		return b
	}
	a.CA = file("trusted-ca-file")
	if cert, key := file("cert-file"), file("key-file"); cert != nil && key != nil {
		a.Cert, a.Key = cert, key
	}
	return a
}

// get requests a page from the metrics URLs, or else from the client URLs. It returns an error
// status together with the response's text.
func (x *asker) get(ctx context.Context, page string) (text string, err error) {
	return x.each([]string{"listen-metrics-urls", "listen-client-urls"}, func(c *Client) ([]byte, error) { return c.Get(ctx, page, pageTime) })
}

// call calls a method of the member's API.
func (x *asker) call(ctx context.Context, method string, asked any) (text string, err error) {
	return x.each([]string{"listen-client-urls"}, func(c *Client) ([]byte, error) { return c.Call(ctx, method, asked, callTime) })
}

// each tries the addresses in the options, in order, until one responds.
func (x *asker) each(options []string, ask func(*Client) ([]byte, error)) (string, error) {
	all, problems := x.reached(options...)
	for _, address := range all {
		c, err := x.at(address)
		if err == nil {
			var text []byte
			text, err = ask(c)
			if status := (*StatusError)(nil); err == nil || errors.As(err, &status) {
				return string(text), err
			}
		}
		problems = append(problems, err)
	}
	return "", errors.Join(problems...)
}

// guarded reports whether a member listens and rejects this client.
func guarded(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(several.Unwrap(), guarded)
	}
	var u *Unreached
	return errors.As(err, &u) && (u.Why == Untrusted || u.Why == Stranger)
}

// reached returns the member's addresses, from the first option that is set.
func (x *asker) reached(options ...string) (all []string, problems []error) {
	urls := ""
	for _, name := range options {
		if urls != "" {
			break
		}
		t, _, _ := x.in.option(name)
		if urls = t.text; !x.in.pod() {
			if text, unknown := x.answer.value(x.in, name); unknown == "" {
				urls = text
			}
		}
	}
	if urls == "" {
		urls = parameters.Named("listen-client-urls").Default
	}
	for u := range strings.SplitSeq(urls, ",") {
		at, err := address(strings.TrimSpace(u))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, at)
	}
	return all, problems
}

// address converts a listener's URL to an address that this machine can reach.
func address(listen string) (string, error) {
	u, err := url.Parse(listen)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is not an http or https URL", listen)
	}
	name, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(name); ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	if port == "" {
		port = "2379"
	}
	return u.Scheme + "://" + net.JoinHostPort(name, port), nil
}

// close closes the connections.
func (x *asker) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.open {
		c.Close()
	}
}
