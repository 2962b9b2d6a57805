package bus

import (
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/testkit/root"
)

// installed are our files as a package installs them.
func installed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for target, source := range map[string]string{
		"/usr/share/polkit-1/actions/com.redhat.tuned.policy": "packaging/polkit/com.redhat.tuned.policy",
		"/usr/share/dbus-1/system.d/com.redhat.tuned.conf":    "packaging/dbus/com.redhat.tuned.conf",
	} {
		data, err := os.ReadFile(filepath.Join(root.Module(t), source))
		if err != nil {
			t.Fatal(err)
		}
		files[target] = string(data)
	}
	return files
}

// TestPolicyIsTheTable compares the actions that are installed with the methods.
func TestPolicyIsTheTable(t *testing.T) {
	var policy struct {
		Actions []struct {
			ID          string `xml:"id,attr"`
			Description string `xml:"description"`
			Message     string `xml:"message"`
			Any         string `xml:"defaults>allow_any"`
			Inactive    string `xml:"defaults>allow_inactive"`
			Active      string `xml:"defaults>allow_active"`
		} `xml:"action"`
	}
	text := installed(t)["/usr/share/polkit-1/actions/com.redhat.tuned.policy"]
	if err := xml.Unmarshal([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	defaults := map[daemon.Access]string{
		daemon.Everybody: "yes yes yes", daemon.ActiveSession: "auth_admin auth_admin yes",
		daemon.Administrator: "auth_admin auth_admin auth_admin",
	}
	got := map[string]string{}
	for _, a := range policy.Actions {
		got[a.ID] = strings.Join([]string{a.Any, a.Inactive, a.Active}, " ")
		if a.Description == "" || a.Message == "" {
			t.Errorf("%s has no words for a person", a.ID)
		}
	}
	for _, m := range daemon.All {
		id := daemon.Namespace + "." + m.Name
		if got[id] != defaults[m.Access] {
			t.Errorf("%s: %q, want %q", id, got[id], defaults[m.Access])
		}
		delete(got, id)
	}
	if len(got) > 0 {
		t.Errorf("actions without a method: %v", got)
	}
}

// TestPolkitJudges asks the real polkit with our policy installed, as root and
// as a user without a session and without an administrator's password.
func TestPolkitJudges(t *testing.T) {
	r := root.New(t, root.Options{Files: installed(t)})
	if err := os.Chmod(r.Share(), 0o755); err != nil {
		t.Fatal(err)
	}
	b := r.StartBus()
	polkit := r.Start("/usr/lib/polkit-1/polkitd")
	if !root.Eventually(time.Minute, func() bool { return b.Owned("org.freedesktop.PolicyKit1") || !polkit.Running() }) || !polkit.Running() {
		t.Fatalf("polkit does not run: %s", polkit.Output())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := asked{changed: make(chan daemon.ProfileChanged)}
	s, err := Serve(ctx, Options{Target: daemon.Target{Control: c}, Address: b.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); s.Wait() })
	for _, c := range []struct{ user, method, argument, want string }{
		{"65534", "active_profile", "", "balanced"},
		{"65534", "is_running", "", "boolean true"},
		{"65534", "switch_profile", "string:x", "struct { boolean false Unauthorized }"},
		{"65534", "get_all_plugins", "", "array [ ]"},
		{"65534", "register_socket_signal_path", "string:/x", "boolean false"},
		{"0", "active_profile", "", "balanced"},
		{"0", "switch_profile", "string:x", "struct { boolean true <x> }"},
		{"0", "instance_get_devices", "string:x\n", "struct { boolean false Invalid instance_name array [ ] }"},
	} {
		argv := []string{"setpriv", "--reuid=" + c.user, "--regid=" + c.user, "--clear-groups",
			"dbus-send", "--bus=" + b.Address, "--print-reply=literal", "--dest=" + Name, string(Path), daemon.Interface + "." + c.method}
		if c.argument != "" {
			argv = append(argv, c.argument)
		}
		out, _ := r.Run(argv...)
		if got := strings.Join(strings.Fields(out), " "); got != c.want {
			t.Errorf("user %s, %s %s: %q, want %q", c.user, c.method, c.argument, got, c.want)
		}
	}
}
