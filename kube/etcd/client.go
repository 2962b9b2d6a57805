// Package etcd asks the members of a cluster's etcd how they are - their metrics, their
// health and their API through its JSON gateway - and defragments them, one after the
// other.
package etcd

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"fettle.dev/fettle/internal/product/etcd"
)

// Access is what members want to see of who asks them.
type Access = etcd.Access

// Member is one, by the address at which it hears clients.
type Member struct {
	*etcd.Client
	patience time.Duration // for an answer, but that of a defragmentation
}

// patience is how long an answer is waited for where nothing else is said.
const patience = 10 * time.Second

// advice is what to do where a member does not answer: the options are those of who names
// its address.
var advice = etcd.Advice{
	etcd.Unheard:   "name the address that --advertise-client-urls of the member has, or make a tunnel to it",
	etcd.Untrusted: "--etcd-cacert names the authority of etcd",
	etcd.Stranger:  "--etcd-cert and --etcd-key name a certificate that its authority has signed",
}

// Open checks addresses, https://HOST:PORT, and certificates; it sends no request.
func Open(urls []string, a Access) ([]*Member, error) {
	var all []*Member
	for _, text := range urls {
		c, err := etcd.New(text, a, advice)
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(c.URL)
		switch {
		case err != nil || u.Port() == "":
			return nil, fmt.Errorf("%q is not an address of a member: want one such as https://10.0.0.1:2379", text)
		case u.Scheme == "http" && len(a.Cert) > 0:
			return nil, fmt.Errorf("%s: a certificate is shown by https only", text)
		case slices.ContainsFunc(all, func(o *Member) bool { return o.URL == c.URL }):
			return nil, fmt.Errorf("%s is named twice", c.URL)
		}
		all = append(all, &Member{c, patience})
	}
	return all, nil
}

// Within has it wait no longer than d for an answer, but that of a defragmentation, where
// d is above 0.
func (m *Member) Within(d time.Duration) {
	if d > 0 {
		m.patience = min(m.patience, d)
	}
}
