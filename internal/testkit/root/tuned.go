package root

import (
	"strings"
	"time"
)

// TunedName is the name that TuneD owns on the system bus.
const TunedName = "com.redhat.tuned"

// StartTuned starts Debian's real tuned on the Root's private bus and waits
// until it owns its name. profile is the selection that it starts with; with
// "" it chooses by itself. What it tunes is what the Root's Options say:
// nothing, an invented machine, or this one.
func (b *Bus) StartTuned(profile string) *Daemon {
	r := b.Root
	r.t.Helper()
	argv := []string{"/usr/sbin/tuned", "--log"}
	if profile != "" {
		argv = append(argv, "--profile", profile)
	}
	d := r.Start(argv...)
	if !Eventually(time.Minute, func() bool { return !d.Running() || b.Owned(TunedName) }) || !d.Running() {
		if d.Running() {
			d.Signal("KILL")
		}
		r.t.Fatalf("tuned does not own %s\n%s\n%s", TunedName, d.Output(), r.TunedLog())
	}
	return d
}

// TunedOnce runs Debian's real tuned without a bus: it applies the profiles and
// ends, leaving its changes behind. It fails the test when tuned does.
func (r *Root) TunedOnce(profiles ...string) {
	r.t.Helper()
	// Only with daemon=0 does TuneD end by itself.
	r.Must("sh", "-c", `sed -i -e 's/^[# ]*daemon *=.*/daemon = 0/' /etc/tuned/tuned-main.conf &&
grep -q '^daemon = 0' /etc/tuned/tuned-main.conf`)
	out, code := r.Run("/usr/sbin/tuned", "--no-dbus", "--log", "--profile", strings.Join(profiles, " "))
	// It exits with 0 as well when the thread that tunes has died.
	if log := r.TunedLog(); code != 0 || !strings.Contains(log, "static tuning from profile") {
		r.t.Fatalf("tuned --profile %s: exit %d, profile not applied\n%s\n%s", strings.Join(profiles, " "), code, out, log)
	}
}

// TunedLog is what tuned has logged.
func (r *Root) TunedLog() string {
	out, _ := r.Run("cat", "/var/log/tuned/tuned.log")
	return out
}
