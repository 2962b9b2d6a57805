package packaging

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/browser"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestCockpitPage opens the page cockpit/ in Chromium with Debian's cockpit-ws and cockpit-bridge,
// without a login: as root, and as a user without rights. The page calls the real fettle on a
// simulated machine. TestCockpitGuest does it with logins and a real kernel.
func TestCockpitPage(t *testing.T) {
	m := root.NewMachine(t)
	for name, text := range map[string]string{
		"proc/sys/kernel/random/boot_id": "c0ffee00-0000-4000-8000-000000000001\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(m.Dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"/etc/sysctl.d/90-site.conf":      "kernel.pid_max = 99999\n",
		"/usr/local/bin/bridge-of-a-user": "#!/bin/sh\nexec setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/alice cockpit-bridge\n",
		"/usr/share/cockpit/fettle/po.de.js": `cockpit.locale({"": {"plural-forms": n => n !== 1, "language": "de"},
			"Tuning": [null, "Abstimmung"], "Show changes": [null, "Änderungen zeigen"]});`,
	}
	for name, text := range cockpitFiles(t) {
		files["/usr/share/cockpit/fettle/"+name] = text
	}
	r := root.New(t, root.Options{Machine: m, Net: true, Files: files, Binds: []root.Bind{
		{Source: root.Program(t, "./cmd/fettle"), Target: Program, ReadOnly: true},
	}})
	r.Must("useradd", "--create-home", "--uid", "1000", "alice")
	sysctl := func(name string) string { return filepath.Join(m.Dir, "proc/sys", name) }
	c := &cockpit{
		run: func(t *testing.T, command string) {
			t.Helper()
			r.Must("sh", "-c", command)
		},
		read: func(t *testing.T, name string) string {
			t.Helper()
			text, err := os.ReadFile(sysctl(name))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		},
		trial: 8 * time.Second, patience: 20 * time.Second,
	}
	// serve starts a web server with its own session, which needs no login, and opens the page. The
	// session ends soon after its last tab is closed.
	serve := func(t *testing.T, bridge string) func(*testing.T) *tab {
		t.Helper()
		port := root.Port(t)
		ws := r.Command("/usr/lib/cockpit/cockpit-ws", "--address=127.0.0.1", "--port="+fmt.Sprint(port), "--local-session="+bridge)
		if err := ws.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.Process.Kill(); _ = ws.Wait() })
		address := fmt.Sprint("127.0.0.1:", port)
		if !root.Eventually(20*time.Second, func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}) {
			t.Fatal("cockpit-ws does not listen")
		}
		return func(t *testing.T) *tab {
			t.Helper()
			tab := &tab{browser.New(t), t, "http://" + address + pagePath, c.patience}
			tab.Screen(1280, 900, false)
			tab.load()
			return tab
		}
	}
	t.Run("administrator", func(t *testing.T) { c.administrator(t, serve(t, "cockpit-bridge")) })
	t.Run("limited", func(t *testing.T) { c.limited(t, serve(t, "/usr/local/bin/bridge-of-a-user")) })
	t.Run("translation", func(t *testing.T) {
		tab := serve(t, "cockpit-bridge")(t)
		tab.Eval(`document.cookie = "CockpitLang=de; path=/"`)
		tab.load()
		tab.shows("h1", "Abstimmung")
		tab.shows("#profiles", "Änderungen zeigen")
	})
	t.Run("connection lost", func(t *testing.T) {
		before := c.read(t, swappiness)
		tab := serve(t, "cockpit-bridge")(t)
		tab.try("throughput-performance", "5m")
		tab.shows("#standing", "is on trial")
		c.run(t, "pkill -x cockpit-ws")
		tab.shows("#standing", "The machine undoes it by itself")
		tab = serve(t, "cockpit-bridge")(t)
		tab.until("the countdown", `/^[0-4]:\d\d$/.test(document.querySelector("#countdown")?.textContent)`)
		tab.click("#standing", "Undo now")
		tab.shows("#in-force", "no profile of fettle active")
		c.want(t, swappiness, before)
	})
}

// pagePath is the page without Cockpit's shell around it.
const pagePath = "/cockpit/@localhost/fettle/index.html"

// cockpit is a machine whose page is tested.
type cockpit struct {
	run      func(t *testing.T, command string)     // in its shell, as root
	read     func(t *testing.T, name string) string // a sysctl
	trial    time.Duration                          // of a trial that is not confirmed
	patience time.Duration                          // of the page
}

// tab is a tab of a browser that shows the page.
type tab struct {
	*browser.Browser
	t        *testing.T
	address  string
	patience time.Duration
}

// load opens the page and waits until all of it is there.
func (tab *tab) load() {
	tab.t.Helper()
	tab.Open(tab.address)
	tab.until("all of the page", `document.querySelectorAll("#page .content").length === 5 && !document.querySelector("#page .content[aria-busy]")`)
}

// until waits in the page for a condition.
func (tab *tab) until(what, condition string) {
	tab.t.Helper()
	got := tab.Eval(`new Promise(done => {
		const end = performance.now() + ` + fmt.Sprint(tab.patience.Milliseconds()) + `, look = () => (` + condition + `) ? done(true) : performance.now() > end ? done(false) : setTimeout(look, 30);
		look();
	})`)
	if got != "true" {
		tab.t.Fatalf("the page does not show %s (%s):\n%.5000s", what, got, tab.Eval(`document.body.innerText`))
	}
}

// click clicks the first visible button with a text in an element.
func (tab *tab) click(within, text string) {
	tab.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll(%q)].find(b => b.checkVisibility() && b.textContent.trim() === %q && !b.disabled)`, within+" button", text)
	tab.until("button "+text, button+` !== undefined`)
	tab.Eval(button + `.click()`)
}

// choose selects a profile and shows its changes.
func (tab *tab) choose(profile string) {
	tab.t.Helper()
	tab.Eval(fmt.Sprintf(`{ const s = document.querySelector("#profile"); s.value = %q; s.dispatchEvent(new Event("change")); }`, profile))
	tab.click("#profiles", "Show changes")
}

// try begins a trial.
func (tab *tab) try(profile, time string) {
	tab.t.Helper()
	tab.choose(profile)
	tab.until("the time of a trial", `document.querySelector("#trial-time")`)
	tab.Eval(fmt.Sprintf(`document.querySelector("#trial-time").value = %q`, time))
	tab.click("dialog", "Try")
}

// shows waits for a text in an element.
func (tab *tab) shows(within, text string) {
	tab.t.Helper()
	tab.until(text+" in "+within, fmt.Sprintf(`(document.querySelector(%q)?.innerText || "").includes(%q)`, within, text))
}

// look checks a state of the page at both widths: it fits, and axe-core finds nothing. go test
// -artifacts keeps screenshots.
func (tab *tab) look(name string) {
	tab.t.Helper()
	tab.Eval(`for (const d of document.querySelectorAll("#findings details")) d.open = [...document.querySelectorAll("#findings details")].indexOf(d) === 0`)
	tab.views(name, func(view string, axe bool) {
		if over := tab.Eval(`[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".hidden, thead, #shadow")).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40)).slice(0, 5).join(" | ")`); over != `""` {
			tab.t.Errorf("%s: beyond the screen: %s", view, over)
		}
		if axe {
			for _, v := range tab.Axe() {
				tab.t.Errorf("%s: %s", view, v)
			}
		}
	})
}

// keep keeps screenshots of what is shown.
func (tab *tab) keep(name string) { tab.views(name, func(string, bool) {}) }

func (tab *tab) views(name string, check func(view string, axe bool)) {
	tab.t.Helper()
	for _, screen := range []struct {
		width     int
		dark, axe bool
	}{{375, false, true}, {1280, true, true}, {1280, false, false}} {
		tab.Screen(screen.width, 900, screen.dark)
		tab.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`)
		view := fmt.Sprintf("%s-%d-%v", name, screen.width, screen.dark)
		if flag.Lookup("test.artifacts").Value.String() == "true" {
			if err := os.WriteFile(filepath.Join(tab.t.ArtifactDir(), view+".png"), tab.Screenshot(), 0o600); err != nil {
				tab.t.Fatal(err)
			}
		}
		check(view, screen.axe)
	}
}

// errors fails the test with what the browser complained about.
func (tab *tab) errors() {
	tab.t.Helper()
	for _, c := range tab.Complaints() {
		if !strings.HasPrefix(c, "Network.requestWillBeSent") {
			tab.t.Error(c)
		}
	}
}

func (c *cockpit) want(t *testing.T, name, value string) {
	t.Helper()
	if got := c.read(t, name); got != value {
		t.Errorf("%s is %s, want %s", name, got, value)
	}
}

const swappiness = "vm/swappiness"

// focused is true if the keyboard's focus is somewhere: a button that is gone has passed it on.
const focused = `document.activeElement !== document.body`

// administrator does each action of the page.
func (c *cockpit) administrator(t *testing.T, open func(*testing.T) *tab) {
	before := c.read(t, swappiness)
	tab := open(t)
	tab.Watch()
	tab.load() // again, watched
	tab.shows("#in-force", "no profile of fettle active")
	tab.look("start")

	// Look at the changes by keyboard, and leave.
	tab.Eval(`{ const s = document.querySelector("#profile"); s.value = "throughput-performance"; s.dispatchEvent(new Event("change")); document.querySelector('[data-key="diff"]').focus(); }`)
	tab.Press("Enter")
	tab.until("the changes", `document.querySelector("dialog table")?.innerText.includes("vm.swappiness")`)
	tab.until("the focus in the dialog", `document.querySelector("dialog").contains(document.activeElement)`)
	tab.look("diff")
	tab.Press("Escape")
	tab.until("the focus on the button again", `!document.querySelector("dialog") && document.activeElement.dataset.key === "diff"`)
	c.want(t, swappiness, before)

	// Try.
	tab.try("throughput-performance", "5m")
	tab.shows("#standing", "Transaction 1 is on trial")
	tab.until("the countdown", `/^[0-5]:\d\d$/.test(document.querySelector("#countdown")?.textContent)`)
	tab.shows("#in-force", "throughput-performance")
	c.want(t, swappiness, "10")
	tab.look("trial")

	// Another tab sees the trial, and that it is kept.
	second := open(t)
	second.shows("#standing", "Transaction 1 is on trial")
	tab.click("#standing", "Keep the changes")
	tab.shows("#notice", "transaction 1 stays")
	tab.until("the focus on the page", focused)
	second.until("that nothing is on trial", `document.querySelector("#standing").innerText === ""`)

	// The first tab changes while a diff is open in the second one: fettle refuses the old plan.
	second.choose("balanced")
	second.until("the changes", `document.querySelector("dialog table")?.innerText.includes("vm.swappiness")`)
	c.run(t, "fettle tune --set vm.swappiness=11")
	second.click("dialog", "Try")
	second.shows("#notice .fail", "the machine has changed since the plan was made")
	c.want(t, swappiness, "11")
	tab.shows("#history", "vm.swappiness=11")

	// Another program changes a value: verify finds it, why explains it.
	c.run(t, "echo 33 >/proc/sys/vm/dirty_ratio")
	tab.click("#in-force", "Verify now")
	tab.shows("#in-force", "Changed since")
	tab.look("drift")
	tab.click("#in-force", "vm.dirty_ratio")
	tab.shows("dialog", "throughput-performance/tuned.conf:")
	tab.look("why")
	tab.Press("Escape")

	// While another transaction holds the lock, a change is refused.
	c.run(t, `flock --close /var/lib/fettle/lock sleep 600 >/dev/null 2>&1 & echo $! >/run/holder
		while flock --nonblock /var/lib/fettle/lock true; do sleep 0.1; done`)
	tab.click("#history", "Undo 2")
	tab.click("dialog", "Undo")
	tab.shows("#notice .fail", "Another tab or another administrator")
	c.run(t, "kill $(cat /run/holder)")

	// Undo one transaction, then all.
	tab.click("#history", "Undo 2")
	tab.shows("dialog", "vm.swappiness")
	tab.look("undo")
	tab.click("dialog", "Undo")
	tab.shows("#history", "Undone by")
	tab.until("the focus on the page", focused)
	c.want(t, swappiness, "10")
	tab.click("#in-force", "Undo everything")
	tab.click("dialog", "Undo")
	tab.shows("#in-force", "no profile of fettle active")
	c.want(t, swappiness, before)

	// A trial that another administrator began, and that ends while the page is open.
	c.run(t, "fettle tune latency-performance --try "+c.trial.String())
	tab.shows("#standing", "is on trial")
	tab.until("the end of the trial", `document.querySelector("#standing").innerText === ""`)
	tab.shows("#history", "trial not confirmed in time")
	c.want(t, swappiness, before)

	// Fix a finding: a file sets a value that is not in force.
	tab.click("#findings", "Check again")
	tab.until("the finding", `[...document.querySelectorAll("#findings summary")].some(s => s.innerText.includes("T19"))`)
	tab.Eval(`[...document.querySelectorAll("#findings details")].find(d => d.innerText.includes("T19")).open = true`)
	tab.click("#findings", "Fix T19")
	tab.shows("dialog", "kernel.pid_max")
	tab.look("fix")
	tab.click("dialog", "Fix")
	tab.shows("#notice .ok", "written")
	c.want(t, "kernel/pid_max", "99999")
	c.run(t, "fettle undo")

	// The report of a measurement.
	c.run(t, "fettle prove --force --blocks 7 --set vm.swappiness=10 -- true")
	tab.load()
	tab.click("#runs", "Report")
	tab.until("the report", `document.querySelector("dialog iframe")?.getBoundingClientRect().height > 300`)
	page := tab.Eval(`fetch(document.querySelector("dialog iframe").src).then(r => r.text())`)
	if !strings.Contains(page, "--set vm.swappiness=10 -- true") {
		t.Errorf("the report:\n%.500s", page)
	}
	tab.look("report")
	tab.Press("Escape")
	tab.errors()
}

// limited: a user without rights sees what every user may see, and no button that changes.
func (c *cockpit) limited(t *testing.T, open func(*testing.T) *tab) {
	c.run(t, "fettle tune balanced")
	tab := open(t)
	tab.shows("#standing", "Only an administrator")
	tab.shows("#in-force", "only root can read the journal")
	tab.shows("#findings", "fine")
	tab.look("limited")
	tab.click("#profiles", "Show changes")
	tab.shows("dialog", "Only an administrator can try this profile")
	tab.Press("Escape")
	var buttons []string
	if err := json.Unmarshal([]byte(tab.Eval(`[...document.querySelectorAll("#page button")].map(b => b.textContent)`)), &buttons); err != nil {
		t.Fatal(err)
	}
	for _, b := range buttons {
		if b != "Show changes" && b != "Check again" {
			t.Errorf("button %s", b)
		}
	}
	c.run(t, "fettle undo")
}
