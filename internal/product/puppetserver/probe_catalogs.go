package puppetserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const catalogPath = "/puppet/v3/catalog/"

// outcome is the result of a catalog request: a word, or why it is unknown. away is true if
// connecting failed.
type outcome struct {
	word, why string
	away      bool
}

// catalog requests a node's catalog, with facts that lack their format. The server checks access
// first (trapperkeeper-authorization). Puppet then fails because of the format, before it saves or
// compiles anything (indirector/catalog/compiler.rb, extract_facts_from_request).
func (r *run) catalog(s Site, node string, q question) outcome {
	q.path, q.query = catalogPath+node, "environment="+r.Environments[0]+"&facts=fettle"
	a := r.ask(s, q)
	switch {
	case a.status == http.StatusOK && !isCatalog(a.body):
		return outcome{why: q.String() + ": the answer is not a Puppet catalog"}
	case a.status == http.StatusOK, a.status >= 400 && bytes.Contains(a.body, []byte("no fact format")):
		return outcome{word: granted}
	case a.refused():
		return outcome{word: denied}
	}
	return outcome{why: q.String() + ": " + a.reason(), away: a.away != nil}
}

// isCatalog reports whether a body is a catalog: some servers respond with 200 to any request.
// Before Puppet 4, a document's "data" held the catalog.
func isCatalog(body []byte) bool {
	type catalog struct {
		Name      string            `json:"name"`
		Resources []json.RawMessage `json:"resources"`
	}
	var it struct {
		catalog
		Data catalog `json:"data"`
	}
	return json.Unmarshal(body, &it) == nil && (it.Name != "" && it.Resources != nil || it.Data.Name != "" && it.Data.Resources != nil)
}

// forged returns the headers by which a front end passes a client certificate's identity.
func forged(node string) map[string]string {
	return map[string]string{"X-Client-Verify": "SUCCESS", "X-Client-DN": "CN=" + node}
}

// catalogs requests catalogs from the front end in every way that it should deny.
func (r *run) catalogs() {
	at := origin(r.Front) + catalogPath + r.other()
	// Denials prove something only if the node gets its own catalog.
	own := r.catalog(r.Front, r.Node, question{node: true})
	r.serves = own.word == granted
	if own.word == denied {
		own.why = fmt.Sprintf("Puppet Server refuses %s even its own catalog", r.Node)
	}
	for _, c := range []struct {
		name string
		question
	}{
		{ForeignCatalog, question{node: true}},
		{AnonymousCatalog, question{}},
		{ForgedAlone, question{header: forged(r.other())}},
		{ForgedBeside, question{node: true, header: forged(r.other())}},
	} {
		o := r.catalog(r.Front, r.other(), c.question)
		if o.word == denied {
			o.why = own.why
		}
		r.set(c.name, o.word, at, o.why)
	}
	r.settle(ForeignCatalog, AnonymousCatalog)
	r.settle(ForgedAlone, ForgedBeside)
}

// settle makes the unknown answer of a pair absent if the other answer is "granted", which is a
// finding already.
func (r *run) settle(a, b string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if r.answers[pair[0]].Value == granted && r.answers[pair[1]].Unknown != "" {
			delete(r.answers, pair[1])
		}
	}
}

// backEnds requests catalogs directly from Puppet Server with forged headers.
func (r *run) backEnds() {
	believing, unknown := []string{}, []string{}
	for _, s := range r.BackEnds {
		// The certificate is not verified: nothing secret is sent, and a back end's certificate
		// often has another name.
		o := r.catalog(s, r.other(), question{header: forged(r.other()), unverified: true})
		switch {
		case o.word == granted:
			believing = append(believing, origin(s))
		case o.away && r.serves: // unreachable, so no client can forge headers
		case o.away:
			unknown = append(unknown, origin(s)+": "+o.why+", and the front end served no catalog either; Puppet Server may not be running")
		case o.why != "":
			unknown = append(unknown, origin(s)+": "+o.why)
		}
	}
	why := ""
	if len(believing) == 0 { // one back end that trusts them is enough
		if r.NoBackEnds != "" {
			unknown = append(unknown, r.NoBackEnds)
		}
		why = strings.Join(unknown, "; ")
	}
	r.set(BelievingBackEnds, believing, r.BackEndsAt, why)
}

func origin(s Site) string { return s.URL.Scheme + "://" + s.URL.Host }
