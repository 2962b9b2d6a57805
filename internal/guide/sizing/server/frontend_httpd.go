package server

import (
	"context"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// HTTPD describes an Apache httpd that handles its log's number of requests in progress.
type HTTPD struct {
	frontEnd
	MPM     string
	Threads int    // per process of event
	For     string // debian, redhat or satellite
	Workers int    // httpd forwards requests; set by the caller
	Proxies bool   // set by the caller
}

// Names of httpd's files.
const (
	DebianFile = "etc/apache2/conf-available/zz-limits.conf"
	RedHatFile = "etc/httpd/conf.d/zz-limits.conf"
	HieraFile  = "etc/foreman-installer/custom-hiera.yaml"
)

// NewHTTPD returns a request with the defaults.
func NewHTTPD() *HTTPD {
	w := &HTTPD{MPM: "event", Threads: 25, For: "redhat"}
	w.inputs = append(w.common("log of httpd, with %D in its LogFormat"),
		sizing.Word(&w.MPM, "mpm", "multi-processing module (default the module of this machine's httpd)", "event", "prefork"),
		sizing.Count(&w.Threads, "threads", "ThreadsPerChild of event (default the value of this machine's httpd)", 1, 20_000),
		sizing.Word(&w.For, "for", "layout of the configuration files (default this machine's)", "debian", "redhat", "satellite"))
	return w
}

// Size implements sizing.Request.
func (w *HTTPD) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if err := w.missing("/var/log/httpd/access_log"); err != nil {
		return nil, err
	}
	r := sizing.NewResult(f, "httpd", "")
	e := r.Newest("frontend-httpd")
	r.RecordInputs(w.inputs)
	w.summary(r)
	figure := func(row string) float64 { return e.Number(row, "value") }
	add := func(group, name string, value any, why string, sources ...rule.Source) {
		r.Add(sizing.Value{Group: group, Name: name, Value: value, Why: why, Sources: sources})
	}
	guide := rule.Cite("satellite-tuning", "5.3.3")
	threads := float64(w.Threads)
	least := figure("event workers")
	if w.MPM == "prefork" {
		threads, least, guide.Section = 1, figure("prefork workers"), "5.3.1"
	}
	need := w.Traffic.Most * w.Headroom
	workers := math.Max(need, least)
	why := text.Sprintf("%.1f in progress x %s is %.0f", w.Traffic.Most, unit.Digits(w.Headroom), math.Ceil(need))
	if need < least {
		why += text.Sprintf("; httpd's default for %s is %.0f, and idle ones cost little", w.MPM, least)
	}
	if has := float64(w.Workers); has > workers {
		workers, why = has, why+text.Sprintf("; httpd has %.0f already", has)
	}
	processes := sizing.Ceil(workers, threads)
	total := processes * int(threads)
	if total > 1_000_000 || processes > 20_000 {
		return nil, sizing.Bad("log", "%.0f requests in progress need %s of httpd, which starts 20,000 at most: use several servers", w.Traffic.Most, text.Count(processes, "process"))
	}
	add("httpd", "ServerLimit", processes, "x "+text.Count(int(threads), "thread")+" each; httpd starts no more processes, whatever MaxRequestWorkers is (H01)", guide)
	add("httpd", "MaxRequestWorkers", total, why+", in whole processes (H02)", guide)
	threadLimit := 0
	if limit := figure("thread limit"); w.MPM == "event" && threads > limit {
		threadLimit = int(threads)
		add("httpd", "ThreadLimit", threadLimit, text.Sprintf("ThreadsPerChild cannot exceed it, and its default is %.0f", limit), guide)
	}
	recycled := int(figure("connections of a process"))
	add("httpd", "MaxConnectionsPerChild", recycled, "connections after which httpd replaces a process, to free its memory", rule.Cite("satellite-tuning", "5.3.3"))
	// The open files per process, as H06 counts them.
	files := threads
	if w.MPM == "event" {
		files *= 3
	}
	if w.Proxies {
		files *= 2
	}
	files += 100
	r.Max(sizing.Limit{Name: "requests in progress", Maximum: float64(total), Wanted: sizing.Round(w.Traffic.Most), Why: "the busiest moment of the log", Sources: []rule.Source{guide}})
	full := ""
	if w.Workers > 0 && w.Traffic.Most >= 0.9*float64(w.Workers) {
		full = fmt.Sprintf("The log reaches httpd's present limit (%s): more clients may have waited than it shows", r.Headline.Count("present_max_request_workers", w.Workers, ""))
		r.Note("the log reaches httpd's present limit (%d): more clients may have waited than it shows; check again after the change", w.Workers)
	}
	if w.MPM == "prefork" {
		r.Note("prefork keeps a process for each idle connection, which no log shows; only --headroom covers these processes. The module event does not need them (H03)")
	}
	step := func(do, command, restarts, check string) {
		r.Steps = append(r.Steps, sizing.Step{Do: do, Command: command, Restarts: restarts, Check: check})
	}
	name, template, checked, unit, test := RedHatFile, "httpd.conf", "httpd 2.4.71, mpm_common and "+w.MPM, "httpd.service", "httpd -t"
	switch w.For {
	case "debian":
		name, unit, test = DebianFile, "apache2.service", "apachectl -t"
	case "satellite":
		name, template, checked = HieraFile, "custom-hiera.yaml", "the keys of the installer's modules"
		r.Note("in custom-hiera.yaml these keys override --tuning (S44, S67): size satellite shows whether the installation size has them already")
	}
	r.Files = append(r.Files, sizing.Artefact{Name: name, What: "the number of requests that httpd handles at once", Checked: checked, Content: fill(template, map[string]any{
		"InProgress": w.Traffic.Most, "Processes": processes, "Event": w.MPM == "event", "Threads": int(threads), "ThreadLimit": threadLimit, "Workers": total, "Recycled": recycled,
	})})
	limit, threadsAnd := figure("open files"), text.Sprintf("for %.0f threads, the connections that event keeps open in addition, and those behind a proxy", threads)
	if w.For == "debian" {
		limit = figure("open files on Debian")
	}
	switch {
	case files <= limit:
	case w.For == "debian": // Debian's script overrides the unit
		call := fmt.Sprintf("ulimit -n %.0f", files)
		add("httpd", "APACHE_ULIMIT_MAX_FILES", call, text.Sprintf("%s; apache2ctl sets %.0f by default, whatever the unit has (H06)", threadsAnd, limit), rule.Cite("satellite-tuning", "5.3.2"))
		step("Set it in /etc/apache2/envvars", fmt.Sprintf(`fettle tune --set "httpd:APACHE_ULIMIT_MAX_FILES=%s"`, call), unit, "")
	default:
		add("unit", "LimitNOFILE", int(files), text.Sprintf("%s; the default of a service is %.0f (H06)", threadsAnd, limit), rule.Cite("satellite-tuning", "5.3.2"))
		drop := "etc/systemd/system/" + unit + ".d/limits.conf"
		r.Files = append(r.Files, sizing.Artefact{Name: drop, What: "the files that httpd may open", Checked: "systemd.exec(5)", Content: fmt.Sprintf("# Written by fettle size httpd.\n[Service]\nLimitNOFILE=%.0f\n", files)})
		step("Put the drop-in of the unit in place", "systemctl daemon-reload", "", "")
	}
	switch w.For {
	case "satellite":
		step("Put the keys into /"+HieraFile+" and run the installer", "satellite-installer", "all of Satellite", "satellite-maintain health check")
	case "debian":
		step("Put the file in place and enable it", "a2enconf zz-limits && "+test+" && systemctl restart "+unit, unit, "fettle check httpd has no finding (H01, H02, H06)")
	default:
		step("Put the file in place", test+" && systemctl restart "+unit, unit, "fettle check httpd has no finding (H01, H02, H06)")
	}
	if w.For != "satellite" {
		step("Or let fettle set them, which can be undone", fmt.Sprintf("fettle tune --set httpd:ServerLimit=%d --set httpd:MaxRequestWorkers=%d", processes, total), unit, "fettle status")
	}
	r.Headline.Line("MaxRequestWorkers %s: %s processes of %s (%s), for %s in progress in the busiest moment", r.InHeadline("httpd", "MaxRequestWorkers"), r.InHeadline("httpd", "ServerLimit"), text.Count(int(threads), "thread"), w.MPM, r.InHeadline("log", "at_work"))
	w.caveats(r, full)
	r.First("httpd/*", "unit/*", "log/*")
	return r, r.Err()
}
