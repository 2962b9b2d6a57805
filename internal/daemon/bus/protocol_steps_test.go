package bus

import (
	"strings"

	"fettle.dev/fettle/internal/daemon"
)

// steps are what both daemons are asked, in this order. Names are unique.
var steps = []step{
	// How it stands at the start: balanced was preset.
	adm("active"),
	adm("profile_mode"),
	interfaces(Path),
	interfaces("/"),
	adm("list"),
	adm("list", "profiles"),
	adm("list", "plugins"),
	adm("list", "plugins", "-v"),
	adm("profile_info"),
	adm("profile_info", "throughput-performance"),
	adm("profile_info", "nonexistent"),
	adm("profile_info", "broken"),
	adm("recommend"),

	// Switching.
	forget,
	adm("profile", "latency-performance"),
	signals("latency-performance", 1),
	named(adm("active"), "latency-performance"),
	file("latency-performance", "/etc/tuned/active_profile"),
	file("latency-performance", "/etc/tuned/profile_mode"),
	adm("verify"),
	adm("verify", "-i"),
	adm("profile", "virtual-guest", "optimize-serial-console"),
	signals("two profiles", 1),
	named(adm("active"), "two profiles"),
	file("two profiles", "/etc/tuned/active_profile"),
	named(adm("profile_info"), "two profiles"),
	adm("profile", "nonexistent"),
	named(adm("active"), "nonexistent"),
	adm("profile", "balanced", "nonexistent"),
	adm("profile", "broken"),
	adm("profile", "lost"),
	named(adm("active"), "lost"),
	file("lost", "/etc/tuned/active_profile"),
	adm("profile"),
	adm("profile", ""),
	forget2,
	adm("--async", "profile", "throughput-performance"),
	signals("--async", 1),
	named(adm("active"), "--async"),
	adm("--async", "profile", "nonexistent"),
	forget3, // of TuneD's second attempt at the old profile, which tuned-adm would take for its own
	adm("--timeout", "30", "profile", "network-throughput"),
	adm("--timeout", "0", "profile", "powersave"),
	adm("--timeout", "x", "profile", "powersave"),
	adm("--loglevel", "debug", "profile", "balanced"),
	adm("--loglevel", "loud", "profile", "balanced"),
	adm("--debug", "active"),
	adm("auto_profile"),
	named(adm("profile_mode"), "auto_profile"),
	named(adm("active"), "auto_profile"),
	file("auto_profile", "/etc/tuned/profile_mode"),
	adm("off"),
	named(adm("active"), "off"),
	named(adm("profile_mode"), "off"),
	named(adm("verify"), "off"),
	named(adm("profile_info"), "off"),
	file("off", "/etc/tuned/active_profile"),
	named(adm("off"), "again"),
	named(adm("profile", "balanced"), "after off"),
	named(adm("active"), "after off"),
	adm("nothing"),
	adm(),

	// The same over the bus, and what tuned-adm does not ask.
	call("", "active_profile"),
	call("", "post_loaded_profile"),
	call("", "profile_mode"),
	call("", "is_running"),
	call("", "profiles"),
	call("", "profiles2"),
	call("", "profile_info", ""),
	call("", "profile_info", "balanced"),
	call("", "profile_info", "../balanced"),
	call("", "profile_info", "nonexistent"),
	call("", "recommend_profile"),
	call("", "get_all_plugins"),
	call("", "get_plugin_documentation", "nonexistent"),
	call("", "get_plugin_hints", "nonexistent"),
	call("", "verify_profile"),
	call("", "verify_profile_ignore_missing"),
	call("", "log_capture_finish", "nonexistent"),
	capture("a capture", 40, 10),
	capture("a capture without limit", 10, 0),
	call("", "register_socket_signal_path", "/run/nobody-listens"),
	call("", "instance_acquire_devices", "cpu1", "nonexistent"),
	call("", "instance_acquire_devices", "nonexistent", "cpu"),
	call("to the same", "instance_acquire_devices", "cpu1", "cpu"),
	call("list of CPUs", "instance_acquire_devices", "cpulist:0-3", "cpu"),
	forget4,
	call("", "switch_profile", "latency-performance"),
	signals("switch_profile", 1),
	call("", "switch_profile", "nonexistent"),
	call("", "switch_profile", "latency-performance nonexistent"),
	call("", "switch_profile", "../../etc/tuned/balanced"),
	call("", "switch_profile", " balanced  "),
	call("blanks around", "active_profile"),
	call("", "switch_profile", "balanced balanced"),
	call("twice", "active_profile"),
	call("", "switch_profile", "balanced\n"),
	call("", "switch_profile", long),
	call("", "switch_profile", ""),
	call("none", "active_profile"),
	call("again", "switch_profile", "latency-performance"),
	forget5,
	call("", "stop"),
	call("stopped", "is_running"),
	call("stopped", "active_profile"),
	call("stopped", "verify_profile"),
	call("again", "stop"),
	call("", "start"),
	signals("start", 1),
	call("started", "is_running"),
	call("again", "start"),
	call("", "reload"),
	signals("reload", 1),
	call("reloaded", "active_profile"),
	call("stop and switch", "stop"),
	call("while stopped", "switch_profile", "balanced"),
	call("switched while stopped", "is_running"),
	call("switched while stopped", "start"),
	call("switched while stopped", "active_profile"),
	call("", "disable"),
	call("disabled", "is_running"),
	call("disabled", "start"),
	call("disabled", "active_profile"),
	call("disabled", "profile_mode"),
	call("disabled", "verify_profile"),
	call("again", "disable"),
	call("", "auto_profile"),
	call("auto_profile", "start"),
	call("auto_profile", "profile_mode"),
	call("auto_profile", "active_profile"),

	// What Cockpit's dialog does: look, choose a profile, choose "none".
	call("in the dialog", "is_running"),
	call("in the dialog", "active_profile"),
	call("in the dialog", "recommend_profile"),
	call("in the dialog", "profiles2"),
	call("in the dialog", "switch_profile", "throughput-performance"),
	call("in the dialog", "start"),
	call("chosen in the dialog", "is_running"),
	call("chosen in the dialog", "active_profile"),
	call("in the dialog", "disable"),
	call("in the dialog", "stop"),
	call("none in the dialog", "is_running"),
	call("none in the dialog", "active_profile"),
	call("after the dialog", "switch_profile", "balanced"),
	call("after the dialog", "start"),

	// Calls that are wrong.
	call("", "nothing"),
	call("", "switch_profile"),
	call("", "switch_profile", "balanced", "powersave"),
	call("", "switch_profile", int32(5)),
	call("", "log_capture_start", "40", "10"),
	call("", "active_profile", "argument"),
	objectCall(Path, "org.example.None.active_profile"),
	objectCall(Path, "active_profile"),
	objectCall(Path, "org.freedesktop.DBus.Properties.GetAll", daemon.Interface),
	objectCall(Path, "org.freedesktop.DBus.Properties.Get", daemon.Interface, "x"),
	objectCall(Path, "org.freedesktop.DBus.Peer.Ping"),
	objectCall(Path, "org.freedesktop.DBus.Peer.GetMachineId"),
	objectCall("/", daemon.Interface+".active_profile"),
	objectCall(Path, "org.freedesktop.DBus.Introspectable.active_profile"),
	objectCall("/Other", daemon.Interface+".active_profile"),

	// Over the socket.
	ask(`{"jsonrpc": "2.0", "method": "active_profile", "id": 1}`),
	ask(`{"jsonrpc": "2.0", "method": "is_running", "id": "x", "params": {}}`),
	ask(`{"jsonrpc": "2.0", "method": "profile_info", "id": 1, "params": ["balanced"]}`),
	ask(`{"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": {"profile_name": "latency-performance"}}`),
	ask(`[{"jsonrpc": "2.0", "method": "active_profile", "id": 1}, {"jsonrpc": "2.0", "method": "profile_mode", "id": 2}, {"jsonrpc": "2.0", "method": "is_running"}]`),
	ask(`{"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": ["nonexistent"]}`),
	ask(`{"jsonrpc": "2.0", "method": "nothing", "id": 1}`),
	ask(`{"jsonrpc": "2.0", "method": "switch_profile", "id": 1}`),
	ask(`{"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": ["a", "b", "c"]}`),
	ask(`{"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": {"name": "a"}}`),
	ask(`{"jsonrpc": "2.0", "method": "active_profile", "id": 1, "params": 3}`),
	ask(`{"jsonrpc": "1.0", "method": "active_profile", "id": 1}`),
	ask(`[3]`),
	ask(`{`),

	// The end, and tuned-adm without a daemon.
	named(adm("profile", "virtual-guest"), "before the end"),
	end,
	named(adm("active"), "without a daemon"),
	named(adm("profile_mode"), "without a daemon"),
	file("without a daemon", "/etc/tuned/active_profile"),
	file("without a daemon", "/etc/tuned/profile_mode"),
	named(adm("verify"), "without a daemon"),
	named(adm("off"), "without a daemon"),
}

// long is longer than TuneD takes since it checks.
var long = strings.Repeat("a", 5000)

// Steps must have names of their own.
var (
	forget2, forget3 = named(forget, "2"), named(forget, "3")
	forget4, forget5 = named(forget, "4"), named(forget, "5")
)

func named(s step, after string) step {
	s.name += " (" + after + ")"
	return s
}

// capture starts a capture, switches nothing, and ends it: what was captured is
// each daemon's own, the token's length and a second end are not.
func capture(name string, level, timeout int32) step {
	return step{name, func(c *client) string {
		var token, text string
		object := c.conn.Object(Name, Path)
		if err := object.Call(daemon.Interface+".log_capture_start", 0, level, timeout).Store(&token); err != nil {
			c.t.Error(err)
		}
		if err := object.Call(daemon.Interface+".log_capture_finish", 0, token).Store(&text); err != nil {
			c.t.Error(err)
		}
		again := c.call(Path, daemon.Interface+".log_capture_finish", token)
		if token == "" {
			return "no token, " + again
		}
		return "a token, " + again
	}}
}
