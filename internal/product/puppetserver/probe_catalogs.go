package puppetserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const catalogPath = "/puppet/v3/catalog/"

// outcome is what a request for a catalog came to: the word, or why there is none. away is
// true where nobody can be connected to.
type outcome struct {
	word, why string
	away      bool
}

// catalog asks for a node's catalog, with facts whose format it does not name: who may
// have it is asked before (trapperkeeper-authorization), and then Puppet ends with this
// error, before it saves or compiles anything (indirector/catalog/compiler.rb,
// extract_facts_from_request).
func (r *run) catalog(s Site, node string, q question) outcome {
	q.path, q.query = catalogPath+node, "environment="+r.Environments[0]+"&facts=fettle"
	a := r.ask(s, q)
	switch {
	case a.status == http.StatusOK && !isCatalog(a.body):
		return outcome{why: q.String() + ": its answer is not a catalog of Puppet's"}
	case a.status == http.StatusOK, a.status >= 400 && bytes.Contains(a.body, []byte("no fact format")):
		return outcome{word: granted}
	case a.refused():
		return outcome{word: denied}
	}
	return outcome{why: q.String() + ": " + a.says(), away: a.away != nil}
}

// isCatalog says whether an answer is one: anything may answer 200 to everything. Before
// Puppet 4 the catalog was the data of a document.
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

// forged are the headers by which a front end tells whose certificate it has seen.
func forged(node string) map[string]string {
	return map[string]string{"X-Client-Verify": "SUCCESS", "X-Client-DN": "CN=" + node}
}

// catalogs asks the front end for a catalog in all ways that should not give it.
func (r *run) catalogs() {
	at := origin(r.Front) + catalogPath + r.other()
	// That others are refused says something only where the node itself is not.
	own := r.catalog(r.Front, r.Node, question{node: true})
	r.serves = own.word == granted
	if own.word == denied {
		own.why = fmt.Sprintf("its own catalog is refused to %s, too", r.Node)
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
		r.tell(c.name, o.word, at, o.why)
	}
	r.settle(ForeignCatalog, AnonymousCatalog)
	r.settle(ForgedAlone, ForgedBeside)
}

// settle takes back what is not known of one of two where the other is given: a hole is
// one whatever the other is.
func (r *run) settle(a, b string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if r.told[pair[0]].Value == granted && r.told[pair[1]].Unknown != "" {
			delete(r.told, pair[1])
		}
	}
}

// backEnds asks Puppet Server itself with forged headers.
func (r *run) backEnds() {
	believing, unknown := []string{}, []string{}
	for _, s := range r.BackEnds {
		// Nothing secret is sent, so whoever answers may: its name is often another one.
		o := r.catalog(s, r.other(), question{header: forged(r.other()), unverified: true})
		switch {
		case o.word == granted:
			believing = append(believing, origin(s))
		case o.away && r.serves: // nobody can forge anything where nobody answers
		case o.away:
			unknown = append(unknown, origin(s)+": "+o.why+", and no catalog came by the front end either: Puppet Server may just not run")
		case o.why != "":
			unknown = append(unknown, origin(s)+": "+o.why)
		}
	}
	why := ""
	if len(believing) == 0 { // one that believes them is enough
		if r.NoBackEnds != "" {
			unknown = append(unknown, r.NoBackEnds)
		}
		why = strings.Join(unknown, "; ")
	}
	r.tell(BelievingBackEnds, believing, r.BackEndsAt, why)
}

func origin(s Site) string { return s.URL.Scheme + "://" + s.URL.Host }
