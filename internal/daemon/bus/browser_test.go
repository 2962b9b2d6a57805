package bus

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testroot"
)

// browser is a Chromium without a window, driven over its debugging pipe (Chrome
// DevTools Protocol).
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	next    int
	session string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		testroot.Missing(t, "chromium is not installed; run: sudo apt-get install --no-install-recommends chromium")
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
	b := &browser{t: t, in: in, out: bufio.NewReader(answers)}
	t.Cleanup(func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		c.Wait()
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

// call sends a command and waits for its answer; events in between are dropped.
func (b *browser) call(method string, params any, result any) {
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
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(data[:len(data)-1], &answer); err != nil {
			b.t.Fatal(err)
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

func (b *browser) open(url string) {
	b.t.Helper()
	var r struct{ ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &r)
	if r.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, r.ErrorText)
	}
}

// eval runs JavaScript in the page and returns its value as JSON; what it throws
// is returned as text.
func (b *browser) eval(script string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		return r.ExceptionDetails.Exception.Description
	}
	return string(r.Result.Value)
}

// wait asks the page until the expression is true.
func (b *browser) wait(what, expression string) {
	b.t.Helper()
	last := ""
	if testroot.Eventually(3*time.Minute, func() bool {
		time.Sleep(time.Second)
		last = b.eval(expression)
		return last == "true"
	}) {
		return
	}
	b.t.Fatalf("the page does not show %s: %s\n%.3000s", what, last, b.eval(`document.body.innerText + "\n" +
		[...document.querySelectorAll("iframe")].map(f => f.contentDocument ? f.contentDocument.body.innerText : "").join("\n")`))
}
