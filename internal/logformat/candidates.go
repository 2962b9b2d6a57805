package logformat

import (
	"slices"
	"strings"
)

// puppetApache is the LogFormat of "Puppetmaster Performance Tuning with mod_mem_cache". It
// includes the misspelled headers, whose values are always -.
const puppetApache = `%h %l %u %t "%r" %>s %b %D "%{Referer}i" "%{User-Agent}i"`

// candidate is a format that a log may have.
type candidate struct {
	name string
	text string // in the syntax of --format
	// reason is printed with the number of matching lines.
	reason string
	// guess describes the assumptions about the format that the lines do not prove. Candidates
	// without a guess are preferred.
	guess string
	// evidence judges the sampled requests by more than matching. It may be nil.
	evidence func(rows []row) verdict
}

// verdict is how well the sampled requests support a candidate.
type verdict int

const (
	against verdict = iota - 1 // the lines contradict it
	neutral
	proven // the lines have properties that no other format has
)

// apacheBases are the formats to which administrators append fields, from the configurations
// of Debian and Red Hat and httpd's documentation.
var apacheBases = []struct {
	name, format string
	evidence     func(rows []row) verdict
}{
	{"Apache's vhost_combined log", apacheNames[0].format, nil},
	{"the combined log", apacheNames[1].format, nil},
	{"the common log", ApacheCommon, nil},
	{"the combined log after the virtual host", `%v ` + apacheNames[1].format, hostNames},
	{"the common log after the virtual host", `%v ` + ApacheCommon, hostNames},
	{"the combined log with X-Forwarded-For at the end (nginx' main)", apacheNames[1].format + ` "%{X-Forwarded-For}i"`, forwarded},
	{"the combined log after the virtual host, with X-Forwarded-For at the end", `%v ` + apacheNames[1].format + ` "%{X-Forwarded-For}i"`, bothOf(hostNames, forwarded)},
	{"the combined log with X-Forwarded-For as the client", strings.Replace(apacheNames[1].format, "%h", "%{X-Forwarded-For}i", 1), forwardedLists},
	{"the common log with X-Forwarded-For as the client", strings.Replace(ApacheCommon, "%h", "%{X-Forwarded-For}i", 1), forwardedLists},
}

// combinedIO is what httpd's combinedio adds. A custom "%D %O" looks the same.
const combinedIO = " %I %O"

// anySuffix matches each of apacheSuffixes but the first, which is empty.
const anySuffix = " %{tail}n"

// apacheSuffixes are common additions. Several have one number at the same position and are
// equally likely, so a log with such a number is rejected as ambiguous.
var apacheSuffixes = []struct {
	text, name, reason string
	evidence           func(rows []row) verdict
}{
	{"", "", "", nil},
	{" %D", " and %D", "a whole number at the end", alwaysNumber},
	{" %{ms}T", " and %{ms}T", "a whole number at the end", alwaysNumber},
	{" %T", " and %T", "a whole number at the end", alwaysNumber},
	{" %I", " and %I", "a whole number at the end", byteCounts},
	{" %O", " and %O", "a whole number at the end", byteCounts},
	{` "%D"`, " and %D", "a whole number at the end", alwaysNumber},
	{` "%{ms}T"`, " and %{ms}T", "a whole number at the end", alwaysNumber},
	{` "%T"`, " and %T", "a whole number at the end", alwaysNumber},
	{combinedIO, ", %I and %O", "combinedio: the byte counts of mod_logio", byteCounts},
	{" %T %D", ", %T and %D", "the last two numbers are the same duration in seconds and in microseconds", sameDuration},
	{" %D %T", ", %D and %T", "the last two numbers are the same duration in microseconds and in seconds", sameDuration},
	{" %T/%D", ", %T and %D", "the last two numbers are the same duration in seconds and in microseconds", sameDuration},
	{" %{ms}T %D", ", %{ms}T and %D", "the last two numbers are the same duration in milliseconds and in microseconds", sameDuration},
	{" %D %I %O", ", %D, %I and %O", "three whole numbers at the end", byteCounts},
	{" %{ms}T %I %O", ", %{ms}T, %I and %O", "three whole numbers at the end", byteCounts},
	{" %T %I %O", ", %T, %I and %O", "three whole numbers at the end", byteCounts},
	{" %I %O %D", ", %I, %O and %D", "three whole numbers at the end", byteCounts},
	{" %I %O %{ms}T", ", %I, %O and %{ms}T", "three whole numbers at the end", byteCounts},
	{" %I %O %T", ", %I, %O and %T", "three whole numbers at the end", byteCounts},
	{" %I %O %T %D", ", %I, %O, %T and %D", "four whole numbers at the end", bothOf(byteCounts, sameDuration)},
}

// productCandidates are the formats of specific products.
var productCandidates = []candidate{
	{"HAProxy's HTTP log", "haproxy", "option httplog; times in milliseconds", "", nil},
	{"HAProxy's HTTP log in CLF", "haproxy-clf", "option httplog clf; times in milliseconds", "", nil},
	{"HAProxy's HTTP log in CLF", "haproxy:" + haproxyCLFBare, "option httplog clf; times in milliseconds", "", nil},
	{"HAProxy's HTTPS log", "haproxy-https", "option httpslog; times in milliseconds", "", nil},
	{"HAProxy's TCP log", "haproxy-tcp", "option tcplog; times in milliseconds", "", nil},
	{"Puppet Server's access log", "puppetserver", "as in its request-logging.xml, where %D is in milliseconds", "", puppetPaths},
	{"PuppetDB's access log", "puppetdb", "as in its request-logging.xml, where %D is in milliseconds", "", puppetDBPaths},
	{"Puppet Server's own log", "puppet-log", "durations in seconds, as its lines state", "", nil},
	{"Foreman's production.log", "foreman", "durations in ms, as its lines state", "", nil},
	{"Rails' log", "rails", "durations in ms, as its lines state", "", nil},
	{"foreman-proxy's proxy.log", "foreman-proxy", "durations in ms, as its lines state", "", nil},
	{"Puma's access log", "puma", "seconds with four digits at the end, as Rack::CommonLogger writes them", "", fourDigits},
	{"the log of ingress-nginx", "ingress-nginx", "the default log-format-upstream; $request_time in seconds", "", nil},
	{"Traefik's common log", "traefik", "durations in ms, as its lines state", "", nil},
	{"Envoy's access log", "envoy", "the default format; %DURATION% in milliseconds", "", nil},
	{"Istio's access log", "istio", "the default format; %DURATION% in milliseconds", "", nil},
	{"the access log of an AWS Application Load Balancer", "aws-alb", "the duration is the sum of the three processing times, in seconds", "", nil},
	{"the access log of an AWS Network Load Balancer", "aws-nlb", "one line per connection; times in milliseconds", "", nil},
	{"the access log of an AWS Classic Load Balancer", "aws-elb", "the duration is the sum of the three processing times, in seconds", "", nil},
	{"Pulp's access log", "apache:" + pulp, "as Pulp configures gunicorn", "", nil},
	{"Red Hat's ssl_request_log", "apache:" + sslRequest, "as in its ssl.conf", "", nil},
	{"Apache with %D, Puppet URLs", "puppet-apache", "a number between bytes and referer", "that the number is Apache's %D", nil},
}

// sslRequest is the CustomLog format in ssl.conf of Red Hat's mod_ssl and in httpd-ssl.conf of
// httpd.
const sslRequest = `%t %h %{SSL_PROTOCOL}x %{SSL_CIPHER}x "%r" %b`

// pulp is the format of Pulp's --access-logformat for gunicorn (pulpcore,
// pulpcore/app/entrypoint.py; pulp_installer, pulpcore-api.service), translated to an equal format
// in httpd's syntax.
var pulp = `pulp [%{correlation-id}o]: ` + apacheNames[1].format

// candidates returns the formats to try on lines, or all formats if lines is nil. If several
// formats read every line the same way, the first one determines the name.
func candidates(lines [][]byte) []candidate {
	list := slices.Clip(productCandidates)
	for _, base := range apacheBases {
		// Compiling the suffixes of bases that do not fit would take most of the detection.
		if lines != nil && !readsAny("apache:"+base.format, lines) && !readsAny("apache:"+base.format+anySuffix, lines) {
			continue
		}
		for _, tail := range apacheSuffixes {
			guess := ""
			if tail.text == combinedIO {
				guess = "that the two numbers are the byte counts of mod_logio, %I and %O"
			}
			list = append(list, candidate{base.name + tail.name, "apache:" + base.format + tail.text, tail.reason, guess, bothOf(base.evidence, tail.evidence)})
		}
	}
	return list
}

// Named maps the names of predefined formats to their constructors.
var Named = map[string]func() (*Format, error){
	"combined":       func() (*Format, error) { return Apache(apacheNames[1].format) },
	"common":         func() (*Format, error) { return Apache(apacheNames[2].format) },
	"vhost_combined": func() (*Format, error) { return Apache(apacheNames[0].format) },
	"puppet-apache":  func() (*Format, error) { return Apache(puppetApache) },
	"nginx-main":     func() (*Format, error) { return Nginx(nginxMain) },
	"ingress-nginx":  func() (*Format, error) { return Nginx(ingressNginx) },
	"haproxy":        func() (*Format, error) { return HAProxy(haproxyHTTP) },
	"haproxy-clf":    func() (*Format, error) { return HAProxy(haproxyCLF) },
	"haproxy-https":  func() (*Format, error) { return HAProxy(HAProxyFormats["httpslog"]) },
	"haproxy-tcp":    func() (*Format, error) { return HAProxy(haproxyTCP) },
	"puppetserver":   func() (*Format, error) { return Logback(puppetServer) },
	"puppetdb":       func() (*Format, error) { return Logback(puppetDB) },
	"puppet-log":     func() (*Format, error) { return puppetLog(), nil },
	"foreman":        func() (*Format, error) { return foreman(), nil },
	"rails":          func() (*Format, error) { return rails(), nil },
	"foreman-proxy":  func() (*Format, error) { return foremanProxy(), nil },
	"puma":           puma,
	"traefik":        traefik,
	"envoy":          func() (*Format, error) { return Envoy(envoyDefault) },
	"istio":          func() (*Format, error) { return Envoy(istioDefault) },
	"aws-alb":        alb,
	"aws-nlb":        nlb,
	"aws-elb":        elb,
	"pulp":           func() (*Format, error) { return Apache(pulp) },
}
