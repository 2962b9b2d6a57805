package bus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/browser"
	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
	"fettle.dev/fettle/packaging"
)

// TestCockpit opens the distribution's unmodified Cockpit on a machine that has
// fettle and not TuneD's package: the performance profile dialog of its overview
// lists the profiles, one is chosen, and it is in force.
func TestCockpit(t *testing.T) {
	root.Nightly(t, "boots a virtual machine for a web page")
	b := browser.New(t)
	const port, password = 9090, "open for the test"
	vm := testkitvm.Boot(t, testkitvm.Options{Forward: []int{port}})
	installWithoutTuned(t, vm)
	vm.Write("/etc/cockpit/cockpit.conf", "[WebService]\nAllowUnencrypted = true\n")
	vm.Must("rm -f /etc/cockpit/disallowed-users; echo 'root:" + password + "' | chpasswd; systemctl restart cockpit.socket")

	b.Open("http://" + vm.Address(port) + "/system")
	b.Wait("the login page", `document.querySelector("#login-user-input") !== null`)
	// The form is there before its script: try until it is gone.
	b.Wait("that somebody has logged in", fmt.Sprintf(`(() => {
		const user = document.querySelector("#login-user-input"), button = document.querySelector("#login-button");
		if (!user) return document.querySelector("iframe") !== null;
		if (!button.disabled) {
			user.value = "root";
			document.querySelector("#login-password-input").value = %q;
			button.click();
		}
		return false;
	})()`, password))
	// The overview is a frame of the shell; ours is the same origin's.
	const overview = `[...document.querySelectorAll("iframe")].map(f => f.contentDocument).find(d => d && d.querySelector("#tuned-status-button"))`
	b.Wait("the overview with a performance profile", overview+` !== undefined`)
	// Without a daemon that answers, the button says so and names no profile.
	active := strings.TrimSpace(vm.Must("cat /etc/tuned/active_profile"))
	b.Wait("the active profile "+active, overview+`.querySelector("#tuned-status-button").innerText.includes("`+active+`")`)
	const chosen = "latency-performance"
	const item = `.querySelector("[data-value='` + chosen + `'] button, button[data-value='` + chosen + `']")`
	// The page makes a new connection to the bus when it has learnt the unit's
	// state; a dialog that was opened before keeps the old one and says so.
	b.Wait("the dialog with "+chosen, `(() => {
		const page = `+overview+`;
		if (page`+item+` !== null) return true;
		const cancel = [...page.querySelectorAll("button")].find(b => b.innerText === "Cancel");
		if (!cancel) page.querySelector("#tuned-status-button").click();
		else if (page.body.innerText.includes("Server has closed the connection")) cancel.click();
		return false;
	})()`)
	for _, name := range []string{"balanced", "throughput-performance", "hugepages"} { // TuneD's package's, and one of ours
		b.Wait("the dialog with "+name, overview+`.querySelector("[data-value='`+name+`']") !== null`)
	}
	b.Eval(overview + item + `.click()`)
	const change = `[...` + overview + `.querySelectorAll("button")].find(b => b.innerText === "Change profile")`
	b.Wait("that it can be chosen", change+` !== undefined && !`+change+`.disabled`)
	b.Eval(change + `.click()`)
	b.Wait("that the dialog is done", change+` === undefined`)
	b.Wait("the new profile", overview+`.querySelector("#tuned-status-button").innerText === "`+chosen+`"`)
	if got := strings.TrimSpace(vm.Must("cat /etc/tuned/active_profile")); got != chosen {
		t.Errorf("selected is %q", got)
	}
	if got := strings.TrimSpace(vm.Read("/proc/sys/vm/swappiness")); got != "10" {
		t.Errorf("swappiness is %s, %s wants 10", got, chosen)
	}
}

// installWithoutTuned makes a machine of fettle's out of one of TuneD's: its
// daemon, unit and bus files go, ours come as a package installs them. The
// profiles and tuned-adm stay.
func installWithoutTuned(t *testing.T, vm *testkitvm.VM) {
	t.Helper()
	vm.Must(`systemctl disable --now tuned 2>/dev/null
rm -f /lib/systemd/system/tuned.service /usr/sbin/tuned /etc/dbus-1/system.d/com.redhat.tuned.conf /etc/tuned/active_profile /etc/tuned/profile_mode
mkdir -p /usr/share/dbus-1/system.d /etc/fettle`)
	vm.Put(root.Program(t, "./cmd/fettle"), packaging.Program)
	for _, name := range packaging.Units {
		alias := ""
		if name == "fettle.service" {
			alias = "tuned.service"
		}
		text, err := packaging.Unit(name, packaging.Program, alias)
		if err != nil {
			t.Fatal(err)
		}
		vm.Write("/lib/systemd/system/"+name, text)
	}
	for name, text := range installed(t) {
		vm.Write(name, text)
	}
	vm.Must("systemctl daemon-reload; systemctl reload dbus; systemctl enable fettle.service; systemctl start --no-block fettle.service")
	if !root.Eventually(5*time.Minute, func() bool {
		_, code := vm.Run("systemctl is-active tuned.service")
		return code == 0
	}) {
		out, _ := vm.Run("systemctl status fettle.service; journalctl -u fettle.service -n 50; systemctl list-jobs; journalctl -n 60")
		t.Fatalf("tuned.service does not start\n%s", out)
	}
}
