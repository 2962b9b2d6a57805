package server

import (
	"context"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
)

// HTTPD is an Apache httpd that is to hold what its log has at work at a time.
type HTTPD struct {
	wish
	MPM     string
	Threads int    // of a process, of event
	For     string // debian, redhat or satellite
	Workers int    // MaxRequestWorkers now; 0 where it is not known. Handed in
	Proxies bool   // handed in
}

// Names of httpd's files.
const (
	DebianFile = "etc/apache2/conf-available/zz-limits.conf"
	RedHatFile = "etc/httpd/conf.d/zz-limits.conf"
	HieraFile  = "etc/foreman-installer/custom-hiera.yaml"
)

// NewHTTPD is a wish with the defaults.
func NewHTTPD() *HTTPD {
	w := &HTTPD{MPM: "event", Threads: 25, For: "redhat"}
	w.inputs = append(w.common("log of httpd, with %D in its LogFormat"),
		sizing.Word(&w.MPM, "mpm", "multi-processing module; that of the httpd here where it is left out", "event", "prefork"),
		sizing.Count(&w.Threads, "threads", "ThreadsPerChild of event; that of the httpd here where it is left out", 1, 20_000),
		sizing.Word(&w.For, "for", "whose layout the file is for; this machine's where it is left out", "debian", "redhat", "satellite"))
	return w
}

// Size implements sizing.Wish.
func (w *HTTPD) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if err := w.missing(); err != nil {
		return nil, err
	}
	e, err := sizing.Of(f, "frontend-httpd", "")
	if err != nil {
		return nil, err
	}
	r := sizing.NewResult("httpd", "")
	r.Heard(w.inputs)
	w.said(r)
	figure := func(row string) float64 { return e.Number(row, "value") }
	add := func(group, name string, value any, why string, sources ...rule.Source) {
		r.Add(sizing.Value{Group: group, Name: name, Value: value, Why: why, Sources: sources})
	}
	guide := rule.Source{Document: "000", Section: "5.3.3"}
	threads := float64(w.Threads)
	least := figure("event workers")
	if w.MPM == "prefork" {
		threads, least, guide.Section = 1, figure("prefork workers"), "5.3.1"
	}
	need := w.Requests.Most * w.Headroom
	workers := math.Max(need, least)
	why := fmt.Sprintf("%.1f at work at a time x %g is %.0f", w.Requests.Most, w.Headroom, math.Ceil(need))
	if need < least {
		why += fmt.Sprintf("; httpd's own default for %s is %.0f, and idle ones cost little", w.MPM, least)
	}
	if has := float64(w.Workers); has > workers {
		workers, why = has, why+fmt.Sprintf("; it has %.0f already", has)
	}
	processes := sizing.Ceil(workers, threads)
	total := processes * int(threads)
	if total > 1_000_000 || processes > 20_000 {
		return nil, sizing.Bad("log", "%.0f requests at work at a time need %d processes of httpd, and it starts 20000 at most: share them out", w.Requests.Most, processes)
	}
	add("httpd", "ServerLimit", processes, fmt.Sprintf("x %.0f threads each; httpd starts no more processes, whatever MaxRequestWorkers says (H01)", threads), guide)
	add("httpd", "MaxRequestWorkers", total, why+", in whole processes (H02)", guide)
	text := &strings.Builder{}
	fmt.Fprintf(text, "# Written by fettle size httpd, for %.1f requests at work at a time in its log.\n", w.Requests.Most)
	fmt.Fprintf(text, "# Behind the other files, so that these are the lines that count.\nServerLimit %d\n", processes)
	if w.MPM == "event" {
		fmt.Fprintf(text, "ThreadsPerChild %.0f\n", threads)
		if limit := figure("thread limit"); threads > limit {
			add("httpd", "ThreadLimit", int(threads), fmt.Sprintf("ThreadsPerChild cannot be above it, and it is %.0f by itself", limit), guide)
			fmt.Fprintf(text, "ThreadLimit %.0f\n", threads)
		}
	}
	recycled := int(figure("connections of a process"))
	add("httpd", "MaxConnectionsPerChild", recycled, "after so many a process is replaced and gives its memory back", rule.Source{Document: "000", Section: "5.3.3"})
	fmt.Fprintf(text, "MaxRequestWorkers %d\nMaxConnectionsPerChild %d\n", total, recycled)
	// What H06 wants of a process.
	files := threads
	if w.MPM == "event" {
		files *= 3
	}
	if w.Proxies {
		files *= 2
	}
	files += 100
	r.Max(sizing.Limit{Name: "requests at work at a time", Maximum: float64(total), Wanted: sizing.Round(w.Requests.Most), Why: "the busiest moment of the log", Sources: []rule.Source{guide}})
	if w.Workers > 0 && w.Requests.Most >= 0.9*float64(w.Workers) {
		r.Note("the log is at the limit that httpd has now (%d): more may have waited outside than it shows; look again after the change", w.Workers)
	}
	if w.MPM == "prefork" {
		r.Note("prefork keeps a process for each connection that waits for its next request, which no log shows: MaxRequestWorkers holds them only as far as the headroom goes. event does not (H03)")
	}
	step := func(do, command, restarts, check string) {
		r.Steps = append(r.Steps, sizing.Step{Do: do, Command: command, Restarts: restarts, Check: check})
	}
	name, unit, test := RedHatFile, "httpd.service", "httpd -t"
	switch w.For {
	case "debian":
		name, unit, test = DebianFile, "apache2.service", "apachectl -t"
	case "satellite":
		name = HieraFile
		text.Reset()
		module := "apache::mod::" + w.MPM
		fmt.Fprintf(text, "# Written by fettle size httpd: put the keys into the file that is there.\n%s::serverlimit: %d\n", module, processes)
		if w.MPM == "event" {
			fmt.Fprintf(text, "%s::maxrequestworkers: %d\n%s::threadsperchild: %.0f\n%s::maxrequestsperchild: %d\n", module, total, module, threads, module, recycled)
		} else {
			fmt.Fprintf(text, "%s::maxclients: %d\n%s::maxrequestsperchild: %d\n", module, total, module, recycled)
		}
		r.Note("in custom-hiera.yaml these keys lock out --tuning (S44, S67): fettle size satellite says whether the installation size has them already")
	}
	checked := "httpd 2.4.71, mpm_common and " + w.MPM
	if w.For == "satellite" {
		checked = "the keys of the installer's modules"
	}
	r.Files = append(r.Files, sizing.Artefact{Name: name, What: "how many requests httpd takes at a time", Checked: checked, Content: text.String()})
	limit, threadsAnd := figure("open files"), fmt.Sprintf("%.0f threads, with what event keeps open beside them and behind a proxy", threads)
	if w.For == "debian" {
		limit = figure("open files on Debian")
	}
	switch {
	case files <= limit:
	case w.For == "debian": // its script does not heed the unit
		call := fmt.Sprintf("ulimit -n %.0f", files)
		add("httpd", "APACHE_ULIMIT_MAX_FILES", call, fmt.Sprintf("%s; %.0f are what apache2ctl sets by itself, whatever the unit says (H06)", threadsAnd, limit), rule.Source{Document: "000", Section: "5.3.2"})
		step("Set it in /etc/apache2/envvars", fmt.Sprintf(`fettle tune --set "httpd:APACHE_ULIMIT_MAX_FILES=%s"`, call), unit, "")
	default:
		add("unit", "LimitNOFILE", int(files), fmt.Sprintf("%s; %.0f are what a service has by itself (H06)", threadsAnd, limit), rule.Source{Document: "000", Section: "5.3.2"})
		drop := "etc/systemd/system/" + unit + ".d/limits.conf"
		r.Files = append(r.Files, sizing.Artefact{Name: drop, What: "the files that httpd may open", Checked: "systemd.exec(5)", Content: fmt.Sprintf("# Written by fettle size httpd.\n[Service]\nLimitNOFILE=%.0f\n", files)})
		step("Put the drop-in of the unit in place", "systemctl daemon-reload", "", "")
	}
	switch w.For {
	case "satellite":
		step("Put the keys into /"+HieraFile+" and run the installer", "satellite-installer", "all of Satellite", "satellite-maintain health check")
	case "debian":
		step("Put the file in place and turn it on: ServerLimit wants a restart", "a2enconf zz-limits && "+test+" && systemctl restart "+unit, unit, "fettle check httpd has nothing against it (H01, H02, H06)")
	default:
		step("Put the file in place: ServerLimit wants a restart", test+" && systemctl restart "+unit, unit, "fettle check httpd has nothing against it (H01, H02, H06)")
	}
	if w.For != "satellite" {
		step("Or have fettle set them, with a way back", fmt.Sprintf("fettle tune --set httpd:ServerLimit=%d --set httpd:MaxRequestWorkers=%d", processes, total), unit, "fettle status")
	}
	return r, e.Err()
}
