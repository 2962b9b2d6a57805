package root

import (
	"strings"
	"time"
)

// TunedName is the name that TuneD owns on the system bus.
const TunedName = "com.redhat.tuned"

// StartTuned starts Debian's real tuned on the Root's private bus and waits until it owns its
// name. profile is its initial selection; with "" it chooses one itself. The Root's Options
// determine what it tunes: nothing, a simulated machine, or this one.
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

// TunedOnce runs Debian's real tuned without a bus: it applies the profiles and ends, leaving
// its changes behind. The test fails if tuned does.
func (r *Root) TunedOnce(profiles ...string) {
	r.t.Helper()
	// TuneD ends by itself only with daemon=0.
	r.Must("sh", "-c", `sed -i -e 's/^[# ]*daemon *=.*/daemon = 0/' /etc/tuned/tuned-main.conf &&
grep -q '^daemon = 0' /etc/tuned/tuned-main.conf`)
	out, code := r.Run("/usr/sbin/tuned", "--no-dbus", "--log", "--profile", strings.Join(profiles, " "))
	// The exit code is 0 even if the thread that tunes has died.
	if log := r.TunedLog(); code != 0 || !strings.Contains(log, "static tuning from profile") {
		r.t.Fatalf("tuned --profile %s: exit %d, profile not applied\n%s\n%s", strings.Join(profiles, " "), code, out, log)
	}
}

// TunedLog returns the log of tuned.
func (r *Root) TunedLog() string {
	out, _ := r.Run("cat", "/var/log/tuned/tuned.log")
	return out
}
