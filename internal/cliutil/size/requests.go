package size

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/puppetserver"
)

// gatherPuppet adds data from the log and the configuration of a Puppet Server.
func gatherPuppet(ctx context.Context, p *Program, h *host.Host, wish sizing.Request) error {
	w := wish.(*puppet.Request)
	w.Server.Copy = *p.Root
	if err := puppetHere(ctx, h, w); err != nil {
		return err
	}
	from, err := p.logsHost()
	if err != nil {
		return err
	}
	if access := puppetserver.LayoutOf(h).Access; len(w.Log.Paths) == 0 {
		if _, err := h.Files.Stat(access); err != nil {
			return nil //nolint:nilerr // the request asks for a log
		}
		if err := assume(wish, "log", access, "this machine"); err != nil {
			return err
		}
		from = h
	}
	log, err := p.openSizeLog(from, w.Log)
	if err != nil {
		return err
	}
	res, _, err := log.read(ctx, func([]*logformat.Format) [][]string {
		return [][]string{{"indirector"}, {"indirector", "environment", "resource"}}
	}, "", false)
	if err != nil {
		return err
	}
	out := &puppet.Traffic{Logs: w.Log.Paths, Of: map[string]puppet.Share{}, Same: map[string][]uint64{}}
	rep := res.Report("total", 1)
	out.SpanSeconds, out.Count, out.Seconds = rep.SpanS, rep.Requests, rep.All.TotalS
	out.Busiest = busiest(res, rep.All.TotalS, rep.SpanS)
	if rep.All.MaxS != nil {
		out.Longest = *rep.All.MaxS
	}
	for i := range res.Tables[0].Len() {
		if name := parts(res.Tables[0], i)[0]; name != "" {
			s := res.Tables[0].At(i)
			out.Of[name] = puppet.Share{Count: s.Count, Seconds: float64(s.Sum) / 1e6}
		}
	}
	nodes := map[string]bool{}
	for i := range res.Tables[1].Len() {
		key := parts(res.Tables[1], i)
		switch {
		case slices.Contains(puppet.AboutFiles, key[0]):
			out.Same[key[0]] = append(out.Same[key[0]], res.Tables[1].At(i).Count)
		case key[0] == "catalog":
			nodes[key[len(key)-1]] = true
		}
	}
	out.Nodes = len(nodes)
	rest, _, err := log.read(ctx, func([]*logformat.Format) [][]string { return nil }, `not (indirector in ["`+strings.Join(puppet.AboutFiles, `", "`)+`"])`, false)
	if err != nil {
		return err
	}
	out.BusiestRest = busiest(rest, rest.Report("total", 1).All.TotalS, rep.SpanS)
	w.Traffic = out
	return log.whole()
}

// puppetHere adds data from this machine's Puppet Server.
func puppetHere(ctx context.Context, h *host.Host, w *puppet.Request) error {
	m := platform.NewSubject(ctx, h, table.Kinds(h), audit.Sources())
	answer := func(input string) any { return m.Answer(input).Value }
	number := func(input string) float64 { n, _ := answer(input).(float64); return n }
	text := func(input string) string { s, _ := answer(input).(string); return s }
	layout, place := puppetserver.LayoutOf(h), puppetserver.PlacesOf(h, w.Certname)
	s := &w.Server
	s.Version = product.Upstream(text("puppetserver.version"))
	if s.Version == "" {
		if a := m.Answer("puppetserver.version"); a.Unknown != "" && !strings.Contains(a.Unknown, "not in this copy") {
			return errors.New(a.Unknown)
		}
	}
	if list, err := product.Read(h); err == nil {
		s.Enterprise = list.Versions["pe-puppetserver"] != ""
		s.RedHat = product.ByRPM(h) || list.Versions["httpd"] != ""
		s.Nginx = product.Upstream(cmp.Or(list.Versions["nginx"], list.Versions["nginx-core"]))
		s.Apache = product.Upstream(cmp.Or(list.Versions["httpd"], list.Versions["apache2-bin"], list.Versions["apache2"]))
	}
	s.Satellite = answer("satellite.version") != nil
	static := m.Answer("puppetserver.static_catalogs")
	s.Static, s.StaticAt = static.Value != false, static.At
	s.Versioned = answer("puppetserver.versioned_code") == true
	s.Interpreters = int(number("puppetserver.max_active_instances"))
	s.Heap, s.CodeCache = uint64(number("puppetserver.heap")), uint64(number("puppetserver.code_cache"))

	s.User = "puppet"
	if s.Enterprise {
		s.User = "pe-puppet"
	}
	s.Options, s.Environments, s.Data = strings.TrimPrefix(layout.Options, "/"), place.Environments, place.Data
	s.Certificate, s.Key, s.CA, s.CRL = place.Certificate, place.Key, place.CA, place.CRL
	s.OptionSet, s.JavaSet = puppetserver.WithOption, puppetserver.WithJava
	// The server rejects an option set in two of its files.
	setAt := func(key, file string) (at, in, value string) {
		if p, ok, err := puppetserver.Option(h, key, file); err == nil && ok {
			return p.String(), p.File, puppetserver.Value(p)
		}
		return "", path.Join(layout.Options, file), ""
	}
	_, options, _ := setAt("jruby-puppet.max-active-instances", "puppetserver.conf")
	s.OptionsFile = strings.TrimPrefix(options, "/")
	if b, err := h.Files.ReadFile(options); err == nil {
		s.OptionsText = string(b)
	}
	for _, key := range []string{"code-id-command", "code-content-command"} {
		if at, in, _ := setAt("versioned-code."+key, "versioned-code.conf"); at != "" && path.Base(in) != "versioned-code.conf" {
			s.CommandsAt = at
		}
	}
	at, _, believed := setAt("authorization.allow-header-cert-info", "auth.conf")
	s.HeadersAt, s.Headers = at, believed == "true"
	webserver := path.Join(layout.Options, "webserver.conf")
	b, err := h.Files.ReadFile(webserver)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		if s.Webserver, err = puppetserver.Loopback(string(b), w.Port); err != nil {
			err = errors.New(webserver + ":" + err.Error())
		}
	}
	for _, key := range []string{"host", "port", "ssl-host", "ssl-port"} {
		if at, in, _ := setAt("webserver."+key, "webserver.conf"); at != "" && in != webserver {
			err = fmt.Errorf("%s also sets %s; move that setting to webserver.conf", at, key)
		}
	}
	if err != nil {
		s.Webserver, s.WebserverNo = "", err.Error()
	}
	if s.FileRule, err = puppetserver.NotForAll(h); err != nil {
		s.FileRule = "unknown which nodes may read the files: " + err.Error()
	}
	file, java, _ := puppetserver.JavaFile(h)
	s.JavaFile, s.JavaText = strings.TrimPrefix(file, "/"), java
	return nil
}

// gatherHTTPD adds data from a log and from the machine's httpd.
func gatherHTTPD(ctx context.Context, p *Program, h *host.Host, wish sizing.Request) (err error) {
	w := wish.(*server.HTTPD)
	w.Traffic, err = p.frontendLog(ctx, w.Log)
	var cut *cutLogs
	if err != nil && !errors.As(err, &cut) {
		return err
	}
	if here := httpdHere(ctx, h, w); here != nil {
		return here
	}
	return err
}

// httpdHere adds data from the machine's httpd.
func httpdHere(ctx context.Context, h *host.Host, w *server.HTTPD) error {
	m := platform.NewSubject(ctx, h, table.Kinds(h), audit.Sources())
	if n, ok := m.Answer("httpd.requests_limit").Value.(float64); ok {
		w.Workers = int(n)
	}
	w.Proxies = m.Answer("httpd.proxies").Value == true
	if mpm, ok := m.Answer("httpd.mpm").Value.(string); ok && (mpm == "event" || mpm == "prefork") {
		if err := assume(w, "mpm", mpm, "this machine"); err != nil {
			return err
		}
	}
	if n, ok := m.Answer("httpd.threads_per_child").Value.(float64); ok && w.MPM == "event" {
		if err := assume(w, "threads", strconv.Itoa(int(n)), "this machine"); err != nil {
			return err
		}
	}
	layout := ""
	if _, err := h.Files.Stat("/etc/apache2"); err == nil {
		layout = "debian"
	}
	if m.Answer("satellite.version").Value != nil {
		layout = "satellite"
	}
	if layout == "" {
		return nil
	}
	return assume(w, "for", layout, "this machine")
}

// gatherRouter adds data from a log.
func gatherRouter(ctx context.Context, p *Program, _ *host.Host, wish sizing.Request) (err error) {
	w := wish.(*server.Router)
	w.Traffic, err = p.frontendLog(ctx, w.Log)
	return err
}

// assume sets an input that the user did not specify. from is the source of the value.
func assume(wish sizing.Request, name, value, from string) error {
	for _, in := range wish.Inputs() {
		if in.Name == name && !in.Given() {
			return in.Assume(value, from)
		}
	}
	return nil
}
