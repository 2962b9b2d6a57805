package satellite

import (
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// installed maps Hiera keys to inputs. The keys are from puppetlabs-apache, puppet-foreman,
// puppet-qpid and puppet-foreman_proxy. Inputs about PostgreSQL have the option's name.
var installed = map[string]string{
	"apache::mod::event::maxrequestworkers":           "satellite.httpd_max_request_workers",
	"apache::mod::event::serverlimit":                 "satellite.httpd_server_limit",
	"apache::mod::event::startservers":                "satellite.httpd_start_servers",
	"apache::mod::event::threadsperchild":             "satellite.httpd_threads_per_child",
	"apache::mod::event::maxrequestsperchild":         "satellite.httpd_requests_per_child",
	"apache::mod::prefork::maxrequestsperchild":       "satellite.httpd_requests_per_child",
	"apache::mod::prefork::maxclients":                "satellite.httpd_max_request_workers",
	"apache::mod::prefork::serverlimit":               "satellite.httpd_server_limit",
	"apache::mod::prefork::startservers":              "satellite.httpd_start_servers",
	"apache::mod::proxy::proxy_timeout":               "satellite.proxy_timeout",
	"foreman::keepalive":                              "satellite.httpd_keepalive",
	"foreman::keepalive_timeout":                      "satellite.httpd_keepalive_timeout",
	"foreman::max_keepalive_requests":                 "satellite.httpd_keepalive_requests",
	"foreman_proxy::plugin::dynflow::open_file_limit": "satellite.dynflow_core_open_files",
	"qpid::mgmt_pub_interval":                         "satellite.qpid_mgmt_pub_interval",
	"qpid::open_file_limit":                           "satellite.qpidd_open_files",
	"qpid::router::open_file_limit":                   "satellite.qdrouterd_open_files",
}

// Installed returns the input that a key of custom-hiera.yaml sets, and its answer after the
// installer has run with this value. input is "" if the key has no input.
func Installed(key, value string) (input string, a fact.Answer) {
	if input = installed[key]; input == "" {
		option, ok := strings.CutPrefix(key, configEntries)
		if !ok {
			return "", a
		}
		input = "satellite." + option
	}
	for _, in := range inputs() {
		if in.Name != input {
			continue
		}
		as := in.Type
		switch {
		case in.Unit == "bytes":
			as = fact.Bytes
		case input == "satellite.httpd_keepalive": // the class writes On and Off
			value = written(value)
		}
		return input, platform.Typed(value, as, customHiera)
	}
	return "", a
}
