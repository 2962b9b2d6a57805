package proofs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/testkit/product"
)

// The code of both environments: a catalog has files with a source of their own, the file
// of the source's test, and a directory that is copied with all that is in it.
const (
	puppetFiles     = 40
	puppetDirectory = 60
	environments    = "/etc/puppet/code/environments"
	puppetConf      = "/etc/puppet/puppetserver"
)

// environment is the code of one, by path.
func environment(name string) map[string]string {
	dir := filepath.Join(environments, name)
	// Each environment has its files somewhere else, so that both can be applied here.
	to := "/srv/out-" + name
	manifest := fmt.Sprintf("file { '%s': ensure => directory }\n", to)
	files := map[string]string{
		// 256 KB, as that of the source (Turning on Caching in Apache).
		dir + "/modules/testmodule/files/testfile": strings.Repeat("one line of a file that is 256 KB long, as that of the source was, and a bit more\n", 256<<10/82),
		dir + "/modules/site/files/probe":          name + ", as it was\n",
	}
	add := func(module, file string) {
		manifest += fmt.Sprintf("file { '%s/%s': source => 'puppet:///modules/%s/%s' }\n", to, file, module, file)
	}
	add("testmodule", "testfile")
	for i := range puppetFiles {
		file := fmt.Sprintf("f%d", i)
		files[dir+"/modules/site/files/"+file] = fmt.Sprintf("%s of %s\n", file, name)
		add("site", file)
	}
	for i := range puppetDirectory {
		files[fmt.Sprintf("%s/modules/site/files/conf.d/%02d.conf", dir, i)] = fmt.Sprintf("option = %d\n", i)
	}
	manifest += fmt.Sprintf("file { '%s/conf.d': ensure => directory, recurse => true, source => 'puppet:///modules/site/conf.d' }\n", to)
	files[dir+"/modules/site/lib/facter/site.rb"] = "Facter.add(:site) { setcode { 'here' } }\n"
	files[dir+"/manifests/site.pp"] = manifest
	return files
}

// change gives a file of the module site another content.
func (x *puppetProof) change(environment, file, content string) {
	x.Helper()
	x.write(map[string]string{filepath.Join(environments, environment, "modules/site/files", file): content})
}

// run is one run of an agent, with what it asked for. What is said of it is filled in.
func (x *puppetProof) run(agent product.Agent, f *puppetFront, r puppetRun, options ...string) puppetRun {
	x.Helper()
	report := "PUT /puppet/v3/report/" + agent.Name
	behind := x.mark(product.Log)
	atFront := marked{}
	if f != nil {
		atFront, r.Front = x.mark(f.log), f.Name
	}
	began := time.Now()
	said := agent.Run(x, append([]string{"--environment", r.Environment}, options...)...)
	r.Whole = math.Round(100*time.Since(began).Seconds()) / 100
	m := puppetApplied.FindStringSubmatch(said)
	if m == nil {
		x.Fatalf("%s: no catalog was applied:\n%s", r.What, said)
	}
	r.Applied, _ = strconv.ParseFloat(m[1], 64)
	r.Behind = x.counts(behind.since(x, report), puppetConf)
	if f != nil {
		r.AtFront = x.counts(atFront.since(x, report), f.conf)
	}
	x.Logf("%s: %.2f s, of it %.2f s for the catalog; at Puppet Server %v, at the front end %v", r.What, r.Whole, r.Applied, r.Behind, r.AtFront)
	x.record.Agents = append(x.record.Agents, r)
	return r
}

// marked is a place in a log.
type marked struct {
	name string
	size int64
}

// mark is the end of a log.
func (x *puppetProof) mark(name string) marked {
	x.Helper()
	st, err := os.Stat(name)
	if err != nil {
		x.Fatal(err)
	}
	return marked{name, st.Size()}
}

// since is the file of what a log has from there on, once it has some words: the last
// request may be logged after its answer was read.
func (m marked) since(x *puppetProof, words string) string {
	x.Helper()
	var text string
	product.Eventually(x, m.name+" has "+words, func() bool {
		all := product.Read(x, m.name)
		if int64(len(all)) < m.size {
			x.Fatalf("%s was rotated", m.name)
		}
		text = all[m.size:]
		return strings.Contains(text, words) && strings.HasSuffix(text, "\n")
	})
	file := filepath.Join("/srv/part", filepath.Base(m.name))
	x.write(map[string]string{file: text})
	return file
}

// counts are the requests of a log by method and indirector, as fettle logs has them.
func (x *puppetProof) counts(log, config string) map[string]uint64 {
	x.Helper()
	var r logs.Report
	x.decode(x.fettle("logs", "--config", config, "--by", "method,indirector", "--top", "0", "--slowest", "0", "--output", "json", log), &r)
	if r.Unread.Lines > 0 {
		x.Errorf("%s: %d lines are not of its format: %+v", log, r.Unread.Lines, r.Unread.Examples)
	}
	out := map[string]uint64{}
	for _, g := range r.By[0].Top {
		out[strings.Join(g.Key, " ")] = g.Count
	}
	return out
}

// logged is a request of Puppet's API in a line of an access log.
var logged = regexp.MustCompile(`"([A-Z]+) (/puppet/v3/[^ ]+) HTTP/1\.1" 200 `)

// mix makes of a log the list of requests for fettle load: each as often as it is there.
// An agent sends its facts with the request for its catalog; without them the server takes
// those that it has of the node. A report cannot be made again.
func (x *puppetProof) mix(log string) {
	x.Helper()
	weights := map[puppetAsked]int{}
	x.record.LeftOut = map[string]int{}
	for _, m := range logged.FindAllStringSubmatch(product.Read(x, log), -1) {
		a := puppetAsked{Method: m[1], Path: m[2]}
		switch {
		case a.Method == "POST" && strings.HasPrefix(a.Path, "/puppet/v3/catalog/"):
			a.Method = "GET"
		case a.Method != "GET":
			x.record.LeftOut[a.Method+" "+strings.Split(a.Path, "/")[3]]++
			continue
		}
		weights[a]++
	}
	var list strings.Builder
	for a, n := range weights {
		a.Weight = n
		x.record.Mix = append(x.record.Mix, a)
	}
	slices.SortFunc(x.record.Mix, func(a, b puppetAsked) int { return strings.Compare(a.Path, b.Path) })
	for _, a := range x.record.Mix {
		fmt.Fprintf(&list, "%d %s https://%s%s\n", a.Weight, a.Method, x.server.Address, a.Path)
	}
	x.write(map[string]string{"/srv/mix": list.String()})
	x.Logf("the mix:\n%s", list.String())
}
