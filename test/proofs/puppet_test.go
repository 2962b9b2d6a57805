package proofs

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/sizing"
	sized "fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// How long each part loads: the whole is to be under 20 minutes on a machine that does
// nothing else.
const (
	puppetWarmUp  = 90 * time.Second // of Java, whose compiled code the first minutes are about
	puppetAlone   = 20 * time.Second // one connection, which says what rate is half of what can be
	puppetWindow  = 40 * time.Second // of the mix, for each front end with and without its cache
	puppetRounds  = 2
	puppetOneFile = 12 * time.Second // the source's test
)

// agentsLog is a copy of the server's log with the first runs of agents in it.
const agentsLog = "/srv/logs/agents.log"

// puppetProof repeats the article's experiment with current software: an agent's requests, where
// their time goes, a cache in front, and static catalogs.
type puppetProof struct {
	*testing.T
	server product.Server
	node   product.Agent // of the environment production
	other  product.Agent // of the environment test
	record puppetRecord
}

// TestPuppet makes the record of docs/proofs/puppet with the real Puppet Server and agent,
// Apache and nginx, by the built fettle: about 18 minutes on two cores.
func TestPuppet(t *testing.T) {
	asked(t)
	if !inside(t, false, func(o *root.Options) { o.Puppet, o.Within = true, 2*time.Hour }) {
		return
	}
	x := &puppetProof{T: t, record: puppetRecord{Sizes: map[string]sizing.Result{}, Compared: map[string]logs.Comparison{}}}
	x.record.Began = puppetNow()
	x.record.Versions = versions(t)
	x.record.Files, x.record.Directory = puppetFiles+1, puppetDirectory
	x.record.WarmUpS, x.record.WindowS, x.record.Rounds = puppetWarmUp.Seconds(), puppetWindow.Seconds(), puppetRounds
	product.Command(t, "ip", "address", "add", beyondLoopback+"/32", "dev", "lo")
	x.stage("Puppet Server as its package sets it up", x.direct)
	x.stage("its log, and what to do about it", x.sized)
	x.stage("holes of Puppet Server alone", func() {
		x.probe(puppetSite{Name: "Puppet Server itself, as its package sets it up"}, "https://"+beyondLoopback+":8140")
	})
	x.stage("Puppet Server on the loopback, started anew", x.behind)
	x.stage("warm-up", x.warmUp)
	x.stage("the mix, without and with a cache", x.windows)
	x.stage("the source's test of one file", x.oneFile)
	x.stage("agents, without and with a cache", x.agents)
	x.stage("holes", x.probes)
	x.stage("static catalogs, with Puppet Server started anew", x.static)
	x.record.Ended = puppetNow()
	x.keep(puppetExperimentFile, x.record.puppetExperiment)
	x.keep(puppetLoadsFile, x.record.Loads)
	x.keep(puppetAgentsFile, x.record.Agents)
	x.keep(puppetProbesFile, x.record.Probes)
}

// direct is the server without anything in front of it: two environments, and agents.
func (x *puppetProof) direct() {
	for _, e := range []string{"production", "test"} {
		x.write(environment(e))
	}
	x.server = product.StartPuppetServer(x)
	x.node, x.other = x.server.Agent(x, "agent1.test"), x.server.Agent(x, "agent2.test")
	x.run(x.node, nil, puppetRun{What: "the first run of a node, directly", Environment: "production"})
	x.run(x.other, nil, puppetRun{What: "the first run of a node of another environment, directly", Environment: "test"})
	steady := x.mark(product.Log)
	for i := range 2 {
		x.change("production", fmt.Sprintf("f%d", i), fmt.Sprintf("changed %d\n", i))
		x.run(x.node, nil, puppetRun{What: "a run with one file changed, directly", Environment: "production", Changed: 1})
	}
	x.mix(steady.since(x, "PUT /puppet/v3/report/"))
}

// sized asks the log where the time went, and has the files written for both front ends.
func (x *puppetProof) sized() {
	text := x.fettle("logs", "--config", puppetConf, "--by", "method,indirector", "--by", "environment", "--slowest", "0", "--output", "json")
	x.decode(text, &x.record.Log)
	if l := x.record.Log.Logs[0]; !strings.Contains(l.Why, "request-logging.xml") || l.DurationUnit != "milliseconds" {
		x.Errorf("the log is read as %+v", l)
	}
	x.keep(puppetLogFile, text)
	x.addTo(agentsLog, product.Log) // for the replay
	for _, f := range puppetFronts {
		text := x.fettle("size", "puppet", "--front-end", f.Name, "--parts", "static,cache", "--write", f.plan(), "--output", "json")
		x.keep(f.sizeFile(), text)
	}
	// What is behind a front end is the same for both.
	product.Command(x, "diff", "-r", puppetFronts[0].plan()+"/etc/puppet", puppetFronts[1].plan()+"/etc/puppet")
}

// behind moves the server to the loopback, as the plan has it.
func (x *puppetProof) behind() {
	product.Stop(x)
	// All but static catalogs, which come later, and what each front end's turn puts in place.
	product.Command(x, "sh", "-ec", `cd "$1"; find . -type f \( -path './etc/puppet/*' -o -path './etc/default/*' \) ! -name versioned-code.conf -exec cp --parents --preserve=mode {} / \;`, "install", puppetFronts[0].plan())
	x.install(puppetFronts[0], puppetFronts[0].file)
	product.Command(x, "a2enmod", "-q", "ssl", "headers", "proxy_http", "cache_disk")
	product.Command(x, "a2ensite", "-q", "puppet")
	product.StartBehind(x, behindURL)
}

// warmUp loads until Java has compiled what the mix uses, and finds the rate.
func (x *puppetProof) warmUp() {
	f := puppetFronts[0]
	defer x.serve(f, false)()
	x.load("warm-up", f, false, 0, append(x.ofMix(), "--connections", "2", "--for", puppetWarmUp.String())...)
	one := x.load("one connection", f, false, 0, append(x.ofMix(), "--connections", "1", "--for", puppetAlone.String())...)
	x.record.OneConnection = one.Whole.AnswerRate
	x.record.Rate = math.Max(1, math.Round(one.Whole.AnswerRate/2))
}

// ofMix are the arguments of a load with the mix. An agent says for each request which
// form it takes; here all say the same.
func (x *puppetProof) ofMix() []string {
	return []string{"--urls", "/srv/mix", "--header", "Accept: application/json, application/octet-stream"}
}

// windows loads both front ends at one rate in turns, without and with their caches, and
// compares their logs. The second round has the order of the first backwards, so that what
// gets faster with time, as Java does, is on neither side.
func (x *puppetProof) windows() {
	type turn struct {
		puppetFront
		cached bool
	}
	var turns []turn
	for _, f := range puppetFronts {
		turns = append(turns, turn{f, false}, turn{f, true})
	}
	for round := range puppetRounds {
		for _, u := range turns {
			end := x.serve(u.puppetFront, u.cached)
			r := x.load("mix", u.puppetFront, u.cached, round+1, append(x.ofMix(), "--rate", fmt.Sprintf("%g/s", x.record.Rate), "--for", puppetWindow.String())...)
			end()
			x.right(r)
			x.addTo(u.side(u.cached), u.log)
		}
		slices.Reverse(turns)
	}
	for _, f := range puppetFronts {
		text := x.fettle("logs", "compare", "--config", f.conf, "--by", "method,indirector", "--top", "0", "--output", "json", f.side(false), f.side(true))
		var c logs.Comparison
		x.decode(text, &c)
		x.Logf("%s: %s", f.Title, c.All.Text)
		x.keep(f.compareFile(), text)
	}
}

// right wants whole answers with a good status.
func (x *puppetProof) right(r load.Result) {
	x.Helper()
	if r.Whole.Errors > 0 || r.Whole.Starts == 0 {
		x.Errorf("%d of %d requests failed: %v %v", r.Whole.Errors, r.Whole.Starts, r.Whole.Statuses, r.Whole.Failures)
	}
}

// oneFile is the source's test: the metadata of one file of 256 KB over 100 connections,
// each of which asks when it has its answer.
func (x *puppetProof) oneFile() {
	for _, f := range puppetFronts {
		for _, cached := range []bool{false, true} {
			end := x.serve(f, cached)
			x.right(x.load("file", f, cached, 0, "--connections", "100", "--for", puppetOneFile.String(), "--header", "Accept: application/json",
				"https://"+x.server.Address+metadata("testmodule/testfile", "production")))
			end()
		}
	}
}

// Runs that the page speaks of.
const (
	noCache        = "nothing changed, no cache"
	nothingChanged = "nothing changed"
)

// agents are real runs through the front ends, and the log of the first ones once more,
// faster.
func (x *puppetProof) agents() {
	apache, nginx := &puppetFronts[0], &puppetFronts[1]
	end := x.serve(*nginx, false)
	x.run(x.node, nginx, puppetRun{What: noCache, Environment: "production"})
	end()
	for _, f := range []*puppetFront{apache, nginx} {
		end := x.serve(*f, true)
		x.run(x.node, f, puppetRun{What: "nothing changed, the cache is empty", Environment: "production", Cached: true})
		x.run(x.node, f, puppetRun{What: "nothing changed, the cache is full", Environment: "production", Cached: true})
		if f == nginx {
			x.run(x.other, f, puppetRun{What: "a node of another environment", Environment: "test", Cached: true})
			x.load("replay", *f, true, 0, "--replay", agentsLog, "--replay-format", "puppetserver", "--speed", "4", "--ok-status", "404",
				"--header", "Accept: application/json, application/octet-stream", "https://"+x.server.Address)
		}
		end()
	}
}

// static puts the rest of the plan in place: catalogs that carry the metadata.
func (x *puppetProof) static() {
	f := puppetFronts[1]
	product.Stop(x)
	x.install(f, "/etc/puppet/puppetserver/conf.d/webserver.conf") // a probe has changed it
	x.install(f, "/"+sized.IDScript, "/"+sized.ContentScript, "/etc/puppet/puppetserver/conf.d/versioned-code.conf")
	product.Command(x, "install", "-d", "-o", "puppet", "-g", "puppet", "-m", "0750", "/var/lib/puppetserver/code-snapshots")
	for _, e := range []string{"production", "test"} {
		if said := product.Command(x, "setpriv", "--reuid=puppet", "--regid=puppet", "--clear-groups", "/"+sized.IDScript, e); len(said) != 40 {
			x.Fatalf("the version of %s is %q", e, said)
		}
	}
	product.StartBehind(x, behindURL)
	defer x.serve(f, true)()
	x.run(x.node, &f, puppetRun{What: "the first catalog of the new server", Environment: "production", Cached: true, Static: true})
	x.run(x.node, &f, puppetRun{What: nothingChanged, Environment: "production", Cached: true, Static: true})
	x.change("production", "f7", "changed under static catalogs\n")
	x.run(x.node, &f, puppetRun{What: "a file was changed just before", Environment: "production", Cached: true, Static: true, Changed: 1})
	product.Same(x, "/srv/out-production/f7", "changed under static catalogs\n")
}

// fettle runs the program, as it was built, and returns what it prints.
func (x *puppetProof) fettle(args ...string) []byte {
	x.Helper()
	cmd := exec.Command("fettle", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		x.Fatalf("fettle %s: %v\n%s%s", strings.Join(args, " "), err, &said, text)
	}
	return text
}

// write makes files of any content.
func (x *puppetProof) write(files map[string]string) {
	x.Helper()
	for name, text := range files {
		machine.WriteFile(x, "/", name, text)
	}
}

// metadata is the path by which an agent asks for that of a file of a module.
func metadata(file, environment string) string {
	return "/puppet/v3/file_metadata/" + filepath.Join("modules", file) + "?links=manage&checksum_type=sha256&source_permissions=ignore&environment=" + environment
}

// versions are those of the packages.
func versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	packages := []string{"puppetserver", "puppet-agent", "jruby", "git"}
	for _, f := range puppetFronts {
		packages = append(packages, f.pkg)
	}
	said := product.Command(t, append([]string{"dpkg-query", "-W", "-f", "${Package} ${Version}\n"}, packages...)...)
	for line := range strings.Lines(said) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = version
	}
	java := product.Command(t, "sh", "-c", "java -version 2>&1 | head -n 1")
	if words := strings.Split(java, `"`); len(words) == 3 {
		out["java"] = words[1]
	}
	return out
}
