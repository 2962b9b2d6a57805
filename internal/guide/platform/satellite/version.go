package satellite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
)

// satelliteProduct is the installed Satellite or Capsule.
type satelliteProduct struct {
	role    string // server, capsule or ""
	version string // Satellite's version
	foreman string
	derived bool // version was derived from foreman
	at      string
	unknown string
}

// release is a Satellite and the Foreman that it is based on.
type release struct{ satellite, foreman string }

// releases maps Satellite releases to Foreman's, newest first.
var releases = []release{
	{"6.18", "3.16"}, {"6.17", "3.14"}, {"6.16", "3.12"}, {"6.15", "3.9"}, {"6.14", "3.7"}, {"6.13", "3.5"},
	{"6.12", "3.3"}, {"6.11", "3.1"}, {"6.10", "2.5"}, {"6.9", "2.3"}, {"6.8", "2.1"}, {"6.7", "1.24"},
}

// minor returns the first two parts of a version as one number that can be compared.
func minor(version string) (n int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 0, false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(strings.TrimRightFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' }))
	return a*1000 + b, err1 == nil && err2 == nil && a < 1000 && b < 1000 && a >= 0 && b >= 0
}

// satelliteOf returns the Satellite release for a Foreman release, or for the last earlier one in
// the table.
func satelliteOf(foreman string) string {
	n, ok := minor(foreman)
	for _, r := range releases {
		if from, _ := minor(r.foreman); ok && n >= from {
			return r.satellite
		}
	}
	return ""
}

func foremanOf(satellite string) string {
	n, ok := minor(satellite)
	for _, r := range releases {
		if from, _ := minor(r.satellite); ok && n >= from {
			return r.foreman
		}
	}
	return ""
}

// release answers with the installed Satellite release, or with Foreman's if Satellite's packages
// are missing.
func (s *satellite) release() fact.Answer {
	return s.ofRelease(func(p *satelliteProduct) any {
		if p.derived {
			return "Foreman " + p.foreman
		}
		return "Satellite " + p.version
	})
}

// judgedAs answers with the Satellite release whose tables apply: the last known one up to the
// installed release, else the first.
func (s *satellite) judgedAs() fact.Answer {
	return s.ofRelease(func(p *satelliteProduct) any {
		n, _ := minor(p.version)
		for _, r := range releases {
			if is, _ := minor(r.satellite); is <= n {
				return "Satellite " + r.satellite
			}
		}
		return "Satellite " + releases[len(releases)-1].satellite
	})
}

// releaseKnown answers whether the tables cover the installed release.
func (s *satellite) releaseKnown() fact.Answer {
	return s.ofRelease(func(p *satelliteProduct) any {
		n, ok := minor(p.version)
		return ok && !p.later() && slices.ContainsFunc(releases, func(r release) bool { is, _ := minor(r.satellite); return is == n })
	})
}

func (s *satellite) ofRelease(of func(*satelliteProduct) any) fact.Answer {
	a := s.version()
	if a.Value != nil {
		a.Value = of(s.find())
	}
	return a
}

// later reports whether Foreman is newer than the Foreman of the newest known Satellite.
func (p *satelliteProduct) later() bool {
	n, ok := minor(p.foreman)
	newest, _ := minor(releases[0].foreman)
	return ok && p.derived && n > newest
}

// find determines the product from the package list, or else from the files of Foreman and its
// installer.
func (s *satellite) find() *satelliteProduct {
	if s.product != nil {
		return s.product
	}
	p := &satelliteProduct{}
	s.product = p
	if product.ByRPM(s.host) && s.signless() {
		return p
	}
	all, err := product.Read(s.host)
	if err != nil {
		s.findByFiles(p, err.Error())
		return p
	}
	p.at = all.At
	switch {
	case all.Versions["satellite"] != "":
		p.role, p.version = "server", all.Versions["satellite"]
	case all.Versions["satellite-capsule"] != "":
		p.role, p.version = "capsule", all.Versions["satellite-capsule"]
	case all.Versions["katello"] != "":
		p.role = "server"
	case all.Versions["foreman-proxy-content"] != "":
		p.role = "capsule"
	case all.Cut:
		s.findByFiles(p, all.Lacks("satellite"))
		return p
	default:
		return p
	}
	p.foreman = all.Versions["foreman"]
	if p.foreman == "" {
		p.foreman = all.Versions["foreman-proxy"]
	}
	p.complete()
	return p
}

// signless reports whether the machine lacks all directories of a Foreman or Capsule. Its packages
// then need not be read.
func (s *satellite) signless() bool {
	for _, dir := range []string{"/etc/foreman", "/etc/foreman-proxy", "/etc/foreman-installer", "/usr/share/foreman", "/usr/share/foreman-proxy"} {
		if _, err := s.host.Files.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// complete derives one version from the other.
func (p *satelliteProduct) complete() {
	if p.foreman == "" {
		p.foreman = foremanOf(p.version)
	}
	if p.version == "" {
		p.version, p.derived = satelliteOf(p.foreman), true
	}
	if p.version == "" || p.foreman == "" {
		p.unknown = fmt.Sprintf("%s names a version of Satellite or Foreman that fettle does not know", p.at)
	}
}

// findByFiles is find for a machine without a readable package list.
func (s *satellite) findByFiles(p *satelliteProduct, unknown string) {
	version := s.read("/usr/share/foreman/VERSION")
	scenario, f := s.scenario()
	switch {
	case version.exists && scenario != "foreman":
		p.role, p.foreman, p.at = "server", strings.TrimSpace(version.text), version.path
		p.complete()
	case scenario == "satellite" || scenario == "katello":
		p.role = "server"
		p.unknown = "version of Satellite unknown: " + cmp.Or(version.unknown, version.path+" is missing")
	case scenario == "capsule" || scenario == "foreman-proxy-content":
		proxy := s.read("/usr/share/foreman-proxy/VERSION")
		p.role = "capsule"
		if !proxy.exists {
			p.unknown = "version of the Capsule unknown: " + cmp.Or(unknown, proxy.unknown, proxy.path+" is missing")
			return
		}
		p.foreman, p.at = strings.TrimSpace(proxy.text), proxy.path
		p.complete()
	case f.unknown != "":
		p.unknown = f.unknown
	}
	if p.unknown == "" && p.role == "" && version.unknown != "" && scenario == "" {
		p.unknown = version.unknown
	}
}

func (s *satellite) version() fact.Answer {
	p := s.find()
	switch {
	case p.unknown != "":
		return fact.Answer{Unknown: p.unknown, At: p.at}
	case p.role == "":
		return fact.Answer{At: p.at}
	}
	return fact.Answer{Value: p.version, At: p.at}
}

func (s *satellite) foremanVersion() fact.Answer {
	a := s.version()
	if a.Value != nil {
		a.Value = s.find().foreman
	}
	return a
}

func (s *satellite) role() fact.Answer {
	a := s.version()
	if a.Value != nil {
		a.Value = s.find().role
	}
	return a
}

// hosts answers with the number of registered hosts in satellite-maintain's report.
func (s *satellite) hosts() fact.Answer {
	const report = "/var/lib/foreman-maintain/satellite_metrics.yml"
	e, f := s.yaml(report)
	for _, key := range []string{"hosts_by_type_count|Managed", "foreman.hosts_by_type_count|Managed"} {
		if _, ok := e[key]; ok {
			return value(e, f, key, fact.Number)
		}
	}
	return fact.Answer{Unknown: cmp.Or(f.unknown, "number of registered hosts unknown (no usage report of satellite-maintain: "+report+")"), At: report}
}

func (s *satellite) capsuleHosts() fact.Answer {
	if a := s.role(); a.Unknown != "" || a.Value != "capsule" {
		return fact.Answer{Unknown: a.Unknown, At: a.At}
	}
	return s.hosts()
}

func (s *satellite) mqttHosts() fact.Answer {
	if a := remoteExecution(":mode")(s); a.Unknown != "" || a.Value != "pull-mqtt" {
		return fact.Answer{Unknown: a.Unknown, At: a.At}
	}
	return s.hosts()
}

// scenario returns the installer's last scenario: "satellite", "capsule", "katello",
// "foreman-proxy-content", "foreman", or "".
func (s *satellite) scenario() (name string, f file) {
	const dir = "/etc/foreman-installer/scenarios.d"
	const last = dir + "/last_scenario.yaml"
	to, err := s.host.Files.Readlink(last)
	if err == nil {
		p := within(dir, to)
		return strings.TrimSuffix(path.Base(p), ".yaml"), s.read(p)
	}
	// Some copies have the target's content instead of the link.
	if f = s.read(last); f.exists {
		e, _ := entries(f.text)
		answers := strings.TrimSuffix(path.Base(e[":answer_file"].text), "-answers.yaml")
		return answers, f
	}
	for _, name := range []string{"satellite", "capsule", "katello", "foreman-proxy-content", "foreman"} {
		if f := s.read(dir + "/" + name + ".yaml"); f.exists {
			if _, err := s.host.Files.Stat(dir + "/" + name + "-answers.yaml"); err == nil {
				return name, f
			}
		}
	}
	return "", file{path: last, unknown: s.why(last, err)}
}
