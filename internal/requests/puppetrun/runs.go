package puppetrun

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
)

// Runs is the analysis of runs in JSON form.
type Runs struct {
	Schema    string      `json:"schema"` // fettle/logs-puppet/v1
	Headline  ui.Headline `json:"headline"`
	Path      string      `json:"path"`
	Runs      int         `json:"runs"`
	Nodes     int         `json:"nodes"`
	First     *time.Time  `json:"first,omitempty"` // start of the first run by its node's clock; Last: of the last run
	Last      *time.Time  `json:"last,omitempty"`
	Failed    int         `json:"failed"`
	Changed   int         `json:"changed"`
	Unchanged int         `json:"unchanged"`
	// Cached is the number of runs that applied a cached catalog.
	Cached  int       `json:"cached_catalog"`
	LeftOut int       `json:"left_out"` // omitted by --since or --until
	Unread  Unread    `json:"unread"`
	WentTo  *Measured `json:"went_to,omitempty"` // the stage or resource type with the most time
	Total   *Measured `json:"total,omitempty"`   // whole runs
	// Stages holds the stages of the runs. catalog_application contains
	// transaction_evaluation, which contains all types.
	Stages []Measured `json:"stages"`
	Types  []Measured `json:"types"`
	// Resources holds the resources with the most time. ResourceNames is the number of all
	// resources.
	Resources     []Measured `json:"resources"`
	ResourceNames int        `json:"resource_names"`
	Folded        uint64     `json:"folded,omitempty"` // resources above the limit of a million names
	ByNode        []Node     `json:"by_node"`          // most time first
	Server        *Server    `json:"server,omitempty"`
}

// Node holds the figures of a node. Unknown figures are absent.
type Node struct {
	Name           string   `json:"name"`
	Runs           int      `json:"runs"`
	Failed         int      `json:"failed"`
	Changed        int      `json:"changed"`
	MeanS          *float64 `json:"mean_s,omitempty"` // of a run
	MeanRetrievalS *float64 `json:"mean_config_retrieval_s,omitempty"`
	MeanCatalogS   *float64 `json:"mean_catalog_s,omitempty"` // of the same runs on the server
}

// Server compares the nodes' waiting time for catalogs with the server's time.
type Server struct {
	Logs   []logs.LogRead `json:"logs"`
	Unread uint64         `json:"unread_lines"`
	// Joined is the number of runs whose catalog request is in a log. Unjoined is the number
	// of other runs with a catalog from the server.
	Joined   int `json:"joined"`
	Unjoined int `json:"unjoined"`
	// Repeated is the number of joined runs with more than one catalog request. Either the
	// node was in another environment than it assumed, or a request failed.
	Repeated  int       `json:"repeated"`
	Retrieval *Measured `json:"config_retrieval,omitempty"` // joined runs, measured by the nodes
	Catalog   *Measured `json:"catalog,omitempty"`          // the same runs, measured by the server
	Share     *float64  `json:"share,omitempty"`            // Catalog as a share of Retrieval
	// RestMeanS is the mean of Retrieval minus Catalog: the network, TLS, queueing before the
	// server's measurement starts, and the node's parsing of the catalog.
	RestMeanS *float64 `json:"rest_mean_s,omitempty"`
	RestP50S  *float64 `json:"rest_p50_s,omitempty"`
	RestP99S  *float64 `json:"rest_p99_s,omitempty"`
}

// Report returns the analysis with the top entries of each list, or all entries if top is 0.
// served and its logs may be nil.
func (c *Collected) Report(path string, served *Served, of []logs.LogRead, top int) *Runs {
	all := c.spent()
	r := &Runs{Schema: "fettle/logs-puppet/v1", Path: path, Runs: len(c.runs), Failed: c.failed, Changed: c.changed, Unchanged: c.settled, Cached: c.cached,
		LeftOut: c.leftOut, Unread: c.unread, Stages: c.stages.measured(all, 0), Types: c.types.measured(all, top),
		Resources: c.resources.measured(all, top), ResourceNames: c.resources.table.Len(), Folded: c.resources.table.Other.Count, ByNode: []Node{}}
	if len(c.runs) > 0 {
		r.First, r.Last = &c.first, &c.last
	}
	if c.totals.table.Len() > 0 {
		whole := c.totals.one(0, all)
		r.Total = &whole
	}
	for _, list := range [][]Measured{r.Stages, r.Types} {
		for i := range list {
			if m := &list[i]; !stages[m.Name].whole && (r.WentTo == nil || m.TotalS > r.WentTo.TotalS) {
				most := *m
				r.WentTo = &most
			}
		}
	}
	var j *joined
	if served != nil {
		j = c.join(served)
		r.Server = j.server(served, of)
	}
	r.ByNode = c.byNode(j)
	r.Nodes = len(r.ByNode)
	if top > 0 && len(r.ByNode) > top {
		r.ByNode = r.ByNode[:top]
	}
	r.Headline = headline(r)
	return r
}

// joined holds the times of joined runs, measured by nodes and by the server.
type joined struct {
	catalog            []float64 // by run, in seconds; negative if none
	retrievals, served *tally
	rest               []float64
	unjoined, repeated int
}

// join matches each run with its catalog request.
func (c *Collected) join(s *Served) *joined {
	j := &joined{catalog: make([]float64, len(c.runs)), retrievals: newTally(1), served: newTally(1)}
	used := map[int]bool{}
	for i := range c.runs {
		one := &c.runs[i]
		if i == 0 || c.runs[i-1].node != one.node {
			clear(used)
		}
		j.catalog[i] = -1
		if one.retrieval < 0 {
			continue
		}
		of := s.nodes[one.node]
		if of == nil || one.stored.IsZero() {
			j.unjoined++
			continue
		}
		took, asked, ok := of.catalog(one, used)
		if !ok {
			j.unjoined++
			continue
		}
		if asked > 1 {
			j.repeated++
		}
		j.catalog[i] = float64(took) / 1e6
		j.retrievals.add(retrieval, one.retrieval, false, false, one.node)
		j.served.add("catalog", j.catalog[i], false, false, one.node)
		j.rest = append(j.rest, one.retrieval-j.catalog[i])
	}
	return j
}

func (j *joined) server(s *Served, of []logs.LogRead) *Server {
	out := &Server{Logs: of, Unread: s.unread, Joined: len(j.rest), Unjoined: j.unjoined, Repeated: j.repeated}
	if len(j.rest) == 0 {
		return out
	}
	number := func(v float64) *float64 { return &v }
	a, b := j.retrievals.one(0, 0), j.served.one(0, 0)
	out.Retrieval, out.Catalog = &a, &b
	if a.TotalS > 0 {
		out.Share = number(b.TotalS / a.TotalS)
	}
	out.RestMeanS, out.RestP50S, out.RestP99S = number(stats.Mean(j.rest)), number(stats.Quantile(j.rest, .5)), number(stats.Quantile(j.rest, .99))
	return out
}

// byNode returns the nodes, most time first. c.runs must be sorted by node.
func (c *Collected) byNode(j *joined) []Node {
	type spent struct {
		Node
		sum float64
	}
	var all []spent
	for i := 0; i < len(c.runs); {
		n := spent{Node: Node{Name: c.runs[i].node}}
		var whole, retrievals, catalogs []float64
		for ; i < len(c.runs) && c.runs[i].node == n.Name; i++ {
			one := &c.runs[i]
			n.Runs++
			switch one.status {
			case "failed":
				n.Failed++
			case "changed":
				n.Changed++
			}
			if one.total >= 0 {
				whole = append(whole, one.total)
				n.sum += one.total
			}
			if one.retrieval >= 0 {
				retrievals = append(retrievals, one.retrieval)
			}
			if j != nil && j.catalog[i] >= 0 {
				catalogs = append(catalogs, j.catalog[i])
			}
		}
		n.MeanS, n.MeanRetrievalS, n.MeanCatalogS = mean(whole), mean(retrievals), mean(catalogs)
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b spent) int {
		return cmp.Or(cmp.Compare(b.sum, a.sum), strings.Compare(a.Name, b.Name))
	})
	out := []Node{}
	for i := range all {
		out = append(out, all[i].Node)
	}
	return out
}

func mean(x []float64) *float64 {
	if len(x) == 0 {
		return nil
	}
	v := stats.Mean(x)
	return &v
}
