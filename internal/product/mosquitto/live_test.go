package mosquitto

import (
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// Debian's mosquitto: what it says of itself is what mosquitto_sub hears, values
// are taken by a reload and by a restart that keeps what it keeps for its clients,
// and given back; what it could not live with is rolled back.
func TestServer(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	for _, dir := range []string{"/run/mosquitto", "/var/log/mosquitto"} {
		product.Command(t, "install", "-d", "-o", "mosquitto", dir)
	}
	product.Command(t, "mosquitto", "-c", mainFile, "-d")
	b := product.New(t, Product)
	t.Cleanup(func() {
		if p := b.Installed().(*installed).Run.Main.PID; p > 0 {
			product.Command(t, "kill", "-9", strconv.Itoa(p))
		}
	})
	var i *installed
	product.Eventually(t, "mosquitto answers", func() bool {
		i = b.Installed().(*installed)
		return i.ReportErr == nil && i.Report.Sys["$SYS/broker/clients/connected"] != ""
	})
	for _, in := range inputs {
		if a := i.Answer(in.Name); a.Value == nil && in.Name != "connections_limit" {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	const topic = "$SYS/broker/version"
	if got := product.Command(t, "mosquitto_sub", "-t", topic, "-C", "1", "-W", "60"); got != i.Report.Sys[topic] || !strings.HasSuffix(got, i.Answer("version").Value.(string)) {
		t.Errorf("%s is %q, mosquitto_sub hears %q", topic, i.Report.Sys[topic], got)
	}
	for _, option := range []string{"max_inflight_messages", "max_packet_size", "max_keepalive"} {
		b.Running(option, parameters.Named(option).Default)
	}
	archive := b.Archived()
	if got, want := archive.Answer("open_files_limit").Value, i.Answer("open_files_limit").Value; got != want {
		t.Errorf("the archive says %v, want %v", got, want)
	}
	if got := archive.Option("max_inflight_messages").Running; got.Or("") != "20" {
		t.Errorf("the archive says %+v", got)
	}

	before, pid := product.Read(t, mainFile), i.Run.Main.PID
	long := strings.Repeat("x", 2000)
	if !delivered(t, long) {
		t.Error("a packet of 2000 bytes is not accepted")
	}
	b.Running("persistence", "true")
	b.Set([]string{"reload of mosquitto " + mainFile}, "autosave_interval", "60", "persistent_client_expiration", "14d")
	if got := b.Installed().(*installed).Run.Main.PID; got != pid {
		t.Errorf("process %d, was %d", got, pid)
	}
	// What it keeps for its clients it keeps over a restart.
	b.Set([]string{"restart of mosquitto " + mainFile}, "max_connections", "500", "max_packet_size", "1000", "max_inflight_messages", "50", "max_queued_messages", "300")
	i = b.Installed().(*installed)
	if i.Run.Main.PID == pid || i.Answer("connections_limit").Value != 500.0 {
		t.Errorf("process %d, was %d; %+v", i.Run.Main.PID, pid, i.Answer("connections_limit"))
	}
	for option, want := range map[string]string{"max_connections": "500", "max_packet_size": "1000", "max_inflight_messages": "50", "max_queued_messages": "300"} {
		b.Running(option, want)
	}
	if delivered(t, long+"y") || kept(t) != long {
		t.Error("a packet of 2001 bytes is accepted, or the retained message is lost")
	}
	b.Undo()
	product.Same(t, mainFile, before)
	b.Running("max_packet_size", "0")
	if !delivered(t, long+"y") {
		t.Error("after undo a packet of 2001 bytes is not accepted")
	}

	// A broker that may use no memory does not start.
	b.Refused("has ended again", "memory_limit", "1000")
	b.Refused("want true or false", "persistence", "maybe")
	b.Refused("not a tuning option", "pid_file", "/x")
	product.Same(t, mainFile, before)
	if kept(t) != long+"y" {
		t.Error("after the roll-back it does not keep what it kept")
	}
}

// delivered publishes a message that is to be kept, and says whether it was.
func delivered(t *testing.T, message string) bool {
	t.Helper()
	out := product.Command(t, "/bin/sh", "-c", `mosquitto_pub -t fettle -r -q 1 -m "$1" 2>&1; echo "exit $?"`, "sh", message)
	return strings.HasSuffix(out, "exit 0") && kept(t) == message
}

// kept is the message that the broker keeps, or "".
func kept(t *testing.T) string {
	t.Helper()
	return product.Command(t, "/bin/sh", "-c", `mosquitto_sub -t fettle -C 1 -W 60 || true`)
}
