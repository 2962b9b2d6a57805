// Package browser drives a real browser in tests: headless Chromium, controlled through its
// debugging pipe (Chrome DevTools Protocol).
package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// Browser is a Chromium process with one page. It ends with the test.
type Browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	next    int
	session string
	// complaints are the page's errors, messages and requests since Watch.
	complaints []string
	opened     string
}

// New starts a browser. The test is skipped if Chromium is not installed.
func New(t *testing.T) *Browser {
	t.Helper()
	root.Real(t, "starts a browser")
	program, err := exec.LookPath("chromium")
	if err != nil {
		root.Missing(t, "chromium is not installed; run: sudo apt-get install --no-install-recommends chromium")
	}
	commands, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--remote-debugging-pipe", "--window-size=1280,1000", "--user-data-dir="+t.TempDir(), "about:blank")
	c.ExtraFiles = []*os.File{commands, out} // 3 and 4, as the option wants them
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	out.Close()
	b := &Browser{t: t, in: in, out: bufio.NewReader(answers)}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		in.Close()
		answers.Close()
	})
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.call("Target.getTargets", nil, &targets)
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			var attached struct{ SessionID string }
			b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
			b.session = attached.SessionID
		}
	}
	if b.session == "" {
		t.Fatalf("chromium has no page: %+v", targets)
	}
	return b
}

// call sends a command and waits for its answer.
func (b *Browser) call(method string, params any, result any) {
	b.t.Helper()
	b.next++
	command := map[string]any{"id": b.next, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	data, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(data, 0)); err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	for {
		data, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("chromium: %s: %v", method, err)
		}
		var answer struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(data[:len(data)-1], &answer); err != nil {
			b.t.Fatal(err)
		}
		if answer.Method != "" {
			b.event(answer.Method, answer.Params)
		}
		if answer.ID != b.next {
			continue
		}
		if answer.Error != nil {
			b.t.Fatalf("chromium: %s: %s", method, answer.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(answer.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// event records an event that a self-contained page without errors does not cause.
func (b *Browser) event(method string, params json.RawMessage) {
	var p struct {
		Request struct{ URL string }
		Type    string
	}
	_ = json.Unmarshal(params, &p) // another event's
	switch method {
	case "Network.requestWillBeSent":
		if p.Request.URL == b.opened || strings.HasPrefix(p.Request.URL, "data:") {
			return
		}
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening":
	default:
		return
	}
	b.complaints = append(b.complaints, fmt.Sprintf("%s %.400s", method, params))
}

// Watch starts recording the page's console messages, exceptions and network requests.
func (b *Browser) Watch() {
	b.t.Helper()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
}

// Complaints returns the events recorded since Watch. It is empty for a page without errors
// that needs no network.
func (b *Browser) Complaints() []string { return b.complaints }

// Axe returns the violations that axe-core finds in the page, one a line: rule, impact, and the
// first elements. The test is skipped if axe-core is not in the cache.
func (b *Browser) Axe() []string {
	b.t.Helper()
	path, err := exec.Command(filepath.Join(root.Module(b.t), "test/axe"), "--print").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	script, err := os.ReadFile(strings.TrimSpace(string(path)))
	if err != nil {
		root.Missing(b.t, "axe-core is not in the cache; run: test/axe")
	}
	b.Eval(string(script) + "; true")
	answer := b.Eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + " (" + v.impact + "): " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 150)).join(" | ")))`)
	var found []string
	if err := json.Unmarshal([]byte(answer), &found); err != nil {
		b.t.Fatalf("axe-core: %.500s", answer)
	}
	return found
}

// Press sends a key to the page: "Tab", "Enter", "Escape", " ".
func (b *Browser) Press(key string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	switch key {
	case "Tab":
		down["code"], down["windowsVirtualKeyCode"] = "Tab", 9
	case "Escape":
		down["code"], down["windowsVirtualKeyCode"] = "Escape", 27
	case "Enter":
		down["code"], down["windowsVirtualKeyCode"], down["text"] = "Enter", 13, "\r"
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Open navigates to a page.
func (b *Browser) Open(url string) {
	b.t.Helper()
	var r struct{ ErrorText string }
	b.opened = url
	b.call("Page.navigate", map[string]any{"url": url}, &r)
	if r.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, r.ErrorText)
	}
}

// Screen sets the page's size, in CSS pixels, and light or dark colors.
func (b *Browser) Screen(width, height int, dark bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Screenshot returns the page as PNG, at most its first 8000 pixels: Chromium does not answer
// for much higher ones.
func (b *Browser) Screenshot() []byte {
	b.t.Helper()
	var r struct{ Data []byte }
	var size struct{ Width, Height float64 }
	text := b.Eval(`({Width: document.documentElement.clientWidth, Height: Math.min(document.documentElement.scrollHeight, 8000)})`)
	if err := json.Unmarshal([]byte(text), &size); err != nil {
		b.t.Fatal(text)
	}
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "format": "png",
		"clip": map[string]any{"x": 0, "y": 0, "width": size.Width, "height": size.Height, "scale": 1}}, &r)
	return r.Data
}

// Eval runs JavaScript in the page and returns its value as JSON, or the text of an exception.
func (b *Browser) Eval(script string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		return r.ExceptionDetails.Exception.Description
	}
	return string(r.Result.Value)
}

// Wait evaluates the expression once a second until it is true. The expression may click.
func (b *Browser) Wait(what, expression string) {
	b.t.Helper()
	last := ""
	if root.Eventually(3*time.Minute, func() bool {
		if last = b.Eval(expression); last != "true" {
			time.Sleep(time.Second)
		}
		return last == "true"
	}) {
		return
	}
	b.t.Fatalf("the page does not show %s: %s\n%.3000s", what, last, b.Eval(`document.body.innerText + "\n" +
		[...document.querySelectorAll("iframe")].map(f => f.contentDocument ? f.contentDocument.body.innerText : "").join("\n")`))
}
