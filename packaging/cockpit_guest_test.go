package packaging

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/browser"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestCockpitGuest installs the packages on a machine with systemd and Cockpit, logs in as root and
// as a user without rights, does each action of the page, and cuts the network in a trial.
func TestCockpitGuest(t *testing.T) {
	root.Nightly(t, "boots a virtual machine for a web page")
	dir := build(t, "v1.0.0", "PACKAGES=fettle cockpit-fettle")
	const port, password = 9090, "open for the test"
	vm := testkitvm.Boot(t, testkitvm.Options{Forward: []int{port}})
	vm.Must("systemctl disable --now tuned 2>/dev/null; rm -f /etc/tuned/active_profile; mkdir -p /root/packages")
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(packages) != 2 {
		t.Fatal(packages, err)
	}
	for _, p := range packages {
		vm.Put(p, "/root/packages/"+filepath.Base(p))
	}
	vm.Must("dpkg -i /root/packages/*.deb")
	vm.Write("/etc/sysctl.d/90-site.conf", "kernel.pid_max = 99999\n")
	vm.Write("/etc/cockpit/cockpit.conf", "[WebService]\nAllowUnencrypted = true\n\n[Basic]\ntimeout = 600\n")
	vm.Must("rm -f /etc/cockpit/disallowed-users; useradd --create-home --shell /bin/bash alice; printf 'root:%s\\nalice:%s\\n' '" + password + "' '" + password + "' | chpasswd; systemctl restart cockpit.socket")

	c := &cockpit{
		run: func(t *testing.T, command string) {
			t.Helper()
			vm.Must(command)
		},
		read: func(t *testing.T, name string) string {
			t.Helper()
			return strings.TrimSpace(vm.Read("/proc/sys/" + name))
		},
		trial: 45 * time.Second, patience: 3 * time.Minute,
	}
	// login opens the page in the shell of Cockpit, and then without it.
	login := func(t *testing.T, user string) *tab {
		t.Helper()
		b := browser.New(t)
		b.Open("http://" + vm.Address(port) + "/fettle")
		b.Wait("the login page", `document.querySelector("#login-user-input") !== null`)
		// The form is there before its script: try until it is gone.
		b.Wait("that "+user+" has logged in", fmt.Sprintf(`(() => {
			const user = document.querySelector("#login-user-input"), button = document.querySelector("#login-button");
			if (!user) return document.querySelector("iframe") !== null;
			if (!button.disabled) {
				user.value = %q;
				document.querySelector("#login-password-input").value = %q;
				button.click();
			}
			return false;
		})()`, user, password))
		b.Wait("the page in Cockpit's shell", `[...document.querySelectorAll("iframe")].some(f => f.contentDocument?.querySelector("#page #profile"))`)
		b.Wait("the menu", `document.querySelector("#host-apps").innerText.includes("Tuning")`)
		tab := &tab{b, t, "http://" + vm.Address(port) + pagePath, c.patience}
		tab.keep("shell-" + user)
		tab.load()
		return tab
	}

	t.Run("administrator", func(t *testing.T) {
		c.administrator(t, func(t *testing.T) *tab { return login(t, "root") })
	})
	t.Run("limited", func(t *testing.T) {
		c.limited(t, func(t *testing.T) *tab { return login(t, "alice") })
	})
	t.Run("connection lost", func(t *testing.T) {
		before := c.read(t, swappiness)
		tab := login(t, "root")
		tab.try("throughput-performance", "5m")
		tab.shows("#standing", "is on trial")
		vm.SetLink("net0", false)
		tab.shows("#standing", "The machine undoes it by itself")
		tab.keep("lost")
		vm.SetLink("net0", true)
		tab = login(t, "root")
		tab.until("the countdown", `/^[0-4]:\d\d$/.test(document.querySelector("#countdown")?.textContent)`)
		c.want(t, swappiness, "10")
		vm.SetLink("net0", false)
		if !root.Eventually(10*time.Minute, func() bool { return c.read(t, swappiness) == before }) {
			t.Errorf("vm.swappiness is %s, want %s", c.read(t, swappiness), before)
		}
		vm.SetLink("net0", true)
		login(t, "root").shows("#history", "trial not confirmed in time")
	})
}
