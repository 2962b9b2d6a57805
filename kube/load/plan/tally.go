package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
)

// Cluster is the known state of a cluster; the zero value knows nothing.
type Cluster struct {
	Known bool `json:"known"`
	// OpenShift is the OpenShift version; "" for another Kubernetes.
	OpenShift string `json:"openshift,omitempty"`
	// Nodes is the number of nodes; Room is the number of pods that they can run together.
	Nodes int `json:"nodes"`
	Room  int `json:"pods_allocatable"`
	// Have counts existing objects by kind: pods, finished pods, namespaces, services.
	Have map[string]int `json:"have,omitempty"`
	// EtcdBytes is the size of etcd's database; 0 means unknown. EtcdQuotaBytes is its quota from
	// EtcdQuotaSource; 0 means unknown, below 0 means no quota.
	EtcdBytes       int64  `json:"etcd_bytes,omitempty"`
	EtcdQuotaBytes  int64  `json:"etcd_quota_bytes,omitempty"`
	EtcdQuotaSource string `json:"etcd_quota_source,omitempty"`
	// NotSeen are the kinds (nodes, pods, namespaces, services) that the user may not list. The
	// figures above exclude them, and limits that depend on them are not judged.
	NotSeen []NotSeen `json:"not_seen,omitempty"`
	// Notes name other unreadable data.
	Notes []string `json:"-"`
}

// NotSeen is an unreadable part of a cluster, with the reason.
type NotSeen struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Sees reports whether a part of the cluster could be read.
func (c *Cluster) Sees(what string) bool {
	return !slices.ContainsFunc(c.NotSeen, func(n NotSeen) bool { return n.What == what })
}

// blind returns notes about limits that are not judged, or are judged for the load alone.
func (c *Cluster) blind() []string {
	var all []string
	for _, n := range c.NotSeen {
		text := "unknown how many " + n.What + " exist, so only those of the load are compared with the maximums: "
		if n.What == "nodes" {
			text = "cannot list the nodes; pod capacity, pods_per_node and pods of daemon sets are not judged: "
		}
		all = append(all, text+n.Why)
	}
	return all
}

// DefaultQuota is etcd's default, in bytes (etcd --quota-backend-bytes=0).
const DefaultQuota = 2 << 30

// Quota returns the database size in bytes at which etcd rejects writes, and its source; below 0
// means no limit. If unknown, it returns etcd's default, or on OpenShift 8 GiB: the default of the
// Etcd object's spec.backendQuotaGiB (openshift/api, operator/v1/types_etcd.go), and of clusters
// without that field (cluster-etcd-operator, pkg/etcdenvvar/etcd_env.go,
// ETCD_QUOTA_BACKEND_BYTES=8589934592).
func (c *Cluster) Quota() (bytes int64, source string) {
	switch {
	case c != nil && c.EtcdQuotaBytes != 0:
		return c.EtcdQuotaBytes, c.EtcdQuotaSource
	case c != nil && c.OpenShift != "":
		return 8 << 30, "OpenShift Etcd (operator.openshift.io/v1), default of backendQuotaGiB"
	}
	return DefaultQuota, "default of etcd --quota-backend-bytes"
}

// Tally is a plan's totals compared with the cluster's tested maximums.
type Tally struct {
	Objects    int     `json:"objects"`
	Kinds      []Count `json:"kinds"`
	Namespaces int     `json:"namespaces"`
	// Pods is the maximum number of concurrent pods, including controllers' pods. PodsFinished
	// counts ended pods of Jobs, which stay until their Job is deleted.
	Pods         int       `json:"pods"`
	PodsFinished int       `json:"pods_finished,omitempty"`
	PerNode      int       `json:"pods_for_each_node,omitempty"`
	EtcdBytes    int64     `json:"etcd_bytes"`
	Missing      []Missing `json:"missing,omitempty"`
	Steps        int       `json:"steps"`
	// PodsPerNode is the resulting number of pods per node, including existing pods; 0 if no nodes
	// are known.
	PodsPerNode float64  `json:"pods_per_node,omitempty"`
	Limits      []Limit  `json:"limits"`
	Cluster     *Cluster `json:"cluster,omitempty"`
	// Notes explain the source of the limits if it is not obvious.
	Notes []string `json:"-"`
}

// Count is a number of objects of a kind.
type Count struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
	Bytes      int64  `json:"etcd_bytes"`
}

// Limit is a figure with its maximum.
type Limit struct {
	What    string `json:"what"`
	Value   int    `json:"value"` // value after the load
	Of      string `json:"of,omitempty"`
	Maximum int    `json:"maximum"`
	Over    bool   `json:"over"`
	Source  string `json:"source"`
}

// FinishedPods is the key in Cluster.Have for ended pods.
const FinishedPods = "pods_finished"

// BytesInEtcd is the What of the only limit in bytes.
const BytesInEtcd = "bytes in etcd"

// overhead is an object's size in etcd's database beyond its JSON, in bytes: key, server fields
// (uid, time, managed fields), and free space in pages. With 20,000 ConfigMaps of 1 kB (1,177 bytes
// of JSON, Kubernetes 1.34.4) the database grew by 2,068 bytes for each.
const overhead = 900

// Of returns the totals of a plan. A large plan takes seconds; ctx cancels it.
func Of(ctx context.Context, p *Plan, figures sizing.Figures, c *Cluster) (*Tally, error) {
	t := &Tally{Objects: p.Len(), Kinds: []Count{}, Limits: []Limit{}, Missing: p.Missing, Cluster: c}
	at := map[Kind]int{}
	crons := false
	for i := range p.Len() {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		k := p.Kind(i)
		n, ok := at[k]
		if !ok {
			n = len(t.Kinds)
			at[k] = n
			t.Kinds = append(t.Kinds, Count{APIVersion: k.APIVersion, Kind: k.Kind})
		}
		bytes := int64(len(p.Body(i)) + overhead)
		t.Kinds[n].Count++
		t.Kinds[n].Bytes += bytes
		t.EtcdBytes += bytes
		if _, each := p.Pods(i); each {
			t.PerNode++
		}
		if k.Kind == "Namespace" {
			t.Namespaces++
		}
		if n := p.Finished(i); n > 0 && !p.Removes(i) {
			t.PodsFinished += n
		}
		crons = crons || k.Kind == "CronJob"
	}
	s, err := standingOf(ctx, p)
	if err != nil {
		return nil, err
	}
	t.Pods = s.most[counted{"Pod", ""}]
	for _, op := range p.Ops {
		if op.Do == Settle && op.Must {
			t.Steps++
		}
	}
	slices.SortFunc(t.Kinds, func(a, b Count) int { return strings.Compare(a.Kind+a.APIVersion, b.Kind+b.APIVersion) })
	if c != nil {
		t.Notes = slices.Concat(c.Notes, c.blind())
	}
	if crons {
		t.Notes = append(slices.Clip(t.Notes), "pods of CronJobs are not counted, because their number depends on schedules")
	}
	return t, t.limits(figures, c, s)
}

// limits compares the totals with the maximums.
func (t *Tally) limits(figures sizing.Figures, c *Cluster, s *standing) error {
	have := func(string) int { return 0 }
	pods := t.Pods
	if c != nil {
		have = func(resource string) int {
			if resource == "pods" { // ended pods need no capacity
				return c.Have[resource] - c.Have[FinishedPods]
			}
			return c.Have[resource]
		}
		pods += t.PerNode * c.Nodes
	}
	maximum, source, by, err := maximums(figures, c)
	if err != nil {
		return err
	}
	if by != "" {
		t.Notes = append(slices.Clip(t.Notes), by)
	}
	add := func(what string, value int, of string) {
		most, known := maximum(what)
		if known && value > 0 {
			t.Limits = append(t.Limits, Limit{what, value, of, most, value > most, source})
		}
	}
	add("pods", pods+have("pods"), "")
	most := func(kind string) int { return s.most[counted{kind, ""}] }
	add("namespaces", most("Namespace")+have("namespaces"), "")
	add("services", most("Service")+have("services"), "")
	for _, x := range []struct{ what, kind string }{{"routes", "Route"}, {"secrets", "Secret"}, {"config_maps", "ConfigMap"}, {"builds", "Build"}, {"build_configs", "BuildConfig"}} {
		add(x.what, most(x.kind), "")
	}
	for _, x := range []struct{ what, kind string }{{"pods_per_namespace", "Pod"}, {"services_per_namespace", "Service"}, {"deployments_per_namespace", "Deployment"}} {
		most, in := 0, ""
		for of, n := range s.most {
			if of.kind == x.kind && of.space != "" && (n > most || n == most && of.space < in) {
				most, in = n, of.space
			}
		}
		add(x.what, most, in)
	}
	if quota, by := c.Quota(); t.EtcdBytes > 0 && quota < 0 {
		t.Notes = append(t.Notes, "etcd has no quota ("+by+"), so its database can fill the disk; the load's size in etcd is not judged")
	} else if t.EtcdBytes > 0 {
		there := t.EtcdBytes
		if c != nil {
			there += c.EtcdBytes
		}
		t.Limits = append(t.Limits, Limit{BytesInEtcd, int(there), "", int(quota), there > quota, by})
	}
	if c != nil && c.Known && pods > 0 && c.Sees("nodes") {
		all := pods + have("pods")
		if c.Nodes > 0 {
			t.PodsPerNode = float64(all) / float64(c.Nodes)
			add("pods_per_node", (all+c.Nodes-1)/c.Nodes, "")
		}
		t.Limits = append(t.Limits, Limit{"pods that the nodes take", all, "", c.Room, all > c.Room, "status.allocatable of the nodes"})
	}
	return nil
}

// maximums returns a lookup of the maximums of the OpenShift version, or of Kubernetes. by names
// the versions whose maximums apply if the catalog lacks this one.
func maximums(figures sizing.Figures, c *Cluster) (maximum func(what string) (int, bool), source, by string, err error) {
	table, version, of := "kubernetes-maximums", "", "Kubernetes"
	if c != nil && c.OpenShift != "" {
		table, version, of = "openshift-maximums", c.OpenShift, "OpenShift "+c.OpenShift
	}
	e, err := sizing.Of(figures, table, version)
	if err != nil {
		return nil, "", "", fmt.Errorf("cannot determine the maximums of %s: %w", of, err)
	}
	newest, newer, err := sizing.KnownVersion(figures, "openshift-releases", version)
	switch {
	case version == "" || version == e.From || strings.HasPrefix(version, e.From+"."):
	case err == nil && newer:
		by = of + " is newer than all known versions; the maximums of " + newest + " are used"
	default:
		by = of + " is judged by the maximums of versions " + e.Words()
	}
	var from []string
	for _, s := range e.Sources {
		from = append(from, s.String())
	}
	return func(what string) (int, bool) {
		row, err := e.Row(what)
		if err != nil {
			return 0, false
		}
		n, ok := row.Cells["maximum"].(float64)
		return int(n), ok
	}, strings.Join(from, "; "), by, nil
}

// Over returns the limits that are exceeded.
func (t *Tally) Over() []Limit {
	var over []Limit
	for _, l := range t.Limits {
		if l.Over {
			over = append(over, l)
		}
	}
	return over
}
