package mosquitto

import (
	"fmt"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// parameters are the options that rules use, with the defaults of mosquitto 1.6 to 2.0
// (mosquitto.conf(5)). max_connections is the default listener's.
var parameters = product.Parameters{
	product.Count("max_queued_messages", "1000", "messages queued for one client in addition to those in flight; 0 means unlimited"),
	size("max_queued_bytes", "0", "bytes that are kept for one client beyond those in flight; 0 means unlimited"),
	product.Count("max_inflight_messages", "20", "unacknowledged messages of QoS 1 and 2 per client; 0 means unlimited"),
	size("max_inflight_bytes", "0", "bytes that are on their way to one client; 0 means unlimited"),
	size("max_packet_size", "0", "largest packet that a client may send; 0 means unlimited"),
	size("memory_limit", "0", "memory use above which messages are refused; 0 means unlimited"),
	seconds("max_keepalive", "65535", "longest keepalive time that a client may request (MQTT 5)"),
	{Name: "max_connections", Type: fact.Number, Read: readLimit, Default: "-1", Doc: "clients of the default listener; -1 means unlimited"},
	{Name: "persistent_client_expiration", Type: fact.Text, Read: readExpiration, Doc: "time after which a disconnected persistent client is removed, such as 14d; never when unset"},
	truth("persistence", "false", "whether messages and subscriptions survive a restart"),
	seconds("autosave_interval", "1800", "time between two saves to the disk; 0 saves only at the end"),
	truth("queue_qos0_messages", "false", "whether messages of quality 0 are kept for disconnected clients"),
	truth("set_tcp_nodelay", "false", "whether small packets are sent at once"),
	seconds("sys_interval", "10", "time between two updates of $SYS; 0 is never"),
}

var (
	truth   = product.Switch("true", "false")
	size    = product.Of(fact.Number, "bytes", product.ReadCount)
	seconds = product.Of(fact.Number, "s", product.ReadCount)
)

// readLimit parses a number; -1 means no limit.
func readLimit(text string) (any, error) {
	if text == "-1" {
		return -1.0, nil
	}
	return product.ReadCount(text)
}

// readExpiration parses a number of hours, days, weeks, months or years, to seconds.
func readExpiration(text string) (any, error) {
	if len(text) > 1 {
		if n, err := strconv.ParseUint(text[:len(text)-1], 10, 20); err == nil && n > 0 && slices.Contains([]byte("hdwmy"), text[len(text)-1]) {
			return text, nil
		}
	}
	return nil, fmt.Errorf("%q is not a mosquitto time; want one such as 12h, 14d, 2w, 6m or 1y", text)
}

// needsRestart reports whether an option of the broker or a listener takes effect only at a
// restart.
func needsRestart(key string) bool {
	_, option := conf.SplitKey(key)
	return slices.Contains(atStart, option)
}

// atStart are the options that a reload does not change. The manual lists only max_connections; a
// reload reads the others but does not copy them (src/conf.c of 2.0, config__copy). memory_limit
// cannot be removed by a reload.
var atStart = []string{
	"max_connections", "max_queued_messages", "max_queued_bytes", "max_inflight_messages", "max_inflight_bytes", "max_packet_size", "max_keepalive",
	"memory_limit", "set_tcp_nodelay",
}

// check returns an error for options that fettle does not set, and for invalid values.
func check(key, value string) error {
	_, option := conf.SplitKey(key)
	p := parameters.Named(option)
	if err := p.Check("mosquitto", value); err != nil {
		return err
	}
	v, err := p.Read(value)
	if n, ok := v.(float64); ok && option == "max_packet_size" && n > 0 && n < 20 {
		return fmt.Errorf("max_packet_size %s: mosquitto's minimum is 20", value)
	}
	return err
}
